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
_NUMBERS = re.compile(r"^\{?\s*\d+(?:\s*(?:,|/|or|and|\|)\s*(?:or\s*)?\d+)*(?:\s*\})?")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a cell says: yes, no, partial, none, numbers or text, and what stands behind it."""

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
    if _NUMBERS.match(text):
        return Mark("numbers", tuple(int(part) for part in re.findall(r"\d+", text)))
    return Mark("text", (), text)


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
                    columns.append((index, column["feature"], group, cell))
                    break
        needs = layout.get("needs")
        features = {feature for _, feature, _, _ in columns}
        if not columns or (needs and not features & set(needs)):
            continue
        family = next(
            (name for name, pattern in load("columns")["families"].items()
             if re.search(pattern, above)),
            None,
        )  # fmt: skip
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
