"""A table of sub-backends differs from the choices, the dispatch or the defaults.

What it does: compares rows with the values of the phase flags, ticks with the branches that the
kernels have, and “Default on …” notes with what the resolution sets; and looks for values without
a row, in tables of linear-attention kernels as well.
Why: a value outside the choices is refused; a choice without a branch fails in the first batch.
Example: “tilelang: Default on AMD”, where the code sets `triton`.
"""

from __future__ import annotations

import re

from ...facts import linear, sparse
from ...pages.claims import RowView, TableView, read_mark
from ...pages.tables import Cell
from ..context import Context, RuleInfo, Spot, listed
from .speculative_topk import linear_backend, linear_mechanism

INFO = RuleInfo("DOC111", "sub-backend", "sub-backend choice", "warning")


def check(context: Context) -> None:
    """Check sparse and linear tables."""
    for view in context.tables:
        if view.name == "sparse":
            _sparse(context, view)
        elif view.name == "linear":
            _linear(context, view)


def _owner(context: Context, view: TableView) -> str | None:
    """The backend whose sub-backends a table lists: one with flags for its phases."""
    for text in (*reversed(view.table.section), view.table.lead):
        for name in (*context.facts.names, *context.facts.registry):
            if context.displays.mentions(name, text) < 0:
                continue
            if context.facts.flags.get(f"{name}_prefill_backend") is not None:
                return name
    return None


def _sparse(context: Context, view: TableView) -> None:
    owner = _owner(context, view)
    if owner is None:
        return
    facts = context.facts
    flags = [flag for phase in ("prefill", "decode")
             if (flag := facts.flags.get(f"{owner}_{phase}_backend")) is not None]  # fmt: skip
    values = {str(value) for flag in flags for value in flag.values()}
    rows = {row.name.text.split()[0]: row for row in view.rows if row.name.text}
    for name, row in rows.items():
        if values and name not in values:
            context.report(
                INFO, Spot.of(row.name), severity="error",
                message=f"`{name}` is no value of {' or '.join(f.names[0] for f in flags)}",
                claim=f"{name} is a sub-backend of {owner}",
                actual=f"the values are {', '.join(sorted(values))}",
                places=[flag.place for flag in flags], subject=name,
            )  # fmt: skip
            continue
        for phase in ("prefill", "decode"):
            cell = row.get(f"sparse_{phase}")
            if cell is not None:
                _phase(context, owner, name, phase, cell)
        notes = row.get("sparse_notes")
        if notes is not None:
            _notes(context, owner, name, row, notes)
    for flag in flags:
        for choice in flag.choices:
            name = str(choice.value)
            if name in rows:
                continue
            others = [other for other in flags if name in other.values()]
            if others and flag is not others[0]:
                continue
            context.report(
                INFO, Spot(view.table.line, 1),
                message=f"`{name}` is a value of {' and '.join(o.names[0] for o in others)} and"
                " has no row",
                claim=f"(omission) no row for {name}",
                actual=f"{name} is a value of {' and '.join(o.names[0] for o in others)}",
                places=[
                    own.place for other in others for own in other.choices if own.value == name
                ],
                subject=name,
            )  # fmt: skip


def _phase(context: Context, owner: str, name: str, phase: str, cell: Cell) -> None:
    mark = read_mark(cell.text)
    support = sparse.support(context.facts, owner, name, phase)
    if support is None or mark.value not in {"yes", "no"} or mark.value == support.value:
        return
    context.report(
        INFO, Spot.of(cell),
        message=f"{name}: {phase} is “{cell.text}” here; in the code it is {support.why}",
        claim=f"{name}: {phase} is “{cell.text}”", actual=support.why, places=support.places,
        subject=name,
    )  # fmt: skip


