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


def cells_in_words(cells: Mapping[str, Mapping[str, Any]], shown: Iterable[str]) -> Iterator[str]:
    """What each cell of a table asks, a line a cell; its name is what `--cell` takes."""
    names = [name for name in cells if name in set(shown)]
    width = max(map(len, names), default=0)
    for name in names:
        yield f"  {name.ljust(width)}  {cells[name]['title']}"
