"""A page's word on speculative decoding is not the code's.

What it does: compares the topk columns with the maps of draft backends, with checks on topk > 1,
and with the list of backends that take topk > 1 on pages larger than 1; and the verify column of
linear-attention tables with the kernels.
Why: an unsupported topk stops the server, at start or in the first batch.
Example: topk > 1 for `fa4`, which holds at page size 1 only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...facts import linear
from ...facts.code import CodeFacts
from ...facts.model import Certainty, Support
from ...facts.speculation import many_branches, one_branch
from ...pages.claims import Mark, TableView, read_mark
from ...pages.tables import Cell
from ..context import Context, RuleInfo, Spot
from ..findings import unless

Ask = Callable[[CodeFacts, str, str | None], Support | None]

INFO = RuleInfo("DOC106", "speculative-topk", "spec-topk", "warning")
_COLUMNS: dict[str, tuple[str, Ask]] = {
    "topk_one": ("topk = 1", one_branch),
    "topk_many": ("topk > 1", many_branches),
}


def check(context: Context) -> None:
    """Check topk cells and verify cells."""
    for view in context.support_tables():
        for row in view.rows:
            if row.target is None:
                continue
            for feature, _, cell in row.cells:
                if feature in _COLUMNS:
                    check_cell = partial(
                        _judge, context, row.target, row.name.text, cell, *_COLUMNS[feature]
                    )
                    context.by_family(view.family, row.target, check_cell)
    for view in context.tables:
        if view.name == "linear":
            _verify(context, view)


def _judge(
    context: Context, backend: str, shown: str, cell: Cell, what: str, ask: Ask,
    family: str | None,
) -> None:  # fmt: skip
    mark = read_mark(cell.text)
    support = ask(context.facts, backend, family)
    if support is None:
        return
    message = _difference(mark, support, shown, what)
    if message is None:
        return
    new = {"yes": "✅", "no": "❌"}.get(support.value)
    fix = None
    if new and mark.value in {"yes", "no"} and not mark.note and support.certainty == "proved":
        fix = context.cell_fix(cell, cell.raw.replace("✅", new).replace("❌", new))
    plain = support.value in {"yes", "no"} and mark.value != "partial"
    certainty: Certainty = support.certainty if plain else "partial"
    context.report(
        INFO, Spot.of(cell),
        message=message, claim=f"{shown}: {what} is “{cell.text}”", actual=support.why,
        places=support.places, certainty=certainty,
        condition=unless(support.condition) if mark.value == "no" else support.condition,
        fix=fix if certainty == "proved" else None, subject=backend,
    )  # fmt: skip


def _difference(mark: Mark, support: Support, shown: str, what: str) -> str | None:
    if mark.value == "yes" and support.value == "no":
        return f"{shown} is said to support {what}; it does not: {support.why}"
    if mark.value == "yes" and support.value == "partial" and not mark.note:
        return f"{shown} supports {what} {support.condition}: {support.why}"
    if mark.value == "no" and support.value == "yes":
        return f"{shown} is said not to support {what}; it does: {support.why}"
    if mark.value == "no" and support.value == "partial":
        return f"{shown} is said not to support {what}; it does {support.condition}: {support.why}"
    if mark.value == "partial" and mark.numbers == (1,) and support.value == "yes":
        return f"{shown}: {what} is not bound to page size 1: {support.why}"
    if mark.value == "partial" and support.value == "no":
        return f"{shown} is said to support {what} in part; it does not: {support.why}"
    return None


def _verify(context: Context, view: TableView) -> None:
    mechanism = linear_mechanism(view)
    for row in view.rows:
        cell = row.get("linear_verify")
        backend = linear_backend(context, row.name.text)
        if cell is None or backend is None or mechanism is None:
            continue
        kind = kind_of(context, row.name.text)
        support = linear.support(context.facts, mechanism, backend, "verify", kind)
        mark = read_mark(cell.text)
        if support is None or mark.value not in {"yes", "no"} or support.value == mark.value:
            continue
        if mark.value == "yes" and support.value == "partial":
            continue
        context.report(
            INFO, Spot.of(cell),
            message=f"{row.name.text}: {mechanism.upper()} target verification is “{cell.text}”"
            f" here; in the code {support.why}",
            claim=f"{row.name.text}: target verification is “{cell.text}”", actual=support.why,
            places=support.places, certainty=support.certainty,
            condition=support.condition, subject=backend,
        )  # fmt: skip


def linear_mechanism(view: TableView) -> str | None:
    """The mechanism that a linear-attention table is about."""
    above = " ".join(view.table.section).lower()
    return next((name for name in ("gdn", "kda") if name in above), None)


def linear_backend(context: Context, shown: str) -> str | None:
    """The kernel backend that a row of a linear-attention table is about."""
    from ...data import load

    flag = context.facts.flags.get(context.facts.scan["linear"]["flags"])
    head = shown.split("(")[0].strip().lower()
    for value, displays in load("names")["llm"]["linear"].items():
        if head in displays:
            return str(value)
    for value in flag.values() if flag is not None else ():
        if head.replace(" ", "_") == value:
            return str(value)
    return None


def kind_of(context: Context, shown: str) -> str | None:
    """The kind of machine that a row names, where it names one."""
    machines = context.facts.machines.named(shown)
    kinds = {context.facts.machines.kind(machine) for machine in machines}
    return kinds.pop() if len(kinds) == 1 else None
