"""A page's word on sliding-window attention is not the code's.

What it does: looks whether the backend reads a layer's window where it computes attention.
Why: without it, models with sliding windows attend to everything, or not at all.
Example: ❌ for `intel_amx`, whose kernels take the window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...facts.features import sliding_window, window_limits
from ...facts.model import Support
from ...pages.claims import RowView, read_mark
from ...pages.tables import Cell
from ..context import Context, RuleInfo, Spot
from ..findings import unless

Ask = Callable[[str, str | None], Support | None]
Limits = Callable[[str, str | None], str]

INFO = RuleInfo("DOC107", "sliding-window", "sliding-window", "warning")


def check(context: Context) -> None:
    """Check every sliding-window cell."""
    simple_feature(
        context, INFO, "sliding_window", "sliding window",
        lambda backend, family: sliding_window(context.facts, backend, family),
        lambda backend, family: window_limits(context.facts, backend, family),
    )  # fmt: skip


def simple_feature(
    context: Context, info: RuleInfo, feature: str, label: str, ask: Ask,
    limits: Limits | None = None,
) -> None:  # fmt: skip
    """Compare a column of yes and no with what the code says.

    `limits` tells what a support that the page denies hangs on.
    """
    for view in context.support_tables():
        for row in view.rows:
            cell = row.get(feature)
            if cell is None or row.target is None:
                continue
            check_cell = partial(_cell, context, info, label, ask, limits, row, row.target, cell)
            context.by_family(view.family, row.target, check_cell)


def _cell(
    context: Context, info: RuleInfo, label: str, ask: Ask, limits: Limits | None, row: RowView,
    backend: str, cell: Cell, family: str | None,
) -> None:  # fmt: skip
    mark = read_mark(cell.text)
    if mark.value not in {"yes", "no"}:
        return
    support = ask(backend, family)
    if support is None or support.value == mark.value:
        return
    if support.value == "yes" and limits is not None:
        condition = limits(backend, family)
        if condition:
            support = replace(support, condition=condition, certainty="partial")
    old, new = ("✅", "❌") if mark.value == "yes" else ("❌", "✅")
    context.report(
        info, Spot.of(cell),
        message=f"{row.name.text}: {label} is “{cell.text}” here; in the code"
        f" {support.why}" + (f" {support.condition}" if support.condition else ""),
        claim=f"{row.name.text}: {label} is “{cell.text}”", actual=support.why,
        places=support.places, certainty=support.certainty,
        condition=unless(support.condition) if mark.value == "no" else support.condition,
        fix=None if support.condition else context.cell_fix(cell, cell.raw.replace(old, new)),
        subject=backend,
    )  # fmt: skip
