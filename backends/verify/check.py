"""Holds evidence against the matrix and against what backends declare; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...matrix import evidence
from ...matrix.loader import Release
from ..interface.capabilities import Capabilities
from .probes import Catalogue, plan

Json = dict[str, Any]


def against_matrix(
    runs: Sequence[Json],
    release: Release,
    found: Catalogue,
    capabilities: Mapping[str, Capabilities],
) -> list[str]:
    """Every disagreement between evidence, the matrix and what backends declare.

    Looked at are the backends and architectures that the evidence speaks of, cell by cell, in both
    directions.
    """
    problems: list[str] = []
    for architecture in dict.fromkeys(run["machine"]["architecture"] for run in runs):
        here = evidence.of_architecture(runs, architecture)
        for backend in dict.fromkeys(name for run in here for name in run["backends"]):
            if backend not in capabilities:
                problems.append(f"{backend}: evidence of a backend that is not bundled")
                continue
            for family in found.families:
                seen = evidence.probes_of(here, backend, family)
                place = f"{backend} {family} {architecture}"
                problems += _rows(place, seen, release, backend, family, architecture, None)
            problems += _declared(here, found, capabilities[backend], architecture, release)
    return problems


def run_against_matrix(
    run: Json, release: Release, found: Catalogue, capabilities: Mapping[str, Capabilities]
) -> list[str]:
    """As `against_matrix`, for a run just made: of the backends and cells that it covers."""
    architecture = run["machine"]["architecture"]
    problems: list[str] = []
    for backend in run["backends"]:
        for family in found.families:
            seen = evidence.probes_of([run], backend, family)
            covered = {cell for cells in run["backends"][backend].values() for cell in cells}
            place = f"{backend} {family} {architecture}"
            problems += _rows(place, seen, release, backend, family, architecture, covered)
    return problems


def _rows(
    place: str,
    seen: Mapping[str, Mapping[str, Sequence[Json]]],
    release: Release,
    backend: str,
    family: str,
    architecture: str,
    covered: set[str] | None,
) -> Iterator[str]:
    """Differences between cells that the evidence makes and those of the matrix."""
    said = (release["rows"] or {}).get(backend, {}).get(family, {}).get(architecture, {})
    if said == "untested":
        said = {}
    for cell in dict.fromkeys([*seen, *said]):
        if covered is not None and cell not in covered:
            continue
        claimed = said.get(cell)
        file = (claimed or {}).get("probe", "")
        made = evidence.support(seen[cell], file) if cell in seen else None
        if made is not None and made["support"] == "bad":
            for name, each in seen[cell].items():
                if evidence.verdict(each) in evidence.BAD:
                    text = next((one["text"] for one in each if one.get("text")), "")
                    yield f"{place} {cell}: [{name}] {evidence.verdict(each)}: {text}"
        elif made is None:
            yield f"{place} {cell}: the matrix says {_say(claimed)}, there is no evidence"
        elif claimed is None:
            yield f"{place} {cell}: the evidence says {_say(made)}, the matrix has no such cell"
        elif not _same(claimed, made):
            yield f"{place} {cell}: the matrix says {_say(claimed)}, the evidence {_say(made)}"


def _same(claimed: Json, made: Json) -> bool:
    return all(claimed.get(key) == made.get(key) for key in ("support", "when", "refuses"))


def _say(cell: Json | None) -> str:
    if cell is None:
        return "nothing"
    if cell["support"] != "partial":
        return str(cell["support"])
    return f"partial ({cell['when']}; refused: {', '.join(cell['refuses'])})"


def _declared(
    runs: Sequence[Json],
    found: Catalogue,
    capabilities: Capabilities,
    architecture: str,
    release: Release,
) -> Iterator[str]:
    """Differences between what a backend declares today and what it did when evidence was made."""
    entry = release["bundled"]["architectures"].get(architecture)
    if entry is None:
        yield f"{architecture}: no such architecture in the data of the bundled backends"
        return
    capability = tuple(entry["capability"]) if entry.get("capability") else None
    planned = {
        (task.family, task.probe.cell, task.probe.name): bool(task.refusals)
        for task in plan(found, capabilities, entry["device"], capability)
    }
    seen = {
        (family, cell, name): evidence.verdict(each)
        for family in found.families
        for cell, probes in evidence.probes_of(runs, capabilities.name, family).items()
        for name, each in probes.items()
    }
    place = f"{capabilities.name} {architecture}"
    for key in dict.fromkeys([*planned, *seen]):
        family, cell, name = key
        where = f"{place} {family} {cell} [{name}]"
        if key not in seen:
            yield f"{where}: no evidence; run verify there again"
        elif key not in planned:
            yield f"{where}: evidence of a probe that there is no more; run verify there again"
        elif planned[key] and seen[key] == "right":
            yield f"{where}: declared as refused by now; the evidence carried it"
        elif not planned[key] and seen[key] == "refused":
            yield f"{where}: declared as carried by now; the evidence refused it"
