"""Cuts a Markdown or MDX page into blocks that keep their lines and columns.

HTML tables (with JSX attributes) are taken out first, since in MDX they may touch the text around
them without a blank line; components such as `<Note>` are dropped and what they hold is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .marks import Marked, marked
from .tables import Cell, Table, html_tables, markdown_cells

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_FENCE = re.compile(r"^( {0,12})(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,12}\2[`~]*[ \t]*$|\Z)", re.S | re.M)
_COMPONENT = re.compile(r"^[ \t]*</?[A-Z]\w*(?:\s[^<>]*)?/?>[ \t]*$", re.M)
_COMMENTS = {"{/*": "*/}", "<!--": "-->"}
_COMMENT_START = re.compile(r"\{/\*|<!--")


@dataclass(slots=True)
class Line:
    """One line of a block: its number in the page, its column and its text."""

    number: int
    column: int
    text: str


@dataclass(slots=True)
class Block:
    """A heading, paragraph, list item or fence.

    Attributes:
        kind: heading, paragraph, item or fence.
        lines: its lines; a fence's are those between the marks.
        level: of a heading; depth of a list item.
        number: of an item in a numbered list.
        section: the headings above it, outermost first.
        lead: the nearest paragraph, item or heading above it in the same section.
        parent: the item that an item is nested in.
    """

    kind: str
    lines: list[Line]
    level: int = 0
    number: int | None = None
    language: str = ""
    section: tuple[str, ...] = ()
    lead: Block | None = None
    parent: Block | None = None

    @property
    def line(self) -> int:
        """First line."""
        return self.lines[0].number if self.lines else 0

    @property
    def text(self) -> str:
        """The text as one line."""
        return " ".join(line.text.strip() for line in self.lines)

    def find(self, needle: str) -> tuple[int, int]:
        """Line and column of the first occurrence, or of the block."""
        for line in self.lines:
            position = line.text.find(needle)
            if position >= 0:
                return line.number, line.column + position
        first = self.lines[0] if self.lines else Line(0, 0, "")
        return first.number, first.column


@dataclass(slots=True)
class Page:
    """A page, cut into blocks and tables."""

    path: str
    text: str
    blocks: list[Block] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    generated: list[Marked] = field(default_factory=list)
    _lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        """The raw lines."""
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    @property
    def own_text(self) -> str:
        """The text with what `docs generate` wrote blanked out: what its author says."""
        return _without(self.text, self.generated)

    def marked_at(self, line: int) -> str:
        """The family that marks around a line name, or an empty string."""
        for part in self.generated:
            first, last = (self.text.count("\n", 0, place) + 1 for place in (part.start, part.end))
            if first < line < last:
                return part.family
        return ""

    def headings(self) -> Iterator[Block]:
        """Every heading."""
        return (block for block in self.blocks if block.kind == "heading")

    def fences(self) -> Iterator[Block]:
        """Every code fence."""
        return (block for block in self.blocks if block.kind == "fence")

    def prose(self) -> Iterator[Block]:
        """Paragraphs and list items."""
        return (block for block in self.blocks if block.kind in {"paragraph", "item"})


def read_page(path: Path, shown: str | None = None) -> Page:
    """Read and cut a page.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    text = path.read_bytes().decode("utf-8-sig")
    return parse_page(shown or str(path), text)


def parse_page(path: str, text: str) -> Page:
    """Cut a page's text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    page = Page(path, text, generated=marked_parts(text))
    masked = _FRONT_MATTER.sub(lambda match: _blank(match[0]), text)
    masked = _outside_fences(masked, _without_comments)
    tables, masked = html_tables(masked, [match.span() for match in _FENCE.finditer(masked)])
    page.tables = tables
    masked = _outside_fences(masked, lambda part: _COMPONENT.sub(lambda m: _blank(m[0]), part))
    _Reader(page, masked).read()
    _place_tables(page)
    return page


def marked_parts(text: str) -> list[Marked]:
    """What stands between the marks of `docs generate` in a page's text."""
    return marked(text, [match.span() for match in _FENCE.finditer(text)])


def _without(text: str, parts: list[Marked]) -> str:
    for part in parts:
        text = text[: part.start] + _blank(text[part.start : part.end]) + text[part.end :]
    return text


def _without_comments(text: str) -> str:
    """The text with comments blanked out; one that never ends is text."""
    parts: list[str] = []
    position = at = 0
    endless: set[str] = set()
    while start := _COMMENT_START.search(text, at):
        mark = start[0]
        end = -1 if mark in endless else text.find(_COMMENTS[mark], start.end())
        if end < 0:
            endless.add(mark)
            at = start.end()
            continue
        at = end + len(_COMMENTS[mark])
        parts += [text[position : start.start()], _blank(text[start.start() : at])]
        position = at
    return "".join([*parts, text[position:]])


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _outside_fences(text: str, change: object) -> str:
    parts: list[str] = []
    position = 0
    for match in _FENCE.finditer(text):
        parts += [change(text[position : match.start()]), match[0]]  # type: ignore[operator]
        position = match.end()
    parts.append(change(text[position:]))  # type: ignore[operator]
    return "".join(parts)


