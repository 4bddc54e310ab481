"""A constraint that a page states, or leaves out, is not the code's.

What it does: compares “only X, Y” statements with the sets that checks admit under the same
conditions; and statements on what a mode governs with the functions that read it.
Why: a reader avoids what works, or runs into a refusal.
Example: topk > 1 on paged backends “only with flashinfer”, where the code admits three.
"""

from __future__ import annotations

import re

from ...facts import linear
from ...facts.conditions import Term, terms
from ...facts.model import Effect
from ...pages.page import Block
from ..context import Context, RuleInfo, Spot, listed, names_in

INFO = RuleInfo("DOC117", "constraint", "other", "warning")
_ONLY = re.compile(r"\bonly\b", re.I)
_MORE_THAN_ONE = re.compile(r"`--([\w-]+)\s*>\s*1`")
_DEPENDS = re.compile(r"depends on `--([\w-]+)`")


def check(context: Context) -> None:
    """Check statements with `only`, and statements on modes."""
    for block in context.page.prose():
        if _ONLY.search(block.text):
            _only(context, block)
            _hybrid(context, block)
        depends = _DEPENDS.search(block.text)
        if depends:
            _mode(context, block, depends[1])


def _only(context: Context, block: Block) -> None:
    """`For … with --page-size > 1 and … > 1, only X is supported`."""
    fields = {name.replace("-", "_") for name in _MORE_THAN_ONE.findall(block.text)}
    subjects = {subject for subject, pattern in (("page_size", "page_size"), ("topk", "topk"))
                if any(pattern in field for field in fields)}  # fmt: skip
    if not subjects:
        return
    after = _ONLY.split(block.text, maxsplit=1)[1]
    stated = names_in(context.displays, after, context.facts.registry)
    if not stated:
        return
    for effect in context.facts.effects:
        if effect.kind != "refuse" or not _about(effect, subjects):
            continue
        admitted = _admitted(effect)
        if admitted and set(admitted) != set(stated):
            line, column = block.find("only")
            context.report(
                INFO, Spot(line, column),
                message=f"not only {listed(stated, 'and')}: the code admits"
                f" {listed(admitted, 'and')}",
                claim=f"only {listed(stated, 'and')} with {listed(sorted(subjects), 'and')} > 1",
                actual=f"{listed(admitted, 'and')} are admitted", places=[effect.place],
                subject="only",
            )  # fmt: skip
        return


def _about(effect: Effect, subjects: set[str]) -> bool:
    found = {
        term.subject
        for term in effect.condition
        if isinstance(term, Term) and term.op == ">" and term.values == (1,)
    }
    return subjects <= found


def _admitted(effect: Effect) -> tuple[str, ...]:
    """The backends that a refusal spares: in one collection, or one comparison each."""
    return tuple(
        dict.fromkeys(
            str(value)
            for term in terms(effect.condition, "backend")
            if term.op == "not in"
            for value in term.values
        )
    )


def _hybrid(context: Context, block: Block) -> None:
    """`Blackwell: x, y only` below a text on hybrid models."""
    lead = block.lead
    while lead is not None and lead.kind == "item":
        lead = lead.lead
    about = f"{' '.join(block.section)} {lead.text if lead else ''}".lower()
    mechanism = next((m for m in ("gdn", "kda") if m in about), None)
    head, separator, rest = block.text.partition(":")
    machines = context.facts.machines.named(head)
    if mechanism is None or not separator or not machines:
        return
    stated = names_in(context.displays, rest, context.facts.registry)
    if not stated:
        return
    limits = [e for e in linear.hybrid_limits(context.facts, mechanism) if _admitted(e)]
    told: dict[str, list[str]] = {}
    actual: dict[str, list[str]] = {}
    places = []
    for machine in machines:
        limit = next((e for e in limits if _applies(context, e, machine)), None)
        if limit is None:
            continue
        admitted = _admitted(limit)
        extra = [name for name in admitted if name not in stated]
        lost = [name for name in stated if name not in admitted]
        parts = [f"{listed(extra, 'and')} {_is(extra)} admitted as well"] if extra else []
        parts += [f"{listed(lost, 'and')} {_is(lost)} refused"] if lost else []
        if parts:
            told.setdefault(" and ".join(parts), []).append(machine)
            actual.setdefault(listed(sorted(admitted)), []).append(machine)
            places.append(limit.place)
    if not told:
        return
    titles = context.facts.machines.titles
    line, column = block.find(stated[0])
    context.report(
        INFO, Spot(line, column),
        message=f"full attention beside {mechanism.upper()}: "
        + "; ".join(f"{what} on {titles(on)}" for what, on in told.items()),
        claim=f"only {listed(stated)}",
        actual="; ".join(f"{what} on {titles(on)}" for what, on in actual.items()),
        places=places, subject="hybrid",
    )  # fmt: skip


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _applies(context: Context, effect: Effect, machine: str) -> bool:
    outcomes = [
        context.facts.machines.holds(term, machine)
        for term in effect.condition
        if isinstance(term, Term) and term.subject == "platform"
    ]
    return (
        bool(outcomes)
        and all(outcome is not False for outcome in outcomes)
        and any(outcome is True for outcome in outcomes)
    )


def _mode(context: Context, block: Block, flag: str) -> None:
    """`The backend used for draft decoding … depends on --flag`."""
    field = flag.replace("-", "_")
    if context.facts.flags.get(flag) is None:
        return
    readers = [d for d in context.facts.draft_maps if field in d.function.blanked]
    others = [d for d in context.facts.draft_maps if field not in d.function.blanked]
    if not readers or not others:
        return
    for draft in others:
        phase = "decode" if "decode" in draft.function.name else "extend"
        if not re.search(rf"draft {phase[:5]}", block.text):
            continue
        line, column = block.find(f"draft {phase[:5]}")
        context.report(
            INFO, Spot(line, column),
            message=f"draft {phase} does not depend on `--{flag}`: {draft.function.name} never"
            f" reads it; {', '.join(d.function.name for d in readers)} does",
            claim=f"--{flag} selects the backend for draft {phase}",
            actual=f"{draft.function.name} does not read {field}",
            places=[
                context.facts.codebase.place(draft.function),
                *(context.facts.codebase.place(d.function) for d in readers),
            ],
            certainty="review", subject=flag,
        )  # fmt: skip
