"""What the extraction yields: launches with their words, and what was passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..context import Context
from .text import Source

#: Names of variables whose values are nobody's business.
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "CREDENTIAL", "ACCESS_KEY")


@dataclass(frozen=True, slots=True)
class Variant:
    """The words of a launch on one way through the file (one branch of its conditionals)."""

    words: tuple[Source, ...]
    environment: tuple[tuple[str, str], ...] = ()
    open_environment: frozenset[str] = frozenset()


@dataclass(slots=True)
class Found:
    """One launch in a file.

    Attributes:
        kind: format that it stands in, such as shell or kubernetes.
        start, end: offsets of the command in the file.
        variants: its words on each way through the file, without the command itself.
        wrapper: what hands the flags on, where it is not SGLang's own command.
        partial: part of the command line stands elsewhere, so nothing is missed in it.
        engine: "sglang", or another engine that takes these names and is not judged.
        config_problems: places and texts of what its configuration file gets wrong.
    """

    kind: str
    start: int
    end: int
    variants: list[Variant]
    context: Context = field(default_factory=Context)
    wrapper: str = ""
    partial: bool = False
    engine: str = "sglang"
    command: str = ""
    config_problems: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that looks like a launch and is not one of ours, with the reason."""

    start: int
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """A file that cannot be read as what it is."""

    message: str
    start: int = 0


def _nothing(_path: str) -> None:
    """No other file is at hand."""


@dataclass(slots=True)
class Extraction:
    """Everything found in one file."""

    launches: list[Found] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    context: Context = field(default_factory=Context)
    #: Gives the text of a file that this one names, None where it is not at hand.
    beside: Callable[[str], str | None] = _nothing
    #: What earlier pieces of one file, as cells are, imported and set; see `python.find`.
    names: dict[str, Any] = field(default_factory=dict)
    #: Texts of the files that this one holds or writes, by the last part of their names.
    documents: dict[str, Source] = field(default_factory=dict)
    #: How many variants were ever added.
    count: int = 0
    _known: dict[tuple[int, str], Found] = field(default_factory=dict)

    def skip(self, start: int, what: str, reason: str) -> None:
        """Note something passed over, once."""
        entry = Skipped(start, what, reason)
        if entry not in self.skipped:
            self.skipped.append(entry)

    def cut(self, start: int) -> None:
        """Tell that what is nested too deeply goes unread."""
        trouble = Trouble(TOO_DEEP, start)
        if trouble not in self.troubles:
            self.troubles.append(trouble)

    def add(self, found: Found) -> None:
        """Keep a launch; the same command met on another way becomes a further variant."""
        if len(self._known) != len(self.launches):  # some were taken out again
            self._known = {(one.start, one.wrapper): one for one in self.launches}
        known = self._known.setdefault((found.start, found.wrapper), found)
        if known is found:
            self.launches.append(found)
            self.count += len(found.variants)
            return
        known.end = max(known.end, found.end)
        for variant in found.variants:
            if len(known.variants) < MAX_VARIANTS and variant not in known.variants:
                known.variants.append(variant)
                self.count += 1
        known.context.fill(found.context)


#: What is told of text that is nested deeper than it is read.
TOO_DEEP = "nested too deeply to be read here"

#: More ways through a file than this are not told apart.
MAX_VARIANTS = 12


def public_environment(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Variables that may be shown."""
    return {
        name: value for name, value in pairs if not any(mark in name.upper() for mark in _SECRET)
    }
