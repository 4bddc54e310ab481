"""The code has a name that no part of the page documents.

What it does: looks for every value of the backend flag on a page that sets out to list them, for
rows missing from a family's table, and for dtypes and flags that a table is silently about.
Why: a reader takes the list for complete.
Example: `qsa` is accepted since 0.5.20 and appears nowhere.
Fix: document the name, or accept the omission in the configuration, with a reason.
"""

from __future__ import annotations

import re

from ...pages.claims import TableView, read_mark
from ...source.modules import Place
from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC102", "undocumented-name", "undocumented-name", "warning")


def check(context: Context) -> None:
    """Report values, rows, dtypes and sibling flags that are missing."""
    if not context.is_overview:
        return
    _values(context)
    _rows(context)
    _dtypes(context)
    _siblings(context)


def _values(context: Context) -> None:
    facts = context.facts
    flag = facts.backend_flag
    if flag is None:
        return
    for choice in flag.choices:
        name = choice.value
        entry = facts.registry.get(name)
        if name in context.mentioned or name in facts.aliases or entry is None:
            continue
        if context.displays.mentions(name, context.page.text) >= 0:
            continue
        context.report(
            INFO, Spot(0, 0),
            message=f"`{name}` is a value of {flag.names[0]} and is registered, but the page"
            " never mentions it",
            claim=f"(omission) the page never mentions {name}",
            actual=f"{name} is accepted and registered",
            places=[choice.place, entry.place],
            subject=name,
        )  # fmt: skip


def _rows(context: Context) -> None:
    """Backends that serve a family and have no row in its table."""
    facts = context.facts
    for view in context.support_tables():
        if view.family is None or view.family == "mha":
            continue
        rows = {name for row in view.rows for name in (row.backend, row.target)}
        for name, place in facts.family_handlers(view.family).items():
            if name in rows or name in facts.aliases:
                continue
            entry = facts.registry.get(name)
            if entry is None or name not in context.serving(view.family):
                continue
            if _has_section(context, name):
                continue
            line = view.table.heading_line or view.table.line
            context.report(
                INFO, Spot(line, 1),
                message=f"`{name}` serves {view.family.upper()} models and has no row in the"
                f" {view.family.upper()} table",
                claim=f"(omission) no {view.family.upper()} row for {name}",
                actual=f"{name} has a handler for {view.family.upper()} models",
                places=[place, *_defaults(context, name, view.family)],
                subject=name,
            )  # fmt: skip


def _defaults(context: Context, name: str, family: str) -> list[Place]:
    return [
        decision.place
        for decision in context.facts.decisions
        if decision.backend == name and decision.family == family
    ][:1]


def _has_section(context: Context, name: str) -> bool:
    """Whether a heading of the page is about this backend."""
    return any(
        context.displays.mentions(name, block.text) >= 0 for block in context.page.headings()
    )


def _dtypes(context: Context) -> None:
    """KV-cache dtypes that a column is about without naming them."""
    facts = context.facts
    flag = facts.flags.get(facts.scan["kv_dtype_flag"])
    if flag is None:
        return
    values = [str(choice.value) for choice in flag.choices]
    named = {value for value in values
             if re.search(rf"(?<![\w]){re.escape(value)}(?![\w])", context.page.text)}  # fmt: skip
    for choice in flag.choices:
        dtype = str(choice.value)
        for view in context.support_tables():
            group = next(
                (group for feature, group, _ in view.columns
                 if feature == "kv_dtype" and group and group in dtype),
                None,
            )  # fmt: skip
            # A group of which one value is named can be understood.
            if group is None or any(group in value for value in named):
                continue
            spot = _served(context, view, group, dtype)
            context.report(
                INFO, spot,
                message=f"the {group.upper()} column never names `{dtype}`, a value of"
                f" {flag.names[0]}",
                claim=f"{group.upper()} KV cache (values never named)",
                actual=f"{dtype} is one of the {group.upper()} values of {flag.names[0]}",
                places=[choice.place],
                subject=dtype,
            )  # fmt: skip
            for other in facts.flags_about(dtype):
                if other.names[0] in context.page.text:
                    continue
                context.report(
                    INFO, spot,
                    message=f"`{other.names[0]}` belongs to `{dtype}` and is not documented",
                    claim=f"(omission) {other.names[0]}",
                    actual=f"{other.names[0]} takes {', '.join(map(str, other.values()))}",
                    places=[other.place],
                    subject=other.names[0],
                )  # fmt: skip
            break


def _served(context: Context, view: TableView, group: str, dtype: str) -> Spot:
    """The first cell that claims the group for a backend listed for this dtype, or the title."""
    listed = context.facts.dtype_backends(dtype)
    for row in view.rows:
        cell = row.get("kv_dtype", group)
        if cell is not None and row.target in listed and read_mark(cell.text).value == "yes":
            return Spot.of(cell)
    for feature, own, cell in view.columns:
        if feature == "kv_dtype" and own == group:
            return Spot.of(cell)
    return Spot(view.table.line, 1)


def _siblings(context: Context) -> None:
    """Flags of further phases where the page documents at least two of them."""
    facts = context.facts
    groups: dict[tuple[str, str], list[str]] = {}
    for name in facts.flags.fields():
        match = re.fullmatch(r"(\w+)_(decode|prefill|extend|verify|draft)_(backend)", name)
        if match:
            groups.setdefault((match[1], match[3]), []).append(name)
    for names in groups.values():
        flags = [flag for name in names if (flag := facts.flags.get(name)) is not None]
        documented = [flag for flag in flags if flag.names[0] in context.page.text]
        if len(documented) < 2:
            continue
        for flag in flags:
            if flag in documented:
                continue
            line = next(
                (b.find(documented[0].names[0]) for b in context.page.prose()
                 if documented[0].names[0] in b.text),
                (0, 0),
            )  # fmt: skip
            context.report(
                INFO, Spot(*line),
                message=f"`{flag.names[0]}` is not documented beside"
                f" {', '.join(f'`{one.names[0]}`' for one in documented)}",
                claim=f"(omission) {flag.names[0]}",
                actual=f"{flag.names[0]} exists",
                places=[flag.place],
                subject=flag.names[0],
            )  # fmt: skip
