"""The shape of the `bundled` engine's data: cells and probes, rows of backends, and evidence.

Nothing is imported from the room of the backends: probes are data here, and what their keys mean
is checked where they are run.
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from .schema import Strict
from .schema_backends import Support

Family = Literal["mha", "mla"]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters: a file from elsewhere is printed as it is")
    return text


#: Text that a terminal can be given; evidence comes from other machines.
Line = Annotated[str, AfterValidator(_one_line)]


class BundledCell(Strict):
    """A column: a question, and the probes that answer it."""

    title: str
    group: str
    engine_cell: str | None = Field(
        None, description="column of the engine's matrix that asks the same of the same kernels"
    )
    families: list[Family] | None = Field(None, description="all of them where it is not given")
    probes: list[dict[str, Any]] = Field(min_length=1)

    @field_validator("probes")
    @classmethod
    def _with_mode(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if any("mode" not in probe for probe in value):
            raise ValueError("a probe names its mode")
        return value


class BundledArchitecture(Strict):
    """A kind of machine that a row speaks of."""

    title: str
    device: Literal["cpu", "cuda"]
    capability: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _capability(self) -> BundledArchitecture:
        if (self.device == "cuda") != (self.capability is not None):
            raise ValueError("a CUDA architecture has a compute capability, a CPU has none")
        return self


class BundledFamily(Strict):
    title: str


class BundledFile(Strict):
    """`bundled.yaml`: what every backend is asked."""

    engine: Literal["bundled"]
    release: str
    families: dict[Family, BundledFamily]
    architectures: dict[str, BundledArchitecture]
    bases: dict[Literal["cpu", "cuda"], dict[Family, dict[str, Any]]]
    cells: dict[str, BundledCell]


class BundledSupport(Strict):
    """What the evidence of one architecture says of one cell."""

    support: Support
    when: str | None = Field(None, description="what a partial cell carries, in words")
    refuses: list[str] | None = Field(None, description="probes that a partial cell refuses")
    probe: list[str] | None = Field(None, description="evidence files, without folder and ending")

    @model_validator(mode="after")
    def _complete(self) -> BundledSupport:
        partial = self.support == "partial"
        if partial != bool(self.when) or partial != bool(self.refuses):
            raise ValueError("a partial cell, and no other, says `when` and what it `refuses`")
        if (self.support != "untested") != bool(self.probe):
            raise ValueError("a cell names the evidence it rests on (`probe`), or is untested")
        return self


class BundledBackendFile(Strict):
    """`backends/NAME.yaml`: family -> architecture -> cell, or `untested` for all of them."""

    name: str
    rows: dict[Family, dict[str, dict[str, BundledSupport] | Literal["untested"]]]


class ProbeEvidence(Strict):
    """How often a probe came out in which way, and the worst that was seen."""

    call: Line = Field(description="the call that the probe became, in words")
    right: int = Field(0, ge=0)
    refused: int = Field(0, ge=0)
    wrong: int = Field(0, ge=0)
    crashed: int = Field(0, ge=0)
    unavailable: int = Field(0, ge=0)
    error: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="largest ‖out − ref‖/‖ref‖"
    )
    row: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="the same of the worst query of a head"
    )
    tolerance: float | None = Field(
        None, gt=0, lt=1, allow_inf_nan=False, description="at 1, zeros would pass for any output"
    )
    text: Line | None = Field(None, description="reasons of a refusal, or what went wrong")

    @property
    def outcomes(self) -> int:
        """How many outcomes are counted: one a seed."""
        return self.right + self.refused + self.wrong + self.crashed + self.unavailable

    @model_validator(mode="after")
    def _something(self) -> ProbeEvidence:
        if not self.outcomes:
            raise ValueError("no outcome is counted")
        if self.error is not None and self.tolerance is None:
            raise ValueError("an error comes with the tolerance that it was held against")
        if not (self.wrong or self.crashed) and (self.error or 0) > (self.tolerance or 0):
            raise ValueError("an error above the tolerance, and nothing is counted as wrong")
        return self


class Machine(Strict):
    architecture: str
    device: Line
    capability: tuple[int, int] | None = None
    system: Line

    @model_validator(mode="after")
    def _named(self) -> Machine:
        name = "cpu" if self.capability is None else "sm{}{}".format(*self.capability)
        if self.architecture != name:
            raise ValueError(f"architecture {self.architecture} with the capability of {name}")
        return self


class EvidenceRun(Strict):
    """One run of `attn-lint verify` on one machine."""

    date: str = Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", description="UTC"
    )
    tool: Line
    probes: Line = Field(description="digest of the cells and bases it was made with")
    machine: Machine
    versions: dict[Line, Line]
    seeds: list[Annotated[int, Field(ge=0, lt=2**32)]] = Field(
        description="consecutive ones; each probe counts the first of them"
    )
    backends: dict[Line, dict[Family, dict[Line, dict[Line, ProbeEvidence]]]] = Field(
        description="backend -> family -> cell -> probe"
    )
    not_run: dict[Line, Line] = Field(default_factory=dict, description="backend -> why")

    @field_validator("date")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
        return value

    @field_validator("seeds")
    @classmethod
    def _consecutive(cls, value: list[int]) -> list[int]:
        if any(after != before + 1 for before, after in pairwise(value)):
            raise ValueError("seeds go up by one, as verify runs them")
        return value

    @model_validator(mode="after")
    def _an_outcome_a_seed(self) -> EvidenceRun:
        for backend, families in self.backends.items():
            for family, cells in families.items():
                for cell, probes in cells.items():
                    for name, probe in probes.items():
                        if probe.outcomes > len(self.seeds):
                            raise ValueError(
                                f"backends.{backend}.{family}.{cell}.{name}: more outcomes "
                                f"({probe.outcomes}) than seeds ({len(self.seeds)})"
                            )
        return self


class EvidenceFile(Strict):
    """What `attn-lint verify` saw, on one machine or on several."""

    schema_version: Literal[1] = Field(alias="schema")
    runs: list[EvidenceRun] = Field(min_length=1)
