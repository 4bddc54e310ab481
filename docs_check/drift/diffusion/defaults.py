"""What a page says a platform uses, against what it selects.

What it does: reads bullets that begin with a platform; compares the backends that they name with
what the platform selects when nothing is chosen, and “always” with what it selects when something
is.
Why: benchmarks and bug reports start from the default.
Example: “CUDA: prefers FlashAttention”, where SM100 gets cuDNN attention.
"""

from __future__ import annotations

import re

from ...pages.page import Block
from ..context import Context, Spot, listed, names_in
from ..rules import default_backend

INFO = default_backend.INFO


def check(context: Context) -> None:
    """Check every bullet that begins with a platform."""
    facts = context.diffusion
    if facts is None or not facts.members:
        return
    for block in context.page.prose():
        if block.kind != "item":
            continue
        head, separator, rest = block.text.partition(":")
        kind = head.strip("* `").lower()
        platform = facts.platform(kind) if separator else None
        if platform is None:
            continue
        stated = names_in(context.displays, rest, facts.values)
        if not stated:
            continue
        if re.search(r"\balways\b", rest):
            _always(context, block, kind, stated)
        elif re.search(r"--attention-backend", rest):
            _advice(context, block, kind, stated)
        else:
            _default(context, block, kind, stated)


def _always(context: Context, block: Block, kind: str, stated: list[str]) -> None:
    facts = context.diffusion
    assert facts is not None
    others = []
    places = []
    for member in facts.members:
        if member.lower() in stated or member.lower() not in facts.values:
            continue
        own = [o for o in facts.outcomes(kind, member) if o.backend == member]
        if own:
            others.append(member.lower())
            places.append(own[0].place)
    if others:
        line, column = block.find("always")
        context.report(
            INFO, Spot(line, column),
            message=f"{kind.upper()} does not always use {listed(stated)}: it serves"
            f" {listed(others, 'and')} when chosen",
            claim=f"{kind.upper()} always uses {listed(stated)}",
            actual=f"{listed(others, 'and')} are served as well", places=places,
            subject=kind,
        )  # fmt: skip


def _default(context: Context, block: Block, kind: str, stated: list[str]) -> None:
    facts = context.diffusion
    assert facts is not None
    actual = [o for o in facts.defaults(kind) if o.backend is not None]
    missing = [
        o for o in actual
        if o.backend is not None and o.backend.lower() not in stated
        and not _told(o.backend.lower(), stated, block.text)
    ]  # fmt: skip
    if not missing:
        return
    line, column = block.find("**") if block.text.startswith("**") else (block.line, 1)
    certain = all(outcome.certain for outcome in missing)
    told = listed(dict.fromkeys((o.backend or "").lower() for o in missing))
    machines = dict.fromkeys(m for o in missing for m in o.machines)
    where = facts.machines.titles(machines) if machines else "some machines"
    context.report(
        INFO, Spot(line, column),
        message=f"{kind.upper()} uses {told} by default" + ("" if certain else f" on {where}"),
        claim=f"{kind.upper()} uses {listed(stated)}", actual=f"{told} is selected",
        places=[o.place for o in missing], certainty="proved" if certain else "partial",
        condition="" if certain else "on the other machines", subject=kind,
    )  # fmt: skip


def _told(value: str, stated: list[str], text: str) -> bool:
    """Whether a text speaks of a backend by what sets its name apart: `cuDNN SDPA`."""
    common = {word for other in stated for word in other.split("_")}
    own = [word for word in value.split("_") if word not in common and len(word) > 3]
    return any(re.search(rf"\b{re.escape(word)}\b", text, re.I) for word in own)


def _advice(context: Context, block: Block, kind: str, stated: list[str]) -> None:
    """`ROCm: use --attention-backend x or y`."""
    facts = context.diffusion
    assert facts is not None
    for value in stated:
        member = value.upper()
        outcomes = facts.outcomes(kind, member)
        if outcomes and not any(o.backend == member for o in outcomes):
            line, column = block.find(value)
            first = outcomes[-1]
            instead = f"becomes {first.backend.lower()}" if first.backend else "is refused"
            context.report(
                INFO, Spot(line, column),
                message=f"`{value}` {instead} on {kind.upper()}",
                claim=f"{value} can be used on {kind.upper()}", actual=f"it {instead}",
                places=[first.place], certainty="review", subject=value,
            )  # fmt: skip
    defaults = [o for o in facts.defaults(kind) if o.backend and o.backend.lower() not in stated]
    if defaults:
        context.report(
            INFO, Spot.of(block), severity="info",
            message=f"{kind.upper()} uses {defaults[0].backend.lower()} by default, which is not"  # type: ignore[union-attr]
            " among the advice",
            claim=f"{kind.upper()}: use {listed(stated)}",
            actual=f"{defaults[0].backend.lower()} is the default",  # type: ignore[union-attr]
            places=[defaults[0].place], certainty="partial", condition="as an alternative",
            subject=f"{kind} default",
        )  # fmt: skip
