"""Backends, aliases, page sizes and cells of the matrix against the facts of the release."""

from __future__ import annotations

from typing import Any

from ..data import load
from ..drift.context import listed
from ..facts.paging import allowed_sizes
from ..features import FAMILIES, support
from . import codes
from .marked import Marked, read
from .subject import Subject

_PLAIN = ("yes", "no")


def check(subject: Subject) -> None:
    """Compare every file of the backends folder."""
    rows: dict[str, str] = {}
    for file in sorted((subject.folder / "backends").glob("*.yaml")):
        content, path = read(file), subject.path(file)
        for row in content if isinstance(content, list) else [content]:
            if isinstance(row, Marked) and isinstance(row.get("name"), str):
                rows[row["name"]] = path
                _row(subject, path, row)
    facts = subject.facts
    for name, entry in facts.registry.items():
        alias = entry.target is not None or name in facts.aliases
        if name not in rows and not alias:
            subject.report(
                codes.NAME, f"{subject.shown}/backends", 0,
                message=f"`{name}` is registered and the matrix does not have it",
                claim=f"(omission) no row for {name}", actual=f"{name} is registered",
                places=[entry.place], subject=name,
            )  # fmt: skip


def _row(subject: Subject, path: str, row: Marked) -> None:
    facts, name = subject.facts, row["name"]
    line = row.lines["name"]
    alias = facts.aliases.get(name)
    entry = facts.registry.get(name)
    target = alias.target if alias is not None else entry.target if entry is not None else None
    if target is not None and row.get("alias_of") == target:
        return
    if alias is not None and entry is None:
        subject.report(
            codes.ALIAS, path, line,
            message=f"`{name}` is only another word for `{alias.target}` now",
            claim=f"{name} is a backend", actual=f"{name} becomes {alias.target}",
            places=[alias.place], subject=name,
        )  # fmt: skip
        return
    if name not in facts.registry:
        former = facts.former.get(name)
        told = f": {former}" if former is not None else ""
        subject.report(
            codes.NAME, path, line, message=f"`{name}` is not registered{told}",
            claim=f"{name} is a backend", actual=f"no such backend{told}", subject=name,
        )  # fmt: skip
        return
    for family in row.get("families") or ():
        if isinstance(family, Marked) and family.get("family") in FAMILIES:
            _page_sizes(subject, path, name, family)
            _cells(subject, path, name, family)


def _page_sizes(subject: Subject, path: str, name: str, family: Marked) -> None:
    ours = family.get("page_sizes")
    if not isinstance(ours, Marked) or "sizes" not in ours:
        return
    found = allowed_sizes(subject.facts, name, family["family"])
    if found is not None and found[2]:
        return  # under a condition, which the matrix states in its rules
    sizes = sorted(found[0]) if found is not None else None
    claimed = ours["sizes"]
    stated = sorted(claimed) if isinstance(claimed, list) else None
    # A single size is often the backend's own doing, which no check of the arguments shows.
    if sizes == stated or (sizes is None and stated is not None):
        return
    told = listed(sizes or (), "and") or "any"
    subject.report(
        codes.PAGE_SIZES, path, ours.lines["sizes"],
        message=f"`{name}` with {family['family'].upper()} models takes page sizes {told},"
        f" not {listed(stated or (), 'and') or 'any'}",
        claim=f"page sizes {claimed}", actual=f"page sizes {told}",
        places=[found[1].place] if found is not None else [], subject=name,
    )  # fmt: skip


def _cells(subject: Subject, path: str, name: str, family: Marked) -> None:
    audited: dict[str, Any] = load("columns")["audited"]
    cells = family.get("cells")
    if not isinstance(cells, Marked):
        return
    for key, cell in cells.items():
        entry = audited.get(key)
        if entry is None or not isinstance(cell, Marked) or cell.get("support") not in _PLAIN:
            continue
        found = support(
            subject.facts, name, family["family"], entry["feature"], entry.get("group", "")
        )
        if (
            found is None
            or found.certainty != "proved"
            or found.value not in _PLAIN
            or found.value == cell["support"]
        ):
            continue
        subject.report(
            codes.CELL, path, cells.lines[key],
            message=f"`{name}` with {family['family'].upper()} models: {key} is"
            f" {cell['support']} here; the scanner comes to {found.value}: {found.why}",
            claim=f"{key} is {cell['support']}", actual=f"{found.value}: {found.why}",
            places=found.places[:2], certainty="review", subject=f"{name} {key}",
        )  # fmt: skip
