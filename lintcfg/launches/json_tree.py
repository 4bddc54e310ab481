"""Reads JSON with the place of every value."""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]

from .escapes import unescaped
from .model import TOO_DEEP
from .text import Source, aligned
from .tree import Document, Node

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity")
_MAX_DEPTH = 200


class _Broken(Exception):
    """Not JSON from here on."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


def read(source: Source) -> Document:
    """Read one JSON text."""
    document = Document()
    reader = _Reader(source, document)
    try:
        document.roots.append(reader.value(reader.space(0), 0)[0])
    except _Broken as error:
        document.troubles.append((source.at(min(error.place, len(source.text))), error.message))
    except (ValueError, IndexError, RecursionError):
        document.troubles.append((source.start, "not JSON"))
    return document


class _Reader:
    def __init__(self, source: Source, document: Document) -> None:
        self.source = source
        self.text = source.text
        self.document = document

    def space(self, place: int) -> int:
        """Position after blanks."""
        match = _SPACE.match(self.text, place)
        return match.end() if match else place

    def value(self, place: int, depth: int) -> tuple[Node, int]:
        """The value at a position, and the position behind it."""
        if depth > _MAX_DEPTH:
            raise _Broken(place, TOO_DEEP)
        character = self.text[place : place + 1]
        if character == '"':
            return self.string(place)
        if character == "{":
            return self.mapping(place, depth)
        if character == "[":
            return self.array(place, depth)
        match = _NUMBER.match(self.text, place)
        if match is None:
            raise _Broken(place, "not JSON: a value is missing")
        raw = self.source.slice(place, match.end())
        return Node(raw.start, raw.end, raw), match.end()

    def string(self, place: int) -> tuple[Node, int]:
        """A string with its escapes undone."""
        value, end = scanstring(self.text, place + 1, False)
        raw = self.source.slice(place + 1, end - 1)
        if raw.text != value:
            exact = unescaped(raw)
            raw = exact if exact is not None and exact.text == value else aligned(value, raw)
        return Node(self.source.at(place), self.source.at(end - 1) + 1, raw, quoted=True), end

    def array(self, place: int, depth: int) -> tuple[Node, int]:
        """A list."""
        node = Node(self.source.at(place), 0, items=[])
        assert node.items is not None
        here = self.space(place + 1)
        while self.text[here : here + 1] != "]":
            item, here = self.value(here, depth + 1)
            node.items.append(item)
            here = self._comma(here, "]")
        node.end = self.source.at(here) + 1
        return node, here + 1

    def mapping(self, place: int, depth: int) -> tuple[Node, int]:
        """An object."""
        node = Node(self.source.at(place), 0, pairs=[])
        assert node.pairs is not None
        here = self.space(place + 1)
        while self.text[here : here + 1] != "}":
            if self.text[here : here + 1] != '"':
                raise _Broken(here, "not JSON: a key is missing")
            key, here = self.string(here)
            here = self.space(here)
            if self.text[here : here + 1] != ":":
                raise _Broken(here, "not JSON: a colon is missing")
            value, here = self.value(self.space(here + 1), depth + 1)
            node.pairs.append((key, value))
            here = self._comma(here, "}")
        node.end = self.source.at(here) + 1
        return node, here + 1

    def _comma(self, here: int, closing: str) -> int:
        here = self.space(here)
        found = self.text[here : here + 1]
        if found == ",":
            return self.space(here + 1)
        if found != closing:
            raise _Broken(here, f"not JSON: a comma or {closing} is missing")
        return here
