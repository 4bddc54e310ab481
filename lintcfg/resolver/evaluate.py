"""The evaluator: turns normalised conditions and expressions into closures over a state.

A state is a dict from names to values; names of models, platforms and the like that are missing
in it are unknown. A condition is True, False, or None (unknown), as Kleene's logic has it.
See `matrix/conditions.py` for the language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...matrix.facts import FACTS, Fact
from .values import UNKNOWN, Unknown, lift

State = dict[str, Any]
Condition = Callable[[State], "bool | None"]
Expression = Callable[[State], Any]


class NameState(dict[str, Any]):
    """A state whose missing names are unknown."""

    __slots__ = ()

    def __missing__(self, name: str) -> Any:
        return UNKNOWN


def version_tuple(text: Any) -> tuple[int, ...]:
    """Return the leading numbers of a dotted version; an absent version is older than all."""
    numbers: list[int] = []
    for part in str(text or "").split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part[:18]))  # Python refuses to read thousands of digits
    return tuple(numbers)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, operand: Any) -> bool:
        try:
            return bool(compare(value, operand))
        except TypeError:  # an unset value has no order
            return False

    return test


def _contains(value: Any, operand: Any) -> bool:
    try:
        return bool(operand in value)
    except TypeError:
        return False


def _multiple_of(value: Any, operand: Any) -> bool:
    try:
        return bool(value % operand == 0)
    except (TypeError, ZeroDivisionError):
        return False


def _overlaps(value: Any, operand: Any) -> bool:
    return any(_contains(operand, item) for item in value or ())


def _subset_of(value: Any, operand: Any) -> bool:
    return all(_contains(operand, item) for item in value or ())


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda value, operand: bool(value == operand),
    "ne": lambda value, operand: bool(value != operand),
    "in": lambda value, operand: _contains(operand, value),
    "not_in": lambda value, operand: not _contains(operand, value),
    "gt": _ordered(lambda value, operand: value > operand),
    "ge": _ordered(lambda value, operand: value >= operand),
    "lt": _ordered(lambda value, operand: value < operand),
    "le": _ordered(lambda value, operand: value <= operand),
    "at_least": lambda value, operand: version_tuple(value) >= version_tuple(operand),
    "set": lambda value, operand: (value is not None) is operand,
    "truthy": lambda value, operand: bool(value) is operand,
    "contains": _contains,
    "startswith": lambda value, operand: str(value or "").startswith(operand),
    "endswith": lambda value, operand: str(value or "").endswith(operand),
    "multiple_of": _multiple_of,
    "overlaps": _overlaps,
    "subset_of": _subset_of,
}

APPLY: dict[str, Callable[..., Any]] = {
    "add": lambda *values: sum(values),
    "sub": lambda first, second: first - second,
    "mul": lambda first, *rest: _product(first, rest),
    "floordiv": lambda first, second: first // second,
    "mod": lambda first, second: first % second,
    "min": min,
    "max": max,
    "coalesce": lambda *values: next((value for value in values if value is not None), None),
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "upper": lambda value: value.upper() if isinstance(value, str) else value,
    "lower": lambda value: value.lower() if isinstance(value, str) else value,
    "int": int,
}


def _product(first: Any, rest: tuple[Any, ...]) -> Any:
    for value in rest:
        first = first * value
    return first


def _safe(function: Callable[..., Any]) -> Callable[..., Any]:
    """Arithmetic on a value that is not set gives an unset value, never an exception."""

    def apply(*values: Any) -> Any:
        try:
            return function(*values)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            return None

    return apply


class Evaluator:
    """Builds closures; shared definitions and facts are built once per release."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self.definitions = self._raw = definitions
        self._definitions: dict[str, Expression] = {}
        self._readers: dict[str, Expression] = {}

    def condition(self, node: Any) -> Condition:
        """Return a closure for a normalised condition."""
        head = node[0]
        if head == "true":
            return _always
        if head == "all":
            return _conjunction([self.condition(child) for child in node[1:]])
        if head == "any":
            return _disjunction([self.condition(child) for child in node[1:]])
        if head == "not":
            inner = self.condition(node[1])

            def negation(state: State) -> bool | None:
                truth = inner(state)
                return None if truth is None else not truth

            return negation
        _, op, name, operand = node
        return self._comparison(op, name, operand)

    def expression(self, node: Any) -> Expression:
        """Return a closure for a normalised expression."""
        head = node[0]
        if head == "lit":
            value = node[1]
            return lambda state: value
        if head == "ref":
            return self.reader(node[1])
        if head == "if":
            test, then, other = (
                self.condition(node[1]),
                self.expression(node[2]),
                self.expression(node[3]),
            )

            def choice(state: State) -> Any:
                truth = test(state)
                if truth is None:
                    from .values import join

                    return join(then(state), other(state))
                return then(state) if truth else other(state)

            return choice
        if head == "table":
            table, key, default = node[1], self.expression(node[2]), self.expression(node[3])

            def lookup(state: State) -> Any:
                fallback = default(state)
                return lift(
                    lambda name: table.get(name, fallback) if isinstance(name, str) else fallback,
                    [key(state)],
                )

            return lookup
        function = _safe(APPLY[node[1]])
        arguments = [self.expression(child) for child in node[2:]]

        def apply(state: State) -> Any:
            values = [argument(state) for argument in arguments]
            if any(type(value) is Unknown for value in values):
                return lift(function, values)
            return function(*values)

        return apply

    def reader(self, name: str) -> Expression:
        """Return a closure that reads a name: a plain value, a fact or a named condition."""
        found = self._readers.get(name)
        if found is None:
            if name in self._raw:
                found = self._definition(name)
            elif name.startswith("fact."):
                found = self._fact(FACTS[name[5:]])
            else:

                def found(state: State, name: str = name) -> Any:
                    return state[name]

            self._readers[name] = found
        return found

    def is_plain(self, name: str) -> bool:
        """Whether a name is read straight from the state."""
        return name not in self._raw and not name.startswith("fact.")

    def _definition(self, name: str) -> Expression:
        built: list[Condition] = []

        def read(state: State) -> Any:
            if name in state:  # decided beforehand, as platform facts are
                return state[name]
            if not built:
                built.append(self.condition(self._raw[name]))
            truth = built[0](state)
            return UNKNOWN if truth is None else truth

        return read

    def _fact(self, fact: Fact) -> Expression:
        function = _safe(fact.function)
        readers = [self.reader(name) for name in fact.arguments]

        def read(state: State) -> Any:
            values = [reader(state) for reader in readers]
            for value in values:
                if type(value) is Unknown:
                    return lift(function, values)
            return function(*values)

        return read

    def _comparison(self, op: str, name: str, operand: Any) -> Condition:
        test = TESTS[op]
        if operand[0] == "ref":
            read, other = self.reader(name), self.reader(operand[1])

            def compare(state: State) -> bool | None:
                left, right = read(state), other(state)
                if type(left) is Unknown or type(right) is Unknown:
                    result = lift(test, [left, right])
                    return None if type(result) is Unknown else result
                return test(left, right)

            return compare
        value = operand[1]
        if self.is_plain(name):
            return _plain_comparison(op, name, value, test)
        read = self.reader(name)

        def compare_read(state: State) -> bool | None:
            left = read(state)
            if type(left) is Unknown:
                return left.test(lambda candidate: test(candidate, value))
            return test(left, value)

        return compare_read


