"""Reads TOML; the place of each text is looked up in the file in the order of the document."""

from __future__ import annotations

import tomllib
from typing import Any

from .text import Source, aligned, made
from .tree import Document, Node


def read(source: Source) -> Document:
    """Read one TOML text."""
    document = Document()
    try:
        data = tomllib.loads(source.text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:  # Python reads no number of 4,301 digits
        document.troubles.append((source.start, f"not TOML: {error}"))
        return document
    document.roots.append(_Finder(source).node(data))
    return document


class _Finder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.position = 0

    def scalar(self, text: str) -> Node:
        """A text at its next occurrence from where the last one was found."""
        found = self.source.text.find(text, self.position) if text else -1
        if found < 0 and text:
            first = text.strip().split("\n")[0].split('"')[0]
            found = self.source.text.find(first, self.position) if first else -1
            if found < 0:
                raw = made(text, self.source.at(min(self.position, len(self.source.text))))
            else:
                raw = aligned(text, self.source.slice(found, len(self.source.text)))
                self.position = found + len(first)
        elif found < 0:
            raw = made("", self.source.at(min(self.position, len(self.source.text))))
        else:
            raw = self.source.slice(found, found + len(text))
            self.position = found + len(text)
        return Node(raw.start, raw.end, raw, quoted=True)

    def node(self, value: Any) -> Node:
        """The node for a value."""
        if isinstance(value, dict):
            node = Node(self.source.at(self.position), 0, pairs=[])
            assert node.pairs is not None
            for key, item in value.items():
                node.pairs.append((self.scalar(str(key)), self.node(item)))
        elif isinstance(value, list):
            node = Node(self.source.at(self.position), 0, items=[])
            assert node.items is not None
            node.items += [self.node(item) for item in value]
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            return self.scalar(text)
        node.end = self.source.at(min(self.position, len(self.source.text)))
        return node
