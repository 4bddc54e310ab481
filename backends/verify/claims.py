"""What runs of the bundled backends say of claims in an engine's matrix; imports no torch.

Compared is a claim on a backend's cell with runs of the bundled backend that drives the same family
of kernels (`engine_row`), on architectures that the claim covers. A run tests kernels through our
adapter, never the engine's own wrapper. So what our adapter refuses contradicts nothing, and where
the engine refuses what the kernels carry, nothing is contradicted: both are said as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...matrix import evidence
from ...matrix.loader import Release
from ...matrix.show import FRAME
from ..interface.capabilities import Capabilities

Json = dict[str, Any]
#: Our name of an architecture where the engine's is another.
ENGINE_NAMES = {"cpu": "x86"}
CONFIRMED = "confirmed"
IN_PART = "confirmed in part"
CONTRADICTED = "contradicted"
BEYOND = "carried by the kernels"
NOT_TESTABLE = "not testable here"


@dataclass(frozen=True, slots=True)
class Claim:
    """A cell of the engine's matrix, and what runs of the same kernels say of it."""

    backend: str
    family: str
    cell: str
    title: str
    claimed: str
    status: str
    text: str
    #: Device, date and versions of the runs that the text rests on.
    machines: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return asdict(self)


def claims(
    engine: Release,
    bundled: Release,
    declared: Mapping[str, Capabilities],
    backend: str,
    family: str,
    row: Mapping[str, Mapping[str, Any]],
) -> Iterator[Claim]:
    """Every claim of a row (its cells by name) that a run could speak of."""
    drivers = [name for name, own in declared.items() if own.engine_row == backend]
    titles = {name: entry["title"] for name, entry in engine["features"]["features"].items()}
    columns = {
        entry["engine_cell"]: name
        for name, entry in bundled["bundled"]["cells"].items()
        if entry.get("engine_cell") and family in (entry.get("families") or [family])
    }
    for feature, cell in columns.items():
        claimed = row.get(feature)
        if claimed is None or claimed["support"] == "untested":
            continue
        status, text, runs = _judge(bundled, drivers, family, cell, row, claimed)
        title = titles.get(feature) or FRAME[feature]
        machines = tuple(dict.fromkeys(machine_of(run) for run in runs))
        yield Claim(backend, family, feature, title, _said(claimed), status, text, machines)


def _said(cell: Mapping[str, Any]) -> str:
    text = str(cell["support"])
    if cell.get("sizes"):
        sizes = cell["sizes"]
        return f"{text} ({sizes if isinstance(sizes, str) else ', '.join(map(str, sizes))})"
    return f"{text} ({cell['when']})" if cell.get("when") else text


def _judge(
    bundled: Release,
    drivers: Sequence[str],
    family: str,
    cell: str,
    row: Mapping[str, Mapping[str, Any]],
    claimed: Mapping[str, Any],
) -> tuple[str, str, list[Json]]:
    """A status and what it rests on, over all bundled backends of these kernels."""
    if not drivers:
        return NOT_TESTABLE, "no bundled backend drives these kernels", []
    runs = {*row["prefill_gpus"].get("runs", ()), *row["decode_gpus"].get("runs", ())}
    found: list[tuple[str, str]] = []
    runs_seen: list[Json] = []
    for driver in drivers:
        for architecture, cells in bundled["rows"].get(driver, {}).get(family, {}).items():
            name = ENGINE_NAMES.get(architecture, architecture)
            if name not in runs or isinstance(cells, str) or cell not in cells:
                continue
            probes, tested = behind(bundled, driver, family, architecture, cell, cells[cell])
            found.append(_one(driver, architecture, claimed, probes, tested))
            runs_seen += tested
    if not found:
        return NOT_TESTABLE, "no evidence from an architecture that the row runs on", []
    for status in (CONTRADICTED, CONFIRMED, IN_PART, BEYOND):
        texts = [text for kind, text in found if kind == status]
        if texts:
            others = [text for kind, text in found if kind != status]
            return status, "; ".join([*texts, *others]), runs_seen
    return NOT_TESTABLE, "; ".join(text for _, text in found), runs_seen


