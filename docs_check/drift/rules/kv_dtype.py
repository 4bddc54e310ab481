"""A page's word on a KV-cache dtype is not the code's.

What it does: for each FP8 and FP4 cell, looks for checks that refuse the dtypes with the backend
(following the order in which they run), and for lists, messages and kernels that serve them.
Why: a dtype that is refused stops the server; one that works unannounced is memory not saved.
Example: ✅ for FP4 with `trtllm_mla`, which an earlier check restricts to fp8_e4m3 and bf16.
"""

from __future__ import annotations

import re
from functools import partial

from ...facts import kvdtype
from ...facts.model import Support
from ...pages.claims import TableView, named_family, read_mark
from ...pages.page import Block
from ...pages.tables import Cell
from ..context import Context, RuleInfo, Spot
from ..findings import unless

INFO = RuleInfo("DOC105", "kv-dtype", "kv-dtype", "warning")
_REQUIRES = re.compile(r"requires `--kv-cache-dtype[ =](\w+)`")


def check(context: Context) -> None:
    """Check every dtype cell, and statements on what is required."""
    for block in context.page.prose():
        _statement(context, block)
    for view in context.support_tables():
        if view.family != "mla":
            _column(context, view)
        for row in view.rows:
            if row.target is None:
                continue
            for feature, group, cell in row.cells:
                if feature == "kv_dtype" and group:
                    check_cell = partial(
                        _cell, context, view, row.target, row.name.text, group, cell
                    )
                    context.by_family(view.family, row.target, check_cell)


def _statement(context: Context, block: Block) -> None:
    """`TokenSpeed MLA: … requires --kv-cache-dtype fp8_e4m3`."""
    for line in block.lines:
        head, separator, rest = line.text.partition(":")
        match = _REQUIRES.search(rest) if separator else None
        backend = context.backend_named(head) if match else None
        if match is None or backend is None:
            continue
        spot = Spot(line.number, line.column + len(head) + 1 + match.start())
        check_text = partial(_required, context, backend, head, match[1], spot)
        context.by_family(named_family(head), backend, check_text)


def _required(
    context: Context, backend: str, shown: str, group: str, spot: Spot, family: str | None
) -> None:
    """A dtype said to be required, where nothing refuses the others."""
    facts = context.facts
    flag = facts.flags.get(facts.scan["kv_dtype_flag"])
    others = [str(value) for value in (flag.values() if flag else []) if group not in str(value)]
    open_ = [
        dtype for dtype in others
        if kvdtype.refused_by(facts, backend, backend, family, dtype) is None
    ]  # fmt: skip
    if not others or not open_:
        return
    accepting = kvdtype.accepting(facts, backend, family, open_)
    if accepting is None:
        return
    context.report(
        INFO, spot,
        message=f"{shown}: {group} is not required: {', '.join(open_)} are accepted as well",
        claim=f"{shown} requires {group}", actual=f"{', '.join(open_)} are accepted",
        places=[accepting.place],
        certainty="proved" if context.displays.find(shown) == backend else "partial",
        condition="" if context.displays.find(shown) == backend else f"as {backend}",
        subject=f"{backend} required",
    )  # fmt: skip


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
            message=f"the {_shown(group)} dtypes take different backends: {told}",
            claim=f"{_shown(group)} KV cache is one thing", actual=told,
            places=context.facts.dtype_places(known), certainty="partial",
            condition="of one dtype at a time", subject=f"{group} dtypes",
        )  # fmt: skip


def _cell(
    context: Context, view: TableView, backend: str, shown: str, group: str, cell: Cell,
    family: str | None,
) -> None:  # fmt: skip
    mark = read_mark(cell.text)
    if re.search(r"required|only", mark.note, re.I):
        _required(context, backend, shown, group, Spot.of(cell), family)
    if mark.value not in {"yes", "no"}:
        return
    support, partners = kvdtype.support(
        context.facts, backend, family, group, claimed=mark.value == "yes"
    )
    label = f"{_shown(group)} KV cache"
    if mark.value == "yes" and (support is None or support.value == "yes"):
        _restricted(context, cell, backend, shown, group, family)
    if support is None or support.value == mark.value:
        return
    if mark.value == "yes" and support.value == "no":
        context.report(
            INFO, Spot.of(cell),
            message=f"{shown} is said to take an {label}; it does not: {support.why}",
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
            certainty=support.certainty
            if support.value == "yes" or support.certainty == "review"
            else "partial",
            condition=unless(support.condition), fix=fix, subject=backend,
        )  # fmt: skip


def _shown(group: str) -> str:
    """A group of dtypes as people write it; a dtype of the flag as the flag does."""
    return group.upper() if group.isalnum() and not group.startswith(("mx", "nv")) else group


def _restricted(
    context: Context, cell: Cell, backend: str, shown: str, group: str, family: str | None
) -> None:
    """Dtypes of the group that some machines refuse, or that change the backend."""
    for limit in kvdtype.restrictions(context.facts, backend, family, group):
        if limit.dtype in cell.text:
            continue
        context.report(
            INFO, Spot.of(cell), severity="info",
            message=f"{shown}: {limit.told}",
            claim=f"{shown} supports an {_shown(group)} KV cache", actual=limit.told,
            places=[limit.place], certainty="partial", condition=f"except {limit.where}",
            subject=f"{backend}: {limit.told}",
        )  # fmt: skip


def _partial(
    context: Context, cell: Cell, shown: str, label: str, support: Support, backend: str
) -> None:
    context.report(
        INFO, Spot.of(cell),
        message=f"{shown} takes an {label} only {support.condition}: {support.why}",
        claim=f"{shown} supports an {label}", actual=support.why, places=support.places,
        certainty="partial", condition=support.condition, subject=backend,
    )  # fmt: skip


def _told(context: Context, view: TableView, backend: str, group: str, partners: list[str]) -> bool:
    """Whether the page itself says that the backend needs a partner, and means these partners."""
    claimed = {
        row.target
        for row in view.rows
        if row.target != backend
        and (cell := row.get("kv_dtype", group)) is not None
        and read_mark(cell.text).value == "yes"
        and row.target is not None
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
