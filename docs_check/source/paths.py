"""What a function does and under which conditions: its events, each with its guards.

A guard is a test that holds where the event is; after `if not A: return`, everything below it
has the guard A. Local variables are followed to what they were assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from . import syntax as sx


@dataclass(slots=True)
class Guard:
    """A test with the outcome that it has on this path.

    `after` says why it is known below an `if` that leaves: by `raise`, or by `return`.
    """

    test: sx.Expr
    holds: bool = True
    after: str = ""


@dataclass(slots=True)
class Binding:
    """What a local name was given, and under which guards."""

    value: sx.Expr
    guards: tuple[Guard, ...]
    index: int | None = None


@dataclass(slots=True)
class Event:
    """One thing that a function does: raises, returns, assigns, or calls.

    Attributes:
        kind: raise, assert, return, assign or do.
        statement: what does it.
        value: the raised, returned or assigned expression; for an assert, its test.
        target: what is assigned.
        guards: the tests on the way here, outermost first.
        scope: local names as bound at this point.
    """

    kind: str
    statement: sx.Stmt
    value: sx.Expr | None
    guards: tuple[Guard, ...]
    scope: Scope
    target: sx.Expr | None = None

    def message(self) -> str:
        """The words of a raise or an assert."""
        if isinstance(self.statement, sx.Assert):
            return sx.words(self.statement.message)
        if isinstance(self.value, sx.Call):
            return " ".join(filter(None, (sx.words(arg) for arg in self.value.args)))
        return ""


@dataclass(slots=True)
class Scope:
    """Local names and their bindings, latest last."""

    names: dict[str, list[Binding]] = field(default_factory=dict)
    shared: bool = False

    def copy(self) -> Scope:
        """The scope as it is now; binding goes on in a copy, made when it is needed."""
        self.shared = True
        return Scope(self.names, True)

    def bind(self, name: str, binding: Binding, *, add: bool = False) -> None:
        """Bind a name; an unconditional binding replaces what was there."""
        if self.shared:
            self.names = dict(self.names)
            self.shared = False
        before = self.names.get(name, []) if binding.guards or add else []
        self.names[name] = [*before, binding]

    def single(self, name: str) -> sx.Expr | None:
        """What a name stands for, where it has been given one thing only."""
        found = self.names.get(name, [])
        if len(found) == 1 and found[0].index is None:
            return found[0].value
        return None

    def source(self, node: sx.Expr | None, depth: int = 0) -> sx.Expr | None:
        """Follow local names to the expression that they stand for."""
        while isinstance(node, sx.Name) and depth < 6:
            found = self.names.get(node.id, [])
            if len(found) != 1:
                return node
            node = found[0].value
            depth += 1
        return node


def events(body: Sequence[sx.Stmt]) -> list[Event]:
    """Every event of a block, with nested functions left out."""
    found: list[Event] = []
    _block(body, (), Scope(), found)
    return found


def _block(
    body: Iterable[sx.Stmt], guards: tuple[Guard, ...], scope: Scope, found: list[Event]
) -> str:
    """Walk a block; returns how it always leaves (`raise`, `return`), or an empty string."""
    for statement in body:
        if isinstance(statement, sx.If):
            left = _block(statement.body, (*guards, Guard(statement.test)), scope, found)
            other = ""
            if statement.orelse:
                other = _block(
                    statement.orelse, (*guards, Guard(statement.test, False)), scope, found
                )
            if left and other:
                return "return" if "return" in (left, other) else "raise"
            if left:
                guards = (*guards, Guard(statement.test, False, left))
            elif other:
                guards = (*guards, Guard(statement.test, True, other))
        elif isinstance(statement, sx.Return):
            found.append(Event("return", statement, statement.value, guards, scope.copy()))
            return "return"
        elif isinstance(statement, sx.Raise):
            found.append(Event("raise", statement, statement.value, guards, scope.copy()))
            return "raise"
        elif isinstance(statement, sx.Leave):
            return "return"
        elif isinstance(statement, sx.Assert):
            found.append(Event("assert", statement, statement.test, guards, scope.copy()))
            guards = (*guards, Guard(statement.test, True, "raise"))
        elif isinstance(statement, sx.Assign):
            for target in statement.targets:
                found.append(
                    Event("assign", statement, statement.value, guards, scope.copy(), target)
                )
                if statement.value is not None:
                    _bind(target, statement.value, guards, scope)
        elif isinstance(statement, sx.Augment):
            found.append(
                Event("assign", statement, statement.value, guards, scope.copy(), statement.target)
            )
        elif isinstance(statement, sx.Do):
            found.append(Event("do", statement, statement.value, guards, scope.copy()))
            _grow(statement.value, guards, scope)
        elif isinstance(statement, sx.With):
            left = _block(statement.body, guards, scope, found)
            if left:
                return left
        elif isinstance(statement, sx.Loop):
            if statement.target is not None:
                _bind(statement.target, statement.source, (*guards, _EACH), scope)
            _block(statement.body, guards, scope, found)
            _block(statement.orelse, guards, scope, found)
        elif isinstance(statement, sx.Try):
            ends = [_block(statement.body, guards, scope, found)]
            ends += [_block(handler, guards, scope, found) for _, handler in statement.handlers]
            _block(statement.orelse, guards, scope, found)
            final = _block(statement.final, guards, scope, found)
            if final or all(ends):
                return final or ("return" if "return" in ends else "raise")
    return ""


#: Guard of what a loop binds: the name stands for each member in turn.
_EACH = Guard(sx.Const(True))


def _grow(call: sx.Expr, guards: tuple[Guard, ...], scope: Scope) -> None:
    """`names.append(x)` and `names.extend(xs)` add to what a local name holds."""
    if not (isinstance(call, sx.Call) and isinstance(call.func, sx.Attr) and call.args):
        return
    owner = call.func.value
    if not isinstance(owner, sx.Name) or owner.id not in scope.names:
        return
    if call.func.name in {"extend", "update"}:
        scope.bind(owner.id, Binding(call.args[0], guards), add=True)
    elif call.func.name in {"append", "add"}:
        scope.bind(owner.id, Binding(sx.Seq("list", [call.args[0]]), guards), add=True)


def _bind(target: sx.Expr, value: sx.Expr, guards: tuple[Guard, ...], scope: Scope) -> None:
    if isinstance(target, sx.Name):
        scope.bind(target.id, Binding(value, guards))
    elif isinstance(target, sx.Seq):
        parts = value.items if isinstance(value, sx.Seq) else None
        for index, item in enumerate(target.items):
            if not isinstance(item, sx.Name):
                continue
            if parts is not None and len(parts) == len(target.items):
                scope.bind(item.id, Binding(parts[index], guards))
            else:
                scope.bind(item.id, Binding(value, guards, index))


def conjuncts(guards: Iterable[Guard]) -> Iterator[Guard]:
    """Guards taken apart: a conjunction that holds, a disjunction that does not, negations.

    What is known only because the opposite raises is left out: the raise is told on its own.
    """
    for guard in guards:
        if guard.after == "raise":
            continue
        test, holds = guard.test, guard.holds
        while isinstance(test, sx.Not):
            test, holds = test.item, not holds
        if isinstance(test, sx.Bool) and (test.op == "and") is holds:
            yield from conjuncts(Guard(item, holds) for item in test.items)
        else:
            yield Guard(test, holds)
