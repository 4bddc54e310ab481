"""A page names GPUs that the code refuses, or leaves out some that it serves.

What it does: compares the architectures in row labels and lines with the platform checks of the
backend, and the prefill and decode cells of linear-attention tables with the kernels.
Why: on the wrong GPU the server does not start, or a faster kernel goes unused.
Example: “CuteDSL MLA (Blackwell)”, which is refused outside SM100 and SM103.
"""

from __future__ import annotations

import re

from ...facts import linear
from ...facts.conditions import say, without
from ...facts.model import Effect
from ...pages.claims import RowView, read_mark
from ...pages.page import Block
from ..context import Context, RuleInfo, Spot, listed
from ..findings import unless
from .speculative_topk import kind_of, linear_backend, linear_mechanism

INFO = RuleInfo("DOC109", "gpu-architecture", "gpu-arch", "warning")


def check(context: Context) -> None:
    """Check row labels, statements on backends, and linear attention."""
    for view in context.support_tables():
        for row in view.rows:
            if row.target is not None:
                inside = re.findall(r"\(([^()]*)\)", row.name.text)
                _label(context, Spot.of(row.name), row.name.text, row.target, " ".join(inside))
    for block in context.page.prose():
        for line in block.lines:
            head, separator, rest = line.text.partition(":")
            backend = context.backend_named(head) if separator else None
            if backend is not None:
                _label(context, Spot.of(line), head, backend, rest)
    _linear_cells(context)
    for block in context.page.prose():
        _automatic(context, block)


def refusals(context: Context, backend: str) -> list[Effect]:
    """Checks that refuse a backend on some machines, whatever else is asked for."""
    entry = context.facts.registry.get(backend)
    found = [effect for effect in context.facts.effects
             if effect.kind == "refuse" and backend in effect.backends]  # fmt: skip
    if entry is not None:
        found += entry.refusals
    return [
        effect
        for effect in found
        if without(effect.condition, "backend", "pair")
        and all(
            getattr(term, "subject", "") in {"platform", "capability"}
            for term in without(effect.condition, "backend", "pair")
        )
    ]


def _label(context: Context, spot: Spot, shown: str, backend: str, text: str) -> None:
    machines = context.facts.machines
    claimed = [m for m in machines.named(text) if machines.kind(m) == "cuda"]
    if not claimed or len(claimed) == len(machines.of_kind("cuda")):
        return
    refused: dict[str, Effect] = {}
    for effect in refusals(context, backend):
        rest = without(effect.condition, "backend", "pair")
        for machine in claimed:
            if machines.condition(rest, machine) is True:
                refused.setdefault(machine, effect)
    if not refused:
        return
    taken = [m for m in claimed if m not in refused]
    effect = next(iter(refused.values()))
    context.report(
        INFO, spot,
        message=f"{shown} is said to run on {machines.titles(claimed)}; it is refused on"
        f" {machines.titles(refused)}",
        claim=f"{shown} runs on {text.strip() or machines.titles(claimed)}",
        actual=effect.message or f"refused on {machines.titles(refused)}",
        places=list({id(one.place.node): one.place for one in refused.values()}.values()),
        certainty="partial" if taken else "proved",
        condition=f"on {machines.titles(taken)} only" if taken else "", subject=backend,
    )  # fmt: skip


