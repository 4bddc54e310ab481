"""Cells and their probes, read from the data of the `bundled` engine; imports no torch.

A probe is a list of traits (of a `Request`) and of settings (how it is run), which a base call is
changed by. Lists multiply out: `{mode: [decode, extend], page_size: [1, 16]}` is four probes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..interface.capabilities import Capabilities, Refusal, Request

#: Settings of a probe that are no traits of a request, with their defaults.
SETTINGS: dict[str, Any] = {
    "run": "eager",
    "lengths": "ragged",
    "window_size": 37,
    "spare": 1.3,
    "damage": None,
    "verify_by": "prefill",
    "layers": 1,  # in a graph
}
#: Keys that stand for two traits at once.
PAIRS = {"head_dims": ("qk_head_dim", "v_head_dim"), "heads": ("q_heads", "kv_heads")}
_TRAITS = {f.name for f in fields(Request)}


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to ask of a backend: what to change in a base call, and how to run it."""

    cell: str
    name: str  # unique within its cell; says what it changes
    traits: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def mode(self) -> str:
        return str(self.traits["mode"])

    @property
    def run(self) -> str:
        return str(self.settings.get("run", SETTINGS["run"]))

    @property
    def plain(self) -> bool:
        """It asks for nothing but a mode."""
        return set(self.traits) <= {"mode", "draft_tokens"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of the matrix: a question, and the probes that answer it."""

    name: str
    title: str
    group: str
    families: tuple[str, ...]
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True)
class Bases:
    """Calls to start from, by kind of device and family; the first that is carried is taken."""

    calls: Mapping[str, Mapping[str, tuple[Mapping[str, Any], ...]]]

    def of(self, device: str, family: str) -> tuple[Mapping[str, Any], ...]:
        return self.calls["cuda" if device == "cuda" else "cpu"][family]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All cells and bases of one release of the `bundled` data."""

    cells: Mapping[str, Cell]
    bases: Bases
    families: tuple[str, ...]
    digest: str = ""


def catalogue(data: Mapping[str, Any]) -> Catalogue:
    """Read cells and bases from the data, already validated against its schema."""
    families = tuple(data["families"])
    cells = {
        name: Cell(
            name=name,
            title=entry["title"],
            group=entry["group"],
            families=tuple(entry.get("families") or families),
            probes=tuple(probe for written in entry["probes"] for probe in _expand(name, written)),
        )
        for name, entry in data["cells"].items()
    }
    bases = Bases(
        {
            device: {
                family: tuple(traits for _, traits, _ in _product(written))
                for family, written in by_family.items()
            }
            for device, by_family in data["bases"].items()
        }
    )
    return Catalogue(cells, bases, families, _digest(data))


def _digest(data: Mapping[str, Any]) -> str:
    """Of what is asked, and not of what it is called."""
    asked = {
        name: [entry.get("families"), entry["probes"]] for name, entry in data["cells"].items()
    }
    text = json.dumps([asked, data["bases"]], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _expand(cell: str, written: Mapping[str, Any]) -> Iterator[Probe]:
    for name, traits, settings in _product(written):
        yield Probe(cell, name, traits, settings)


def _product(
    written: Mapping[str, Any],
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every choice of one value a key: its name, traits and settings."""
    choices = []
    for key, value in written.items():
        if key in PAIRS:
            choices.append([(key, tuple(pair)) for pair in value])
        else:
            choices.append([(key, v) for v in (value if isinstance(value, list) else [value])])
    for chosen in itertools.product(*choices):
        traits: dict[str, Any] = {}
        settings: dict[str, Any] = {}
        for key, value in chosen:
            if key in PAIRS:
                traits.update(zip(PAIRS[key], value, strict=True))
            elif key in _TRAITS:
                traits[key] = value
            elif key in SETTINGS:
                settings[key] = value
            else:
                raise ValueError(f"a probe has no {key!r}")
        yield " ".join(_said(key, value) for key, value in chosen), traits, settings


def _said(key: str, value: Any) -> str:
    """A chosen value as a part of a probe's name."""
    if key in ("mode", "run") or (key == "lengths" and value == "ragged"):
        return str(value)
    if key in PAIRS:
        return f"{key}={value[0]}/{value[1]}"
    if value is True:
        return key
    if value is False:
        return {"causal": "bidirectional"}.get(key, f"no {key}")
    return f"{key}={value}"


@dataclass(frozen=True, slots=True)
class Task:
    """A probe of one backend: the call that it became, and what the backend declares of it."""

    backend: str
    family: str
    probe: Probe
    request: Request
    refusals: tuple[Refusal, ...] = field(default=())

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.backend, self.family, self.probe.cell, self.probe.name


def plan(
    found: Catalogue,
    capabilities: Capabilities,
    device: str,
    capability: tuple[int, int] | None,
    cells: tuple[str, ...] | None = None,
) -> list[Task]:
    """The tasks of one backend on one kind of machine.

    A probe runs on the first base that carries it, else on the first one that is carried without
    what the probe asks for, where a refusal speaks of just that. A probe of a mode that the
    backend has for no base says nothing of its cell and is left out, unless it asks for no more
    than the mode.
    """
    tasks = []
    for family in found.families:
        bases = [
            _request({**base, "device": device, "capability": capability, "family": family})
            for base in found.bases.of(device, family)
        ]
        for cell in found.cells.values():
            if family not in cell.families or (cells is not None and cell.name not in cells):
                continue
            for probe in cell.probes:
                task = _choose(capabilities, family, probe, bases)
                if task is not None:
                    tasks.append(task)
    return tasks


def _choose(
    capabilities: Capabilities, family: str, probe: Probe, bases: list[Request]
) -> Task | None:
    refused: Task | None = None
    for base in bases:
        start = replace(base, **_mode(probe))
        if capabilities.refusals(start):
            continue
        request = replace(start, **_changes(probe))
        refusals = tuple(capabilities.refusals(request))
        task = Task(capabilities.name, family, probe, request, refusals)
        if not refusals:
            return task
        refused = refused or task
    if refused is not None:
        return refused
    if probe.plain and probe.run == "eager":
        request = replace(bases[0], **_mode(probe))
        return Task(
            capabilities.name, family, probe, request, tuple(capabilities.refusals(request))
        )
    return None


def _mode(probe: Probe) -> dict[str, Any]:
    """The part of a probe that says which mode it runs in."""
    verify = probe.mode == "target_verify"
    return {"mode": probe.mode, "draft_tokens": 4 if verify else 0}


def _changes(probe: Probe) -> dict[str, Any]:
    """What a probe changes; the pool follows the queries' dtype where it says nothing else."""
    traits = dict(probe.traits)
    if "dtype" in traits:
        traits.setdefault("kv_dtype", traits["dtype"])
    return traits


def _request(base: Mapping[str, Any]) -> Request:
    return Request(**{**base, "kv_dtype": base.get("kv_dtype", base["dtype"])})