def _notes(context: Context, owner: str, name: str, row: RowView, notes: Cell) -> None:
    """`Default decode on Hopper (BF16)`, several separated by semicolons."""
    machines = context.facts.machines
    for part in notes.text.split(";"):
        if not re.search(r"\bdefault\b", part, re.I):
            continue
        claimed = machines.named(part)
        if not claimed:
            continue
        phases = [p for p in ("prefill", "decode") if p in part.lower()] or [
            p for p in ("prefill", "decode")
            if (cell := row.get(f"sparse_{p}")) is not None
            and read_mark(cell.text).value == "yes"
        ]  # fmt: skip
        dtype = "fp8" if re.search(r"fp8", part, re.I) else (
            "bf" if re.search(r"bf16", part, re.I) else None
        )  # fmt: skip
        for phase in phases:
            wrong: dict[str, list[str]] = {}
            places = []
            for machine in claimed:
                actual = _default_on(context, owner, phase, machine, dtype)
                if actual and name not in {default.name for default in actual}:
                    for default in actual:
                        wrong.setdefault(default.name, []).append(machine)
                        places.append(default.place)
            if not wrong:
                continue
            told = "; ".join(f"{n} on {machines.titles(on)}" for n, on in wrong.items())
            everywhere = {m for on in wrong.values() for m in on} == set(claimed)
            context.report(
                INFO, Spot.of(notes),
                message=f"{name} is not the default for {phase}: {told}",
                claim=f"{name}: {part.strip()}", actual=f"{phase}: {told}", places=places[:2],
                certainty="proved" if everywhere else "partial",
                condition="" if everywhere else "on the other machines",
                subject=f"{name} default",
            )  # fmt: skip


def _default_on(
    context: Context, owner: str, phase: str, machine: str, dtype: str | None
) -> list[sparse.Default]:
    """Defaults of a phase on a machine that nothing rules out."""
    found = []
    for default in context.facts.sparse_defaults(owner):
        if default.phase != phase:
            continue
        possible = True
        for term in default.condition:
            subject = getattr(term, "subject", "")
            if subject == "kv_dtype" and dtype is not None:
                inside = any(dtype in str(value) for value in term.values)  # type: ignore[union-attr]
                if inside is not (term.op == "in"):  # type: ignore[union-attr]
                    possible = False
            elif context.facts.machines.holds(term, machine) is False:
                possible = False
        if possible:
            found.append(default)
    return found


def _linear(context: Context, view: TableView) -> None:
    """Kernel backends that the dispatcher knows and that have no row."""
    mechanism = linear_mechanism(view)
    if mechanism is None:
        return
    rows = {linear_backend(context, row.name.text) for row in view.rows}
    seen: set[str] = set()
    arms = linear.arms(context.facts, mechanism)
    refused = {arm.backend for arm in arms if arm.refuses}
    for arm in arms:
        if arm.backend in rows or arm.backend in seen or arm.backend in refused:
            continue
        seen.add(arm.backend)
        context.report(
            INFO, Spot(view.table.line, 1),
            message=f"`{arm.backend}` is a kernel backend of {mechanism.upper()} and has no row",
            claim=f"(omission) no row for {arm.backend}",
            actual=f"the dispatcher has a branch for {arm.backend}",
            places=[arm.place], subject=arm.backend,
        )  # fmt: skip
    _unmentioned(context, view, {*rows, *seen})


def _unmentioned(context: Context, view: TableView, told: set[str | None]) -> None:
    """Values of the flag for linear attention that a page on the flag is silent about."""
    flag = context.facts.flags.get(context.facts.scan["linear"]["flags"])
    if flag is None or not any(name in context.page.text for name in flag.names):
        return
    silent = [
        choice for choice in flag.choices
        if choice.value not in told
        and not re.search(rf"(?<!\w){re.escape(str(choice.value))}(?!\w)", context.page.text)
    ]  # fmt: skip
    if silent:
        names = listed([f"`{choice.value}`" for choice in silent], "and")
        context.report(
            INFO, Spot(view.table.line, 1), severity="info",
            message=f"`{flag.names[0]}` takes {names} as well; the page"
            " never names them",
            claim=f"(omission) values of {flag.names[0]}", actual=f"{names} are values",
            places=[choice.place for choice in silent], subject=flag.names[0],
        )  # fmt: skip