def _linear_cells(context: Context) -> None:
    for view in context.tables:
        if view.name != "linear":
            continue
        mechanism = linear_mechanism(view)
        for row in view.rows:
            backend = linear_backend(context, row.name.text)
            if mechanism is None or backend is None:
                continue
            _left_out(context, mechanism, backend, row)
            kind = kind_of(context, row.name.text)
            for phase in ("decode", "prefill"):
                cell = row.get(f"linear_{phase}")
                if cell is None:
                    continue
                support = linear.support(context.facts, mechanism, backend, phase, kind)
                mark = read_mark(cell.text)
                if support is None or mark.value not in {"yes", "no"}:
                    continue
                if support.value == mark.value or (
                    mark.value == "yes" and support.value == "partial"
                ):
                    continue
                context.report(
                    INFO, Spot.of(cell),
                    message=f"{row.name.text}: {mechanism.upper()} {phase} is “{cell.text}” here;"
                    f" in the code {support.why}"
                    + (f" ({support.condition})" if support.condition else ""),
                    claim=f"{row.name.text}: {phase} is “{cell.text}”", actual=support.why,
                    places=support.places,
                    certainty="partial" if support.condition else "proved",
                    condition=unless(support.condition)
                    if mark.value == "no" else support.condition,
                    subject=backend,
                )  # fmt: skip


def _left_out(context: Context, mechanism: str, backend: str, row: RowView) -> None:
    """Generations that a kernel looks at by themselves, in a label that lists others."""
    machines = context.facts.machines
    if not re.search(r"\bSM\s?\d", row.name.text):
        return
    claimed = [m for m in machines.named(row.name.text) if machines.kind(m) == "cuda"]
    generations = {machines.generation(machine) for machine in claimed}
    for generation, place in linear.generations(context.facts, mechanism, backend).items():
        others = [m for m in machines.of_kind("cuda") if machines.generation(m) == generation]
        if not others or generation in generations or generation < min(generations):
            continue
        context.report(
            INFO, Spot.of(row.name),
            message=f"{row.name.text}: the kernel provides for {machines.titles(others)} as well",
            claim=f"{backend} serves {mechanism.upper()} on {machines.titles(claimed)}",
            actual=f"compute capability {generation}.x is provided for",
            places=[place], certainty="review", subject=f"{backend} {generation}",
        )  # fmt: skip


def _automatic(context: Context, block: Block) -> None:
    """A sentence on what is selected by itself, and on which GPUs."""
    text = block.text
    if not re.search(r"automatically select|auto-select", text):
        return
    mechanism = next((m for m in ("gdn", "kda") if re.search(rf"\b{m}\b", text, re.I)), None)
    if mechanism is None:
        return
    machines = context.facts.machines
    claimed = set(machines.named(re.split(r"automatically|auto-select", text)[0]))
    for choice in linear.automatic(context.facts, mechanism):
        if choice.backend not in text.lower():
            continue
        if choice.majors:
            served = {
                m for m in machines.of_kind("cuda")
                if (machines.classes[m].get("capability") or [0])[0] in choice.majors
            }  # fmt: skip
            missing = [m for m in machines.classes if m in served and m not in claimed]
            if choice.phase in text.lower() and missing and claimed:
                context.report(
                    INFO, Spot.of(block),
                    message=f"{choice.backend} is selected for {mechanism.upper()}"
                    f" {choice.phase} on {machines.titles(missing)} as well",
                    claim=f"{choice.backend} is selected on {machines.titles(sorted(claimed))}",
                    actual="compute capability "
                    + listed((f"{major}.x" for major in choice.majors), "and"),
                    places=[choice.place], subject=choice.backend,
                )  # fmt: skip
        elif _is_base(context, choice.backend):
            continue
        elif choice.effects and not re.search(rf"\b{choice.phase}\b(?! backend)", text, re.I):
            context.report(
                INFO, Spot.of(block),
                message=f"{choice.backend} is also selected by itself for {choice.phase}",
                claim=f"(omission) {choice.backend} is selected for other phases only",
                actual=f"{choice.place.segment.name} sets it for {choice.phase}",
                places=[choice.place], certainty="partial",
                condition=f"unless {say(choice.effects[0].condition)}",
                subject=f"{choice.backend} {choice.phase}",
            )  # fmt: skip


def _is_base(context: Context, backend: str) -> bool:
    """Whether a kernel backend is what everything falls back to anyway."""
    flag = context.facts.flags.get(context.facts.scan["linear"]["flags"])
    return flag is not None and flag.default == backend
