"""Trees of structured files: mappings, lists and scalars that know where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .text import Source


@dataclass(slots=True)
class Node:
    """One value of a structured file.

    `pairs` holds a mapping's keys and values, `items` a list's values, `source` a scalar's text;
    the two others are None. `quoted` tells a scalar that is text whatever it looks like.
    """

    start: int
    end: int
    source: Source | None = None
    items: list[Node] | None = None
    pairs: list[tuple[Node, Node]] | None = None
    quoted: bool = False
    block: bool = False

    @property
    def text(self) -> str:
        """A scalar's text, empty for others."""
        return self.source.text if self.source is not None else ""

    def get(self, *names: str) -> Node | None:
        """Value of the first of the names that a mapping has, case aside."""
        for name in names:
            for key, value in self.pairs or ():
                if key.text == name or key.text.lower() == name.lower():
                    return value
        return None

    def scalars(self) -> Iterator[Source]:
        """Texts of the list's scalars."""
        for item in self.items or ():
            if item.source is not None:
                yield item.source


@dataclass(slots=True)
class Document:
    """The roots of a file and what is wrong with it."""

    roots: list[Node] = field(default_factory=list)
    troubles: list[tuple[int, str]] = field(default_factory=list)
    duplicates: list[tuple[int, str]] = field(default_factory=list)
