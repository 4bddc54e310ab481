"""What argument handling refuses and sets, and for which backends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from ..source import syntax as sx
from ..source.modules import Codebase
from ..source.paths import Binding, Event, Guard, Scope, events
from ..source.segments import Segment
from .conditions import Conditions, backends_of, family_of
from .model import Effect

#: Calls that record a value for a field given by keyword.
_DECLARES = re.compile(r"^(declare|override|set|update)\w*$")


def effects_of(codebase: Codebase, conditions: Conditions, segment: Segment) -> list[Effect]:
    """Every refusal and every setting of a field in one function."""
    cached = segment.cache.get("effects")
    if cached is None:
        cached = list(_effects(codebase, conditions, segment))
        segment.cache["effects"] = cached
    return cached  # type: ignore[return-value]


def _effects(codebase: Codebase, conditions: Conditions, segment: Segment) -> Iterable[Effect]:
    for event in events(codebase.body(segment)):
        guards = event.guards
        if event.kind == "assert" and isinstance(event.value, sx.Expr):
            guards = (*guards, Guard(event.value, False))
        if event.kind in {"raise", "assert"}:
            for way, scope in _ways(guards, event.scope):
                condition = conditions.read(segment, way, scope)
                yield Effect(
                    "refuse", tuple(backends_of(condition)), family_of(condition), condition,
                    codebase.place(segment, event.statement), event.message(),
                )  # fmt: skip
            continue
        for field, value in _settings(event):
            condition = conditions.read(segment, guards, event.scope)
            yield Effect(
                "set", tuple(backends_of(condition)), family_of(condition), condition,
                codebase.place(segment, event.statement), "", field, value,
                isinstance(event.target, sx.Name),
            )  # fmt: skip


def _ways(guards: tuple[Guard, ...], scope: Scope) -> Iterable[tuple[tuple[Guard, ...], Scope]]:
    """The guards once for each branch that gave a set its members.

    After `if a: allowed = {…} else: allowed = {…}`, a test against `allowed` is two tests.
    """
    several = {name for name, bound in scope.names.items() if len(bound) > 1}
    for guard in guards if several else ():
        for node in sx.walk(guard.test):
            if not isinstance(node, sx.Name) or node.id not in several:
                continue
            bound = scope.names[node.id]
            if _branches(bound):
                for binding in bound:
                    own = scope.copy()
                    own.names = {**scope.names, node.id: [Binding(binding.value, ())]}
                    known = {id(guard.test) for guard in guards}
                    extra = [g for g in binding.guards if id(g.test) not in known]
                    yield (*extra, *guards), own
                return
    yield guards, scope


def _branches(bound: list[Binding]) -> bool:
    """Whether bindings of sets stem from branches of which a run takes one."""
    if not all(isinstance(one.value, (sx.Seq, sx.Name, sx.Attr)) and one.guards for one in bound):
        return False
    return all(
        any(a.test is b.test and a.holds is not b.holds for a in one.guards for b in other.guards)
        for one, other in combinations(bound, 2)
    )


def _settings(event: Event) -> Iterable[tuple[str, sx.Expr]]:
    """Fields that an event gives a value: by returning or updating a dict, by call, by name."""
    value = event.value
    if event.kind == "return" and isinstance(value, sx.Map):
        yield from _map_items(value)
    elif event.kind == "assign" and value is not None:
        target = event.target
        if isinstance(target, sx.Index) and isinstance(target.key, sx.Const):
            yield str(target.key.value), value
        elif isinstance(target, (sx.Attr, sx.Name)):
            yield sx.last_part(target), value
            if isinstance(value, sx.Map):
                yield from _map_items(value)
    elif event.kind == "do" and isinstance(value, sx.Call):
        name = sx.last_part(value.func)
        if _DECLARES.match(name):
            yield from (
                (key, item) for key, item in value.keywords.items() if not key.startswith("*")
            )
            for argument in value.args:
                if isinstance(argument, sx.Map):
                    yield from _map_items(argument)


def _map_items(value: sx.Map) -> Iterable[tuple[str, sx.Expr]]:
    for key, item in value.items:
        if isinstance(key, sx.Const) and isinstance(key.value, str):
            yield key.value, item
