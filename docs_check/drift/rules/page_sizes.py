"""Page sizes that a page gives differ from those that the code takes.

What it does: compares numbers in cells, lists and sentences with the sets that argument handling
and constructors insist on, and says what happens to other sizes.
Why: a size that is not taken is changed silently or refused.
Example: “16, 32 or 64” for `trtllm_mha`, which also takes 128.
Fix: where the code has one set, `--fix` writes it.
"""

from __future__ import annotations

import html
import re
from functools import partial

from ...facts.conditions import say
from ...facts.model import PageRule
from ...facts.paging import allowed_sizes, native_paging, rules_for
from ...pages.claims import Mark, read_mark, with_numbers
from ...pages.page import Block, Line
from ...pages.tables import Cell
from ..context import Context, RuleInfo, Spot, listed
from ..findings import PageFix

INFO = RuleInfo("DOC104", "page-size", "page-size", "warning")
_STATED = re.compile(r"page[_ -]?sizes?\s*(?:=|∈|:|is|of|in)\s*(\{?[\d,/ or&]+\}?)")
_BRACKETED = re.compile(r"([A-Z][\w ./-]*?)\s*\((\d+(?:\s*[/,]\s*\d+)*)\)")


def check(context: Context) -> None:
    """Check cells, then statements in text."""
    for view in context.support_tables():
        for row in view.rows:
            cell = row.get("page_size")
            if cell is not None and row.target is not None:
                check_cell = partial(_cell, context, row.target, row.name.text, cell)
                context.by_family(view.family, row.target, check_cell)
    for block in context.page.prose():
        _text(context, block)


def _cell(context: Context, backend: str, shown: str, cell: Cell, family: str | None) -> None:
    mark = read_mark(cell.text)
    found = allowed_sizes(context.facts, backend, family)
    spot = Spot.of(cell)
    if mark.value == "numbers":
        if found is not None:
            sizes, rule, condition = found
            fix = None
            if not condition:
                fix = context.cell_fix(cell, with_numbers(cell.raw, mark, listed(sizes)))
            _compare(context, spot, shown, backend, mark, sizes, rule, fix)
        else:
            _unbound(context, family, backend, shown, cell, mark.numbers)
    elif mark.value == "yes" and not mark.note:
        if found is not None and not found[2]:
            sizes, rule, _ = found
            context.report(
                INFO, spot,
                message=f"{shown}: page sizes are restricted to {listed(sizes)} ({_others(rule)})",
                claim=f"{shown} takes page sizes above 1, without a restriction",
                actual=f"{listed(sizes)}; {_others(rule)}",
                places=[rule.place], certainty="partial",
                condition=f"at page size {listed(sizes)}", subject=backend,
            )  # fmt: skip
        elif found is None:
            native = native_paging(context.facts, backend, family)
            if native is not None and native.value == "no":
                context.report(
                    INFO, spot,
                    message=f"{shown} is said to page natively; {native.why}",
                    claim=f"{shown} pages natively", actual=native.why,
                    places=native.places, certainty="review", subject=backend,
                )  # fmt: skip
    elif mark.value == "none" and family == "mla" and found is None:
        native = native_paging(context.facts, backend, family)
        if native is not None and native.value == "yes":
            context.report(
                INFO, spot,
                message=f"{shown} has no native page sizes here; in the code {native.why}",
                claim=f"native page sizes do not apply to {shown}", actual=native.why,
                places=native.places, certainty="review", subject=backend,
            )  # fmt: skip


def _unbound(
    context: Context, family: str | None, backend: str, shown: str, cell: Cell,
    numbers: tuple[int, ...],
) -> None:  # fmt: skip
    """A cell with numbers where the code has no rule for this backend and family."""
    rules = rules_for(context.facts, backend, family)
    defaults = [rule for rule in rules if rule.outcome == "default" and not rule.condition]
    if defaults:
        _default_only(context, Spot.of(cell), shown, backend, numbers, defaults[0])
        return
    native = native_paging(context.facts, backend, family)
    if native is not None and native.value == "yes":
        context.report(
            INFO, Spot.of(cell),
            message=f"{shown}: nothing in the code binds the page size to {listed(numbers)}"
            f" ({family or 'any'} models); {native.why}",
            claim=f"{shown} takes page size {listed(numbers)}",
            actual="no rule on its page size", places=native.places, certainty="review",
            subject=backend,
        )  # fmt: skip


