"""A lean stand-in for `dataclasses`, for what every start pays for.

`dataclasses` builds six methods per class from source and imports `inspect`; together that is a
quarter of the start-up budget. `record` keeps what the hot path needs: slots, a constructor with
defaults, a readable `repr`, equality by value. Type checkers see a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

Record = TypeVar("Record", bound=type)
Value = TypeVar("Value")


class _Factory:
    """Marks a default that is made anew for every record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A default that is made anew for every record, such as an empty list."""
    return _Factory(default_factory)


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__name__}({values})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in self.__slots__))


def _make(cls: Any) -> Any:
    names = list(cls.__annotations__)
    space = dict(cls.__dict__)
    defaults = {name: space.pop(name) for name in names if name in space}
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    parameters = [f"{name}=_d_{name}" if name in defaults else name for name in names]
    made = {name for name, value in defaults.items() if type(value) is _Factory}
    body = "".join(
        f"\n self.{name} = _d_{name}.make() if {name} is _d_{name} else {name}"
        if name in made
        else f"\n self.{name} = {name}"
        for name in names
    )
    scope = {f"_d_{name}": value for name, value in defaults.items()}
    exec(f"def __init__(self, {', '.join(parameters)}):{body}", scope)
    space["__slots__"] = tuple(names)
    space["__init__"] = scope["__init__"]
    space.setdefault("__repr__", _repr)
    space.setdefault("__eq__", _eq)
    space.setdefault("__hash__", _hash)
    return type(cls)(cls.__name__, cls.__bases__, space)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Record) -> Record:
    """Make a class of values from its annotations; nobody assigns to its fields afterwards.

    Type checkers hold the last part; at run time nothing is spent on it.
    """
    made: Record = _make(cls)
    return made


@dataclass_transform(field_specifiers=(field,))
def mutable_record(cls: Record) -> Record:
    """Likewise, for values whose fields change."""
    made: Record = _make(cls)
    return made


def fields_of(value: object) -> tuple[str, ...]:
    """Names of a record's fields, in order."""
    names: tuple[str, ...] = type(value).__slots__  # type: ignore[attr-defined]
    return names


def replaced(value: Value, **changes: Any) -> Value:
    """A copy of a record with some fields changed."""
    fields = {name: getattr(value, name) for name in fields_of(value)}
    return type(value)(**{**fields, **changes})


__all__ = ["field", "fields_of", "mutable_record", "record", "replaced"]
