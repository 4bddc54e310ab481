"""Tables of a page as cells with their places, from HTML with JSX attributes or Markdown."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise

_TABLE = re.compile(r"<table\b", re.I)
_TABLE_END = re.compile(r"</table\s*>", re.I)
_JSX = re.compile(r"=\s*\{")
_TAG = re.compile(r"<[^<>]*>")
_RAISED = re.compile(r"(?=<sup\b)", re.I)
_CODE = re.compile(r"`+([^`]*?)`+")


@dataclass(slots=True)
class Cell:
    """One cell.

    Attributes:
        raw: its source between the tags, or between the bars.
        line, column: where its text begins (1-based).
        offset: where `raw` begins in the page's text, or -1.
    """

    raw: str
    line: int
    column: int
    header: bool = False

    @property
    def text(self) -> str:
        """What a reader sees, without emphasis and code marks."""
        return plain(self.raw)

    @property
    def codes(self) -> list[str]:
        """What is set as code."""
        return codes(self.raw)


@dataclass(slots=True)
class Table:
    """A table with its header row, and what stands above it.

    Attributes:
        section: the headings above it, outermost first; lead: the text right above it.
        caption: of an HTML table.
        marked: the family that marks of `docs generate` around it name.
    """

    header: list[Cell]
    rows: list[list[Cell]]
    line: int
    end_line: int = 0
    section: tuple[str, ...] = ()
    lead: str = ""
    lead_line: int = 0
    heading_line: int = 0
    caption: str = ""
    marked: str = ""

    def titles(self) -> list[str]:
        """Header texts."""
        return [cell.text for cell in self.header]


def plain(raw: str) -> str:
    """Text without tags, entities, emphasis and code marks."""
    text = html.unescape(_TAG.sub("", _RAISED.sub(" ", raw)))  # a raised 2 makes no 32 of a 3
    text = re.sub(r"`+", "", text)
    text = text.replace("**", "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", text).strip()


def codes(raw: str) -> list[str]:
    """Spans set as code, by backticks or by `<code>`."""
    found = [match.strip() for match in _CODE.findall(raw)]
    found += [html.unescape(part) for part in re.findall(r"<code>(.*?)</code>", raw, re.S)]
    return [part for part in found if part]


def html_tables(text: str, fences: list[tuple[int, int]]) -> tuple[list[Table], str]:
    """Take HTML tables out of a page; the second value is the text with them blanked out."""
    tables: list[Table] = []
    parts: list[str] = []
    position = 0
    begins = [begin for begin, _ in fences]
    line, counted = 1, 0
    while True:
        start = _TABLE.search(text, position)
        while start is not None:
            before = bisect_right(begins, start.start()) - 1
            if before < 0 or start.start() >= fences[before][1]:
                break
            start = _TABLE.search(text, start.end())
        if start is None:
            break
        end = _TABLE_END.search(text, start.end())
        stop = end.end() if end else len(text)
        source = text[start.start() : stop]
        line += text.count("\n", counted, start.start())
        counted = start.start()
        column = start.start() - (text.rfind("\n", 0, start.start()) + 1)
        parser = _TableParser(source, line, column)
        parser.feed(blank_jsx(source))
        parser.close()
        tables.append(parser.table())
        parts += [text[position : start.start()], re.sub(r"[^\n]", " ", source)]
        position = stop
    parts.append(text[position:])
    return tables, "".join(parts)


def blank_jsx(text: str) -> str:
    """Blank out `={…}` attributes, whose contents HTML parsers stumble over."""
    out = list(text)
    position = 0
    while match := _JSX.search(text, position):
        depth = 0
        index = match.end() - 1
        while index < len(text):
            if text[index] == "{":
                depth += 1
            elif text[index] == "}":
                depth -= 1
                if depth == 0:
                    break
            index += 1
        if index >= len(text):
            break
        for place in range(match.start(), index + 1):
            if out[place] != "\n":
                out[place] = " "
        position = index + 1
    return "".join(out)


class _TableParser(HTMLParser):
    """Collects rows; the source, not the parsed data, gives each cell's text."""

    def __init__(self, source: str, line: int, column: int) -> None:
        super().__init__(convert_charrefs=False)
        self.source = source
        self.starts = [0]
        for match in re.finditer(r"\n", source):
            self.starts.append(match.end())
        self.line, self.column = line, column
        self.header: list[Cell] = []
        self.rows: list[list[Cell]] = []
        self.row: list[Cell] | None = None
        self.opened: tuple[int, bool] | None = None
        self.caption_at = -1
        self.caption = ""
        self.depth = 0

    def _offset(self) -> int:
        line, column = self.getpos()
        return self.starts[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.depth += 1
        if self.depth != 1:
            return
        if tag == "caption":
            self.caption_at = self._offset() + len(self.get_starttag_text() or "")
        elif tag == "tr":
            self._end_row()
            self.row = []
        elif tag in {"td", "th"}:
            self._end_cell(self._offset())
            text = self.get_starttag_text() or ""
            self.opened = (self._offset() + len(text), tag == "th")

    def handle_endtag(self, tag: str) -> None:
        if self.depth == 1:
            if tag in {"td", "th"}:
                self._end_cell(self._offset())
            elif tag == "tr":
                self._end_cell(self._offset())
                self._end_row()
            elif tag == "caption" and self.caption_at >= 0:
                self.caption = plain(self.source[self.caption_at : self._offset()])
        if tag == "table":
            self.depth -= 1

    def _end_cell(self, end: int) -> None:
        if self.opened is None:
            return
        start, header = self.opened
        self.opened = None
        raw = self.source[start:end]
        lead = len(raw) - len(raw.lstrip())
        place = start + lead
        line = bisect_right(self.starts, place) - 1
        column = place - self.starts[line] + (self.column if line == 0 else 0)
        if self.row is None:
            self.row = []
        self.row.append(Cell(raw.strip(), self.line + line, column + 1, header))

    def _end_row(self) -> None:
        row, self.row = self.row, None
        if not row:
            return
        if not self.header and not self.rows and all(cell.header for cell in row):
            self.header = row
        else:
            self.rows.append(row)

    def table(self) -> Table:
        """The table, once everything has been fed."""
        self._end_cell(len(self.source))
        self._end_row()
        if not self.header and self.rows:
            self.header = self.rows.pop(0)
        end_line = self.line + self.source.count("\n")
        return Table(self.header, self.rows, self.line, end_line, caption=self.caption)


def markdown_cells(source: str, line: int) -> list[Cell]:
    """The cells of one row of a Markdown table."""
    cells: list[Cell] = []
    start = 0
    bars = [
        index for index, char in enumerate(source)
        if char == "|" and (index == 0 or source[index - 1] != "\\")
    ]  # fmt: skip
    edges = bars if source.strip().startswith("|") else [-1, *bars]
    if not source.rstrip().endswith("|"):
        edges = [*edges, len(source)]
    for left, right in pairwise(edges):
        raw = source[left + 1 : right]
        start = left + 1 + len(raw) - len(raw.lstrip())
        cells.append(Cell(raw.strip(), line, start + 1))
    return cells
