"""What the flag parser found wrong: one record per problem, collected and never raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ...matrix.record import record

Kind = Literal[
    "unknown-flag",
    "removed",
    "ambiguous",
    "invalid-choice",
    "bad-type",
    "missing-value",
    "unexpected-value",
    "missing-required",
    "stray-value",
    "deprecated",
    "help",
    "config-file",
    "command",
]

#: When the release notices a problem, in its own order; an earlier one hides the later ones.
BEFORE, CLASSIFY, CONSUME, REQUIRED, LEFTOVER, AFTER = range(6)


@record
class ConfigSpot:
    """A place in a configuration file."""

    path: str
    line: int | None = None
    key: str | None = None


@record
class ParseProblem:
    """One problem of a command line.

    `message` is ours; `says` is, in substance, what the release prints. `refuses` is True where
    the release stops, False for a warning, None where that hangs on what cannot be seen here.
    `index` and `end` are positions in the argv that was parsed (`end` is exclusive); both are
    None for what is missing or stands in a configuration file, whose place is then `config`.
    `replacement` is the best of `replacements`, which are spelled as they are typed.
    """

    kind: Kind
    message: str
    says: str
    refuses: bool | None = True
    flag: str | None = None
    field: str | None = None
    value: str | None = None
    index: int | None = None
    end: int | None = None
    config: ConfigSpot | None = None
    choices: tuple[Any, ...] = ()
    history: dict[str, Any] | None = None
    replacements: tuple[str, ...] = ()
    source: str | None = None
    order: tuple[int, int] = (BEFORE, 0)
    # Finding near names costs milliseconds, so it waits until somebody asks.
    _near: Callable[[], tuple[str, ...]] | None = None

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Names or values that were probably meant, best first."""
        return self._near() if self._near is not None else ()

    @property
    def replacement(self) -> str | None:
        """What does the work of a name that is gone or going."""
        return self.replacements[0] if self.replacements else None

    @property
    def hint(self) -> str | None:
        """A way out in words, where the message has none."""
        if self.replacements or self.kind == "ambiguous":
            return None
        near = self.suggestions
        return f"did you mean {' or '.join(near)}?" if near else None

    @property
    def file(self) -> str | None:
        """Configuration file that it stands in."""
        return self.config.path if self.config is not None else None

    @property
    def line(self) -> int | None:
        """Line in that file."""
        return self.config.line if self.config is not None else None
