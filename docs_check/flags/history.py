"""Compares the flags of several releases: which names and values a newer one no longer has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .rows import FlagRow, FlagSet


@dataclass
class Span:
    """Releases, out of those compared, that had something."""

    first: str
    last: str
    row: FlagRow
    flags: list[str] = field(default_factory=list)


def version_key(version: str) -> list[int]:
    """Sorts releases; a post-release comes after its release."""
    parts = (part.removeprefix("post") for part in version.split("."))
    return [int(part) for part in parts if part.isdigit()]


def _next(releases: list[str], last: str) -> str:
    return releases[releases.index(last) + 1]


def _names(row: FlagRow) -> list[str]:
    if row.action != "boolean_optional":
        return row.names
    return [*row.names, *("--no-" + name[2:] for name in row.names)]


def former_names(sets: list[FlagSet]) -> list[dict[str, Any]]:
    """Flags of older releases that the newest lacks, with what replaces them."""
    releases = [item.release for item in sets]
    newest = sets[-1]
    by_name = {name: row for row in newest.flags for name in _names(row)}
    by_field = {row.field: row for row in reversed(newest.flags) if row.names}
    spans: dict[str, Span] = {}
    for item in sets[:-1]:
        for row in item.flags:
            for name in row.names:
                if name in by_name or not name.startswith("--"):
                    continue
                if name in spans:
                    spans[name].last, spans[name].row = item.release, row
                else:
                    spans[name] = Span(item.release, item.release, row)
    out = []
    for name, span in spans.items():
        entry: dict[str, Any] = {
            "name": name,
            "first_seen": span.first,
            "last_seen": span.last,
            "removed_in": _next(releases, span.last),
        }
        if span.row.type == "bool":
            entry["values"] = False
        replacement = _replacement(span.row, by_name, by_field)
        if replacement:
            entry["replacement"] = [replacement]
        out.append(entry)
    return sorted(out, key=lambda entry: str(entry["name"]))


def _replacement(
    row: FlagRow, by_name: dict[str, FlagRow], by_field: dict[Any, FlagRow]
) -> str | None:
    """What the old release itself named, if that is still there, or the field's new name."""
    if row.new_flag:
        name, _, value = row.new_flag.partition("=")
        target = by_name.get(name.split()[0])
        if target is not None and (not value or not target.choices or value in target.choices):
            return row.new_flag
    renamed = by_field.get(row.field)
    return renamed.names[0] if renamed is not None else None


def former_values(sets: list[FlagSet]) -> list[dict[str, Any]]:
    """Values of flags that are still there, which the newest release no longer takes."""
    releases = [item.release for item in sets]
    current = {row.names[0]: row for row in sets[-1].flags if row.names and row.choices}
    by_name = {name: row for row in current.values() for name in row.names}
    spans: dict[tuple[str, str], Span] = {}
    for item in sets[:-1]:
        for row in item.flags:
            target = next((by_name[name] for name in row.names if name in by_name), None)
            if target is None or not row.choices:
                continue
            assert target.choices is not None
            for value in row.choices:
                if value in target.choices or not isinstance(value, str):
                    continue
                key = (target.names[0], value)
                if key in spans:
                    spans[key].last = item.release
                else:
                    spans[key] = Span(item.release, item.release, row)
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for (flag, value), span in spans.items():
        grouped.setdefault((value, span.first, span.last), []).append(flag)
    return [
        {
            "value": value,
            "flags": flags,
            "first_seen": first,
            "last_seen": last,
            "removed_in": _next(releases, last),
        }
        for (value, first, last), flags in sorted(
            grouped.items(), key=lambda item: (item[1][0], item[0][0], item[0][1])
        )
    ]


def added_values(sets: list[FlagSet]) -> dict[str, dict[str, str]]:
    """For each flag with choices, the values that came after the flag itself."""
    seen: dict[str, dict[str, str]] = {}
    for item in sets:
        for row in item.flags:
            if row.names and row.choices:
                values = seen.setdefault(row.names[0], {})
                for value in row.choices:
                    if isinstance(value, str):
                        values.setdefault(value, item.release)
    out: dict[str, dict[str, str]] = {}
    for row in sets[-1].flags:
        if not (row.names and row.choices):
            continue
        values = seen[row.names[0]]
        oldest = min(values.values(), key=version_key, default="")
        added = {
            value: values[value]
            for value in row.choices
            if isinstance(value, str) and values[value] != oldest
        }
        if added:
            out[row.names[0]] = added
    return out


def build(sets: list[FlagSet], kept: dict[str, Any]) -> dict[str, Any]:
    """The data of `history.yaml`; remarks and replacements of `kept` stay as they are."""
    sets = sorted(sets, key=lambda item: version_key(item.release))
    data: dict[str, Any] = {
        "release": sets[-1].release,
        "sampled": [item.release for item in sets],
        "flags": former_names(sets),
        "values": former_values(sets),
        "added": added_values(sets),
    }
    old_flags = {entry["name"]: entry for entry in kept.get("flags") or ()}
    old_values = {
        (flag, entry["value"]): entry
        for entry in kept.get("values") or ()
        for flag in entry["flags"]
    }
    for entry in data["flags"]:
        _keep(entry, old_flags.get(entry["name"]))
    for entry in data["values"]:
        _keep(entry, old_values.get((entry["flags"][0], entry["value"])))
    return data


def _keep(entry: dict[str, Any], old: dict[str, Any] | None) -> None:
    for key in ("replacement", "alike", "note", "source"):
        if old is not None and key in old:
            entry[key] = old[key]
