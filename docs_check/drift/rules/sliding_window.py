"""A page's word on sliding-window attention is not the code's.

What it does: looks whether the backend reads a layer's window where it computes attention.
Why: without it, models with sliding windows attend to everything, or not at all.
Example: ❌ for `intel_amx`, whose kernels take the window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...facts.features import sliding_window, window_limits
from ...facts.model import Support
from ...pages.claims import read_mark
from ..context import Context, RuleInfo, Spot

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
            mark = read_mark(cell.text)
            if mark.value not in {"yes", "no"}:
                continue
            support = ask(row.target, view.family)
            if support is None or support.value == mark.value:
                continue
            if support.value == "yes" and limits is not None:
                condition = limits(row.target, view.family)
                if condition:
                    support = replace(support, condition=condition, certainty="partial")
            old, new = ("✅", "❌") if mark.value == "yes" else ("❌", "✅")
            context.report(
                info, Spot.of(cell),
                message=f"{row.name.text}: {label} is “{cell.text}” here; in the code"
                f" {support.why}" + (f" {support.condition}" if support.condition else ""),
                claim=f"{row.name.text}: {label} is “{cell.text}”", actual=support.why,
                places=support.places, certainty=support.certainty,
                condition=support.condition,
                fix=None if support.condition
                else context.cell_fix(cell, cell.raw.replace(old, new)),
                subject=row.target,
            )  # fmt: skip
