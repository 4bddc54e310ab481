"""`matrix show --engine bundled`: rows of the bundled backends, with the evidence they rest on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...matrix.errors import UnknownName
from ...matrix.loader import Release
from ..interface.capabilities import Capabilities
from .claims import behind, evidence_runs, machine_of, proven, worst_of
from .marks import LEGEND, MARKS, cells_in_words
from .outcome import OUTCOMES

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One backend serving one family on one architecture."""

    backend: str
    family: str
    architecture: str
    cells: Mapping[str, Json]  # every cell of the family; without evidence it is untested


def rows(
    bundled: Release,
    declared: Mapping[str, Capabilities],
    not_bundled: Mapping[str, str],
    backend: str | None,
    family: str | None,
) -> list[Row]:
    """The rows asked for.

    Raises:
        UnknownName: there is no such backend or family; the text says what there is, or why not.
    """
    asked = bundled["bundled"]
    if backend is not None and backend not in declared:
        if backend in not_bundled:
            raise UnknownName(f"{backend} is not bundled: {not_bundled[backend]}")
        raise UnknownName(_unknown("bundled backend", backend, list(declared)))
    if family is not None and family not in asked["families"]:
        raise UnknownName(_unknown("family", family, list(asked["families"])))
    found = []
    for name in declared:
        if backend not in (None, name):
            continue
        for kind, architectures in bundled["rows"].get(name, {}).items():
            if family not in (None, kind):
                continue
            for architecture, cells in architectures.items():
                found.append(Row(name, kind, architecture, _filled(asked, kind, cells)))
    return found


def _filled(asked: Json, family: str, cells: Json | str) -> dict[str, Json]:
    """Cells of a row; untested ones are written out. One not carried at all has few."""
    if isinstance(cells, str):
        return {
            name: {"support": cells}
            for name, entry in asked["cells"].items()
            if family in (entry.get("families") or [family])
        }
    return dict(cells)


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return f"no {kind} named {name!r}{guess}; there is: {', '.join(known)}"


def proof(bundled: Release, row: Row, cell: str) -> Json | None:
    """What a cell rests on: machines, versions, dates, probes and the worst error."""
    files = row.cells[cell].get("probe")
    if files is None:
        return None
    probes, runs = behind(bundled, row.backend, row.family, row.architecture, cell, row.cells[cell])
    error, tolerance = worst_of(one for seen in probes.values() for one in seen) or (None, None)
    return {
        "files": [f"evidence/{file}.json" for file in files],
        "machines": [
            {**run["machine"], "date": run["date"], "versions": run["versions"],
             "seeds": len(run["seeds"])}
            for run in runs
        ],
        "error": error,
        "tolerance": tolerance,
        "probes": probes,
    }  # fmt: skip


def as_json(
    bundled: Release,
    declared: Mapping[str, Capabilities],
    not_bundled: Mapping[str, str],
    chosen: Sequence[Row],
) -> Json:
    """Rows with their evidence as plain JSON."""
    out = []
    for row in chosen:
        own = declared[row.backend]
        cells = {}
        for name, cell in row.cells.items():
            found = proof(bundled, row, name)
            cells[name] = {**cell, "evidence": found} if found else dict(cell)
        out.append(
            {"backend": row.backend, "title": own.title, "runs": own.runs,
             "engine_row": own.engine_row, "family": row.family,
             "architecture": row.architecture, "cells": cells}
        )  # fmt: skip
    return {
        "engine": bundled.engine,
        "release": bundled.name,
        "cells": {
            name: {key: entry[key] for key in ("title", "group")}
            for name, entry in bundled["bundled"]["cells"].items()
        },
        "rows": out,
        "not_bundled": dict(not_bundled),
    }


def tables(bundled: Release, chosen: Sequence[Row]) -> Iterator[tuple[str, list[list[str]]]]:
    """One table for each group of cells: its title and its lines, the header first."""
    asked = bundled["bundled"]["cells"]
    tested = [row for row in chosen if any(c["support"] != "untested" for c in row.cells.values())]
    for group in dict.fromkeys(entry["group"] for entry in asked.values()):
        names = [
            name
            for name, entry in asked.items()
            if entry["group"] == group and any(name in row.cells for row in tested)
        ]
        if not names:
            continue
        header = ["backend", "family", "on", *names]
        lines = [
            [
                row.backend, row.family, row.architecture,
                *(MARKS[row.cells[n]["support"]] if n in row.cells else "" for n in names),
            ]
            for row in tested
            if any(name in row.cells for name in names)
        ]  # fmt: skip
        yield group, [header, *lines]


