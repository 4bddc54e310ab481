"""What checking a file yields: findings with their place, and the edits that would cure them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..findings import Finding
from ..launches import Found, Lines, Skipped
from .changes import Change


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
    together cure it; `variants` are the ways through the file on which it holds.
    """

    path: str
    place: Place
    finding: Finding
    launch: int | None = None
    basis: str = ""
    changes: tuple[Change, ...] = ()
    variants: list[int] = field(default_factory=list)

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
        out["fixable"] = bool(self.changes) and self.finding.certain
        return out


@dataclass(slots=True)
class FileReport:
    """Everything about one file; `mark` is the byte order mark that its text began with."""

    path: str
    lines: Lines
    mark: str = ""
    launches: list[Found] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    located: list[Located] = field(default_factory=list)
    startups: list[str] = field(default_factory=list)

    def place(self, start: int, end: int) -> Place:
        """The range between two offsets."""
        line, column = self.lines.place(start)
        end_line, end_column = self.lines.place(max(end, start))
        return Place(line, column, end_line, end_column)

    def encoded(self, text: str) -> bytes:
        """The bytes of the file with another text in it."""
        return (self.mark + text).encode("utf-8")
