"""Every flag of the matrix against those of the release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..flags.collect import ExtractionError, collect
from ..flags.render import to_data
from ..source.modules import Evidence
from . import codes
from .marked import Marked, read
from .subject import Subject

#: Keys of a flag that are compared, beside its choices.
_COMPARED = ("names", "type", "action", "nargs", "const", "default", "required", "new_flag")


def check(subject: Subject) -> None:
    """Compare flags.yaml with what the tree declares."""
    file = subject.folder / "flags.yaml"
    path = subject.path(file)
    ours = _by_field(read(file)["flags"])
    try:
        collected = collect(subject.facts.tree.root)
    except ExtractionError as error:
        subject.report(
            codes.SOURCE, path, 0, message=f"flags cannot be compared: {error}",
            claim="the release declares these flags", actual=str(error),
        )  # fmt: skip
        return
    theirs = _by_field(to_data(collected)["flags"])
    for problem in collected.problems:
        subject.report(
            codes.SOURCE, path, 0, message=f"a flag cannot be read: {problem}",
            claim="", actual=problem, certainty="review",
        )  # fmt: skip
    for name, row in ours.items():
        line = row.line if isinstance(row, Marked) else 0
        if name not in theirs:
            subject.report(
                codes.FLAG, path, line, message=f"{_spelled(row)} is gone",
                claim=f"{_spelled(row)} is a flag", actual="no such flag", subject=name,
            )  # fmt: skip
            continue
        _compare(subject, path, line, row, theirs[name])
    for name, row in theirs.items():
        if name not in ours:
            subject.report(
                codes.FLAG, path, 0, message=f"{_spelled(row)} is new",
                claim="(omission) no such flag", actual=f"{_spelled(row)} is declared",
                places=[_place(row)], subject=name,
            )  # fmt: skip


def _by_field(rows: Iterable[Any]) -> dict[str, Any]:
    return {row["field"] or " ".join(row["names"]): row for row in rows}


def _spelled(row: Any) -> str:
    return row["names"][0] if row.get("names") else f"the field {row['field']}"


def _place(row: Any) -> Evidence:
    source = row["source"]
    return Evidence(source.get("file", ""), source.get("line", 0), source.get("symbol", ""))


def _compare(subject: Subject, path: str, line: int, ours: Any, theirs: Any) -> None:
    name = _spelled(ours)
    if ours.get("choices") != theirs.get("choices"):
        old, new = ours.get("choices") or [], theirs.get("choices") or []
        parts = []
        if more := [value for value in new if value not in old]:
            parts.append(f"also takes {', '.join(map(str, more))}")
        if less := [value for value in old if value not in new]:
            parts.append(f"no longer takes {', '.join(map(str, less))}")
        told = " and ".join(parts) or "takes its values in another order"
        subject.report(
            codes.CHOICES, path, line, message=f"{name} {told}",
            claim=f"{name} takes {', '.join(map(str, old)) or 'anything'}",
            actual=f"{name} takes {', '.join(map(str, new)) or 'anything'}",
            places=[_place(theirs)], subject=str(ours["field"]),
        )  # fmt: skip
    for key in _COMPARED:
        if ours.get(key) != theirs.get(key):
            subject.report(
                codes.FLAG, path, line,
                message=f"{name}: {key} is {theirs.get(key)!r}, not {ours.get(key)!r}",
                claim=f"{key} is {ours.get(key)!r}", actual=f"{key} is {theirs.get(key)!r}",
                places=[_place(theirs)], subject=f"{ours['field']} {key}",
            )  # fmt: skip