def as_text(
    bundled: Release,
    declared: Mapping[str, Capabilities],
    not_bundled: Mapping[str, str],
    chosen: Sequence[Row],
    *,
    detail: bool,
    markdown: bool = False,
) -> str:
    """Rows for a terminal or as Markdown; with `detail`, every cell with its evidence."""
    if detail:
        details = ["\n".join(_details(bundled, declared, row, markdown)) for row in chosen]
        return "\n\n".join([*details, LEGEND])
    blocks = []
    for title, lines in tables(bundled, chosen):
        if markdown:
            head, *rest = (f"| {' | '.join(line)} |" for line in lines)
            rule = "| " + " | ".join("---" for _ in lines[0]) + " |"
            blocks.append("\n".join([f"### {title}", "", head, rule, *rest]))
        else:
            blocks.append("\n".join([title, *_aligned(lines)]))
    blocks.append("\n".join([LEGEND, *_untested(chosen)]))
    evidence = [f"{'- ' if markdown else '  '}{line}" for line in _evidence(bundled, chosen)]
    head = "Evidence (--backend NAME shows what each cell rests on)"
    blocks.append("\n".join([head, *([""] if markdown else []), *evidence]))
    shown = {name for row in chosen for name in row.cells}
    words = cells_in_words(bundled["bundled"]["cells"], shown, markdown=markdown)
    blocks.append("\n".join(["Cells", *([""] if markdown else []), *words]))
    listed = [f"{'- ' if markdown else '  '}{name}: {why}" for name, why in not_bundled.items()]
    blocks.append("\n".join(["Not bundled", *([""] if markdown else []), *listed]))
    return "\n\n".join(blocks)


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)
        )
        yield ("  " + "  ".join(padded)).rstrip()


def _evidence(bundled: Release, chosen: Sequence[Row]) -> Iterator[str]:
    """The runs that rows rest on: machine, versions, date, seeds, and how close they came."""
    for file in bundled["evidence"]:
        for run in bundled["evidence"][file]:
            architecture = run["machine"]["architecture"]
            here = [row for row in chosen if row.architecture == architecture]
            probes = [
                seen
                for row in here
                for cells in [run["backends"].get(row.backend, {}).get(row.family, {})]
                for each in cells.values()
                for seen in each.values()
            ]
            if not probes:
                continue
            worst = max((p["error"] / p["tolerance"] for p in probes if "error" in p), default=0)
            most = max(sum(p.get(kind, 0) for kind in OUTCOMES) for p in probes)
            yield (
                f"{architecture}: {machine_of(run)}, {len(probes)} probes of up to {most} "
                f"seed{'s' if most != 1 else ''}, the worst error {worst:.0%} of what is allowed; "
                f"evidence/{file}.json"
            )


def _untested(chosen: Sequence[Row]) -> Iterator[str]:
    """Rows without any evidence, an architecture a line."""
    by_architecture: dict[str, list[str]] = {}
    for row in chosen:
        if all(cell["support"] == "untested" for cell in row.cells.values()):
            by_architecture.setdefault(row.architecture, []).append(f"{row.backend} {row.family}")
    for architecture, names in by_architecture.items():
        yield f"untested on {architecture}: {', '.join(names)}"


def _details(
    bundled: Release, declared: Mapping[str, Capabilities], row: Row, markdown: bool
) -> Iterator[str]:
    own = declared[row.backend]
    cells = bundled["bundled"]["cells"]
    yield f"{'### ' if markdown else ''}{row.backend}, {row.family}, on {row.architecture}"
    yield from textwrap.wrap(own.runs, 96, initial_indent="  ", subsequent_indent="  ")
    if all(cell["support"] == "untested" for cell in row.cells.values()):
        yield "  untested: there is no evidence from this architecture"
        return
    files = dict.fromkeys(file for cell in row.cells.values() for file in cell.get("probe", ()))
    runs = evidence_runs(bundled, files, row.architecture)
    yield from machine_lines(
        machine_of(run) for run in runs if row.family in run["backends"].get(row.backend, {})
    )
    for name, cell in row.cells.items():
        yield f"  {MARKS[cell['support']]} {name}: {cells[name]['title']}"
        carried = [f"carried: {cell['when']}"] if cell.get("when") else []
        for line in [*carried, *_proof_lines(bundled, row, name)]:
            yield from textwrap.wrap(
                line, 100, initial_indent=" " * 6, subsequent_indent=" " * 6,
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip


def _proof_lines(bundled: Release, row: Row, cell: str) -> Iterator[str]:
    found = proof(bundled, row, cell)
    if found is None:
        return
    runs = evidence_runs(bundled, row.cells[cell]["probe"], row.architecture)
    probes = found["probes"]
    right = [name for name, seen in probes.items() if any(one.get("right") for one in seen)]
    if right:
        yield f"right: {proven(probes, right, runs)}"
    texts: dict[str, list[str]] = {}
    for name, seen in probes.items():
        for one in seen:
            if one.get("refused") and name not in texts.setdefault(one.get("text", ""), []):
                texts[one.get("text", "")].append(name)
    for text, names in texts.items():
        yield f"refused: {', '.join(names)}: {text}"


def claim_lines(found: Sequence[Any]) -> Iterator[str]:
    """What runs say of an engine's claims, as text."""
    width = max((len(claim.status) for claim in found), default=0)
    for claim in found:
        yield from textwrap.wrap(
            f"{claim.status.ljust(width)}  {claim.title}: {claim.claimed}; {claim.text}",
            110, initial_indent="  ", subsequent_indent=" " * (width + 4),
            break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip
    yield from machine_lines(machine for claim in found for machine in claim.machines)


def machine_lines(machines: Iterable[str]) -> Iterator[str]:
    """Once, and not with every cell: what runs were made on."""
    for machine in dict.fromkeys(machines):
        yield from textwrap.wrap(
            f"Run on {machine}", 110, initial_indent="  ", subsequent_indent=" " * 4,
            break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip
