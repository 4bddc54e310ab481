"""The marks of a page between which `docs generate` keeps a table."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(
    r"^[ \t]*(?:\{/\*|<!--)\s*attn-lint: (?:table (?P<family>\w+)|(?P<end>end))\s*(?:\*/\}|-->)"
    r"[ \t]*$",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Marked:
    """What stands between two marks: the family of its table, and where it begins and ends."""

    family: str
    start: int
    end: int


def marked(text: str, fences: list[tuple[int, int]]) -> list[Marked]:
    """The stretches between marks, outside of code; a mark without its end is none."""
    found: list[Marked] = []
    begin: re.Match[str] | None = None
    for match in _MARK.finditer(text):
        if any(start <= match.start() < end for start, end in fences):
            continue
        if begin is not None and match["end"]:
            found.append(Marked(begin["family"], begin.end(), match.start()))
        begin = match if match["family"] else None
    return found
