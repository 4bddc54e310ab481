"""The shape of the matrix's data files, checked when they are authored, tested and built.

Nothing here is imported on the hot path: the compiled form needs no validation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]
Code = Annotated[str, StringConstraints(pattern=r"^(ATT|DOC|MAT)[0-9]{3}$")]
Phase = Literal["prefill", "decode", "draft", "verify", "vision"]
Severity = Literal["error", "warning", "info"]
StageLabel = Literal["parse", "resolve", "check", "factory", "advice"]


class Strict(BaseModel):
    """A mapping with known keys only."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Strict):
    """Where a statement comes from: the release's source, or a public page."""

    file: str | None = Field(None, description="path below the sglang package")
    symbol: str | None = Field(None, description="function, method or Class.method in that file")
    url: str | None = Field(None, description="a public issue or page, for advice")
    fingerprint: str | None = None

    @model_validator(mode="after")
    def _some_place(self) -> Source:
        if not (self.file or self.url):
            raise ValueError("a source names a file or a url")
        return self


class Message(Strict):
    """A statement made to the user; `{name}` in the text is the value of that name."""

    code: Code
    message: str
    phase: Phase | str | None = None
    needs: str | None = Field(None, description="what the launch would need, in words")
    hint: str | None = Field(None, description="a way out")
    about: list[str] | None = Field(None, description="flags concerned, most telling first")
    fix: dict[str, Any] | None = Field(None, description="flag values that cure it (null: remove)")
    severity: Severity | None = None
    source: Source | None = None


class Rule(Strict):
    """One step of a stage: a condition and what follows from it.

    A rule may carry several effects; they happen in the order of the fields below.
    """

    id: Slug | None = None
    doc: str | None = Field(None, description="why the rule is there, where it is not plain")
    when: dict[str, Any] | None = None
    source: Source | None = None
    worker: Literal["model", "draft"] | None = Field(
        None, description="whose traits `worker.*` are while the nested rules run"
    )
    warn: Message | None = None
    advise: Message | None = None
    set: dict[str, Any] | None = None
    refuse: Message | None = None
    unchecked: str | None = Field(None, description="why the launch is beyond what is modelled")
    each: list[dict[str, Any]] | None = Field(
        None,
        description="bindings of `each.*` names; the nested rules run once per binding. "
        "`worker` in a binding chooses the traits, `when` may skip it.",
    )
    use: str | None = Field(None, description="a named list of rules of library files")
    rules: list[Rule] | None = None
    choose: list[Rule] | None = Field(None, description="the first branch whose `when` holds")
    stop: bool = Field(False, description="leave this stage, as an early return does")

    @model_validator(mode="after")
    def _has_effect(self) -> Rule:
        effects = (
            self.warn, self.advise, self.set, self.refuse, self.unchecked, self.use, self.rules,
            self.choose,
        )  # fmt: skip
        silent = not self.stop and all(effect is None for effect in effects)
        # An empty branch of `choose` says "nothing happens here", as `pass` does.
        if silent and self.when is None and self.doc is None:
            raise ValueError("a rule without any effect needs a `doc` that says why")
        if self.each is not None and self.rules is None and self.use is None:
            raise ValueError("`each` goes with `rules` or `use`")
        if self.refuse is not None and self.id is None:
            raise ValueError("a rule that refuses needs an id")
        return self


class StageFile(Strict):
    """One file of `stages/`: a step of the release's own pipeline, or a library of rules."""

    stage: Slug
    label: StageLabel = "resolve"
    summary: str
    source: Source | None = None
    rules: list[Rule] = Field(default_factory=list)
    library: dict[Slug, list[Rule]] = Field(default_factory=dict)


class Platform(Strict):
    """One machine: what the release's code can ask of it."""

    name: Slug
    title: str
    kind: Literal["cuda", "hip", "cpu", "xpu", "mps", "npu", "musa"]
    vendor: str
    architecture: str = Field(description="sm90, gfx942, … as people call it")
    capability: tuple[int, int] | None = None
    cuda: str | None = Field(
        None, pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$", description="version, such as 12.8"
    )
    memory_mib: int
    sms: int | None = None
    device_name: str | None = None
    gcn_arch: str | None = None
    amx: bool = False
    fp64: bool = False
    synonyms: list[str] = Field(default_factory=list)
    representative: bool = Field(False, description="stands for its class when no GPU is named")


class PlatformFile(Strict):
    platforms: list[Platform] = Field(min_length=1)


class Definition(Strict):
    """A named condition, usable wherever a name is."""

    when: dict[str, Any]
    source: Source
    doc: str | None = None


class FactsFile(Strict):
    """Named conditions, plain value sets, lookup tables, environment and virtual fields."""

    definitions: dict[str, Definition] = Field(default_factory=dict)
    virtual_fields: dict[str, Any] = Field(
        default_factory=dict, description="state that the resolver keeps beside the flags"
    )
    environment: dict[str, EnvironmentVariable] = Field(default_factory=dict)
    archetypes: dict[Slug, str] = Field(
        default_factory=dict, description="catalogue ids that stand for a family"
    )
    typical_machines: dict[Slug, str] = Field(
        default_factory=dict, description="machines that every family is tried on, and why these"
    )


class EnvironmentVariable(Strict):
    """A variable that rules read; `default` is the parsed value when it is not set."""

    type: Literal["bool", "int", "float", "str"]
    default: Any = None
    source: Source


class SetsFile(Strict):
    """Named lists (`$set.NAME`) and tables (`lookup: NAME`), each with its source."""

    sets: dict[Slug, NamedSet] = Field(default_factory=dict)
    tables: dict[Slug, NamedTable] = Field(default_factory=dict)


class NamedSet(Strict):
    members: list[Any]
    source: Source


class NamedTable(Strict):
    rows: dict[str, Any]
    source: Source


class PipelineFile(Strict):
    """The order in which stages run; every stage file is named once."""

    release: str
    engine: str
    stages: list[Slug]
    source: Source


FactsFile.model_rebuild()
SetsFile.model_rebuild()
