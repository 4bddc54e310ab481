"""The facts that the scanner states, each with its place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from ..source.modules import Place
from ..source.segments import Segment
from ..source.syntax import Call
from .conditions import Condition

#: How sure a statement is: proved; partial (under a condition); review (a person should look).
Certainty = Literal["proved", "partial", "review"]


@dataclass(slots=True)
class Choice:
    """One value that a flag takes; `comment` is what stands beside it in the source."""

    value: Any
    place: Place
    comment: str = ""


@dataclass(slots=True)
class Flag:
    """A command-line flag as declared."""

    field: str
    names: tuple[str, ...]
    place: Place
    choices: list[Choice] = dataclasses.field(default_factory=list)
    default: Any = None
    help: str = ""

    def values(self) -> list[Any]:
        """The values it takes."""
        return [choice.value for choice in self.choices]


@dataclass(slots=True)
class Implementation:
    """A class that serves a backend, and for which models.

    `arguments` are constants that the constructor is given, `call` is what makes it.
    """

    segment: Segment
    family: str | None
    arguments: dict[str, Any]
    condition: Condition
    place: Place
    call: Call | None = None


@dataclass(slots=True)
class Registered:
    """A name that the code can turn into a backend.

    `only` is the family that it serves where others are refused; `target` is the name whose
    backend it makes where it is an alias kept for old command lines.
    """

    name: str
    place: Place
    implementations: list[Implementation] = dataclasses.field(default_factory=list)
    only: str | None = None
    target: str | None = None
    refusals: list[Effect] = dataclasses.field(default_factory=list)


@dataclass(slots=True)
class Alias:
    """A value that is accepted and turned into another."""

    name: str
    target: str
    place: Place


@dataclass(slots=True)
class Effect:
    """Something that argument handling or a constructor does under a condition.

    Attributes:
        kind: refuse or set.
        field: what is set; value: to what (an expression where it is not constant).
        local: what is set is a name of the function's own, which may become a setting later.
        backends: backends that the condition names.
        family: mla or mha, where it holds for one only.
    """

    kind: str
    backends: tuple[str, ...]
    family: str | None
    condition: Condition
    place: Place
    message: str = ""
    field: str = ""
    value: Any = None
    local: bool = False

    def concerns(self, family: str | None) -> bool:
        """Whether it may hold for models of a family, or of any where none is given."""
        return self.family is None or family is None or self.family == family


@dataclass(slots=True)
class PageRule:
    """Page sizes that a backend takes, and what happens to others.

    `outcome` is snapped (to `target`), refused, or default (any other size is taken as given).
    """

    backend: str
    family: str | None
    allowed: tuple[int, ...]
    outcome: str
    target: int | None
    condition: Condition
    place: Place


@dataclass(slots=True)
class Support:
    """What the code says of one feature of one backend: yes, no or partial, and why."""

    value: str
    places: list[Place]
    why: str
    condition: str = ""
    certainty: Certainty = "proved"
