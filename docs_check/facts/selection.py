"""The default backend: the decision list of the selector, and what single models override."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..source import syntax as sx
from ..source.modules import Place
from ..source.paths import Guard, events
from ..source.segments import Segment
from .conditions import Condition, Either, Term, family_of, without
from .effects import effects_of
from .memory import remembered

if TYPE_CHECKING:
    from .code import CodeFacts


@dataclass(slots=True)
class Decision:
    """One way through the selector: a backend under a condition."""

    backend: str
    family: str | None
    condition: Condition
    place: Place


@dataclass(slots=True)
class Override:
    """What some model architectures get instead of the default."""

    backend: str
    architectures: tuple[str, ...]
    condition: Condition
    place: Place
    function: str
    field: str = ""


def decisions(facts: CodeFacts) -> list[Decision]:
    """Every return of the default selector, in order."""
    segment = selector(facts)
    return _returned(facts, segment) if segment is not None else _inline(facts)


def _inline(facts: CodeFacts) -> list[Decision]:
    """What argument handling sets where the flag was not given, before there was a selector.

    The function with most of it counts; others do so for single models.
    """
    flag = facts.scan["backend_flag"]
    needle = re.compile(rf"\b{flag} is None\b")
    files = [
        file
        for file in facts.tree.candidates(facts.scan["resolution"])
        if flag.encode() + b" is None" in facts.tree.raw(file)
    ]
    best: list[Decision] = []
    for segment in facts.codebase.functions(files, needle):
        found = []
        for event in events(facts.codebase.body(segment)):
            if event.kind != "assign" or event.value is None:
                continue
            if not isinstance(event.target, sx.Attr) or event.target.name != flag:
                continue
            for value, extra in _values(event.value):
                condition = facts.conditions.read(segment, (*event.guards, *extra), event.scope)
                rest = tuple(term for term in condition if not _not_given(term))
                if value in facts.names and len(rest) < len(condition):
                    place = facts.codebase.place(segment, event.statement)
                    found.append(Decision(value, family_of(condition), rest, place))
        # What hangs on neither family nor machine is about single models.
        found = [one for one in found if one.family and not _of_a_model(one.condition)]
        if len(found) > len(best):
            best = found
    return best


def _not_given(term: Term | Either) -> bool:
    """Whether a term says that no backend was chosen."""
    if not isinstance(term, Term) or term.subject not in {"backend", "pair"}:
        return False
    return term.op == "unset" or (term.op == "in" and term.values == (None,))


def _of_a_model(condition: Condition) -> bool:
    """Whether a condition names a model's architecture."""
    return any(isinstance(term, Term) and term.subject == "architecture" for term in condition)


def _returned(facts: CodeFacts, segment: Segment) -> list[Decision]:
    found: list[Decision] = []
    known = {*facts.names, *facts.registry}
    for event in events(facts.codebase.body(segment)):
        if event.kind not in {"return", "assign"} or event.value is None:
            continue
        if event.kind == "assign" and "backend" not in sx.last_part(event.target):
            continue
        for value, extra in _values(event.value):
            if value not in known:
                continue
            condition = facts.conditions.read(segment, (*event.guards, *extra), event.scope)
            found.append(
                Decision(
                    value,
                    family_of(condition),
                    condition,
                    facts.codebase.place(segment, event.statement),
                )
            )
    return found


def _values(node: sx.Expr) -> Iterable[tuple[str, tuple[Guard, ...]]]:
    """The strings that an expression may come to, with the guards of conditional ones."""
    if isinstance(node, sx.Const) and isinstance(node.value, str):
        yield node.value, ()
    elif isinstance(node, sx.IfElse):
        for value, extra in _values(node.body):
            yield value, (Guard(node.test), *extra)
        for value, extra in _values(node.orelse):
            yield value, (Guard(node.test, False), *extra)


def selector(facts: CodeFacts) -> Segment | None:
    """The function that picks the default backend."""
    anchors = facts.scan["selector"]
    pattern = re.compile(anchors["pattern"])
    candidates: list[Segment] = []
    files = facts.tree.search(anchors["needle"], facts.tree.candidates(facts.scan["resolution"]))
    for segment in facts.codebase.functions(files, pattern):
        if pattern.search(segment.name):
            candidates.append(segment)
    return max(candidates, key=lambda segment: len(segment.text), default=None)


def overrides(facts: CodeFacts) -> list[Override]:
    """Backends that model-specific functions set."""
    anchors = facts.scan["overrides"]
    pattern = re.compile(rf"@\s*[\w.]*({anchors['decorator']})\s*\(")
    files = [
        file
        for file in facts.tree.candidates([anchors["folder"]])
        if b"attention_backend" in facts.tree.raw(file)
    ]
    found: list[Override] = []
    known = {*facts.names, *facts.registry}
    for segment in facts.codebase.segments(files):
        if segment.kind != "def" or not pattern.search(segment.blanked):
            continue
        if "attention_backend" not in segment.text:
            continue
        definition = facts.codebase.definition(segment)
        architectures = tuple(
            name
            for decorator in (definition.decorators if definition is not None else ())
            if isinstance(decorator, sx.Call)
            for arg in decorator.args
            for name in sx.strings(arg)
        )
        body = facts.codebase.body(segment)
        locals_ = _local_values(body)
        for effect in effects_of(facts.codebase, facts.conditions, segment):
            if effect.kind != "set" or not effect.field.endswith("attention_backend"):
                continue
            for value in _effect_values(effect.value, locals_):
                if value in known:
                    found.append(
                        Override(
                            value,
                            architectures,
                            effect.condition,
                            effect.place,
                            segment.name,
                            effect.field,
                        )
                    )
    return found


def _local_values(body: list[sx.Stmt]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for statement in sx.all_statements(body):
        if isinstance(statement, sx.Assign) and statement.value is not None:
            for target in statement.targets:
                if isinstance(target, sx.Name):
                    found.setdefault(target.id, []).extend(
                        value for value, _ in _values(statement.value)
                    )
    return found


def _effect_values(node: object, locals_: dict[str, list[str]]) -> list[str]:
    if isinstance(node, sx.Name):
        return locals_.get(node.id, [])
    if isinstance(node, sx.Expr):
        return [value for value, _ in _values(node)]
    return []


@remembered
def reachable(facts: CodeFacts, family: str, machine: str) -> list[tuple[Decision, Condition]]:
    """Decisions that a machine class may come to, each with what else they hang on."""
    found: list[tuple[Decision, Condition]] = []
    for decision in facts.decisions:
        if decision.family is not None and decision.family != family:
            continue
        rest: list[Term | Either] = []
        possible = True
        for term in without(decision.condition, "family"):
            holds = facts.machines.holds(term, machine)
            if holds is False:
                possible = False
                break
            if holds is None:
                rest.append(_reduce(facts, term, machine))
        if possible:
            found.append((decision, tuple(rest)))
    return found


def _reduce(facts: CodeFacts, term: Term | Either, machine: str) -> Term | Either:
    """Leave out the options of a disjunction that the machine rules out."""
    if not isinstance(term, Either):
        return term
    options = []
    for option in term.options:
        if any(facts.machines.holds(part, machine) is False for part in option):
            continue
        kept = tuple(part for part in option if facts.machines.holds(part, machine) is not True)
        options.append(kept)
    if len(options) == 1 and len(options[0]) == 1:
        return options[0][0]
    return Either(tuple(options))
