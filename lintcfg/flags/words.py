"""The words that argparse gets: which are options, and where each comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .problems import ConfigSpot
from .table import FlagTable

#: An option: its flag's index, the full name that was meant, and the value behind an equals sign.
Option = tuple[int, str, str | None]

#: Index of an option that the parser does not have, and of one that could be several.
UNKNOWN, AMBIGUOUS = -2, -3

_NEGATIVE_NUMBER = r"^-\d+$|^-\d*\.\d+$"


class Words:
    """A command line, classified word by word."""

    def __init__(
        self,
        argv: Sequence[str],
        table: FlagTable,
        words: list[str],
        origins: list[int | ConfigSpot] | None,
        unknown: frozenset[int],
    ) -> None:
        """Take `words`, which argparse gets instead of `argv`, and the place each comes from."""
        self.argv = argv
        self.table = table
        self.all = words
        self.origins = origins
        self.unknown = unknown
        self.options: list[Option | None] = []
        self._classify()

    def _classify(self) -> None:
        """Tell options from values, word by word, as argparse does before anything else."""
        names = self.table.names
        options = self.options
        for word in self.all:
            if not word or word[0] != "-":
                options.append(None)
            elif word in names:
                options.append((names[word], word, None))
            elif word == "--":
                break  # all that follows is a value, and nothing takes it
            else:
                options.append(self._option(word))
        options += [None] * (len(self.all) - len(options))

    def _option(self, word: str) -> Option | None:
        """An option that is not spelled out: `(flag, full name, explicit value)`."""
        if len(word) == 1:
            return None
        names = self.table.names
        head, equals, tail = word.partition("=")
        explicit = tail if equals else None
        if equals and head in names:
            return names[head], head, explicit
        if word.startswith("--"):
            matching = self.table.matches(head)
            if len(matching) == 1:
                return names[matching[0]], matching[0], explicit
            if matching:
                return AMBIGUOUS, head, explicit
        elif word[:2] in names:
            return names[word[:2]], word[:2], word[2:]
        if re.match(_NEGATIVE_NUMBER, word) or " " in word:
            return None
        return UNKNOWN, head, explicit

    def values_end(self, start: int, limit: int) -> int:
        """Position after the run of values that begins at `start`."""
        options = self.options
        while start < limit and options[start] is None:
            start += 1
        return start

    def holds_unknown(self, position: int, end: int) -> bool:
        """Whether one of the words is one that only a shell could fill in."""
        if not self.unknown:
            return False
        if self.origins is None:
            return any(place in self.unknown for place in range(position, end))
        return any(self.origins[place] in self.unknown for place in range(position, end))

    def place(self, position: int, end: int) -> tuple[int | None, int | None, ConfigSpot | None]:
        """Where words stand in the argv that was given, or in a configuration file."""
        if self.origins is None:
            return position, end, None
        origin = self.origins[position] if position < len(self.origins) else len(self.argv)
        if isinstance(origin, ConfigSpot):
            return None, None, origin
        return origin, origin + (end - position), None
