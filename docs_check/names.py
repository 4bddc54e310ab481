"""Names: what pages call a backend, and what other releases called it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..matrix.loader import DEFAULT_ENGINE, data_folder, releases
from .data import load, read

_PARENTHESES = re.compile(r"\s*\(([^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class Former:
    """A backend's name that this release lacks."""

    name: str
    first: str
    last: str
    removed: str | None
    replacement: tuple[str, ...] = ()
    note: str = ""
    later: bool = False

    def __str__(self) -> str:
        if self.later:
            return f"first in {self.first}"
        told = f"removed in {self.removed}" if self.removed else f"last seen in {self.last}"
        return told + (f" ({self.note})" if self.note else "")


@cache
def _history() -> dict[str, Any]:
    """The names of all releases, from the newest matrix that has a history."""
    for release in reversed(releases(DEFAULT_ENGINE)):
        path = Path(data_folder(release=release), "history.yaml")
        if path.exists():
            return read(path)
    return {}


def _before(release: str | None, first: str) -> bool:
    """Whether a release is earlier than the first one that has a name."""
    if not release or not first:
        return False
    ours, theirs = ([int(part) for part in re.findall(r"\d+", one)] for one in (release, first))
    return ours < theirs


def former_names(known: Iterable[str], release: str | None = None) -> dict[str, Former]:
    """Backends of other releases that are not among those known here."""
    own = set(known)
    found: dict[str, Former] = {}
    for entry in _history().get("values", ()):
        name = entry["value"]
        if not any("attention-backend" in flag for flag in entry.get("flags", ())):
            continue
        if name in own or name in found:
            continue
        first = str(entry.get("first_seen", ""))
        later = _before(release, first)
        found[name] = Former(
            name, first, str(entry.get("last_seen", "")), entry.get("removed_in"),
            () if later else tuple(entry.get("replacement") or ()), entry.get("note") or "", later,
        )  # fmt: skip
    return found


class Displays:
    """Finds the flag value that a display name stands for."""

    def __init__(self, part: str, names: Iterable[str], former: Iterable[str]) -> None:
        self.names = list(dict.fromkeys(names))
        self.former = list(former)
        self._table: dict[str, str] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}
        entries: dict[str, list[str]] = load("names")[part]["backends"]
        for value, displays in entries.items():
            for display in displays:
                self._table[display] = value
        for name in (*self.former, *self.names):
            self._table[name] = name
            self._table[name.replace("_", " ")] = name

    def find(self, text: str) -> str | None:
        """The value for a display name; what is in parentheses is only a second try."""
        text = text.strip().strip("*`").strip()
        outside = _PARENTHESES.sub(" ", text).strip()
        for candidate in (outside, text, *_PARENTHESES.findall(text)):
            found = self._table.get(re.sub(r"[\s-]+", " ", candidate.lower()).strip())
            if found is not None:
                return found
        return None

    def forms(self, name: str) -> list[str]:
        """Every way to write a name, longest first."""
        return sorted((form for form, value in self._table.items() if value == name),
                      key=len, reverse=True)  # fmt: skip

    def mentions(self, name: str, text: str) -> int:
        """Where a text first mentions a name (as a word, in any form), or -1."""
        pattern = self._patterns.get(name)
        if pattern is None:
            forms = "|".join(
                re.escape(form).replace(r"\ ", r"[\s_-]+") for form in self.forms(name)
            )
            pattern = re.compile(rf"(?<![\w-])(?:{forms})(?![\w])" if forms else r"(?!)", re.I)
            self._patterns[name] = pattern
        match = pattern.search(text)
        return match.start() if match else -1


def former_flag(name: str, release: str | None = None) -> str | None:
    """What became of a flag that other releases had, in words."""
    entry = next((one for one in _history().get("flags", ()) if one["name"] == name), None)
    if entry is None:
        return None
    if _before(release, str(entry.get("first_seen", ""))):
        return f"first in {entry['first_seen']}"
    told = f"removed in {entry['removed_in']}" if entry.get("removed_in") else "of another release"
    if entry.get("replacement"):
        told += f"; use {', '.join(entry['replacement'])}"
    return told
