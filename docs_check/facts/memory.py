"""Remembers what a fact came to: pages ask of one backend in a cell of every table."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from .code import CodeFacts

P = ParamSpec("P")
T = TypeVar("T")


def remembered(
    fact: Callable[Concatenate[CodeFacts, P], T],
) -> Callable[Concatenate[CodeFacts, P], T]:
    """Work a fact out once for each source and each set of arguments."""

    @wraps(fact)
    def recall(facts: CodeFacts, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key: Any = (fact, args, tuple(kwargs.items()))
        if key not in facts.memory:
            facts.memory[key] = fact(facts, *args, **kwargs)
        found: T = facts.memory[key]
        return found

    return recall
