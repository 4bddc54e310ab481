"""Values that are not known, or known to be one of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class Unknown:
    """A value that is not known; `candidates` holds what it may be, or None for anything."""

    __slots__ = ("candidates",)

    def __init__(self, candidates: tuple[Any, ...] | None = None) -> None:
        self.candidates = candidates

    def test(self, predicate: Callable[[Any], bool]) -> bool | None:
        """Truth of a predicate: known only where all candidates agree."""
        if self.candidates is None:
            return None
        outcomes = {bool(predicate(value)) for value in self.candidates}
        return outcomes.pop() if len(outcomes) == 1 else None

    def __repr__(self) -> str:
        if self.candidates is None:
            return "unknown"
        shown = ("unset" if value is None else str(value) for value in self.candidates)
        return "one of " + ", ".join(shown)


UNKNOWN = Unknown()

#: More alternatives than this are no longer told apart.
MAX_CANDIDATES = 8


def join(first: Any, second: Any) -> Any:
    """The value that may be either: itself where both agree, an `Unknown` otherwise."""
    if type(first) is not Unknown and type(second) is not Unknown and first == second:
        return first
    candidates: list[Any] = []
    for value in (first, second):
        options: Iterable[Any]
        if type(value) is Unknown:
            if value.candidates is None:
                return UNKNOWN
            options = value.candidates
        else:
            options = (value,)
        for option in options:
            if option not in candidates:
                candidates.append(option)
    if len(candidates) > MAX_CANDIDATES:
        return UNKNOWN
    return candidates[0] if len(candidates) == 1 else Unknown(tuple(candidates))


def lift(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Apply a function to values of which some are unknown."""
    combinations: list[list[Any]] = [[]]
    for argument in arguments:
        if type(argument) is Unknown:
            if argument.candidates is None:
                return UNKNOWN
            options = argument.candidates
        else:
            options = (argument,)
        combinations = [[*head, option] for head in combinations for option in options]
        if len(combinations) > 24:
            return UNKNOWN
    result = function(*combinations[0])
    for combination in combinations[1:]:
        result = join(result, function(*combination))
    return result
