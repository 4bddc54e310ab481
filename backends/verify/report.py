"""How a run is told: a table of backends and cells, and every reason below it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TextIO

from ...matrix import evidence
from .marks import LEGEND, MARKS, UNFINISHED, UNFINISHED_LEGEND, cells_in_words
from .probes import Catalogue, Task

Json = dict[str, Any]
#: Backend, family and cell.
Place = tuple[str, str, str]


def open_places(run: Json, planned: Iterable[Task]) -> set[Place]:
    """Cells of a run of which it lacks probes of the plan, or some of its seeds of a right one."""
    places = set()
    for task in planned:
        backend, family, cell, name = task.key
        probes = run["backends"].get(backend, {}).get(family, {}).get(cell)
        if not probes:  # not asked
            continue
        seen = probes.get(name)
        if seen is None or (
            evidence.verdict([seen]) == "right" and seen["right"] < len(run["seeds"])
        ):
            places.add((backend, family, cell))
    return places


def table(
    run: Json, found: Catalogue, stream: TextIO, *, unfinished: Collection[Place] = ()
) -> None:
    """Print the run as a table, a row a cell; those of which something was left out are marked."""
    from rich.console import Console
    from rich.table import Table

    columns = [
        (backend, family)
        for backend, families in run["backends"].items()
        for family in families
        if _says_something(families[family])
    ]
    machine = run["machine"]
    grid = Table(
        title=f"{machine['device']} ({machine['architecture']}), seeds {_seeds(run['seeds'])}",
        title_justify="left", header_style="", show_edge=False, pad_edge=False,
    )  # fmt: skip
    grid.add_column("cell", no_wrap=True)
    for backend, family in columns:
        grid.add_column(f"{backend}\n{family}", justify="center", overflow="fold")
    grid.add_column("worst error", justify="right")
    group = None
    for cell in found.cells.values():
        shown = [run["backends"][backend][family].get(cell.name, {}) for backend, family in columns]
        open_ones = [(backend, family, cell.name) in unfinished for backend, family in columns]
        if not any(shown) and not any(open_ones):
            continue
        if cell.group != group:
            grid.add_section()
            group = cell.group
        worst = [
            probe["error"] for probes in shown for probe in probes.values() if "error" in probe
        ]
        grid.add_row(
            cell.name,
            *(
                f"{mark(probes)} {UNFINISHED}".strip() if is_open else mark(probes)
                for probes, is_open in zip(shown, open_ones, strict=True)
            ),
            f"{max(worst):.1e}" if worst else "",
        )
    console = Console(file=stream, highlight=False, width=None if stream.isatty() else 200)
    console.print(grid)
    print(LEGEND, file=stream)
    if unfinished:
        print(UNFINISHED_LEGEND, file=stream)


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _says_something(cells: Json) -> bool:
    """A family that a backend has nothing for needs no column."""
    return any(
        evidence.verdict([probe]) != "refused"
        for probes in cells.values()
        for probe in probes.values()
    )


def mark(probes: Json) -> str:
    """A cell of a run as one sign."""
    if not probes:
        return ""
    return MARKS[evidence.support({name: [probe] for name, probe in probes.items()}, "")["support"]]


def bad_probes(run: Json) -> Iterator[tuple[str, str, str, str, Json]]:
    """Backend, family, cell, probe and what was seen, of all that is wrong or crashed."""
    for place in every_probe(run):
        if evidence.verdict([place[4]]) in evidence.BAD:
            yield place


def every_probe(run: Json) -> Iterator[tuple[str, str, str, str, Json]]:
    """Backend, family, cell, probe and what was seen."""
    for backend, families in run["backends"].items():
        for family, cells in families.items():
            for cell, probes in cells.items():
                for name, seen in probes.items():
                    yield backend, family, cell, name, seen


def reasons(run: Json, found: Catalogue) -> Iterator[str]:
    """Why something was refused or not run, a reason once for each backend."""
    seen: dict[tuple[str, str], list[str]] = {}
    for backend, _, cell, _, probe in every_probe(run):
        verdict = evidence.verdict([probe])
        if verdict in ("refused", "unavailable"):
            said = probe.get("text", "")
            key = backend, said if verdict == "refused" else f"not run: {said}"
            cells = seen.setdefault(key, [])
            if cell not in cells:
                cells.append(cell)
    last = None
    for (backend, text), cells in sorted(seen.items(), key=lambda item: item[0][0]):
        if backend != last:
            yield f"{backend} refuses:"
            last = backend
        yield f"  {', '.join(cells)}: {text}"
    for backend, why in run["not_run"].items():
        yield f"{backend} does not run here: {why}"


def text(
    run: Json,
    found: Catalogue,
    problems: Iterable[str],
    *,
    verbose: bool = True,
    unfinished: Collection[Place] = (),
) -> None:
    """Print a run with its reasons and problems; `unfinished`: cells that it did not end."""
    table(run, found, sys.stdout, unfinished=unfinished)
    if verbose:
        asked = {cell for _, _, cell, _, _ in every_probe(run)}
        titles = {name: {"title": cell.title} for name, cell in found.cells.items()}
        print("", "Cells", *cells_in_words(titles, asked), "", sep="\n")
        for line in reasons(run, found):
            print(line)
    bad = list(bad_probes(run))
    for backend, family, cell, name, probe in bad:
        kind = evidence.verdict([probe])
        print(f"❌ {backend} {family} {cell} [{name}] {kind}: {probe.get('text', '')}")
        print(f"   {probe['call']}")
    for problem in problems:
        print(problem)
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    print(f"\n{summary(run)}; {versions}")


def summary(run: Json) -> str:
    """Outcomes counted in one line."""
    counts: dict[str, int] = {}
    for *_, probe in every_probe(run):
        for kind in ("right", "refused", "wrong", "crashed", "unavailable"):
            counts[kind] = counts.get(kind, 0) + probe.get(kind, 0)
    return ", ".join(
        f"{count} {kind}" for kind, count in counts.items() if count or kind in evidence.BAD
    )
