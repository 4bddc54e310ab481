"""Reads YAML with the place of every value, Helm templates as far as they are YAML."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .model import TOO_DEEP
from .text import MASK, Source, aligned, join
from .tree import Document, Node

_TEMPLATE = re.compile(r"\$?\{\{.*?\}\}|\{%.*?%\}|(?<!\$)\{#[^\n]*?#\}", re.DOTALL)
#: A line that holds nothing but template directives.
_DIRECTIVE = re.compile(
    r"^[ \t]*(?:-[ \t]*)?(?:(?:\{\{[^\n]*?\}\}|\{%[^\n]*?%\}|\{#[^\n]*?#\})[ \t]*)+$", re.MULTILINE
)
#: A directive that steers the template and prints nothing itself.
_CONTROL = re.compile(
    r"\{\{-?\s*(?:(?:if|else|end|range|with|define|block)\b|/\*|\$\w*\s*:?=)|\{[%#]"
)
#: A choice within a line: which side it takes is not known.
_CHOICE = re.compile(
    r"\{\{-?\s*(?:if|with)\b[^\n]*?\{\{-?\s*else\b[^\n]*?\{\{-?\s*end\s*-?\}\}"
    r"|\{%-?\s*if\b[^\n]*?\{%-?\s*else\b[^\n]*?\{%-?\s*endif\s*-?%\}"
)
#: Nesting beyond this is no deployment file, and costs the parser its stack.
_MAX_DEPTH = 400
_MAX_NODES = 400_000


class _TooBig(Exception):
    """The document is not one that a person keeps."""


def read(source: Source) -> Document:
    """Read all documents of a text. What cannot be read is told, the rest is kept."""
    import yaml

    text = source.text
    masked = mask(text) if is_template(text) else text
    document = Document()
    if _depth(masked) > _MAX_DEPTH or "\0" in text:
        document.troubles.append((0, TOO_DEEP if "\0" not in text else "not YAML: it holds NULs"))
        return document
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    roots: list[Any] = []
    try:
        parser = loader(masked)
        try:
            while parser.check_node():
                roots.append(parser.get_node())
        finally:
            parser.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = mark.index if mark is not None else 0
        document.troubles.append((min(place, len(text)), f"not YAML: {error.problem}"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()
        document.troubles.append((0, f"not YAML: {reason[0] if reason else 'unreadable'}"))
    builder = _Builder(source, replace(source, text=masked), document)
    for root in roots:
        try:
            document.roots.append(builder.node(root, 0))
        except (_TooBig, RecursionError):
            document.troubles.append((root.start_mark.index, "too large to be read here"))
    return document


def is_template(text: str) -> bool:
    """Whether a text has template directives of Helm, Go or Jinja in it."""
    return "{{" in text or "{%" in text


def mask(text: str) -> str:
    """Put marks of the same length over template text; directives that print nothing become blank.

    A directive between continued lines continues them too, as the rendered text would.
    """

    def blank(match: re.Match[str]) -> str:
        line = match.group()
        before = text[: match.start()].rstrip("\n")
        return " " * (len(line) - 1) + "\\" if before.endswith("\\") and line else " " * len(line)

    def cover(match: re.Match[str]) -> str:
        filler = " " if _CONTROL.match(match.group()) else MASK
        return "".join("\n" if character == "\n" else filler for character in match.group())

    def covered(match: re.Match[str]) -> str:
        return MASK * len(match.group())

    text = _DIRECTIVE.sub(lambda m: blank(m) if _is_control(m.group()) else m.group(), text)
    text = _CHOICE.sub(covered, text)
    return _TEMPLATE.sub(cover, text)


def _is_control(line: str) -> bool:
    """Whether a line of template text stands for no YAML value of its own."""
    stripped = line.strip()
    return not stripped.startswith("-") and not stripped.endswith(":")


def _depth(text: str) -> int:
    """How deep flow brackets nest, or blocks by their indentation."""
    depth = deepest = 0
    if text.count("[") + text.count("{") > _MAX_DEPTH:
        for character in text:
            if character in "[{":
                depth += 1
                deepest = max(deepest, depth)
            elif character in "]}":
                depth = max(0, depth - 1)
    dashes = max((len(line) - len(line.lstrip(" -")) for line in text.split("\n")), default=0)
    return max(deepest, dashes // 2)


class _Builder:
    """Makes nodes with places out of the parser's."""

    def __init__(self, source: Source, masked: Source, document: Document) -> None:
        self.source = source
        self.masked = masked
        self.document = document
        self.made: dict[int, Node] = {}
        self.count = 0

    def node(self, given: Any, depth: int) -> Node:
        """The node for one of the parser's, the same one for an alias."""
        known = self.made.get(id(given))
        if known is not None:
            return known
        self.count += 1
        if self.count > _MAX_NODES or depth > _MAX_DEPTH:
            raise _TooBig
        start, end = given.start_mark.index, given.end_mark.index
        kind = given.id
        if kind == "scalar":
            node = self.scalar(given, start, end)
            self.made[id(given)] = node
            return node
        node = Node(self.source.at(start), self.source.at(max(start, end - 1)) + 1)
        self.made[id(given)] = node
        if kind == "sequence":
            node.items = []
            for item in given.value:
                node.items.append(self.node(item, depth + 1))
        else:
            node.pairs = []
            seen: set[str] = set()
            for key, value in given.value:
                pair = self.node(key, depth + 1), self.node(value, depth + 1)
                if key.id == "scalar" and key.value != "<<":
                    if key.value in seen:
                        self.document.duplicates.append((pair[0].start, key.value))
                    seen.add(key.value)
                node.pairs.append(pair)
        return node

    def scalar(self, given: Any, start: int, end: int) -> Node:
        """A scalar, its text mapped back to the file."""
        raw = self.source.slice(start, end)
        value: str = given.value
        style = given.style
        if style in ("|", ">"):
            text = self.block(self.masked.slice(start, end), value, style)
        elif MASK in value:
            text = self.restored(value, raw)
        elif style in ("'", '"') and raw.text[1:-1] == value:
            text = raw.slice(1, len(raw.text) - 1)
        elif raw.text == value:
            text = raw
        else:
            text = replace(aligned(value, raw))
        last = self.source.at(max(start, end - 1)) + 1
        return Node(raw.start, last, text, quoted=bool(style), block=style in ("|", ">"))

    def block(self, raw: Source, value: str, style: str) -> Source:
        """A literal or folded block: each line without its indentation."""
        lines = list(raw.lines())
        indent = None
        parts: list[Source] = []
        position = len(lines[0].text) + 1 if lines else 0
        text = raw.text
        header = lines[0].text if lines else ""
        digits = [character for character in header[1:3] if character.isdecimal()]
        for line in text[position:].split("\n"):
            if indent is None and line.strip():
                indent = len(line) - len(line.lstrip(" "))
                if digits:  # blanks beyond the number that is given belong to the text
                    indent -= _first_indent(value)
            drop = min(indent or 0, len(line) - len(line.lstrip(" ")))
            end = min(position + len(line) + 1, len(text))
            parts.append(raw.slice(min(position + drop, end), end))
            position += len(line) + 1
        literal = join(parts)
        if style == "|" and literal.text.rstrip() == value.rstrip():
            return self.opened(literal.slice(0, len(literal.text.rstrip())), value)
        return self.restored(value, raw) if MASK in value else aligned(value.rstrip("\n"), literal)

    def opened(self, literal: Source, value: str) -> Source:
        """Holes where the value was masked."""
        if MASK not in value:
            return literal
        holes = tuple(
            (number, number + 1)
            for number, character in enumerate(value[: len(literal.text)])
            if character == MASK
        )
        return replace(literal, text=value[: len(literal.text)], holes=holes)

    def restored(self, value: str, raw: Source) -> Source:
        """A scalar with template text in it: the text as the file has it, with holes."""
        text = raw.text
        inner = raw.slice(1, len(text) - 1) if text[:1] in "'\"" and len(text) > 1 else raw
        if len(inner.text) == len(value):
            holes = tuple(
                (number, number + 1) for number, character in enumerate(value) if character == MASK
            )
            return replace(inner, holes=holes)
        return aligned(value, raw).opened()


def _first_indent(text: str) -> int:
    """Blanks before the first line that has more than blanks."""
    line = next((line for line in text.split("\n") if line.strip()), "")
    return len(line) - len(line.lstrip(" "))
