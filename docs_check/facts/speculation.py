"""Speculative decoding: who can serve a draft, with one branch and with several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..source import syntax as sx
from ..source.modules import Place
from ..source.segments import Segment
from .conditions import Term, terms, without
from .effects import effects_of
from .instances import can_exceed_one, constructors, creations
from .memory import remembered
from .model import Certainty, Effect, Support
from .paging import rules_for

if TYPE_CHECKING:
    from .code import CodeFacts

# The literal comes first, so that the search can skip to it: classes are long.
_REFUSES_MANY = re.compile(r"topk(?<!\wtopk)\s*>\s*1\s*\)?\s*:\s*raise\b")
_TOPK_MANY = re.compile(r"topk(?<!\wtopk)\s*>\s*1\b")


@dataclass(slots=True)
class DraftMap:
    """Backends that a function can make for the draft model, with what makes each."""

    function: Segment
    entries: dict[str, tuple[sx.Expr, Place]] = field(default_factory=dict)


def draft_maps(facts: CodeFacts) -> list[DraftMap]:
    """The maps from backend to draft backend."""
    anchors = facts.scan["draft_maps"]
    pattern = re.compile(rf"\bdef ({anchors['functions']})\b")
    files = facts.tree.candidates([anchors["folder"]])
    names = anchors["functions"].split("|")
    files = [file for file in files if any(name.encode() in facts.tree.raw(file) for name in names)]
    found = []
    for segment in facts.codebase.functions(files, pattern):
        draft = DraftMap(segment)
        for node in sx.all_expressions(facts.codebase.body(segment)):
            if isinstance(node, sx.Map):
                entries = {
                    key.value: (value, facts.codebase.place(segment, key))
                    for key, value in node.items
                    if isinstance(key, sx.Const) and isinstance(key.value, str)
                }
                if len(set(entries) & {*facts.names, *facts.registry}) >= 3:
                    draft.entries.update(entries)
        if draft.entries:
            found.append(draft)
    return found


@remembered
def refuses_speculation(facts: CodeFacts, backend: str, family: str | None) -> Effect | None:
    """A check that refuses speculative decoding with a backend and models of a family."""
    entry = facts.registry.get(backend)
    own_checks = entry.refusals if entry is not None else []
    checks: list[Effect] = [*facts.effects, *own_checks]
    for effect in checks:
        if effect.kind != "refuse" or not effect.concerns(family):
            continue
        own = entry is not None and effect in entry.refusals
        if not own and backend not in effect.backends:
            continue
        rest = without(effect.condition, "backend", "family")
        if rest and all(
            isinstance(term, Term)
            and term.subject == "speculation"
            and (term.op == "set" or (term.op == "not in" and term.values == (None,)))
            for term in rest
        ):
            return effect
    return None


@remembered
def one_branch(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """Whether a backend serves speculative decoding with topk = 1."""
    refusal = refuses_speculation(facts, backend, family)
    if refusal is not None:
        return Support("no", [refusal.place], refusal.message)
    maps = facts.draft_maps
    if not maps:
        return None
    inside = [draft.entries[backend][1] for draft in maps if backend in draft.entries]
    if len(inside) == len(maps):
        names = " and ".join(draft.function.name for draft in maps)
        return Support("yes", inside, f"entry in {names}")
    if inside:
        return Support("partial", inside, "in one of the draft maps only", "for one phase")
    return Support(
        "no", [facts.codebase.place(maps[0].function)],
        f"no entry in {' or '.join(draft.function.name for draft in maps)}",
    )  # fmt: skip


@remembered
def many_branches(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """Whether a backend serves speculative decoding with topk > 1, and at which page sizes."""
    one = one_branch(facts, backend, family)
    if one is None or one.value == "no":
        return one
    refusal = _refuses_many(facts, backend, family)
    if refusal is not None:
        effect, where, certainty = refusal
        return Support("no", [effect.place], effect.message or where, certainty=certainty)
    tree = page_tree(facts)
    if tree is None:
        return one
    effect, names = tree
    if backend in names:
        return Support(
            "yes", [effect.place], f"topk > 1 with page_size > 1 is open to {', '.join(names)}"
        )
    fixed = [rule for rule in rules_for(facts, backend, family) if not rule.condition]
    smallest = [min(rule.allowed) for rule in fixed if rule.allowed]
    if smallest and min(smallest) > 1:
        return Support(
            "no", [effect.place, fixed[0].place],
            f"topk > 1 needs page_size 1 outside {', '.join(names)}, and its smallest is"
            f" {min(smallest)}",
        )  # fmt: skip
    if any(rule.outcome == "default" and (rule.target or 1) > 1 for rule in fixed):
        return Support(
            "partial", [effect.place, fixed[0].place],
            f"topk > 1 with page_size > 1 is open to {', '.join(names)} only, and its default"
            f" page size is {fixed[0].target}", "at page_size 1 only",
        )  # fmt: skip
    return Support(
        "partial", [effect.place],
        f"topk > 1 with page_size > 1 is open to {', '.join(names)} only", "at page_size 1 only",
    )  # fmt: skip


@remembered
def page_tree(facts: CodeFacts) -> tuple[Effect, tuple[str, ...]] | None:
    """The check on topk > 1 with page_size > 1, and the backends that pass it."""
    for effect in facts.effects:
        if effect.kind != "refuse":
            continue
        if not any(t.op == ">" and t.values == (1,) for t in terms(effect.condition, "topk")):
            continue
        if not any(t.op == ">" and t.values == (1,) for t in terms(effect.condition, "page_size")):
            continue
        for term in terms(effect.condition, "backend"):
            if term.op == "not in":
                return effect, tuple(str(value) for value in term.values)
    return None


def _refuses_many(
    facts: CodeFacts, backend: str, family: str | None
) -> tuple[Effect, str, Certainty] | None:
    for effect in facts.effects:
        if (
            effect.kind == "refuse"
            and backend in effect.backends
            and effect.concerns(family)
            and any(t.op == ">" and t.values == (1,) for t in terms(effect.condition, "topk"))
            and not terms(effect.condition, "page_size")
        ):
            return effect, "at start", "proved"
    for creation in creations(facts, backend, family):
        if not creation.drafts:
            continue
        for one in constructors(creation.chain):
            if "topk" not in one.blanked or not _TOPK_MANY.search(one.blanked):
                continue
            for effect in effects_of(facts.codebase, facts.conditions, one):
                if effect.kind == "refuse" and _only_topk(effect):
                    return effect, "when the draft backend is made", "proved"
    for chain in facts.class_chains(backend, family):
        for method in _refusing_methods(chain):
            for effect in effects_of(facts.codebase, facts.conditions, method):
                if effect.kind == "refuse" and _only_topk(effect):
                    name = effect.condition[0].name  # type: ignore[union-attr]
                    if can_exceed_one(facts, backend, family, chain, method, name):
                        return effect, "when a draft is extended", "partial"
    return None


def _refusing_methods(chain: list[Segment]) -> Iterator[Segment]:
    """Methods of a class and its bases that may refuse a topk above 1."""
    for segment in chain:
        if "topk" not in segment.blanked or not _TOPK_MANY.search(segment.blanked):
            continue
        for method in segment.members():
            if method.kind == "def" and _REFUSES_MANY.search(method.blanked):
                yield method


def _only_topk(effect: Effect) -> bool:
    return (
        len(effect.condition) == 1
        and isinstance(effect.condition[0], Term)
        and effect.condition[0].subject == "topk"
        and effect.condition[0].op == ">"
    )
