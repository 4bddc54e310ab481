"""Derived facts: named pure functions over values of a launch.

They know no backend, model or release; rules read them as `fact.NAME`. A fact names its
arguments as rules name values, so the evaluator can tell when one of them is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..record import record


@record
class Fact:
    """A pure function and the names it is applied to."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]


FACTS: dict[str, Fact] = {}


def fact(*arguments: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as `fact.<its name>` of the named values."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        if name in FACTS:
            raise ValueError(f"fact {name} is registered twice")
        FACTS[name] = Fact(function, arguments)
        return function

    return register
