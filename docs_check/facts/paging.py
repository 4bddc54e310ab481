"""Page sizes: what each backend takes, what happens to others, and who pages in the kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..source import syntax as sx
from ..source.modules import Place
from .conditions import Condition, Term, terms, without
from .effects import effects_of
from .memory import remembered
from .model import Effect, PageRule, Support

if TYPE_CHECKING:
    from .code import CodeFacts

_VIEW = re.compile(
    r"\.(?:view|reshape|unflatten)\(\s*-1\s*,\s*(?:1\s*,\s*)?(?:self\.)?page_size\b"
    r"|\bpaged_\w*view\w*\([^()]*page_size"
    r"|(?:\]|indices|table\w*|starts)\s*//\s*(?:self\.)?page_size\b"
    r"|\bblock_size\s*=\s*(?:self\.)?page_size\b"
    r"|::\s*(?:self\.)?page_size\b",
    re.I,
)
_CHECKS_SIZE = re.compile(r"\bpage_size\s*(?:not\s+in\b|!=|==)")
_PER_TOKEN = re.compile(r"kv_indices")


def page_rules(facts: CodeFacts) -> list[PageRule]:
    """Every rule on page sizes, from argument handling and from constructors."""
    found: list[PageRule] = []
    for effect in facts.effects:
        found += _from_effect(facts, effect)
    for name, entry in facts.registry.items():
        for implementation in entry.implementations:
            found += _from_class(facts, name, implementation.segment)
    return found


def _from_effect(facts: CodeFacts, effect: Effect) -> list[PageRule]:
    if effect.kind == "refuse":
        return _from_refusal(effect)
    if effect.field != "page_size" and not effect.field.endswith("page_size"):
        return []
    target = _number(effect.value)
    if target is None or not effect.backends:
        return _defaults(facts, effect, target)
    sizes = terms(effect.condition, "page_size")
    allowed: tuple[Any, ...] = (target,)
    for term in sizes:
        if term.op == "not in":
            allowed = term.values
        elif term.op in {"in", "unset"}:
            return _rules(effect, (), "default", target)
    return _split_by_family(facts, effect, allowed, target)


def _split_by_family(
    facts: CodeFacts, effect: Effect, allowed: tuple[Any, ...], target: int
) -> list[PageRule]:
    """A list that grows under a condition on the family gives one rule for each family."""
    grown = _grown(facts, effect)
    if grown is None:
        return _rules(effect, allowed, "snapped", target)
    found: list[PageRule] = []
    for family, values in grown.items():
        found += _rules(effect, tuple(values), "snapped", target, family)
    return found


def _grown(facts: CodeFacts, effect: Effect) -> dict[str, list[Any]] | None:
    """Members of a local list by family, where some were added for one family only."""
    segment = effect.place.segment
    from ..source.paths import events

    for event in events(facts.codebase.body(segment)):
        if event.statement.origin is not effect.place.node:
            continue
        for guard in event.guards:
            for node in sx.walk(guard.test):
                if not (isinstance(node, sx.Compare) and node.ops[0][0] in {"in", "not in"}):
                    continue
                items = facts.literals.collection(segment, node.ops[0][1], event.scope)
                families = {}
                for item in items or ():
                    condition = facts.conditions.read(segment, item.guards, event.scope)
                    family = next((t for t in terms(condition, "family")), None)
                    if family is not None:
                        families[item.value] = family.name if family.op == "true" else "mha"
                if families:
                    both = [item.value for item in items or () if item.value not in families]
                    return {
                        name: both + [v for v, own in families.items() if own == name]
                        for name in ("mha", "mla")
                    }
    return None


def _from_refusal(effect: Effect) -> list[PageRule]:
    for term in terms(effect.condition, "page_size"):
        if (
            term.op == "not in"
            and effect.backends
            and all(isinstance(value, int) for value in term.values)
        ):
            return _rules(effect, term.values, "refused", None)
    return []


def _rules(
    effect: Effect, allowed: tuple[Any, ...], outcome: str, target: int | None,
    family: str | None = None,
) -> list[PageRule]:  # fmt: skip
    rest = without(effect.condition, "backend", "page_size", "family")
    if any(isinstance(term, Term) and "arch" in term.name and term.op == "in" for term in rest):
        return []  # what one model needs says nothing of the backend
    rest = tuple(term for term in rest if not (isinstance(term, Term) and "arch" in term.name))
    return [
        PageRule(
            backend,
            family or effect.family,
            tuple(value for value in allowed if isinstance(value, int)),
            outcome,
            target,
            rest,
            effect.place,
        )
        for backend in effect.backends
    ]


def _defaults(facts: CodeFacts, effect: Effect, target: int | None) -> list[PageRule]:
    """A size set only where none was given, beside a backend set for good."""
    if target is None or not any(
        term.op in {"in", "unset"} for term in terms(effect.condition, "page_size")
    ):
        return []
    segment = effect.place.segment
    chosen = {
        other.value.value
        for other in effects_of(facts.codebase, facts.conditions, segment)
        if other.kind == "set"
        and other.field.endswith("attention_backend")
        and not other.condition
        and isinstance(other.value, sx.Const)
    }
    return [
        PageRule(
            str(name),
            None,
            (),
            "default",
            target,
            without(effect.condition, "page_size"),
            effect.place,
        )
        for name in chosen
    ]


def _number(value: Any) -> int | None:
    found = value.value if isinstance(value, sx.Const) else value
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _from_class(facts: CodeFacts, name: str, segment: Any) -> list[PageRule]:
    """Refusals of page sizes in a backend's constructor."""
    found: list[PageRule] = []
    for member in segment.members():
        if member.kind != "def" or member.name != "__init__":
            continue
        if not _CHECKS_SIZE.search(member.blanked):
            continue
        for effect in effects_of(facts.codebase, facts.conditions, member):
            if effect.kind != "refuse":
                continue
            for term in terms(effect.condition, "page_size"):
                if term.op == "not in" and len(effect.condition) == 1:
                    found.append(
                        PageRule(
                            name,
                            None,
                            tuple(v for v in term.values if isinstance(v, int)),
                            "refused",
                            None,
                            (),
                            effect.place,
                        )
                    )
    return found