def behind(
    bundled: Release, driver: str, family: str, architecture: str, cell: str, said: Json
) -> tuple[dict[str, list[Json]], list[Json]]:
    """The probes behind a bundled cell, and the runs that saw them."""
    runs = [
        run
        for run in evidence_runs(bundled, said.get("probe", ()), architecture)
        if cell in run["backends"].get(driver, {}).get(family, {})
    ]
    probes: dict[str, list[Json]] = {}
    for run in runs:
        for name, seen in run["backends"][driver][family][cell].items():
            probes.setdefault(name, []).append(seen)
    return probes, runs


def evidence_runs(bundled: Release, files: Iterable[str], architecture: str) -> list[Json]:
    """The runs of evidence files on an architecture."""
    return [
        run
        for file in files
        for run in bundled["evidence"].get(file, ())
        if run["machine"]["architecture"] == architecture
    ]


def _one(
    driver: str,
    architecture: str,
    claimed: Mapping[str, Any],
    probes: Mapping[str, Sequence[Json]],
    runs: Sequence[Json],
) -> tuple[str, str]:
    """What one bundled backend on one architecture says of a claim."""
    where = f"{driver} on {architecture}"
    chosen = _asked_for(claimed, probes)
    verdicts = {name: evidence.verdict(seen) for name, seen in chosen.items()}
    bad = [name for name, kind in verdicts.items() if kind in ("wrong", "crashed")]
    right = [name for name, kind in verdicts.items() if kind == "right"]
    refused = [name for name, kind in verdicts.items() if kind == "refused"]
    if bad:
        return CONTRADICTED, f"{where} goes wrong: {', '.join(bad)}"
    if not right:
        reason = next((s["text"] for n in refused for s in chosen[n] if s.get("text")), "")
        what = f"our adapter refuses: {reason}" if reason else "untested"
        return NOT_TESTABLE, f"{where}: {what}"
    proof = f"{where} is right: {proven(chosen, right, runs)}"
    if claimed["support"] == "no":
        return BEYOND, proof
    if not refused:
        return CONFIRMED, proof
    reason = next((s["text"] for n in refused for s in chosen[n] if s.get("text")), "")
    return IN_PART, f"{proof}; our adapter refuses {', '.join(refused)}: {reason}"


def _asked_for(
    claimed: Mapping[str, Any], probes: Mapping[str, Sequence[Json]]
) -> dict[str, Sequence[Json]]:
    """The probes that a claim is about: of page sizes, those that it lists."""
    sizes = claimed.get("sizes")
    if not isinstance(sizes, (list, tuple)):
        return dict(probes)
    wanted = {f"page_size={size}" for size in sizes}
    return {name: seen for name, seen in probes.items() if name.split(" ")[-1] in wanted}


def proven(probes: Mapping[str, Sequence[Json]], names: Sequence[str], runs: Sequence[Json]) -> str:
    """Probes, error, device and date behind what was right, in words."""
    parts = [f"{len(names)} probe{'s' if len(names) != 1 else ''}"]
    closest = worst_of(seen for name in names for seen in probes[name])
    if closest is not None:
        error, allowed = closest
        parts.append(f"error {error:.1e} of {allowed:g} allowed")
    parts += list(dict.fromkeys(f"{r['machine']['device']}, {r['date'][:10]}" for r in runs))
    return ", ".join(parts)


def worst_of(seen: Iterable[Json]) -> tuple[float, float] | None:
    """The error of probes that takes most of its tolerance, and that tolerance."""
    errors = [(one["error"], one["tolerance"]) for one in seen if "error" in one]
    return max(errors, key=lambda pair: pair[0] / pair[1], default=None)


def machine_of(run: Json) -> str:
    """Device, date and the versions that matter of a run."""
    versions = run["versions"]
    told = [f"{name} {versions[name]}" for name in versions if name not in ("python", "numpy")]
    return f"{run['machine']['device']}, {run['date'][:10]} ({', '.join(told)})"
