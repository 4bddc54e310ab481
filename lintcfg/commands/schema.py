"""`attn-lint schema config|sglang-config`: JSON Schemas for editors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...matrix import loader
from .. import options as o
from ..config import FORMATS
from ..errors import EXIT_CLEAN, UsageError
from ..flags import FlagTable, load_flags

DRAFT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("config", "sglang-config")
RELEASE = r"^v?[0-9]+(\.[0-9]+){1,3}(\.?(post|rc|dev)[0-9]+)?$"
_NUMBERS = {
    "integer": r"^\s*[+-]?[0-9]+(_[0-9]+)*\s*$",
    "number": r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$",
}
_TYPES = {"int": "integer", "float": "number", "str": "string"}


def run(arguments: Sequence[str]) -> int:
    """Print the schema asked for."""
    given = o.take_own_options(arguments, (o.SGLANG, o.MATRIX))
    if {"-h", "--help"} & set(given.launch):
        print(f"usage: attn-lint schema {'|'.join(KINDS)} [--sglang RELEASE]")
        return EXIT_CLEAN
    if len(given.launch) != 1 or given.launch[0] not in KINDS:
        raise UsageError(f"schema takes one of {', '.join(KINDS)}")
    if given.launch[0] == "config":
        schema = config_schema()
    else:
        from pathlib import Path

        folder = given.get(o.MATRIX)
        release = loader.load(
            release=(given.get(o.SGLANG) or loader.DEFAULT_RELEASE).removeprefix("v"),
            folder=Path(folder) if folder else None,
        )
        schema = launch_schema(load_flags(release), release.name)
    print(json.dumps(schema, indent=1, ensure_ascii=False))
    return EXIT_CLEAN


def _docs_schema(text: dict[str, Any]) -> dict[str, Any]:
    accepted = {
        "type": "object", "additionalProperties": False, "required": ["code", "reason"],
        "properties": {
            "code": {
                **text, "pattern": r"\S", "description": "a code of the docs checker, or its name",
            },
            "reason": {**text, "pattern": r"\S", "description": "why the deviation stays"},
            "page": {**text, "description": "pattern of the pages meant"},
            "match": {**text, "description": "text of the claim, the value or the message"},
        },
    }  # fmt: skip
    return {
        "type": "object", "additionalProperties": False,
        "properties": {"accept": {"type": "array", "items": accepted}},
    }  # fmt: skip


def config_schema() -> dict[str, Any]:
    """Schema of attn-lint.toml, and of `[tool.attn-lint]`."""
    text = {"type": "string"}
    texts = {"type": "array", "items": text}
    codes = {"type": "array", "items": {"anyOf": [{"enum": _names()}, {"pattern": _prefixes()}]}}
    level = {"enum": ["error", "warning", "info"]}
    place = {
        "gpu": {**text, "description": "machine to judge for"},
        "cuda": {
            **text,
            "pattern": r"^[0-9]{1,4}(\.[0-9]{1,4}){0,2}$",
            "description": "CUDA version",
        },
        "sglang": {**text, "pattern": RELEASE, "description": "SGLang release to judge by"},
        "ignore": {**codes, "description": "codes, prefixes of codes or names to leave out"},
    }
    return {
        "$schema": DRAFT,
        "title": "attn-lint configuration",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **place,
            "select": {**codes, "description": "report these only"},
            "exclude": {**texts, "description": "patterns of files to leave out of folders"},
            "fail-on": {**level, "description": "lowest severity that makes the exit code 1"},
            "output-format": {"enum": list(FORMATS)},
            "severity": {
                "type": "object", "propertyNames": codes["items"], "additionalProperties": level,
            },
            "require-reason": {"type": "boolean"},
            "docs": _docs_schema(text),
            "per-path": {
                "type": "object",
                "additionalProperties": {
                    "type": "object", "additionalProperties": False, "properties": place,
                },
            },
        },
    }  # fmt: skip


def _codes() -> dict[str, Any]:
    found: dict[str, Any] = loader.load()["codes"]["codes"]
    return found


def _names() -> list[str]:
    """Codes and their names, for completion."""
    codes = _codes()
    return [*codes, *(entry["name"] for entry in codes.values())]


def _prefixes() -> str:
    """A pattern for every beginning of a code, in capitals or not, and for codes of others."""
    starts = {code[:length] for code in _codes() for length in range(1, len(code) + 1)}
    spelled = (
        "".join(f"[{one}{one.lower()}]" if one.isalpha() else one for one in start)
        for start in sorted(starts)
    )
    return f"^({'|'.join(spelled)}|([Dd][Oo][Cc]|[Mm][Aa][Tt])[0-9]*)$"


def launch_schema(table: FlagTable, release: str) -> dict[str, Any]:
    """Schema of SGLang's own `--config` file."""
    properties: dict[str, Any] = {}
    for row in table.rows:
        names = [name for name in row.get("names") or () if name.startswith("--")]
        if not names or (table.config is not None and table.config["flag"] in names):
            continue
        flag = table.flag(table.names[names[0]])
        if row.get("no_cli"):
            continue
        schema = _value(flag, row)
        if row.get("help"):
            schema["description"] = row["help"]
        for name in names:
            # SGLang turns keys into flags as they stand, so underscores are refused.
            properties[name[2:]] = schema
    return {
        "$schema": DRAFT,
        "title": f"SGLang {release} --config file",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }


def _value(flag: Any, row: Any) -> dict[str, Any]:
    if not flag.takes_value:
        return {"type": "boolean"}
    one: dict[str, Any]
    if flag.choices is not None:
        one = {"enum": [choice for choice in flag.choices if choice is not None]}
        if flag.choices_env:
            # A variable of the environment can admit further values.
            one = {"anyOf": [one, {"type": "string"}]}
    elif flag.type in _TYPES:
        kind = _TYPES[flag.type]
        one = {"type": ["string", "number"]}
        if kind != "string":
            # A quoted number is read as one.
            one = {"anyOf": [{"type": kind}, {"type": "string", "pattern": _NUMBERS[kind]}]}
    else:
        one = {}
    if flag.nargs in ("*", "+") or isinstance(flag.nargs, int):
        return {"anyOf": [{"type": "array", "items": one}, one]}
    return one
