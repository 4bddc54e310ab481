"""What checking a file yields: findings with their place, and the edits that would cure them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..findings import Finding
from ..launches import Found, Lines, Skipped
from .changes import Change
from .encoding import UTF8, Encoding


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of part of a file, by offsets."""

    start: int
    end: int
    text: str
    safe: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A range of a file, from 1; the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True)
class Located:
    """One finding at its place in a file.

    `basis` says which machine and release it was judged for, and what told them; `changes`
    together cure it; `variants` are the ways through the file on which it holds. `fixable` says
    whether `--fix` cures it (`"safe"`), or only with `--unsafe-fixes` (`"unsafe"`).
    """

    path: str
    place: Place
    finding: Finding
    launch: int | None = None
    basis: str = ""
    changes: tuple[Change, ...] = ()
    variants: list[int] = field(default_factory=list)
    fixable: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether every change of it keeps what the launch does."""
        return all(change.safe for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON, with its place."""
        out = self.finding.to_json()
        out["path"] = self.path
        out["span"] = {
            "line": self.place.line,
            "column": self.place.column,
            "end_line": self.place.end_line,
            "end_column": self.place.end_column,
        }
        if self.basis:
            out["basis"] = self.basis
        out["fixable"] = bool(self.fixable)
        return out


@dataclass(slots=True)
class FileReport:
    """Everything about one file; `startups` has a verdict for each variant of each launch."""

    path: str
    lines: Lines
    launches: list[Found] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    located: list[Located] = field(default_factory=list)
    startups: list[tuple[str, ...]] = field(default_factory=list)
    encoding: Encoding = UTF8

    def place(self, start: int, end: int) -> Place:
        """The range between two offsets."""
        line, column = self.lines.place(start)
        end_line, end_column = self.lines.place(max(end, start))
        return Place(line, column, end_line, end_column)


@dataclass(slots=True)
class Told:
    """What is told of one file: all that a report needs, and nothing of the file's text else.

    Attributes:
        launches: line and column at which each launch begins.
        skipped: line, column, what and why of each thing passed over.
        excerpts: the lines that findings stand on.
        fails: whether a finding reaches the threshold.
    """

    path: str
    located: list[Located] = field(default_factory=list)
    launches: list[tuple[int, int]] = field(default_factory=list)
    skipped: list[tuple[int, int, str, str]] = field(default_factory=list)
    excerpts: dict[int, str] = field(default_factory=dict)
    fails: bool = False

    def line(self, number: int) -> str:
        """Text of a line that a finding stands on; empty where the file was not read."""
        return self.excerpts.get(number, "")


def told(report: FileReport, *, fails: bool) -> Told:
    """The part of a report that is kept."""
    located = _once(report.located)
    for one in located:
        one.changes = ()  # only a fixer needs them
    numbers = {one.place.line for one in located}
    return Told(
        report.path,
        located,
        [report.lines.place(found.start) for found in report.launches],
        [(*report.lines.place(one.start), one.what, one.reason) for one in report.skipped],
        {number: report.lines.line(number) for number in numbers} if report.lines.text else {},
        fails,
    )


def _once(found: Iterable[Located]) -> list[Located]:
    """Each finding once, though several launches share the word that it is about."""
    seen: dict[tuple[object, ...], Located] = {}
    for one in found:
        seen.setdefault((one.finding.code, one.finding.message, one.place), one)
    return list(seen.values())
