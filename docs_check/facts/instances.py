"""Who makes a backend's instances, and with which arguments.

A check on what an instance was given stops nobody where no instance is ever given it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..source import syntax as sx
from ..source.modules import local_imports
from ..source.paths import Event, conjuncts, events
from ..source.segments import Segment
from .conditions import family_of

if TYPE_CHECKING:
    from .code import CodeFacts
    from .speculation import DraftMap


@dataclass(slots=True)
class Creation:
    """A call that makes an instance, and the class with its bases; `drafts`: for a draft model."""

    call: sx.Call
    chain: list[Segment]
    drafts: bool


@dataclass(slots=True)
class _Parameter:
    """A constructor's parameter: its name, its place behind `self`, and its default."""

    name: str
    position: int
    default: sx.Expr | None

    def given(self, call: sx.Call) -> bool:
        """Whether a call may give it more than 1."""
        value = call.keywords.get(self.name)
        if value is None and any(name.startswith("*") for name in call.keywords):
            return True
        if value is None and self.position < len(call.args):
            value = call.args[self.position]
        return value is not None and not _at_most_one(value)


def creations(facts: CodeFacts, backend: str, family: str | None) -> list[Creation]:
    """Instances that are made for a backend: by its registered function, and by draft maps."""
    entry = facts.registry.get(backend)
    found = [
        Creation(one.call, facts.codebase.class_chain(one.segment), drafts=False)
        for one in (entry.implementations if entry is not None else ())
        if one.call is not None
        and one.segment.kind == "class"
        and (one.family is None or family is None or one.family == family)
    ]
    for draft in facts.draft_maps:
        found += _for_drafts(facts, draft, backend, family)
    return found


def _for_drafts(
    facts: CodeFacts, draft: DraftMap, backend: str, family: str | None
) -> Iterator[Creation]:
    """What a draft map's entry makes."""
    entry = draft.entries.get(backend)
    module = facts.codebase.module(draft.function.file)
    if entry is None or module is None:
        return
    owner = draft.function.qualname.rpartition(".")[0]
    name = sx.last_part(entry[0])
    for method in module.find(f"{owner}.{name}" if owner else name):
        for event in events(facts.codebase.body(method)):
            if event.kind != "return" or event.value is None:
                continue
            own = family_of(facts.conditions.read(method, event.guards, event.scope))
            if own is not None and family is not None and own != family:
                continue
            for call, chain in _made(facts, method, [event.value]):
                yield Creation(call, chain, drafts=True)


def _made(
    facts: CodeFacts, method: Segment, within: list[sx.Expr]
) -> Iterator[tuple[sx.Call, list[Segment]]]:
    """Calls of classes of the tree in expressions of a function."""
    local = local_imports(facts.codebase.body(method), method.file)
    for expression in within:
        for node in sx.walk(expression):
            if isinstance(node, sx.Call):
                target = facts.codebase.lookup(method.file, sx.last_part(node.func), local)
                if target is not None and target.kind == "class":
                    yield node, facts.codebase.class_chain(target)


def constructors(chain: list[Segment]) -> list[Segment]:
    """The constructors that run: the nearest, and those above it while `super()` is called."""
    found: list[Segment] = []
    for segment in chain:
        for member in segment.members():
            if member.kind == "def" and member.name == "__init__":
                found.append(member)
                if "super().__init__" not in member.blanked:
                    return found
    return found


def can_exceed_one(
    facts: CodeFacts, backend: str, family: str | None, chain: list[Segment], method: Segment,
    attribute: str,
) -> bool:  # fmt: skip
    """Whether an instance that runs a method can have more than 1 in an attribute.

    It can't where the attribute is a parameter that is 1 when left out, and whoever makes such
    instances leaves it out. A draft's steps are made inside a class of their own; they decode, so
    what they are given counts only for a method that is called outside of a draft's extension.
    """
    parameter = _parameter_behind(facts, chain, attribute)
    if parameter is None or parameter.default is None or not _at_most_one(parameter.default):
        return True
    steps_count = not _only_extends(facts, chain, method)
    for creation in creations(facts, backend, family):
        if chain[0] in creation.chain:
            if parameter.given(creation.call):
                return True
        elif creation.drafts and steps_count:
            for one in constructors(creation.chain):
                inside = list(sx.all_expressions(facts.codebase.body(one)))
                for call, own in _made(facts, one, inside):
                    if chain[0] in own and parameter.given(call):
                        return True
    return False


def _parameter_behind(facts: CodeFacts, chain: list[Segment], attribute: str) -> _Parameter | None:
    """The parameter that a constructor keeps as an attribute, and nobody else sets."""
    found = None
    for member, event in _events(facts, chain, f".{attribute} ="):
        if event.kind != "assign" or sx.dotted(event.target) != f"self.{attribute}":
            continue
        definition = facts.codebase.definition(member)
        if (
            found is not None
            or member.name != "__init__"
            or definition is None
            or not isinstance(event.value, sx.Name)
        ):
            return None
        names = [one.name for one in definition.params]
        if event.value.id not in names:
            return None
        position = names.index(event.value.id)
        default = definition.params[position].default
        found = _Parameter(event.value.id, position - 1, default)
    return found


def _only_extends(facts: CodeFacts, chain: list[Segment], method: Segment) -> bool:
    """Whether a method is called while a draft is extended, and nowhere else."""
    question = facts.scan["draft_maps"]["extends"]
    called = False
    for _, event in _events(facts, chain, f".{method.name}("):
        value = event.value
        if not isinstance(value, sx.Call) or sx.last_part(value.func) != method.name:
            continue
        called = True
        guards = conjuncts(event.guards)
        if not any(one.holds and question in sx.last_part(one.test) for one in guards):
            return False
    return called


def _events(
    facts: CodeFacts, chain: list[Segment], mention: str
) -> Iterator[tuple[Segment, Event]]:
    """What happens in the methods of a chain of classes whose text mentions something."""
    for segment in chain:
        for member in segment.members():
            if member.kind == "def" and mention in member.blanked:
                for event in events(facts.codebase.body(member)):
                    yield member, event


def _at_most_one(value: sx.Expr) -> bool:
    return isinstance(value, sx.Const) and isinstance(value.value, int) and value.value <= 1
