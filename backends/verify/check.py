"""Holds evidence against the matrix and against what backends declare; imports no torch.

Every check goes both ways: a cell without evidence is as wrong as evidence without a cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...matrix import evidence
from ...matrix.loader import Release
from ..interface.capabilities import Capabilities
from . import record
from .claims import machine_of
from .probes import Catalogue, plan
from .rows import rows_of

Json = dict[str, Any]
#: Probes without evidence that are named; the rest are counted.
_LISTED = 3
Declared = Mapping[str, Capabilities]


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the matrix that is asked about; None is all backends, all cells."""

    backends: Collection[str] | None = None
    cells: Collection[str] | None = None

    def has(self, backend: str) -> bool:
        return self.backends is None or backend in self.backends

    def asks(self, cell: str) -> bool:
        return self.cells is None or cell in self.cells


EVERYTHING = Scope()


def committed(
    release: Release, found: Catalogue, declared: Declared, scope: Scope = EVERYTHING
) -> list[str]:
    """Every disagreement between the matrix, the evidence beside it, and what backends declare."""
    files: dict[str, list[Json]] = release["evidence"]
    problems = list(_names(release, declared, scope))
    for name, capabilities in declared.items():
        if not scope.has(name):
            continue
        made = rows_of(files, capabilities, found, release["bundled"]["architectures"])
        said = release["rows"].get(name, {})
        for family in dict.fromkeys([*made, *said]):
            ours, theirs = made.get(family, {}), said.get(family, {})
            for architecture in dict.fromkeys([*ours, *theirs]):
                place = f"{name} {family} {architecture}"
                if architecture not in ours:
                    problems.append(f"{place}: {name} does not declare that it runs there")
                elif architecture not in theirs:
                    problems.append(f"{place}: the matrix has no row, not even untested")
                else:
                    problems += _cells(place, theirs[architecture], ours[architecture], scope)
    runs = [run for each in files.values() for run in each]
    return problems + _evidence(runs, release, found, declared, scope)


def files_given(
    runs: Sequence[Json],
    release: Release,
    found: Catalogue,
    declared: Declared,
    scope: Scope = EVERYTHING,
) -> list[str]:
    """Disagreements of evidence files with the matrix, on the architectures that they are from."""
    problems: list[str] = []
    for architecture in dict.fromkeys(run["machine"]["architecture"] for run in runs):
        here = evidence.of_architecture(runs, architecture)
        for capabilities in declared.values():
            problems += _against(release, found, capabilities, architecture, here, scope)
    problems = list(dict.fromkeys(problems))  # what is wrong with an architecture is said once
    return problems + _evidence(runs, release, found, declared, scope)


def run_made(run: Json, release: Release, found: Catalogue, declared: Declared) -> list[str]:
    """Disagreements of a run just made, in the backends and cells that it covers."""
    architecture = run["machine"]["architecture"]
    problems: list[str] = []
    for name in run["backends"]:
        whole = Scope(cells=_whole_cells(run, found, declared[name]))
        problems += _against(
            release, found, declared[name], architecture, [run], whole, seen_in="this run"
        )
    return problems


def _whole_cells(run: Json, found: Catalogue, capabilities: Capabilities) -> set[str]:
    """Cells of which a run has every probe: of a part nothing follows for the cell."""
    capability = run["machine"]["capability"]
    tasks = plan(
        found, capabilities, "cpu" if capability is None else "cuda",
        None if capability is None else tuple(capability),
    )  # fmt: skip
    families = run["backends"][capabilities.name]
    missing = {
        task.probe.cell
        for task in tasks
        if task.probe.name not in families.get(task.family, {}).get(task.probe.cell, {})
    }
    return {cell for cells in families.values() for cell in cells} - missing


def notes(run: Json, release: Release) -> list[str]:
    """Versions of a run that no evidence of its architecture was made with."""
    architecture = run["machine"]["architecture"]
    files = release["evidence"]
    known = [r for each in files.values() for r in evidence.of_architecture(each, architecture)]
    found = []
    for package, version in run["versions"].items():
        there = {r["versions"].get(package) for r in known} - {None}
        if there and version not in there:
            listed = ", ".join(sorted(map(str, there)))
            found.append(f"{package} {version} here; the evidence was made with {listed}")
    return found


def other_probes(runs: Sequence[Json], found: Catalogue) -> list[str]:
    """Runs that were asked something else than is asked today: where problems may come from."""
    return [
        f"the run of {run['date'][:10]} on {run['machine']['device']} is of other probes "
        f"({run['probes']}, by attn-lint {run['tool']}; now {found.digest})"
        for run in runs
        if run["probes"] != found.digest
    ]


def _names(release: Release, declared: Declared, scope: Scope) -> Iterator[str]:
    for name in release["rows"]:
        if name not in declared and scope.has(name):
            yield f"{name}: the matrix has a row, no backend of that name is bundled"
    for name in declared:
        if name not in release["rows"] and scope.has(name):
            yield f"{name}: the matrix has no row"


def _against(
    release: Release,
    found: Catalogue,
    capabilities: Capabilities,
    architecture: str,
    runs: Sequence[Json],
    scope: Scope,
    seen_in: str = "the evidence",
) -> Iterator[str]:
    """Differences between one backend's cells and what runs on one architecture say of them."""
    if not scope.has(capabilities.name):
        return
    entry = release["bundled"]["architectures"].get(architecture)
    if entry is None:
        yield f"{architecture}: the data of the bundled backends has no such architecture yet"
        return
    said = release["rows"].get(capabilities.name, {})
    made = rows_of({"": runs}, capabilities, found, {architecture: entry})
    for family in dict.fromkeys([*made, *said]):
        place = f"{capabilities.name} {family} {architecture}"
        claimed = said.get(family, {}).get(architecture, {})
        ours = made.get(family, {}).get(architecture, {})
        yield from _cells(place, claimed, ours, scope, sources=False, seen_in=seen_in)


