"""Checks of plain values that callers give; imports no torch."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard, TypeVar

from .errors import InvalidInput

T = TypeVar("T")

#: Kernels take numbers as float32 and multiply some by log2(e): smaller ones may be flushed to
#: zero there, larger ones overflow.
SMALLEST, LARGEST = 2.0**-126, 2e38
#: Most of what products of queries and keys are multiplied by, in float32 and before anything is
#: subtracted: half of its exponents are left to the products.
LARGEST_SCALE = 2.0**64


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer of Python's or NumPy's; a truth value is none."""
    if type(value) is int:  # as nearly always; the other question is slow
        return True
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[Real]:
    """Whether it is a real number of Python's or NumPy's; a truth value is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_factor(value: object, largest: float = LARGEST) -> bool:
    """Whether it is a positive number that a kernel can take as float32; no truth value."""
    # As a double: one of NumPy's narrow ones would have the bounds rounded to its own type.
    return is_number(value) and SMALLEST <= _double(value) <= largest


def _double(value: Real) -> float:
    """The number as Python's float, infinite where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def size_problems(**sizes: object) -> list[str]:
    """What is wrong with sizes by name, each a positive whole number that int32 can hold."""
    problems = []
    for name, value in sizes.items():
        if not is_whole(value):
            problems.append(f"{name} is {value!r}, not a whole number")
        elif value < 1:
            problems.append(f"{name} is {value}; it must be positive")
        elif value >= 2**31:
            problems.append(f"{name} is {value}; it is at most 2³¹ - 1")
    return problems


def whole(what: str, value: object) -> int:
    """The value as an int, or InvalidInput where it is none; a tensor of one integer is.

    A truth value is none, that of a tensor included, which Python would take for 0 or 1.
    """
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInput([f"{what} {value!r} is not a whole number"]) from None


def all_whole(what: str, values: Iterable[object]) -> list[int]:
    """The values as ints, or InvalidInput where one is none or there is no list of them."""
    return [whole(what, value) for value in listed(f"{what}s", values)]


def listed(what: str, values: Iterable[T]) -> list[T]:
    """The values as a list, or InvalidInput for what has none, such as None."""
    try:
        return list(values)
    except TypeError:
        raise InvalidInput([f"{what}: {values!r} is not a list"]) from None
