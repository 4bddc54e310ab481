"""What a command line says, once it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...matrix.record import field, mutable_record, record
from .problems import ConfigSpot, ParseProblem


@record
class Typed:
    """One occurrence of a flag on the command line or in a configuration file."""

    field: str
    name: str
    """The flag's full name that was meant."""
    spelling: str
    """What was typed, up to an equals sign."""
    index: int | None
    """Position in argv; None where it stands in a configuration file."""
    end: int | None
    """Position after the last word that belongs to it."""
    raw: tuple[str, ...]
    """The words of its value as typed."""
    value: Any
    config: ConfigSpot | None = None

    @property
    def file(self) -> str | None:
        """Configuration file that it stands in."""
        return self.config.path if self.config is not None else None

    @property
    def line(self) -> int | None:
        """Line in that file."""
        return self.config.line if self.config is not None else None

    @property
    def abbreviated(self) -> bool:
        """Whether the name was cut short."""
        return self.spelling != self.name


@mutable_record
class ParsedLaunch:
    """What a command line says: a value for every field, and where each typed one stands.

    `values` starts from the defaults and holds every field, `typed` only those given, the last
    occurrence of each; `occurrences` has all of them in order. `problems` is in the order in
    which the release would notice them.
    """

    values: dict[str, Any]
    typed: dict[str, Typed]
    occurrences: list[Typed]
    problems: list[ParseProblem]
    env: Mapping[str, str]
    argv: tuple[str, ...]
    config_path: str | None = None
    config_keys: dict[str, ConfigSpot] = field(default_factory=dict)
    open_ended: bool = False
    """Whether further flags may stand in what is not seen here."""

    @property
    def refusal(self) -> ParseProblem | None:
        """The problem at which the release stops, if it does."""
        return next((problem for problem in self.problems if problem.refuses), None)