def _plain_comparison(
    op: str, name: str, value: Any, test: Callable[[Any, Any], bool]
) -> Condition:
    """The common comparisons of a plain name with a literal, without a call in between."""
    if op == "eq":

        def equal(state: State) -> bool | None:
            left = state[name]
            if type(left) is Unknown:
                return left.test(lambda candidate: candidate == value)
            return bool(left == value)

        return equal
    if op == "in" and all(isinstance(item, str) or item is None for item in value):
        members = frozenset(value)

        def member(state: State) -> bool | None:
            left = state[name]
            if type(left) is Unknown:
                return left.test(lambda candidate: test(candidate, value))
            return left in members if left is None or type(left) is str else False

        return member
    if op == "set":

        def is_set(state: State) -> bool | None:
            left = state[name]
            if type(left) is Unknown:
                return left.test(lambda candidate: (candidate is not None) is value)
            return (left is not None) is value

        return is_set

    def compare(state: State) -> bool | None:
        left = state[name]
        if type(left) is Unknown:
            return left.test(lambda candidate: test(candidate, value))
        return test(left, value)

    return compare


def _always(state: State) -> bool | None:
    return True


def _conjunction(parts: list[Condition]) -> Condition:
    if len(parts) == 2:
        first, second = parts

        def both(state: State) -> bool | None:
            left = first(state)
            if left is False:
                return False
            right = second(state)
            if right is False:
                return False
            return None if left is None or right is None else True

        return both

    def conjunction(state: State) -> bool | None:
        known = True
        for part in parts:
            truth = part(state)
            if truth is False:
                return False
            if truth is None:
                known = False
        return True if known else None

    return conjunction


def _disjunction(parts: list[Condition]) -> Condition:
    def disjunction(state: State) -> bool | None:
        known = True
        for part in parts:
            truth = part(state)
            if truth:
                return True
            if truth is None:
                known = False
        return False if known else None

    return disjunction
