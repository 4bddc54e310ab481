"""How cells are written in every table of runs and of the bundled matrix; the words are one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: By support. `bad` is wrong or crashed, which a run may show and no matrix may say.
MARKS = {"yes": "✅", "no": "—", "partial": "✅ part", "untested": "?", "bad": "❌"}
LEGEND = (
    "✅ right   ✅ part: some probes are refused   — refused, with reasons   "
    "? untested   ❌ wrong or crashed   blank: not asked"
)

#: Beside the mark of a cell whose probes were not all run: what it says is of a part.
UNFINISHED = "…"
UNFINISHED_LEGEND = (
    f"{UNFINISHED} not all of the cell's probes were run, or not with all of these seeds"
)


def cells_in_words(
    cells: Mapping[str, Mapping[str, Any]], shown: Iterable[str], *, markdown: bool = False
) -> Iterator[str]:
    """What each cell of a table asks, a line a cell; its name is what `--cell` takes."""
    wanted = set(shown)
    names = [name for name in cells if name in wanted]
    width = max(map(len, names), default=0)
    for name in names:
        title = cells[name]["title"]
        yield f"- `{name}`: {title}" if markdown else f"  {name.ljust(width)}  {title}"
