"""The shape of `features.yaml` and of `backends/*.yaml`: what each backend carries, cell by cell.

A cell restates what the release's rules and classes say, for people and for the docs check. It
never decides anything: rules do. Tests launch what a cell claims and compare.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from .schema import Slug, Source, Strict


def _quoted(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError('quote it: "yes" and "no" are booleans in YAML')
    return value


Support = Annotated[Literal["yes", "no", "partial", "untested"], BeforeValidator(_quoted)]
#: What becomes of a launch that a backend does not carry: SGLang refuses it, starts and then
#: fails or computes something else (advice), changes the value, or gives way to another backend.
Otherwise = Literal["refused", "advised", "changed", "replaced"]


class Case(Strict):
    """A launch that shows what a cell says; what is not given is taken from the row."""

    works: bool
    gpu: Slug | None = None
    model: str | None = None
    flags: dict[str, Any] = Field(default_factory=dict)
    otherwise: Otherwise | None = Field(None, description="what happens, where it does not work")

    @model_validator(mode="after")
    def _outcome(self) -> Case:
        if self.works and self.otherwise is not None:
            raise ValueError("`otherwise` says what happens where a launch does not work")
        return self


class Elsewhere(Strict):
    """GPU architectures on which a cell's launch comes to something else than it says."""

    starts: list[str] = Field(default_factory=list, description="starts; no more is known")
    refused: list[str] = Field(default_factory=list)
    advised: list[str] = Field(default_factory=list)
    changed: list[str] = Field(default_factory=list)
    replaced: list[str] = Field(default_factory=list)


class Cell(Strict):
    """What one backend, serving one family, carries of one feature."""

    support: Support
    when: str | None = Field(None, description="the condition of a partial cell, in words")
    otherwise: Otherwise | None = Field(None, description="what becomes of other launches")
    note: str | None = None
    source: Source
    rules: list[Slug] = Field(default_factory=list, description="rules that the cell restates")
    cases: list[Case] = Field(default_factory=list)
    elsewhere: Elsewhere | None = Field(None, description="other machines of the row")

    @model_validator(mode="after")
    def _complete(self) -> Cell:
        if self.support == "partial":
            if not self.when:
                raise ValueError("a partial cell says when")
            kinds = {case.works for case in self.cases}
            if kinds != {True, False} and self.elsewhere is None:
                raise ValueError("a partial cell has a case that works and one that does not")
        if self.support == "untested" and self.cases:
            raise ValueError("an untested cell has no cases")
        if self.support == "no" and self.otherwise is None:
            raise ValueError("a cell that says no tells what happens `otherwise`")
        if self.support == "yes" and self.elsewhere is not None:
            raise ValueError("a cell that says yes holds on every machine of its row")
        return self


class PagesOn(Strict):
    """Page sizes of some GPU architectures, where they are others than the row's."""

    architectures: list[str]
    sizes: Literal["any"] | list[int]
    becomes: int | None = None


class PageSizes(Cell):
    """Page sizes that are kept; another size is refused or becomes `becomes`."""

    sizes: Literal["any"] | list[int]
    becomes: int | None = Field(None, description="what another size is changed to")
    others: list[PagesOn] = Field(default_factory=list)
    native: bool | None = Field(
        None, description="kernels read whole pages; False: pages are emulated, token by token"
    )

    @model_validator(mode="after")
    def _others(self) -> PageSizes:
        if self.becomes is not None and self.sizes == "any":
            raise ValueError("`becomes` goes with a list of sizes")
        return self


class Architectures(Cell):
    """What comes of a phase on each GPU architecture: every one of the release is in one list."""

    runs: list[str] = Field(default_factory=list, description="carried")
    starts: list[str] = Field(
        default_factory=list, description="SGLang starts; whether its kernels run is not known"
    )
    refused: list[str] = Field(default_factory=list)
    advised: list[str] = Field(default_factory=list)
    replaced: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> Architectures:
        if self.when or self.otherwise or self.cases:
            raise ValueError("the lists say where a phase runs, and what comes of it elsewhere")
        if (self.support == "no") == bool(self.runs):
            raise ValueError("a phase that runs somewhere is not unsupported, and the reverse")
        return self


class FamilyRow(Strict):
    """One backend serving one family of models."""

    family: Slug
    summary: str
    gpu: Slug = Field(description="machine that the cells are shown on, where they name none")
    phases: list[Literal["prefill", "decode"]] = Field(
        default=["prefill", "decode"], description="phases that it can serve"
    )
    flags: dict[str, Any] = Field(default_factory=dict, description="what the row needs besides")
    besides: list[Slug] = Field(
        default_factory=list,
        description="rules that speak on every launch of the row in a plain installation",
    )
    page_sizes: PageSizes
    prefill_gpus: Architectures
    decode_gpus: Architectures
    cells: dict[str, Cell]


class BackendFile(Strict):
    """One value of `--attention-backend`."""

    name: str
    title: str
    source: Source
    alias_of: str | None = Field(None, description="another name for that backend")
    note: str | None = None
    families: list[FamilyRow] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rows(self) -> BackendFile:
        if bool(self.alias_of) == bool(self.families):
            raise ValueError("a backend has families, or is an alias of one that has")
        names = [row.family for row in self.families]
        if len(names) != len(set(names)):
            raise ValueError("a family is given twice")
        return self


class Feature(Strict):
    """A column of the matrix: what it asks of a launch, and how one sees that it was granted."""

    title: str
    short: str = Field(description="column header, eight characters at most", max_length=8)
    group: str
    flags: dict[str, Any] = Field(default_factory=dict, description="what the launch asks for")
    granted: dict[str, Any] | None = Field(
        None, description="what holds of the resolved values where it is granted"
    )
    draft: bool = Field(False, description="the launch takes the family's draft model along")
    models: dict[Slug, str] = Field(
        default_factory=dict, description="family -> a model that has the feature"
    )
    families: list[Slug] | None = Field(None, description="families that it means something for")
    denied_by: list[Slug] = Field(
        default_factory=list, description="rules whose speaking says that it is not granted"
    )


class Family(Strict):
    """A kind of attention, with a model that stands for it."""

    title: str
    group: Literal["mha", "mla", "sparse"]
    model: str
    draft: str | None = None
    flags: dict[str, Any] = Field(default_factory=dict)
    partner: str | None = Field(None, description="backend of the other phase, in GPU cells")


class FeaturesFile(Strict):
    """Columns of the matrix, in order, and the families of its rows."""

    families: dict[Slug, Family]
    features: dict[str, Feature]
