"""Writes support tables as the code has them."""

from __future__ import annotations

from collections.abc import Iterator

from ..matrix.errors import MatrixError
from ..matrix.loader import load as load_release
from .data import load
from .errors import UsageError
from .facts.code import CodeFacts
from .facts.kvdtype import group_values
from .facts.model import Support
from .features import backends_of, support
from .pages.page import marked_parts

_MARKS = {"yes": "✅", "no": "❌", "partial": "⚠️"}
_OPEN = "–"


def table(facts: CodeFacts, family: str) -> str:
    """The support table of a family as Markdown, with what holds under a condition below it."""
    columns = list(_columns(facts, family))
    names = backends_of(facts, family)
    titles = _titles()
    notes: dict[str, int] = {}
    rows = [["Backend", *(column["title"] for column in columns)]]
    for name in names:
        title = titles.get(name)
        row = [f"**{title}** (`{name}`)" if title else f"`{name}`"]
        for column in columns:
            found = support(facts, name, family, column["feature"], column.get("group", ""))
            row.append(_cell(found, notes))
        rows.append(row)
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    if notes:
        lines.append("")
        lines += [f"{number}. {text}" for text, number in notes.items()]
    if any(_OPEN in row for row in rows):
        lines += ["", f"{_OPEN} The source does not decide it."]
    return "\n".join(lines)


def _columns(facts: CodeFacts, family: str) -> Iterator[dict[str, str]]:
    """The columns of a family's table; one about a group of dtypes is one for each of them."""
    columns: list[dict[str, str]] = load("columns")["generated"][family]
    for column in columns:
        if "group" not in column:
            yield column
            continue
        for dtype in group_values(facts, column["group"]):
            yield {**column, "title": f"{column['title']} {dtype}", "group": dtype}


def _cell(found: Support | None, notes: dict[str, int]) -> str:
    if found is None:
        return _OPEN
    mark = _MARKS.get(found.value, found.value)
    condition = found.condition
    if found.value == "partial" and not condition:
        condition = found.why
    if not condition:
        return mark
    number = notes.setdefault(condition, len(notes) + 1)
    return f"{mark} [{number}]"


def _titles() -> dict[str, str]:
    """Display titles of backends, as the newest matrix has them."""
    try:
        rows = load_release()["backends"] or []
    except MatrixError:
        return {}
    return {row["name"]: row["title"] for row in rows if row.get("title")}


def between_marks(text: str, family: str, content: str, where: str) -> str:
    """A page's text with the table between its marks replaced, wherever it has them.

    Raises:
        UsageError: the page has no such marks.
    """
    parts = [part for part in marked_parts(text) if part.family == family]
    if not parts:
        raise UsageError(
            f"{where}: no lines {{/* attn-lint: table {family} */}} and {{/* attn-lint: end */}}"
        )
    for part in reversed(parts):
        text = f"{text[: part.start]}\n\n{content}\n\n{text[part.end :]}"
    return text
