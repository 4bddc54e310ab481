"""Cuts a module into its statements by text alone, so that only what matters gets parsed.

libcst parses some 0.7 MB/s, and the files that talk about attention come to ten times that. A
module is therefore cut where a line begins a statement (outside strings and brackets), and each
piece is parsed when a fact needs it. A piece that does not parse is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_STRINGS = re.compile(
    r"#[^\n]*"
    r'|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    re.S,
)
#: What stands for a blanked character: white space, but none that indents code, so that a line
#: of a string keeps the indentation that it has and gets no more.
_FILLER = "\f"
#: Words that go on with the statement above them.
_CONTINUES = re.compile(r"(?:else|elif|except|finally|case)\b")
_DEFINES = re.compile(r"(?:async\s+)?def\s+(\w+)|class\s+(\w+)")
_ASSIGNS = re.compile(r"(\w+)\s*(?::[^=]*)?=(?!=)|(\w+)\s*:")
_AFTER_DECORATOR = re.compile(r"^(?=(?:async\s+)?(?:def|class)\b|@)", re.M)
_HEADER = re.compile(r"class\s+\w+[^:\[(]*(\((?:[^()]|\([^()]*\))*\))?\s*:")
_STATEMENT_START = re.compile(r"^(?=[^\W\d]|@)", re.M)
_NOT_ASSIGNED = ("if", "for", "while", "with", "try", "else", "return", "assert", "raise")


def blank(text: str) -> str:
    """The text with strings and comments blanked out, character for character.

    A string's quotes go as well; line ends stay, so lines and columns keep their places.
    """
    return _STRINGS.sub(_blanks, text)


def _blanks(match: re.Match[str]) -> str:
    found = match[0]
    if "\n" not in found:
        return _FILLER * len(found)
    lines = []
    for line in found.split("\n"):
        seen = len(line.lstrip(" \t"))
        lines.append(line[: len(line) - seen] + _FILLER * seen)
    return "\n".join(lines)


def string_lines(text: str) -> list[int]:
    """Line of each string of a text, 1-based."""
    found = []
    line, position = 1, 0
    for match in _STRINGS.finditer(text):
        if text[match.start()] == "#":
            continue
        line += text.count("\n", position, match.start())
        position = match.start()
        found.append(line)
    return found


@dataclass(slots=True)
class Segment:
    """One statement of a module or of a class body.

    Attributes:
        file: path below the package.
        kind: def, class, import, assign, block or other.
        name: what it defines, or an empty string; `qualname` has the classes before it.
        line: first line in the file (1-based), decorators included.
        text: source, with the indentation taken off; `blanked` is the same without strings
            and comments.
        indent: how many columns were taken off.
    """

    file: str
    kind: str
    name: str
    qualname: str
    line: int
    text: str
    blanked: str
    indent: int = 0
    _members: list[Segment] | None = None
    cache: dict[str, object] = field(default_factory=dict)

    @property
    def end_line(self) -> int:
        """Last line in the file."""
        return self.line + self.text.count("\n", 0, len(self.text.rstrip()))

    def is_code(self, position: int) -> bool:
        """Whether a position of the text is outside of strings and comments."""
        return self.blanked[position] == self.text[position]

    def members(self) -> list[Segment]:
        """Statements of a class body."""
        if self._members is None:
            self._members = list(_class_members(self)) if self.kind == "class" else []
        return self._members

    def header(self) -> str:
        """A class's text up to its body: decorators, name and bases."""
        match = _HEADER.search(self.blanked)
        return self.text[: match.end()] if match else self.text.partition("\n")[0]


def split(file: str, text: str) -> list[Segment]:
    """Cut a module's text into segments."""
    return list(_cut(file, text, blank(text), 1, ""))


def _cut(
    file: str, text: str, masked: str, first_line: int, prefix: str, indent: int = 0
) -> Iterator[Segment]:
    """Cut text whose statements begin at column 0."""
    starts: list[int] = []
    depth = 0
    counted = 0
    decorated = False
    swallowed = -1
    for match in _STATEMENT_START.finditer(masked):
        position = match.start()
        # What begins a line inside brackets, or after a backslash, begins no statement.
        depth += _depth(masked, counted, position)
        counted = position
        if depth > 0 and _DEFINES.match(masked, position):
            # A bracket is never closed: what it swallowed is lost, the rest need not be.
            if swallowed >= 0:
                starts.append(swallowed)
                decorated = True
        elif depth > 0 or masked[max(position - 2, 0) : position] == "\\\n":
            if swallowed < 0 and masked[position] == "@":
                swallowed = position
            continue
        depth, swallowed = 0, -1
        if _CONTINUES.match(masked, position):
            continue
        if not decorated:
            starts.append(position)
        decorated = masked[position] == "@"
    line, at = first_line, 0
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(masked)
        line += masked.count("\n", at, start)
        at = start
        body_masked = masked[start:end]
        kind, name = _describe(body_masked)
        qualname = f"{prefix}{name}" if name else prefix.rstrip(".")
        yield Segment(file, kind, name, qualname, line, text[start:end], body_masked, indent)


def _depth(masked: str, start: int, end: int) -> int:
    """How many brackets are opened and not closed in a stretch of text."""
    count = masked.count
    return (
        count("(", start, end) + count("[", start, end) + count("{", start, end)
        - count(")", start, end) - count("]", start, end) - count("}", start, end)
    )  # fmt: skip


def _describe(masked: str) -> tuple[str, str]:
    position = 0
    while masked[position : position + 1] == "@":
        after = _AFTER_DECORATOR.search(masked, position + 1)
        if after is None:
            return "other", ""
        position = after.start()
    rest = masked[position : position + 400]
    found = _DEFINES.match(rest)
    if found:
        return ("def", found[1]) if found[1] else ("class", found[2])
    if rest.startswith(("import ", "from ")):
        return "import", ""
    found = _ASSIGNS.match(rest)
    if found and not rest.startswith(_NOT_ASSIGNED):
        return "assign", found[1] or found[2]
    if rest.startswith(("if ", "if(", "try", "with ", "for ", "while ")):
        return "block", ""
    found = _ASSIGNS.match(rest)
    return ("assign", found[1] or found[2]) if found else ("other", "")


def _class_members(segment: Segment) -> Iterator[Segment]:
    begin = len(segment.header())
    body_start = segment.text.find("\n", begin)
    if body_start < 0:
        return
    body_start += 1
    masked = segment.blanked[body_start:]
    # The first statement tells the width; a docstring is blank here and says nothing.
    first = re.search(r"^([ \t]+)(?=[^\W\d]|@)", masked, re.M)
    if first is None:
        return
    line = segment.line + segment.text.count("\n", 0, body_start)
    yield from _cut(
        segment.file, _without(first[1], segment.text[body_start:]), _without(first[1], masked),
        line, f"{segment.qualname}.", segment.indent + len(first[1]),
    )  # fmt: skip


def _without(margin: str, text: str) -> str:
    """The text with a margin taken off every line that has it."""
    return text.removeprefix(margin).replace(f"\n{margin}", "\n")
