"""Cuts a module into its statements by text alone, so that only what matters gets parsed.

libcst parses some 0.7 MB/s, and the files that talk about attention come to ten times that. A
module is therefore cut where a line begins a statement (outside strings and brackets), and each
piece is parsed when a fact needs it. Where a piece does not parse on its own, the whole module
is parsed instead; where that fails as well, the piece is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_STRINGS = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'",
    re.S,
)
_NOT_NEWLINE = re.compile(r"[^\n]")
#: Words that go on with the statement above them.
_CONTINUES = re.compile(r"(?:else|elif|except|finally|case)\b")
_DEFINES = re.compile(r"(?:async\s+)?def\s+(\w+)|class\s+(\w+)")
_ASSIGNS = re.compile(r"(\w+)\s*(?::[^=]*)?=(?!=)|(\w+)\s*:")
_OPENING, _CLOSING = re.compile(r"[(\[{]"), re.compile(r"[)\]}]")


def blank(text: str) -> str:
    """The text with strings and comments blanked out, character for character.

    A string's quotes go as well; line ends stay, so lines and columns keep their places.
    """
    return _STRINGS.sub(lambda match: _NOT_NEWLINE.sub(" ", match[0]), text)


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


def uncommented(text: str) -> str:
    """The text with comments (not strings) blanked out."""
    return _STRINGS.sub(
        lambda match: _NOT_NEWLINE.sub(" ", match[0]) if match[0][0] == "#" else match[0], text
    )


@dataclass(slots=True)
class Segment:
    """One statement of a module or of a class body.

    Attributes:
        file: path below the package.
        kind: def, class, import, assign or other.
        name: what it defines, or an empty string; `qualname` has the classes before it.
        line: first line in the file (1-based), decorators included.
        text: source, with the indentation taken off.
        indent: how many columns were taken off.
    """

    file: str
    kind: str
    name: str
    qualname: str
    line: int
    text: str
    indent: int = 0
    blanked: str = ""
    _members: list[Segment] | None = None
    cache: dict[str, object] = field(default_factory=dict)

    @property
    def end_line(self) -> int:
        """Last line in the file."""
        return self.line + self.text.count("\n", 0, len(self.text.rstrip()))

    def members(self) -> list[Segment]:
        """Statements of a class body."""
        if self._members is None:
            self._members = list(_class_members(self)) if self.kind == "class" else []
        return self._members

    def header(self) -> str:
        """A class's text up to its body: decorators, name and bases."""
        masked = self.blanked
        match = re.search(r"class\s+\w+[^:\[(]*(\((?:[^()]|\([^()]*\))*\))?\s*:", masked)
        return self.text[: match.end()] if match else self.text.partition("\n")[0]


def split(file: str, text: str) -> list[Segment]:
    """Cut a module's text into segments."""
    return list(_cut(file, text, blank(text), 1, ""))


def _cut(
    file: str, text: str, masked: str, first_line: int, prefix: str, indent: int = 0
) -> Iterator[Segment]:
    """Cut text whose statements begin at column 0."""
    lines = text.split("\n")
    masked_lines = masked.split("\n")
    starts: list[int] = []
    depth = 0
    decorated = False
    continued = False
    for number, line in enumerate(masked_lines):
        head = line[:1]
        # Strings are blank here, so a docstring belongs to whatever stands above it.
        begins = depth <= 0 and not continued and (head.isalpha() or (head and head in "_@"))
        if begins and not _CONTINUES.match(line):
            if not decorated:
                starts.append(number)
            decorated = head == "@"
        if "(" in line or "[" in line or "{" in line or ")" in line or "]" in line or "}" in line:
            depth += len(_OPENING.findall(line)) - len(_CLOSING.findall(line))
            if depth < 0:
                depth = 0
        continued = line.endswith("\\")
    for position, start in enumerate(starts):
        end = starts[position + 1] if position + 1 < len(starts) else len(lines)
        body = "\n".join(lines[start:end])
        body_masked = "\n".join(masked_lines[start:end])
        kind, name = _describe(body_masked)
        qualname = f"{prefix}{name}" if name else prefix.rstrip(".")
        yield Segment(
            file, kind, name, qualname, first_line + start, body, indent, body_masked
        )


def _describe(masked: str) -> tuple[str, str]:
    position = 0
    while masked[position : position + 1] == "@":
        after = re.compile(r"^(?=(?:async\s+)?(?:def|class)\b|@)", re.M).search(
            masked, position + 1
        )
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
    if found and not rest.startswith(("if", "for", "while", "with", "try", "else", "return")):
        return "assign", found[1] or found[2]
    if rest.startswith(("if ", "if(", "try", "with ", "for ", "while ")):
        return "block", ""
    return "other", ""


def _class_members(segment: Segment) -> Iterator[Segment]:
    header = segment.header()
    skipped = header.count("\n")
    lines = segment.text.split("\n")
    masked_lines = segment.blanked.split("\n")
    body, masked_body = lines[skipped + 1 :], masked_lines[skipped + 1 :]
    width = next(
        (
            len(line) - len(line.lstrip())
            for line, masked in zip(body, masked_body, strict=True)
            if line.strip() and not line.lstrip().startswith("#")
        ),
        0,
    )
    if not width:
        return
    text = "\n".join(_dedent(line, width) for line in body)
    masked = "\n".join(_dedent(line, width) for line in masked_body)
    yield from _cut(
        segment.file, text, masked, segment.line + skipped + 1, f"{segment.qualname}.",
        segment.indent + width,
    )  # fmt: skip


def _dedent(line: str, width: int) -> str:
    head = line[:width]
    return line[width:] if not head.strip() else line

