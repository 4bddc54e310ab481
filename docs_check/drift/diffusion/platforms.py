"""The platform matrix against what each platform class makes of a backend.

What it does: walks each platform's selector with the backend chosen, and compares Yes and No; and
reports platforms of the code that the matrix leaves out.
Why: on the wrong platform the choice is refused, or silently replaced.
Example: `aiter` without a Yes for ROCm, where it is the default.
"""

from __future__ import annotations

import re

from ...data import load
from ...pages.claims import RowView, read_mark
from ...pages.tables import Cell
from ...source.modules import Place
from ..context import Context, Spot
from ..rules import gpu_architecture

INFO = gpu_architecture.INFO


def check(context: Context) -> None:
    """Check every cell of a platform matrix."""
    facts = context.diffusion
    if facts is None:
        return
    for view in context.tables:
        if view.name != "platforms":
            continue
        columns = {group for feature, group, _ in view.columns if feature == "platform"}
        for row in view.rows:
            value = row.name.text.strip("` ").lower()
            member = next((m for m in facts.members if m.lower() == value), None)
            if member is None:
                continue
            for feature, kind, cell in row.cells:
                if feature == "platform":
                    _cell(context, value, member, kind, cell)
                    _somewhere(context, value, member, kind, cell, row.get("notes"))
                elif feature == "notes":
                    _only(context, value, member, row, cell, columns)
        for platform in facts.platforms:
            if platform.kind in columns:
                continue
            context.report(
                INFO, Spot(view.table.line, 1), severity="info",
                message=f"the matrix has no column for {platform.kind.upper()}, which has a"
                " selector of its own",
                claim=f"(omission) no column for {platform.kind.upper()}",
                actual=f"{platform.segment.name} selects backends",
                places=[facts.codebase.place(platform.method)], subject=platform.kind,
            )  # fmt: skip


def _cell(context: Context, value: str, member: str, kind: str, cell: Cell) -> None:
    facts = context.diffusion
    assert facts is not None
    mark = read_mark(cell.text)
    outcomes = facts.outcomes(kind, member)
    if not outcomes or mark.value not in {"yes", "no"}:
        return
    own = [outcome for outcome in outcomes if outcome.backend == member]
    title = kind.upper()
    foreign = _foreign(context, member, kind)
    if mark.value == "no" and own and foreign is None:
        context.report(
            INFO, Spot.of(cell),
            message=f"`{value}` is said not to run on {title}; the platform selects its own class",
            claim=f"{value} does not run on {title}", actual=f"{title} serves {value}",
            places=[own[0].place],
            certainty="proved" if own[0].certain else "partial",
            condition="" if own[0].certain else "under further conditions",
            fix=context.cell_fix(cell, re.sub(r"\b[Nn]o\b|❌", "Yes", cell.raw))
            if own[0].certain else None,
            subject=value,
        )  # fmt: skip
    elif mark.value == "yes" and not own:
        first = outcomes[-1]
        instead = f"it becomes {first.backend.lower()}" if first.backend else (
            f"it is refused: {first.why}"
        )  # fmt: skip
        context.report(
            INFO, Spot.of(cell),
            message=f"`{value}` is said to run on {title}; {instead}",
            claim=f"{value} runs on {title}", actual=instead, places=[first.place],
            certainty="review" if first.why == "falls back" else "proved", subject=value,
        )  # fmt: skip
    elif mark.value == "yes" and foreign is not None:
        root, kinds, place = foreign
        context.report(
            INFO, Spot.of(cell),
            message=f"`{value}` is said to run on {title}; its module imports `{root}`,"
            f" a package for {', '.join(kinds).upper()}, whatever happens",
            claim=f"{value} runs on {title}", actual=f"import {root} at module level",
            places=[place], certainty="review", subject=value,
        )  # fmt: skip


def _somewhere(
    context: Context, value: str, member: str, kind: str, cell: Cell, notes: Cell | None
) -> None:
    """A backend that runs on a platform, but not on some of its machines."""
    facts = context.diffusion
    assert facts is not None
    outcomes = facts.outcomes(kind, member)
    if read_mark(cell.text).value != "yes" or not any(o.backend == member for o in outcomes):
        return
    named = set(facts.machines.named(f"{cell.text} {notes.text if notes is not None else ''}"))
    for outcome in outcomes:
        if outcome.backend == member or not outcome.machines or not outcome.decided:
            continue
        if named & set(outcome.machines):
            continue
        instead = f"it becomes {outcome.backend.lower()}" if outcome.backend else "it is refused"
        on = facts.machines.titles(outcome.machines)
        context.report(
            INFO, Spot.of(cell),
            message=f"`{value}` does not run on every {kind.upper()} machine: {instead} on {on}",
            claim=f"{value} runs on {kind.upper()}", actual=f"{instead} on {on}",
            places=[outcome.place], certainty="partial", condition=f"except on {on}",
            subject=value,
        )  # fmt: skip


def _foreign(context: Context, member: str, kind: str) -> tuple[str, list[str], Place] | None:
    """A package of other kinds of machines that a backend's module needs, and these kinds."""
    facts = context.diffusion
    assert facts is not None
    packages: dict[str, list[str]] = load("names")["diffusion"]["packages"]
    for module, place in facts.unconditional_imports(member).items():
        root = module.partition(".")[0]
        if root in packages and kind not in packages[root]:
            return root, packages[root], place
    return None


def _only(
    context: Context, value: str, member: str, row: RowView, cell: Cell, columns: set[str]
) -> None:
    """`CUDA-only`, where another platform serves the backend as well."""
    facts = context.diffusion
    assert facts is not None
    match = re.search(r"\b(\w+)-only\b", cell.text)
    if match is None:
        return
    for platform in facts.platforms:
        if platform.kind == match[1].lower() or platform.kind in columns:
            continue
        own = [o for o in facts.outcomes(platform.kind, member) if o.backend == member]
        if own:
            context.report(
                INFO, Spot.of(cell), severity="info",
                message=f"`{value}` is not {match[0]}: {platform.kind.upper()} serves it as well",
                claim=f"{value} is {match[0]}", actual=f"{platform.kind.upper()} selects its class",
                places=[own[0].place], certainty="partial",
                condition=f"apart from {platform.kind.upper()}", subject=value,
            )  # fmt: skip
