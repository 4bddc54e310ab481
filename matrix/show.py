"""The support matrix as rows: chosen by backend and family, and laid out as text or Markdown.

Reads the compiled `features` and `backends` sections; knows no backend by name.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import UnknownName
from .loader import Release

#: Cells that every row has besides its features, with their titles.
FRAME = {
    "page_sizes": "Page sizes",
    "prefill_gpus": "GPUs for prefill",
    "decode_gpus": "GPUs for decode",
}
#: What stands for a cell in a table.
MARKS = {"yes": "yes", "no": "no", "partial": "part", "untested": "?"}
_WORDS = {
    "starts": "SGLang starts, and no more is known",
    "refused": "SGLang refuses to start",
    "advised": "SGLang starts, then fails or computes something else",
    "changed": "SGLang changes the value",
    "replaced": "SGLang takes another backend",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One backend serving one family of models."""

    backend: str
    title: str
    family: str
    family_title: str
    summary: str
    cells: Mapping[str, Mapping[str, Any]]
    alias_of: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as plain JSON; launches that show a cell are left out."""
        out: dict[str, Any] = {
            "backend": self.backend,
            "title": self.title,
            "family": self.family,
            "summary": self.summary,
        }
        if self.alias_of:
            out["alias_of"] = self.alias_of
        if self.note:
            out["note"] = self.note
        out["cells"] = {
            name: {key: value for key, value in cell.items() if key != "cases"}
            for name, cell in self.cells.items()
        }
        return out


def rows(release: Release, backend: str | None = None, family: str | None = None) -> list[Row]:
    """Return the rows of a release, of one backend or one family where asked for.

    `family` is a family or a group of families. An alias shows the rows of what it stands for.

    Raises:
        UnknownName: there is no such backend or family; the text says what there is.
    """
    files = {file["name"]: file for file in release["backends"]}
    features = release["features"] or {"families": {}, "features": {}}
    families: dict[str, Any] = features["families"]
    if backend is not None and backend not in files:
        raise UnknownName(_unknown("backend", backend, files))
    groups = {entry["group"] for entry in families.values()}
    if family is not None and family not in families and family not in groups:
        raise UnknownName(_unknown("family", family, [*families, *sorted(groups - set(families))]))
    found = []
    for name, file in files.items():
        if backend is not None and name != backend:
            continue
        real = files[file["alias_of"]] if file.get("alias_of") else file
        for row in real["families"]:
            group = families[row["family"]]["group"]
            if family is None or family in (row["family"], group):
                found.append(
                    Row(
                        backend=name,
                        title=file["title"],
                        family=row["family"],
                        family_title=families[row["family"]]["title"],
                        summary=row["summary"],
                        cells={**{key: row[key] for key in FRAME}, **row["cells"]},
                        alias_of=file.get("alias_of"),
                        note=file.get("note"),
                    )
                )
    return found


def _unknown(kind: str, name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return f"no {kind} named {name!r}{guess}; there is: {', '.join(known)}"


def groups(release: Release) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the feature columns by group, in order: group -> feature name -> feature."""
    out: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, feature in (release["features"] or {"features": {}})["features"].items():
        out.setdefault(feature["group"], {})[name] = feature
    return out


def mark(cell: Mapping[str, Any] | None, order: Sequence[str] = ()) -> str:
    """A cell in one word: its sizes or architectures where it has them.

    `order` is the release's order of architectures; a run of them is written as a range.
    """
    if cell is None:
        return ""
    if cell["support"] != "untested":
        if cell.get("sizes"):
            return _sizes(cell, order)
        if cell.get("runs"):
            return _list(_ranges(cell["runs"], order))
    return MARKS[cell["support"]]


def architectures(release: Release) -> list[str]:
    """The architectures of a release's machines, vendor by vendor, the oldest first."""
    kinds = list(dict.fromkeys(machine["kind"] for machine in release["platforms"]))
    machines = sorted(
        release["platforms"],
        key=lambda machine: (kinds.index(machine["kind"]), machine.get("capability") or [0, 0]),
    )
    return list(dict.fromkeys(machine["architecture"] for machine in machines))