def _compare(
    context: Context, spot: Spot, shown: str, backend: str, mark: Mark,
    sizes: tuple[int, ...], rule: PageRule, fix: PageFix | None,
) -> None:  # fmt: skip
    # `Ascend (NPU)`: that the machine is one of these goes without saying.
    own = context.facts.machines.named(shown)
    condition = say(
        tuple(
            term for term in rule.condition
            if not own or any(context.facts.machines.holds(term, m) is not True for m in own)
        )
    )  # fmt: skip
    stated = mark.numbers
    if set(stated) != set(sizes):
        context.report(
            INFO, spot,
            message=f"{shown} page sizes are {listed(stated)} here; the code takes"
            f" {listed(sizes)} ({_others(rule)})",
            claim=f"{shown} page sizes are {listed(stated)}",
            actual=f"{listed(sizes)}; {_others(rule)}",
            places=[rule.place], certainty="partial" if condition else "proved",
            condition=f"unless {condition}" if condition else "", fix=fix, subject=backend,
        )  # fmt: skip
    elif condition and not mark.note:
        context.report(
            INFO, spot, severity="info",
            message=f"{shown} page size {listed(stated)} holds only if {condition}",
            claim=f"{shown} page size is {listed(stated)}",
            actual=f"{listed(sizes)} if {condition}; otherwise the size is left as it is",
            places=[rule.place], certainty="partial", condition=f"if {condition}", subject=backend,
        )  # fmt: skip


def _default_only(
    context: Context, spot: Spot, shown: str, backend: str, stated: tuple[int, ...],
    rule: PageRule,
) -> None:  # fmt: skip
    context.report(
        INFO, spot,
        message=f"{shown}: {rule.target} is only the default where no page size is given; other"
        " sizes are taken as given",
        claim=f"{shown} runs with page size {listed(stated)} only",
        actual=f"{rule.target} is set where no page size is given",
        places=[rule.place], certainty="review", subject=backend,
    )  # fmt: skip


def _others(rule: PageRule) -> str:
    if rule.outcome == "snapped":
        return f"others become {rule.target}"
    return "others are refused" if rule.outcome == "refused" else f"default {rule.target}"


def _text(context: Context, block: Block) -> None:
    family = _family(block)
    about_sizes = re.search(r"page[_ -]?sizes?", block.text) is not None
    for line in block.lines:
        text = html.unescape(line.text)
        head, separator, rest = text.partition(":")
        backend = context.backend_named(head) if separator else None
        stated = _STATED.search(rest) if backend is not None else None
        if stated and backend is not None:
            _statement(context, line, head, backend, stated[1], family)
        if about_sizes:
            for match in _BRACKETED.finditer(text):
                shown, backend = _tail_name(context, match[1])
                if backend is not None:
                    _statement(context, line, shown, backend, match[2], family, match.start(2))


def _tail_name(context: Context, text: str) -> tuple[str, str | None]:
    """The display name at the end of a stretch of text."""
    words = text.split()
    for start in range(max(len(words) - 4, 0), len(words)):
        shown = " ".join(words[start:])
        found = context.backend_named(shown)
        if found is not None:
            return shown, found
    return text, None


def _family(block: Block) -> str | None:
    text = " ".join((*block.section[-1:], block.lead.text if block.lead else ""))
    if "MLA" in text:
        return "mla"
    return None


def _statement(
    context: Context, line: Line, shown: str, backend: str, stated: str, family: str | None,
    at: int = -1,
) -> None:  # fmt: skip
    if not re.search(r"\d", stated):
        return
    # What is said of a backend that serves both below a heading on one may be meant in general.
    own = family if "MLA" in shown or backend not in _both(context) else None
    check_text = partial(_sizes_in_text, context, line, shown, backend, stated, at)
    context.by_family(own, backend, check_text)


def _sizes_in_text(
    context: Context, line: Line, shown: str, backend: str, stated: str, at: int,
    family: str | None,
) -> None:  # fmt: skip
    numbers = tuple(int(part) for part in re.findall(r"\d+", stated))
    found = allowed_sizes(context.facts, backend, family)
    raw_at = line.text.find(stated) if at < 0 else line.text.find(stated, max(at - 40, 0))
    spot = Spot(line.number, line.column + max(raw_at, 0), line.column + raw_at + len(stated))
    if found is None:
        rules = rules_for(context.facts, backend, family)
        defaults = [rule for rule in rules if rule.outcome == "default" and not rule.condition]
        if defaults and re.search(r"fixed|cannot|only|require", line.text):
            _default_only(context, spot, shown, backend, numbers, defaults[0])
        return
    sizes, rule, condition = found
    fix = None
    separator = "/" if "/" in stated else ", "
    if not condition and raw_at >= 0:
        core = stated.strip().strip("{}")
        position = line.text.find(core, raw_at)
        if position >= 0:
            fix = PageFix(
                line.number, line.column + position, core, separator.join(map(str, sizes))
            )
    if set(numbers) != set(sizes):
        _compare(context, spot, shown, backend, Mark("numbers", numbers), sizes, rule, fix)


def _both(context: Context) -> set[str]:
    """Backends that serve both families."""
    return {name for name, entry in context.facts.registry.items() if entry.only is None}
