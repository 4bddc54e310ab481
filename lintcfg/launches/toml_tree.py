"""Reads TOML; the place of each text is looked up among the words and strings of the file."""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Iterator
from typing import Any

from .escapes import unescaped
from .text import Source, made
from .tree import Document, Node

#: Comments, strings of four kinds, and words; a key may have several words with dots between.
_TOKEN = re.compile(
    r'#[^\n]*|"""(?P<block>(?:\\.|[^\\])*?"{0,2})"""|'
    r"'''(?P<raw_block>.*?'{0,2})'''|"
    r'"(?P<line>(?:\\.|[^"\\\n])*)"|'
    r"'(?P<raw_line>[^'\n]*)'|"
    r"(?P<word>[^\s=,\[\]{}#\"']+)(?P<key>(?=[^\S\n]*[=\].]))?",
    re.DOTALL,
)


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


def _texts(source: Source) -> Iterator[tuple[bool, str, Source]]:
    """Strings and words in the order of the file: which it is, what it says, where it stands."""
    for match in _TOKEN.finditer(source.text):
        kind = match.lastgroup
        if kind is None:
            continue
        if match["word"] is not None:
            start = match.start("word")
            yield False, _number(match["word"]), source.slice(start, match.end("word"))
            if match["key"] is not None and "." in match["word"]:
                for part in match["word"].split("."):
                    yield False, part, source.slice(start, start + len(part))
                    start += len(part) + 1
            continue
        raw = source.slice(match.start(kind), match.end(kind))
        if kind.endswith("block") and raw.text.startswith("\n"):
            raw = raw.slice(1, len(raw.text))  # a break behind the opening quotes does not count
        if not kind.startswith("raw") and "\\" in raw.text:
            raw = unescaped(raw) or raw
        yield True, raw.text, raw


def _number(word: str) -> str:
    """A word as Python writes the number that it is."""
    for reader in (lambda text: int(text, 0), float):
        try:
            return str(reader(word.replace("_", "")))
        except ValueError:
            continue
    return word


class _Finder:
    def __init__(self, source: Source) -> None:
        self.place = source.start
        self.known: dict[tuple[bool, str], deque[Source]] = {}
        for is_string, text, there in _texts(source):
            self.known.setdefault((is_string, text), deque()).append(there)

    def scalar(self, text: str, *kinds: bool) -> Node:
        """A text where the file has it, as a string or as a word; each place is taken once."""
        several = [self.known[kind, text] for kind in kinds if self.known.get((kind, text))]
        first = min(several, key=lambda places: places[0].start, default=None)
        raw = first.popleft() if first else made(text, self.place)
        self.place = raw.start
        if raw.text != text:  # a number that is written in another way
            raw = made(text, raw.start)
        return Node(raw.start, raw.end, raw, quoted=True)

    def node(self, value: Any) -> Node:
        """The node for a value."""
        if isinstance(value, dict):
            node = Node(self.place, 0, pairs=[])
            assert node.pairs is not None
            for key, item in value.items():
                node.pairs.append((self.scalar(key, True, False), self.node(item)))
        elif isinstance(value, list):
            node = Node(self.place, 0, items=[])
            assert node.items is not None
            node.items += [self.node(item) for item in value]
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            return self.scalar(text, isinstance(value, str))
        node.end = self.place
        return node