def _ranges(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """Names with three or more neighbours in a row as `first-last`."""
    runs: list[list[str]] = []
    for name in names:
        place = order.index(name) if name in order else -1
        if runs and place > 0 and runs[-1][-1] == order[place - 1] and runs[-1][0][:2] == name[:2]:
            runs[-1].append(name)
        else:
            runs.append([name])
    out: list[str] = []
    for run in runs:
        out += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else run
    return out


def _sizes(cell: Mapping[str, Any], order: Sequence[str]) -> str:
    """The page sizes of a cell, and those of the machines that have others."""
    text = cell["sizes"] if cell["sizes"] == "any" else _list(cell["sizes"])
    for others in cell.get("others", ()):
        sizes = others["sizes"] if others["sizes"] == "any" else _list(others["sizes"])
        text += f"; {sizes} on {_list(_ranges(others['architectures'], order))}"
    return str(text)


def _list(values: Sequence[Any]) -> str:
    return ", ".join(str(value) for value in values)


def tables(release: Release, chosen: Sequence[Row]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield one table per group of columns: its title and its lines, the header first."""
    names = [[row.backend, row.family] for row in chosen]
    header = ["backend", "family"]
    order = architectures(release)
    frame = [[mark(row.cells[key], order) for key in FRAME] for row in chosen]
    yield (
        "Pages and GPUs",
        [
            [*header, "page sizes", "prefill", "decode"],
            *([*name, *cells] for name, cells in zip(names, frame, strict=True)),
        ],
    )
    for group, features in groups(release).items():
        lines = [
            [*name, *(mark(row.cells.get(feature)) for feature in features)]
            for name, row in zip(names, chosen, strict=True)
            if any(feature in row.cells for feature in features)
        ]
        if lines:
            yield group, [[*header, *(entry["short"] for entry in features.values())], *lines]


def as_text(release: Release, chosen: Sequence[Row], *, detail: bool) -> str:
    """Lay rows out for a terminal; with `detail`, every cell with its condition and source."""
    if detail:
        return "\n\n".join("\n".join(_details(release, row)) for row in chosen)
    blocks = []
    for title, lines in tables(release, chosen):
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        blocks.append("\n".join([title, *(f"  {line}" for line in text)]))
    return "\n\n".join(blocks)


def as_markdown(release: Release, chosen: Sequence[Row], *, detail: bool) -> str:
    """Lay rows out as Markdown tables."""
    blocks = []
    if detail:
        order = architectures(release)
        for row in chosen:
            lines = [
                [title, mark(cell, order), _condition(cell, order), _origin(cell)]
                for title, cell in _titled(release, row)
            ]
            head = f"### {row.backend}, {row.family_title}\n\n{row.summary}\n\n"
            blocks.append(head + _markdown([["feature", "support", "condition", "source"], *lines]))
    else:
        for title, lines in tables(release, chosen):
            blocks.append(f"### {title}\n\n{_markdown(lines)}")
    return "\n\n".join(blocks)


def as_json(release: Release, chosen: Sequence[Row]) -> dict[str, Any]:
    """Rows, and the titles of their columns, as plain JSON."""
    features = {
        name: {"title": feature["title"], "group": group}
        for group, members in groups(release).items()
        for name, feature in members.items()
    }
    return {
        "engine": release.engine,
        "release": release.name,
        "features": features,
        "rows": [row.to_json() for row in chosen],
    }


def _titled(release: Release, row: Row) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, title in FRAME.items():
        yield title, row.cells[key]
    for features in groups(release).values():
        for name, feature in features.items():
            if name in row.cells:
                yield feature["title"], row.cells[name]


def _condition(cell: Mapping[str, Any], order: Sequence[str]) -> str:
    """When a cell holds, and what happens otherwise."""
    parts = [cell["when"]] if cell.get("when") else []
    if cell.get("native") is False:
        parts.append("emulated, token by token")
    if cell.get("others"):
        parts.append("another size becomes the machine's")
    elif cell.get("becomes") is not None:
        parts.append(f"another size becomes {cell['becomes']}")
    elif cell.get("otherwise"):
        parts.append(("otherwise " if parts else "") + _WORDS[cell["otherwise"]])
    for what, words in _WORDS.items():
        listed = cell.get(what) or (cell.get("elsewhere") or {}).get(what)
        if listed:
            parts.append(f"on {_list(_ranges(listed, order))}: {words}")
    if cell.get("note"):
        parts.append(cell["note"])
    return "; ".join(parts)


def _origin(cell: Mapping[str, Any]) -> str:
    source = cell["source"]
    place = source.get("url") or " ".join(
        part for part in (source.get("file"), source.get("symbol")) if part
    )
    if cell.get("rules"):
        return f"{place} ({', '.join(cell['rules'])})"
    return str(place)


def _details(release: Release, row: Row) -> Iterator[str]:
    alias = f" (another name for {row.alias_of})" if row.alias_of else ""
    yield f"{row.backend}{alias}: {row.title}, {row.family_title}"
    yield from textwrap.wrap(row.summary, 96, initial_indent="  ", subsequent_indent="  ")
    if row.note:
        yield from textwrap.wrap(row.note, 96, initial_indent="  ", subsequent_indent="  ")
    order = architectures(release)
    for title, cell in _titled(release, row):
        listed = cell.get("sizes") or cell.get("runs")
        yield f"  {title}: {mark(cell, order) if listed else cell['support']}"
        for text in (_condition(cell, order), _origin(cell)):
            if text:
                yield from textwrap.wrap(
                    text, 100, initial_indent=" " * 6, subsequent_indent=" " * 6,
                    break_on_hyphens=False, break_long_words=False,
                )  # fmt: skip


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(lines[0]), line(["---"] * len(lines[0])), *map(line, lines[1:])])
