"""Where the entries of an array of tables stand in a TOML file; the reader keeps no places."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

#: What closes an array that a line is in the middle of, and the inline table around it.
_ENDS = ("", "]", "]}", "]}}")


def entry_line(text: str, tables: Sequence[str], number: int, key: str = "") -> int | None:
    """The line of an entry of the array at `tables` (the first is 1), or of a key in it.

    What stands above a line is read as a file of its own: the first with which the entry is there,
    or has its key, is the one.
    """
    lines = text.split("\n")
    start = end = None
    for count, entries in _growing(lines, tables):
        if len(entries) < number:
            continue
        start = start or count
        if not key or key in entries[number - 1]:
            end = count
            break
    if start is None or not key or end is None:
        return start
    # A value may go over several lines; its key is on the first.
    named = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=")
    return next((n for n in range(end, start, -1) if named.search(lines[n - 1])), end)


def _growing(lines: list[str], tables: Sequence[str]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The entries of the array after each line, where the file can be read up to there."""
    for count in range(1, len(lines) + 1):
        above = "\n".join(lines[:count])
        for end in _ENDS:
            try:
                data: Any = tomllib.loads(above + end)
            except (tomllib.TOMLDecodeError, RecursionError):
                continue
            for table in tables:
                data = data.get(table, {}) if isinstance(data, dict) else {}
            if isinstance(data, list):
                yield count, [entry if isinstance(entry, dict) else {} for entry in data]
            break
