"""The order in which sources of the backend are asked, and constraints left out.

What it does: compares a numbered list with the assignments of the selector, and looks for checks
that admit some backends only.
Why: an override that the page leaves out wins over the flag; a refusal comes as a surprise.
"""

from __future__ import annotations

import re

from ...facts.conditions import Term, say, without
from ...pages.page import Block
from ..context import Context, Spot, listed
from ..rules import constraints

INFO = constraints.INFO


def check(context: Context) -> None:
    """Check the list, then the constraints."""
    facts = context.diffusion
    if facts is None:
        return
    items = [
        block for block in context.page.prose()
        if block.number is not None and block.lead is not None
        and re.search(r"\border\b|\bpriority\b", " ".join((block.text, *block.section)), re.I)
    ]  # fmt: skip
    if items and facts.order:
        _order(context, items)
    _constraints(context)


def _order(context: Context, items: list[Block]) -> None:
    facts = context.diffusion
    assert facts is not None
    texts = [re.sub(r"[^a-z]", "", block.text.lower()) for block in items]
    positions: list[int | None] = []
    for source in facts.order:
        words = {w for part in source.text.split() for w in re.findall(r"[a-z]{4,}", part.lower())}
        words -= {"selected", "backend", "attention", "attn", "args", "server", "forced", "global"}
        if "global" in source.text:
            words.add("globalforce")
        if "server_args" in source.text:
            words.add("serverargs")
        scored = [sum(word in text for word in words) for text in texts]
        positions.append(scored.index(max(scored)) if max(scored, default=0) else None)
    known = [position for position in positions if position is not None]
    for index, source in enumerate(facts.order):
        if positions[index] is not None or not known:
            continue
        before = [p for p in positions[:index] if p is not None]
        after = [p for p in positions[index + 1 :] if p is not None]
        if not before or not after:
            continue
        name = source.text.split()[0].removesuffix("()")
        at = items[min(after)]
        context.report(
            INFO, Spot.of(at),
            message=f"between these steps the code asks {name}",
            claim=f"step {at.number} follows step {(at.number or 1) - 1}",
            actual=f"{name} is asked before", places=[source.place], certainty="partial",
            condition="where no such override is set", subject=name,
        )  # fmt: skip


def _constraints(context: Context) -> None:
    facts = context.diffusion
    assert facts is not None
    for effect in facts.constraints if context.is_overview else ():
        admitted = next(
            (term.values for term in effect.condition
             if isinstance(term, Term) and term.subject == "backend" and term.op == "not in"
             and len(term.values) > 1),
            (),
        )  # fmt: skip
        rest = without(effect.condition, "backend")
        names = [getattr(term, "name", "") for term in rest]
        flags = ["--" + name.replace("_", "-") for name in names if name]
        if any(name in context.page.text or flag in context.page.text
               for name, flag in zip(names, flags, strict=False)):  # fmt: skip
            continue
        block = next(
            (b for b in context.page.prose()
             if re.search(r"\bany\b", b.text) and re.search(r"layers?|component", b.text)),
            None,
        )  # fmt: skip
        spot = Spot.of(block)
        if block is not None:
            line = next((one for one in block.lines if re.search(r"\bany\b", one.text)), None)
            spot = Spot.of(line) if line is not None else spot
        context.report(
            INFO, spot,
            message=f"with {say(rest)}, only {listed(admitted, 'and')} are admitted",
            claim="(omission) any backend works with any layout",
            actual=effect.message, places=[effect.place], certainty="partial",
            condition=f"unless {say(rest)}", subject=say(rest),
        )  # fmt: skip