def _cells(
    place: str,
    claimed: Mapping[str, Json] | str,
    made: Mapping[str, Json] | str,
    scope: Scope,
    *,
    sources: bool = True,
    seen_in: str = "the evidence",
) -> Iterator[str]:
    """Differences between the cells that the matrix claims and those that evidence makes."""
    claimed = {} if isinstance(claimed, str) else claimed
    made = {} if isinstance(made, str) else made
    keys = ("support", "when", "refuses", "probe") if sources else ("support", "when", "refuses")
    for cell in dict.fromkeys([*claimed, *made]):
        if not scope.asks(cell):
            continue
        ours, theirs = made.get(cell), claimed.get(cell)
        if ours is not None and ours["support"] == "bad":
            continue  # each of its probes is told with what went wrong
        if ours is None:
            yield f"{place} {cell}: the matrix says {_say(theirs)}, there is no evidence"
        elif theirs is None:
            yield f"{place} {cell}: {seen_in} says {_say(ours)}, the matrix has no such cell"
        elif any(ours.get(key) != theirs.get(key) for key in keys):
            yield f"{place} {cell}: the matrix says {_say(theirs)}, {seen_in} {_say(ours)}"


def _say(cell: Json | None) -> str:
    assert cell is not None
    text = str(cell["support"])
    if cell["support"] == "partial":
        text += f" ({cell['when']}; refused: {', '.join(cell['refuses'])})"
    return text + (f" by {', '.join(cell['probe'])}" if cell.get("probe") else "")


def _evidence(
    runs: Sequence[Json],
    release: Release,
    found: Catalogue,
    declared: Declared,
    scope: Scope,
) -> list[str]:
    """What is wrong with evidence itself: bad outcomes, and what does not fit today's backends."""
    problems: list[str] = []
    for architecture in dict.fromkeys(run["machine"]["architecture"] for run in runs):
        here = evidence.of_architecture(runs, architecture)
        entry = release["bundled"]["architectures"].get(architecture)
        for name in dict.fromkeys(name for run in here for name in run["backends"]):
            place = f"{name} {architecture}"
            if not scope.has(name):
                continue
            if name not in declared:
                problems.append(f"{place}: evidence of a backend that is not bundled")
            elif entry is not None:
                problems += _declared(place, here, found, declared[name], entry, scope)
    return problems


def _declared(
    place: str,
    runs: Sequence[Json],
    found: Catalogue,
    capabilities: Capabilities,
    architecture: Mapping[str, Any],
    scope: Scope,
) -> Iterator[str]:
    """Differences between what a backend declares today and what it did in a run."""
    capability = tuple(architecture["capability"]) if architecture.get("capability") else None
    planned = {
        (task.family, task.probe.cell, task.probe.name): [each.reason for each in task.refusals]
        for task in plan(found, capabilities, architecture["device"], capability)
    }
    seen = {
        (family, cell, name): each
        for family in found.families
        for cell, probes in evidence.probes_of(runs, capabilities.name, family).items()
        for name, each in probes.items()
    }
    missing: dict[tuple[str, str], list[str]] = {}
    for key in dict.fromkeys([*planned, *seen]):
        family, cell, name = key
        if not scope.asks(cell):
            continue
        where = f"{place} {family} {cell} [{name}]"
        verdict = evidence.verdict(seen[key]) if key in seen else None
        apart = evidence.disagreement(runs, capabilities.name, *key)
        if apart is not None:
            said = "; ".join(
                f"{kind} on {machine_of(run)}" for kind, those in apart.items() for run in those
            )
            yield f"{where}: runs disagree: {said}"
        elif verdict in evidence.BAD:
            texts = [one["text"] for one in seen[key] if one.get("text")]
            yield f"{where}: {verdict}: {'; '.join(texts) or 'without a reason'}"
        elif verdict is None:
            missing.setdefault((family, cell), []).append(name)
        elif key not in planned:
            yield f"{where}: evidence of a probe that is no more; run verify there again"
        elif planned[key] and verdict == "right":
            yield f"{where}: refused as declared by now, carried in the evidence"
        elif not planned[key] and verdict == "refused":
            yield f"{where}: carried as declared by now, refused in the evidence"
        elif verdict == "refused":
            told = {one["text"] for one in seen[key] if one.get("text")}
            yield from _other_numbers(where, "; ".join(planned[key]), told)
    for (family, cell), names in missing.items():
        listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
        what = f"{len(names)} probe{'s' if len(names) > 1 else ''}: {listed}"
        yield f"{place} {family} {cell}: no evidence of {what}; run verify there again"


def _other_numbers(where: str, reason: str, texts: Collection[str]) -> Iterator[str]:
    """A limit that was moved since: of the reasons, what is measured in numbers must be the same.

    How a reason is worded may change without a run.
    """
    for text in texts:
        if _numbers(text) != _numbers(reason[: record.LONGEST_TEXT]):
            yield f"{where}: refused as declared by now: {reason}; the evidence has: {text}"


def _numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:\.\d+)?", text))
