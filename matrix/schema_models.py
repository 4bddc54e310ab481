"""The shape of a release's `architectures.yaml`, `config_defaults.yaml` and `models.yaml`.

Checked when the data is authored, tested and built; nothing here is imported on the hot path.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .schema import Source

Names = list[str]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArchitectureSet(_Strict):
    """Architectures that the release's code lists in one place."""

    members: Names = Field(min_length=1)
    source: Source

    @model_validator(mode="after")
    def _once(self) -> ArchitectureSet:
        twice = [name for name, count in Counter(self.members).items() if count > 1]
        if twice:
            raise ValueError(f"listed twice: {', '.join(twice)}")
        return self


class Shape(_Strict):
    """Attention shapes of some architectures."""

    any: Names
    text: Names = Field([], description="attributes of the text part that must be set")
    text_true: dict[str, bool] = Field({}, description="attributes that may not be false")
    arch: Literal["MLA", "MHA"]
    from_: Literal["top"] | None = Field(None, alias="from")
    head_dim: int | None = None
    head_dim_sum: Names | None = None
    head_dim_of: Literal["text"] | None = None
    needs: Names = []
    compressed: bool = False
    v_is_head_dim: bool = False
    index_head_dim: bool = False
    no_rope_if: str | None = None
    scaling: bool = False
    source: Source


class Draft(_Strict):
    """What a checkpoint is renamed to when it is loaded as a draft."""

    archs: Names = []
    text_class: str | None = None
    to: str
    bundles_dspark: bool = False
    algorithms: list[str | None] = []
    needs: Names = []
    text_needs: Names = []
    as_text: bool = False
    text: dict[str, Any] = {}
    text_architectures: bool = False
    text_model_type: str | None = None
    copies: dict[str, str] = {}
    top_copies: dict[str, str] = {}

    @model_validator(mode="after")
    def _of_something(self) -> Draft:
        if bool(self.archs) == (self.text_class is not None):
            raise ValueError("a draft is told by `archs` or by `text_class`")
        return self


class Wrapper(_Strict):
    """An attention wrapper and the configurations that get it."""

    wrapper: str
    top: Names = []
    text: Names = []
    text_config: Names = []
    nested: Names = []
    set: str | None = None
    model_type: str | None = None
    draft: bool = True
    draft_pattern: str | None = None
    layer: str | None = None
    flag: str | None = None
    flag_off: str | None = None
    gives: Literal["head sizes", "gate bound"] | None = None


class Trait(_Strict):
    """A trait of a model."""

    type: str
    means: str
    source: str | None = Field(None, description="symbol of the release that computes it")


class ArchitecturesFile(_Strict):
    """`architectures.yaml`."""

    sets: dict[str, ArchitectureSet]
    shapes: list[Shape]
    drafts: list[Draft]
    draft_source: Source
    wrappers: list[Wrapper]
    wrapper_source: Source
    get_config: dict[str, Any]
    special: dict[str, Any]
    quantization: dict[str, Any]
    traits: dict[str, Trait]

    @model_validator(mode="after")
    def _known_sets(self) -> ArchitecturesFile:
        for wrapper in self.wrappers:
            if wrapper.set is not None and wrapper.set not in self.sets:
                raise ValueError(f"wrapper {wrapper.wrapper}: there is no set {wrapper.set!r}")
        return self


class SubConfig(_Strict):
    """How a class makes one of its sub-configurations."""

    class_: str | None = Field(None, alias="class")
    default: str | None = None
    type: str | None = None
    unknown: Literal["raw"] | None = None
    none: bool = False
    dict_: bool = Field(False, alias="dict")
    default_dict: bool = False
    values: dict[str, Any] = {}
    values_always: bool = False
    flat: Literal["known", "with type", "without type"] | None = None
    under: Names = []
    by_type: dict[str, str] = {}
    always: str | None = None
    from_: str | None = Field(None, alias="from")
    by_architecture: dict[str, str] = {}


class ConfigRule(BaseModel):
    """One attribute that follows from others."""

    model_config = ConfigDict(extra="allow", frozen=True)

    key: str
    op: Literal[
        "add", "by_layer", "copy", "copy_sub", "cut", "divide", "drop", "half_plus_one",
        "kda_layers", "keep_if", "layers", "length", "map", "multiply", "set_if", "spread",
        "value", "window_layers",
    ]  # fmt: skip
    when: Literal["absent", "always", "falsy", "null"] = "always"


class ConfigClass(_Strict):
    """What one configuration class does to the keys of a config.json."""

    type: str
    marks: Names = []
    unmade: bool = False
    required: Names = []
    aliases: dict[str, str] = {}
    renamed: dict[str, str] = {}
    types: dict[str, Names] = {}
    read_only: Names = []
    fields: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    architectures: dict[str, Any] | None = None
    rename_architectures: dict[str, str] = {}
    sub: dict[str, SubConfig] = {}
    rope: Literal["always", "theta"] | None = None
    rope_nested: bool = False
    rope_checked: bool = False
    flatten: Literal["text", "top"] | None = None
    vision_names: dict[str, str] = {}
    own_type: bool = False
    rules: list[ConfigRule] = []
    checks: list[dict[str, Any]] = []


class ConfigDefaultsFile(_Strict):
    """`config_defaults.yaml`, which a script makes."""

    made_from: dict[str, str]
    layer_types: Names
    old_layer_types: dict[str, str]
    rope_keys: dict[str, Names] = {}
    auto: Names
    registry: dict[str, str]
    classes: dict[str, ConfigClass]


class ModelEntry(_Strict):
    """A public model: its configuration, or another's with differences."""

    id: str
    also: Names = []
    config: dict[str, Any] | None = None
    base: str | None = None
    set: dict[str, Any] = {}
    unset: Names = []
    quant: str | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> ModelEntry:
        if (self.config is None) == (self.base is None):
            raise ValueError(f"{self.id}: give `config` or `base`")
        return self


class Suffix(_Strict):
    """An ending of ids that names a number format."""

    suffix: str
    quant: str | None
    owners: dict[str, str] = {}


class Assumptions(_Strict):
    """What may be assumed of ids that are not listed."""

    mirrors: Names
    suffixes: list[Suffix]


class ModelsFile(_Strict):
    """`models.yaml`."""

    quantizations: dict[str, dict[str, Any]]
    models: list[ModelEntry]
    assumptions: Assumptions

    @model_validator(mode="after")
    def _consistent(self) -> ModelsFile:
        names = Counter(name.lower() for entry in self.models for name in (entry.id, *entry.also))
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise ValueError(f"listed twice: {', '.join(twice)}")
        seen: set[str] = set()
        for entry in self.models:
            if entry.base is not None and entry.base not in seen:
                raise ValueError(f"{entry.id}: the base {entry.base!r} does not come before it")
            seen.add(entry.id)
        used = [entry.quant for entry in self.models]
        for suffix in self.assumptions.suffixes:
            used += [suffix.quant, *suffix.owners.values()]
        missing = {quant for quant in used if quant is not None} - self.quantizations.keys()
        if missing:
            raise ValueError(f"no such quantization: {', '.join(sorted(missing))}")
        return self
