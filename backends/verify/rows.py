"""The rows that evidence makes: what `backends/*.yaml` of the bundled data say, or should say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...matrix import evidence
from ...matrix.files import write_atomically
from ..interface.capabilities import Capabilities
from ..registry import unfit
from .probes import Catalogue

Json = dict[str, Any]
_HEAD = """\
# What {name} carries, as evidence has it. Made by `attn-lint verify rows` from ../evidence, to
# be read over; `attn-lint verify --check` holds the two against each other.
"""


def declares(capabilities: Capabilities, architecture: Mapping[str, Any]) -> bool:
    """A backend says of itself that it runs on an architecture."""
    capability = architecture.get("capability")
    known = None if capability is None else tuple(capability)
    return unfit(capabilities, architecture["device"], known) is None


def rows_of(
    files: Mapping[str, Sequence[Json]],
    capabilities: Capabilities,
    found: Catalogue,
    architectures: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Family -> architecture -> cells of one backend, from evidence by file name."""
    rows: dict[str, dict[str, Any]] = {}
    for family in found.families:
        row: dict[str, Any] = {}
        for name, entry in architectures.items():
            if declares(capabilities, entry):
                row[name] = _cells(files, capabilities.name, family, name, found) or "untested"
        if row:
            rows[family] = row
    return rows


def _cells(
    files: Mapping[str, Sequence[Json]],
    backend: str,
    family: str,
    architecture: str,
    found: Catalogue,
) -> dict[str, Json]:
    runs = {stem: evidence.of_architecture(runs, architecture) for stem, runs in files.items()}
    seen = evidence.probes_of((run for each in runs.values() for run in each), backend, family)
    cells = {}
    for cell in found.cells:
        if cell in seen:
            stems = [
                stem
                for stem, each in runs.items()
                if cell in evidence.probes_of(each, backend, family)
            ]
            cells[cell] = evidence.support(seen[cell], stems)
    return cells


def write_rows(name: str, rows: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Write a backend's file."""
    lines = [_HEAD.format(name=name), f"name: {name}\nrows:\n"]
    for family, architectures in rows.items():
        lines.append(f"  {family}:\n")
        for architecture, cells in architectures.items():
            if isinstance(cells, str):
                lines.append(f"    {architecture}: {cells}\n")
                continue
            lines.append(f"    {architecture}:\n")
            lines += [f"      {cell}: {_flow(value)}\n" for cell, value in cells.items()]
    write_atomically(folder / f"{name}.yaml", "".join(lines))


def _flow(cell: Json) -> str:
    """A cell as one line of YAML."""
    parts = [f"support: {_quoted(cell['support'])}"]
    if "when" in cell:
        parts.append(f"when: {json.dumps(cell['when'], ensure_ascii=False)}")
    if "refuses" in cell:
        parts.append(f"refuses: [{', '.join(json.dumps(name) for name in cell['refuses'])}]")
    if "probe" in cell:
        parts.append(f"probe: [{', '.join(cell['probe'])}]")
    return "{" + ", ".join(parts) + "}"


def _quoted(word: str) -> str:
    return f'"{word}"' if word in ("yes", "no") else word
