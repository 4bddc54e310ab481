"""Reads support tables and cells: which backend a row is about, and what a cell claims."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..data import load
from ..names import Displays
from .page import Page
from .tables import Cell, Table

_YES = re.compile(r"✅|✔|☑|^yes\b|^supported\b", re.I)
_NO = re.compile(r"❌|✖|✗|^no\b(?!\w)|^unsupported\b|not supported", re.I)
_PARTIAL = re.compile(r"⚠|🟡|^partial", re.I)
_NONE = re.compile(r"^(n/?a|-|–|—)$", re.I)
_FOOTNOTE = re.compile(r"(?<=\S)\s*\[\^?\w{1,3}(?:,\s*\w{1,3})*\]")
_LIST = re.compile(r"\{?\s*\d+(?:\s*(?:,|/|or|and|\|)\s*(?:or\s*)?\d+)*(?:\s*\})?")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a cell says: yes, no, partial, none, numbers or text, and what stands behind it.

    Of a footnote the note has the sign alone: that there is one says that there is more to know.
    """

    value: str
    numbers: tuple[int, ...] = ()
    note: str = ""


@dataclass(slots=True)
class RowView:
    """A row of a support table: its name cell and its cells by feature.

    `target` is the backend that the code makes for `backend`: another one for an alias.
    """

    name: Cell
    backend: str | None
    target: str | None = None
    cells: list[tuple[str, str, Cell]] = field(default_factory=list)

    def get(self, feature: str, group: str = "") -> Cell | None:
        """The cell of a feature."""
        for found, own, cell in self.cells:
            if found == feature and own == group:
                return cell
        return None


@dataclass(slots=True)
class TableView:
    """A table with known columns."""

    name: str
    family: str | None
    table: Table
    rows: list[RowView]
    columns: list[tuple[str, str, Cell]]


def read_mark(text: str) -> Mark:
    """What a cell claims."""
    text = html.unescape(text).replace("\ufe0f", "").strip()
    note = re.sub(r"^[^\w(]+", "", text).strip() if text else ""
    inside = re.search(r"\(([^()]*)\)", text)
    if _PARTIAL.search(text):
        return Mark("partial", _page_numbers(inside[1] if inside else text), inside[1] if inside
                    else note)  # fmt: skip
    if _NO.search(text):
        return Mark("no", (), inside[1] if inside else "")
    if _YES.search(text):
        rest = _YES.sub("", text, count=1).strip()
        return Mark("yes", (), (inside[1] if inside else rest).strip())
    if _NONE.match(text):
        return Mark("none")
    bare = _FOOTNOTE.sub("", text)
    numbers = _LIST.match(bare)
    if numbers:
        # What stands behind a list is about it, and no part of it.
        own = tuple(int(part) for part in re.findall(r"\d+", numbers[0]))
        notes = [bare[numbers.end() :].strip(), *map(str.strip, _FOOTNOTE.findall(text))]
        return Mark("numbers", own, " ".join(filter(None, notes)))
    return Mark("text", (), text)


def with_numbers(raw: str, mark: Mark, new: str) -> str:
    """A cell's source with its list of numbers replaced and what stands behind it kept.

    Where the list is not written in one piece, the source stays as it is.
    """
    match = _LIST.search(raw)
    if match is None or tuple(map(int, re.findall(r"\d+", match[0]))) != mark.numbers:
        return raw
    return raw[: match.start()] + new + raw[match.end() :]


def _page_numbers(text: str) -> tuple[int, ...]:
    match = re.search(r"page[_ ]size\s*=\s*(\d+)", text)
    return (int(match[1]),) if match else ()


@cache
def _layouts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load("columns")["tables"]
    return found


def read_tables(page: Page, displays: Displays) -> list[TableView]:
    """Every table of a page whose columns are known."""
    found = []
    for table in page.tables:
        view = _read(table, displays)
        if view is not None:
            found.append(view)
    return found


def named_family(*texts: str) -> str | None:
    """The family that the first of some texts names, where it names one and not several."""
    patterns: dict[str, str] = load("columns")["families"]
    for text in texts:
        found = [name for name, pattern in patterns.items() if re.search(pattern, text)]
        if len(found) == 1:
            return found[0]
    return None


def _named_dtype(title: str) -> str:
    """The dtype or group of dtypes that a title names, where it names a single one."""
    found = {
        re.sub(r"[ -]", "_", match.lower())
        for match in re.findall(load("columns")["dtype"], title, re.I)
    }
    return found.pop() if len(found) == 1 else ""


def _read(table: Table, displays: Displays) -> TableView | None:
    titles = table.titles()
    if not titles:
        return None
    above = " / ".join((*table.section, table.lead))
    for layout in _layouts():
        if not re.search(layout["first"], titles[0], re.I):
            continue
        if "section" in layout and not re.search(layout["section"], above):
            continue
        columns: list[tuple[int, str, str, Cell]] = []
        for index, cell in enumerate(table.header[1:], 1):
            for column in layout["columns"]:
                if re.search(column["pattern"], cell.text, re.I):
                    group = column.get("group", "")
                    if column["feature"] == "platform":
                        group = cell.text.lower()
                    elif column["feature"] == "kv_dtype":
                        group = _named_dtype(cell.text) or group
                    columns.append((index, column["feature"], group, cell))
                    break
        needs = layout.get("needs")
        features = {feature for _, feature, _, _ in columns}
        if not columns or (needs and not features & set(needs)):
            continue
        family = table.marked if table.marked in load("columns")["families"] else None
        if family is None:
            family = named_family(table.caption, table.lead, *reversed(table.section))
        rows = []
        for row in table.rows:
            if not row:
                continue
            view = RowView(row[0], displays.find(row[0].text))
            for index, feature, group, _ in columns:
                if index < len(row):
                    view.cells.append((feature, group, row[index]))
            rows.append(view)
        return TableView(
            layout["name"], family, table, rows,
            [(feature, group, cell) for _, feature, group, cell in columns],
        )  # fmt: skip
    return None