@remembered
def rules_for(facts: CodeFacts, backend: str, family: str | None) -> list[PageRule]:
    """Rules that apply to a backend with models of a family."""
    return [
        rule
        for rule in facts.page_rules
        if rule.backend == backend and (rule.family is None or family is None
                                        or rule.family == family)
    ]  # fmt: skip


@remembered
def allowed_sizes(
    facts: CodeFacts, backend: str, family: str | None
) -> tuple[tuple[int, ...], PageRule, Condition] | None:
    """The sizes that remain, the rule that says so, and its further condition."""
    rules = [rule for rule in rules_for(facts, backend, family) if rule.outcome != "default"]
    if not rules:
        return None
    plain = [rule for rule in rules if not rule.condition] or rules
    best = plain[0]
    # Several unconditional rules narrow each other; the last word on one backend is theirs alone.
    sizes = best.allowed
    for rule in plain[1:]:
        common = tuple(size for size in sizes if size in rule.allowed)
        if common and not rule.condition and not best.condition:
            sizes = common
    return tuple(sorted(sizes)), best, best.condition


@remembered
def native_paging(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """Whether the kernels of a backend read the cache in pages.

    They do where keys and values are viewed as pages, or indices are divided by the page size.
    """
    chains = facts.class_chains(backend, family)
    if not chains:
        return None
    for chain in chains:
        for segment in chain:
            for member in (m for m in segment.members() if m.kind == "def"):
                paged = "page_size" in member.blanked.lower()
                match = _VIEW.search(member.blanked) if paged else None
                if match is None:
                    continue
                line = member.line + member.blanked.count("\n", 0, match.start())
                return Support(
                    "yes", [facts.text_place(member, line)],
                    "keys and values are read in pages of page_size", certainty="review",
                )  # fmt: skip
    segment = chains[0][0]
    place: Place = facts.codebase.place(segment)
    literal = _literal_page(facts, segment)
    if literal is not None:
        return Support(
            "no", [literal], "the kernel is planned with page size 1 and one index a token",
            "page_size > 1 is emulated", "review",
        )  # fmt: skip
    why = "page_size is never read" if not any(
        "page_size" in part.blanked for chain in chains for part in chain
    ) else "page_size never reaches the kernels as pages"  # fmt: skip
    return Support("no", [place], why, certainty="review")


def _literal_page(facts: CodeFacts, segment: Any) -> Place | None:
    """A call that plans a paged kernel with the literal page size 1."""
    module = facts.codebase.module(segment.file)
    pattern = re.compile(r"\b(?:begin_forward|plan)\s*\(")
    for part in module.segments if module is not None else ():
        if part.kind != "class" or not pattern.search(part.blanked):
            continue
        for member in part.members():
            if member.kind != "def" or not pattern.search(member.blanked):
                continue
            if not _PER_TOKEN.search(member.blanked):
                continue
            for node in sx.all_expressions(facts.codebase.body(member)):
                if (
                    isinstance(node, sx.Call)
                    and sx.last_part(node.func) in {"begin_forward", "plan"}
                    and any(isinstance(arg, sx.Const) and arg.value == 1 for arg in node.args)
                ):
                    return facts.codebase.place(member, node)
    return None
