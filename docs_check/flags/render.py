"""Writes extracted flags as the YAML that the matrix keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

import yaml

from .rows import FALSE_BY_DEFAULT, VALUELESS, FlagRow, FlagSet

_WIDTH = 96

_HEADER = """\
# Every flag of SGLang {release}, read from its source. Generated; do not edit by hand:
#
#     python scripts/extract_flags.py TREE --output {output}
#
# Left out where it is the usual: type str, action store, default null, required false.
"""


def row_to_dict(row: FlagRow, record: set[str]) -> dict[str, Any]:
    """One entry of `flags`, without what is usual."""
    out: dict[str, Any] = {"field": row.field}
    if row.names:
        out["names"] = row.names
    if row.no_cli:
        out["no_cli"] = True
    elif row.field not in record:
        out["parser_only"] = True
    usual: dict[str, Any] = {
        "type": "bool" if row.action in VALUELESS and not row.takes_value else "str",
        "action": "store",
        "default": False if row.action in FALSE_BY_DEFAULT else None,
        "required": False,
        "resolvable": False,
        "takes_value": False,
    }
    for key in (
        "type",
        "action",
        "nargs",
        "takes_value",
        "const",
        "default",
        "choices",
        "choices_env",
        "required",
        "fallback",
        "resolvable",
        "new_flag",
        "error_message",
    ):
        value = getattr(row, key)
        if value != usual.get(key) or (isinstance(value, bool) != isinstance(usual.get(key), bool)):
            out[key] = value
    out["source"] = row.source
    return out


def to_data(flags: FlagSet) -> dict[str, Any]:
    """The whole file as plain data."""
    record = set(flags.field_order)
    data: dict[str, Any] = {"release": flags.release}
    if flags.config is not None:
        data["config_file"] = flags.config
    data["explicit"] = flags.explicit
    data["checks"] = flags.checks
    data["converters"] = flags.converters
    data["flags"] = [row_to_dict(row, record) for row in flags.flags]
    data["field_order"] = flags.field_order
    return data


def to_yaml(flags: FlagSet, output: str = "FILE") -> str:
    """The file's text: one short block per flag."""
    data = to_data(flags)
    lines = [_HEADER.format(release=flags.release, output=output).rstrip()]
    for key, value in data.items():
        if key in {"flags", "explicit", "checks"}:
            lines.append(f"{key}:" if value else f"{key}: []")
            for entry in value:
                lines += _block(entry, "- ", "  ")
        elif key == "config_file":
            lines.append(f"{key}:")
            lines += _block(value, "  ", "  ")
        elif key == "converters":
            lines.append(f"{key}:" if value else f"{key}: {{}}")
            for name, facts in value.items():
                lines.append(f"  {name}:")
                lines += _block(facts, "    ", "    ")
        else:
            lines.append(pair(key, value, ""))
    return "\n".join(lines) + "\n"


def _block(entry: dict[str, Any], first: str, rest: str) -> list[str]:
    return [
        (first if number == 0 else rest) + pair(key, value, rest)
        for number, (key, value) in enumerate(entry.items())
    ]


def pair(key: str, value: Any, indent: str) -> str:
    """One `key: value`, the value in flow style and wrapped."""
    width = 10_000 if key == "source" else _WIDTH - len(indent) - len(key)
    text = yaml.safe_dump(_plain(value), default_flow_style=True, width=width, sort_keys=False)
    text = text.removesuffix("\n").removesuffix("\n...").rstrip()
    return f"{key}: " + text.replace("\n", f"\n{indent}")


def _plain(value: Any) -> Any:
    """Plain lists and dicts, so that the dumper needs no tags."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        raise TypeError(f"{value!r} is not plain data")
    return value
