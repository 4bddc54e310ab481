"""Going on from the evidence of an earlier run: which seeds it has, and both put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...matrix import evidence
from .errors import VerifyError
from .machine import Here
from .outcome import BAD, OUTCOMES, REFUSED, RIGHT
from .pool import TaskKey
from .record import own_version

Json = dict[str, Any]


def found(path: Path | None, here: Here, digest: str) -> tuple[list[Json], Json | None]:
    """The other runs of a file, and the one to go on from; none without a file.

    Raises:
        VerifyError: no run of the file is of this machine, these versions and these probes.
    """
    if path is None:
        return [], None
    runs = evidence.read(path)
    now = {
        "machine": here.to_json(), "versions": here.versions, "tool": own_version(),
        "probes": digest,
    }  # fmt: skip
    differ = [[name for name, value in now.items() if run[name] != value] for run in runs]
    if [] in differ:
        at = differ.index([])
        return runs[:at] + runs[at + 1 :], runs[at]
    of = [
        f"{name} {run[name]!r}, here {now[name]!r}" if isinstance(run[name], str) else name
        for run, names in zip(runs, differ, strict=True)
        if names == min(differ, key=len)
        for name in names
    ]
    raise VerifyError(
        f"{path}: no run in it is of what is here: other {' and '.join(dict.fromkeys(of))}; "
        "without --resume, everything is run"
    )


def had(earlier: Json, seeds: Sequence[int]) -> dict[TaskKey, int]:
    """How many of the seeds each probe has run, in order; one that went wrong is run anew.

    Raises:
        VerifyError: the earlier run began with another seed.
    """
    first = min(earlier["seeds"], default=seeds[0])
    if first != seeds[0]:
        raise VerifyError(f"the run to go on from began with seed {first}: give --seed {first}")
    return {
        key: probe.get(RIGHT, 0) + probe.get(REFUSED, 0)
        for key, probe in _probes(earlier)
        if not _to_be_run_anew(probe)
    }


def joined(earlier: Json, made: Json) -> Json:
    """One run out of two of the same machine, the counts of their probes added up."""
    backends: dict[str, Any] = {}
    for run in (earlier, made):
        for (backend, family, cell, name), probe in _probes(run):
            cells = backends.setdefault(backend, {}).setdefault(family, {})
            probes = cells.setdefault(cell, {})
            before = probes.get(name)
            again = before is None or _to_be_run_anew(before)
            probes[name] = probe if again else _added(before, probe)
    seeds = sorted({*earlier["seeds"], *made["seeds"]})
    not_run = {**earlier.get("not_run", {}), **made["not_run"]}
    not_run = {name: why for name, why in not_run.items() if name not in backends}
    return {**made, "seeds": seeds, "backends": backends, "not_run": not_run}


def _added(before: Json, after: Json) -> Json:
    out = {**before, **after}
    for kind in OUTCOMES:
        if count := before.get(kind, 0) + after.get(kind, 0):
            out[kind] = count
    for name in ("error", "row"):
        worst = [probe[name] for probe in (before, after) if name in probe]
        if worst:
            out[name] = max(worst)
    return out


def _to_be_run_anew(probe: Json) -> bool:
    return any(probe.get(kind) for kind in (*BAD, "unavailable"))


def _probes(run: Json) -> list[tuple[TaskKey, Json]]:
    return [
        ((backend, family, cell, name), probe)
        for backend, families in run["backends"].items()
        for family, cells in families.items()
        for cell, probes in cells.items()
        for name, probe in probes.items()
    ]