class _Reader:
    """Turns markdown-it's tokens into blocks."""

    def __init__(self, page: Page, masked: str) -> None:
        self.page = page
        self.source = masked.split("\n")
        self.masked = masked
        self.section: list[tuple[int, str]] = []
        self.lead: Block | None = None

    def read(self) -> None:
        from markdown_it import MarkdownIt

        # Blocks are all that is asked of it: cells and spans are read from the source.
        tokens = MarkdownIt("commonmark").enable("table").disable("inline").parse(self.masked)
        stack: list[tuple[str, int | None, Block | None]] = []
        row: list[Cell] | None = None
        table: Table | None = None
        for token in tokens:
            kind = token.type
            if kind in {"bullet_list_open", "ordered_list_open"}:
                start = None
                if kind == "ordered_list_open":
                    start = int(token.attrs.get("start", 1) or 1)
                stack.append(("list", start, None))
            elif kind in {"bullet_list_close", "ordered_list_close"}:
                stack.pop()
            elif kind == "list_item_open":
                number = None
                if stack and stack[-1][1] is not None and token.info.isdigit():
                    number = int(token.info)
                stack.append(("item", number, None))
            elif kind == "list_item_close":
                stack.pop()
            elif kind == "table_open":
                table = Table([], [], (token.map or [0])[0] + 1)
                self.page.tables.append(table)
            elif kind == "tr_open":
                number = (token.map or [0])[0]
                row = markdown_cells(self.source[number], number + 1)
            elif kind == "tr_close":
                if table is not None and row is not None:
                    if not table.header:
                        table.header = row
                    else:
                        table.rows.append(row)
                row = None
            elif kind == "table_close":
                table = None
            elif kind == "heading_open":
                self._heading(token.map, int(token.tag[1:]))
            elif kind in {"fence", "code_block"}:
                self._fence(token)
            elif kind == "paragraph_open" and row is None:
                self._paragraph(token.map, stack)

    def _lines(self, first: int, last: int) -> list[Line]:
        found = []
        for number in range(first, last):
            text = self.source[number]
            stripped = text.lstrip()
            found.append(Line(number + 1, len(text) - len(stripped) + 1, stripped.rstrip()))
        return [line for line in found if line.text]

    def _heading(self, span: list[int] | None, level: int) -> None:
        if not span:
            return
        lines = self._lines(span[0], span[1])
        for line in lines:
            shorter = line.text.lstrip("#").lstrip()
            line.column += len(line.text) - len(shorter)
            line.text = shorter
        lines = [line for line in lines if line.text and set(line.text) - {"=", "-"}]
        while self.section and self.section[-1][0] >= level:
            self.section.pop()
        block = Block("heading", lines, level, section=tuple(name for _, name in self.section))
        self.section.append((level, block.text))
        self._add(block)

    def _paragraph(
        self, span: list[int] | None, stack: list[tuple[str, int | None, Block | None]]
    ) -> None:
        if not span:
            return
        lines = self._lines(span[0], span[1])
        if not lines:
            return
        item = next((entry for entry in reversed(stack) if entry[0] == "item"), None)
        if item is None:
            self._add(Block("paragraph", lines, section=self._section(), lead=self.lead))
            return
        depth = sum(1 for entry in stack if entry[0] == "item")
        first = lines[0]
        marker = re.match(r"(?:[-*+]|\d+[.)])\s+", first.text)
        if marker:
            first.column += marker.end()
            first.text = first.text[marker.end() :]
        index = next(i for i in range(len(stack) - 1, -1, -1) if stack[i][0] == "item")
        parent = next(
            (entry[2] for entry in reversed(stack[:index]) if entry[0] == "item" and entry[2]),
            None,
        )
        block = Block(
            "item", lines, depth, item[1], section=self._section(), lead=self.lead, parent=parent
        )
        if stack[index][2] is None:
            stack[index] = ("item", stack[index][1], block)
        self._add(block, leads=True)

    def _fence(self, token: object) -> None:
        span = token.map  # type: ignore[attr-defined]
        if not span:
            return
        info = token.info.strip().split()  # type: ignore[attr-defined]
        body = token.content.split("\n")  # type: ignore[attr-defined]
        offset = span[0] + (2 if token.type == "fence" else 1)  # type: ignore[attr-defined]
        lines = []
        for index, text in enumerate(body):
            if index == len(body) - 1 and not text:
                break
            raw = self.source[offset + index - 1] if offset + index <= len(self.source) else text
            lines.append(Line(offset + index, max(raw.find(text), 0) + 1 if text else 1, text))
        self._add(
            Block(
                "fence",
                lines,
                language=info[0] if info else "",
                section=self._section(),
                lead=self.lead,
            ),
            leads=False,
        )

    def _section(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.section)

    def _add(self, block: Block, *, leads: bool = True) -> None:
        self.page.blocks.append(block)
        if leads:
            self.lead = block


def _place_tables(page: Page) -> None:
    """Give each table its section and the text right above it."""
    page.tables.sort(key=lambda table: table.line)
    for table in page.tables:
        table.marked = page.marked_at(table.line)
        above = [block for block in page.blocks if block.line < table.line and block.lines]
        if above:
            last = above[-1]
            table.lead = last.text if last.kind != "heading" else ""
            table.lead_line = last.line
            table.section = (*last.section, last.text) if last.kind == "heading" else last.section
            headings = [block for block in above if block.kind == "heading"]
            if headings:
                table.heading_line = headings[-1].line
