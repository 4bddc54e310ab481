"""A page's word on a KV-cache dtype is not the code's.

What it does: for each FP8 and FP4 cell, looks for checks that refuse the dtypes with the backend
(following the order in which they run), and for lists, messages and kernels that serve them.
Why: a dtype that is refused stops the server; one that works unannounced is memory not saved.
Example: ✅ for FP4 with `trtllm_mla`, which an earlier check restricts to fp8_e4m3 and bf16.
"""

from __future__ import annotations

from ...facts import kvdtype
from ...facts.model import Support
from ...pages.claims import TableView, read_mark
from ...pages.tables import Cell
from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC105", "kv-dtype", "kv-dtype", "warning")


def check(context: Context) -> None:
    """Check every dtype cell."""
    for view in context.support_tables():
        if view.family != "mla":
            _column(context, view)
        for row in view.rows:
            if row.backend not in context.facts.registry or row.backend is None:
                continue
            for feature, group, cell in row.cells:
                if feature == "kv_dtype" and group:
                    _cell(context, view, row.backend, row.name.text, group, cell)


def _column(context: Context, view: TableView) -> None:
    """A column for a group of dtypes whose members take different backends."""
    for feature, group, title in view.columns:
        if feature != "kv_dtype" or not group:
            continue
        by_dtype = {
            dtype: sorted(context.facts.dtype_backends(dtype) & set(context.facts.registry))
            for dtype in kvdtype.group_values(context.facts, group)
        }
        known = {dtype: names for dtype, names in by_dtype.items() if names}
        if len(known) < 2 or len({tuple(names) for names in known.values()}) < 2:
            continue
        told = "; ".join(f"{dtype}: {', '.join(names)}" for dtype, names in known.items())
        context.report(
            INFO, Spot.of(title),
            message=f"the {group.upper()} dtypes take different backends: {told}",
            claim=f"{group.upper()} KV cache is one thing", actual=told,
            places=context.facts.dtype_places(known), certainty="partial",
            condition="by dtype", subject=f"{group} dtypes",
        )  # fmt: skip


def _cell(
    context: Context, view: TableView, backend: str, shown: str, group: str, cell: Cell
) -> None:
    mark = read_mark(cell.text)
    if mark.value not in {"yes", "no"}:
        return
    support, partners = kvdtype.support(
        context.facts, backend, view.family, group, claimed=mark.value == "yes"
    )
    if support is None or support.value == mark.value:
        return
    label = f"{group.upper()} KV cache"
    if mark.value == "yes" and support.value == "no":
        context.report(
            INFO, Spot.of(cell),
            message=f"{shown} is said to take an {label}; the code refuses it: {support.why}",
            claim=f"{shown} supports an {label}", actual=support.why, places=support.places,
            fix=context.cell_fix(cell, cell.raw.replace("✅", "❌")), subject=backend,
        )  # fmt: skip
    elif mark.value == "yes" and support.value == "partial":
        if not _told(context, view, backend, group, partners):
            _partial(context, cell, shown, label, support, backend)
    elif mark.value == "no":
        fix = None
        if support.value == "yes" and support.certainty == "proved":
            fix = context.cell_fix(cell, cell.raw.replace("❌", "✅"))
        context.report(
            INFO, Spot.of(cell),
            message=f"{shown} is said to have no {label}; the code serves one"
            + (f" {support.condition}" if support.condition else "") + f": {support.why}",
            claim=f"{shown} has no {label}", actual=support.why, places=support.places,
            certainty=support.certainty if support.value == "yes" else "partial",  # type: ignore[arg-type]
            condition=support.condition, fix=fix, subject=backend,
        )  # fmt: skip


def _partial(
    context: Context, cell: Cell, shown: str, label: str, support: Support, backend: str
) -> None:
    context.report(
        INFO, Spot.of(cell),
        message=f"{shown} takes an {label} {support.why}",
        claim=f"{shown} supports an {label}", actual=support.why, places=support.places,
        certainty="partial", condition=support.condition, subject=backend,
    )  # fmt: skip


def _told(
    context: Context, view: TableView, backend: str, group: str, partners: list[str]
) -> bool:
    """Whether the page itself says that the backend needs a partner, and means these partners."""
    claimed = {
        row.backend
        for row in view.rows
        if row.backend != backend
        and (cell := row.get("kv_dtype", group)) is not None
        and read_mark(cell.text).value == "yes"
        and row.backend in context.facts.registry
    }
    for block in context.page.prose():
        text = block.text
        if context.displays.mentions(backend, text) < 0 or "decode" not in text:
            continue
        if group not in text.lower() and group.replace("fp", "kv") not in text.lower():
            continue
        named = {name for name in claimed if context.displays.mentions(name or "", text) >= 0}
        if claimed - named == set(partners):
            return True
    return False


