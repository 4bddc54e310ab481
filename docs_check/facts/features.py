"""Sliding window, vision and chunked prefix cache, by backend."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..data import load
from ..source import syntax as sx
from ..source.paths import events
from ..source.segments import Segment
from .conditions import Either, Term
from .literals import values
from .memory import remembered
from .model import Support

if TYPE_CHECKING:
    from .code import CodeFacts

_WINDOW = re.compile(r"\blayer\.sliding_window_size\b")
_REFUSES_WINDOW = re.compile(r"\bif\b[^:]*\blayer\.sliding_window_size\b[^:]*:\s*raise\b")


@remembered
def sliding_window(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """Whether a backend reads a layer's window where it computes attention."""
    chains = facts.class_chains(backend, family)
    if not chains:
        return None
    for chain in chains:
        seen: set[str] = set()
        members: list[Segment] = []
        for segment in chain:
            for member in segment.members():
                if member.kind == "def" and member.name not in seen:
                    seen.add(member.name)
                    members.append(member)
        members.sort(key=lambda member: not member.name.startswith("forward"))
        for member in members:
            match = _WINDOW.search(member.blanked)
            if match is not None:
                line = member.line + member.blanked.count("\n", 0, match.start())
                refused = _REFUSES_WINDOW.search(member.blanked)
                if refused is not None and refused.start() < match.start():
                    return Support(
                        "no", [facts.text_place(member, line)], "a layer with a window is refused"
                    )
                return Support(
                    "yes", [facts.text_place(member, line)],
                    "layer.sliding_window_size reaches the kernel",
                )  # fmt: skip
    return Support(
        "no", [facts.codebase.place(chains[0][0])], "layer.sliding_window_size is never read"
    )


def window_limits(facts: CodeFacts, backend: str, family: str | None) -> str:
    """What the reads of a layer's window hang on: one phase, or attention sinks; or nothing."""
    sinks = True
    phases: set[str] = set()
    for chain in facts.class_chains(backend, family):
        for phase in ("decode", "extend"):
            member = facts.codebase.method(chain, f"forward_{phase}")
            if member is None or not _WINDOW.search(member.blanked):
                continue
            phases.add(phase)
            for event in events(facts.codebase.body(member)):
                if not any(map(_reads_window, sx.own_expressions(event.statement))):
                    continue
                condition = facts.conditions.read(member, event.guards, event.scope)
                if not any(map(_given_sinks, condition)):
                    sinks = False
    if not phases:
        return ""
    if sinks:
        return "with attention sinks"
    return f"in forward_{phases.pop()}" if len(phases) == 1 else ""


def _given_sinks(term: Term | Either) -> bool:
    if isinstance(term, Either) or "sink" not in term.name:
        return False
    return term.op == "true" or (term.op == "not in" and None in term.values)


def _reads_window(node: sx.Expr) -> bool:
    return any(
        isinstance(part, sx.Attr)
        and part.name == "sliding_window_size"
        and sx.dotted(part.value) == "layer"
        for part in sx.walk(node)
    )


@remembered
def vision(facts: CodeFacts, backend: str) -> Support | None:
    """Whether a multimodal attention exists for a backend's family of kernels."""
    anchors = facts.scan["vision"]
    table = facts.constant_table(anchors["folder"], anchors["table"])
    flag = facts.flags.get(anchors["flag"])
    named: list[str] = list(load("names")["llm"]["vision"].get(backend, ()))
    entries = {key: place for key, (_, place) in (table or {}).items()}
    if flag is not None:
        for choice in flag.choices:
            entries.setdefault(choice.value, choice.place)
    if not entries:
        return None
    for key, place in entries.items():
        if key in named or _same_kernels(backend, key):
            return Support("yes", [place], f"--{anchors['flag'].replace('_', '-')} {key}")
    owner = next(iter(entries.values()))
    return Support(
        "no", [facts.codebase.place(owner.segment)],
        f"no entry of its kernels among {', '.join(entries)}",
    )  # fmt: skip


def _same_kernels(backend: str, key: str) -> bool:
    """`aiter_attn` is aiter's, `flashinfer_cudnn` flashinfer's, `amx_attn` intel_amx's."""
    parts = [part for part in key.split("_") if part not in {"attn", "attention"}]
    own = backend.split("_")
    return bool(parts) and (parts[0] == backend or (len(parts) == 1 and parts[0] in own[1:]))


@remembered
def chunked_prefix(facts: CodeFacts, backend: str) -> Support | None:
    """Whether a backend is in the list of those that read the chunked prefix-cache layout."""
    found = facts.constant(facts.scan["chunked_prefix"])
    if found is None:
        return None
    segment, items = found
    for item in items:
        if item.value == backend:
            return Support("yes", [item.place], f"listed in {segment.name}")
    return Support(
        "no", [facts.codebase.place(segment)],
        f"not in {segment.name}: {', '.join(map(str, values(items)))}",
    )  # fmt: skip


def reads_attribute(facts: CodeFacts, segment: Segment, name: str) -> sx.Expr | None:
    """The first read of an attribute in a function."""
    for node in sx.all_expressions(facts.codebase.body(segment)):
        if isinstance(node, sx.Attr) and node.name == name:
            return node
    return None
