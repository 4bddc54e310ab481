"""The shape of a release's `flags.yaml`, `history.yaml` and `commands.yaml`.

Checked when the data is authored, tested and built; nothing here is imported on the hot path.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
FlagName = Annotated[str, StringConstraints(pattern=r"^--?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*(\.post[0-9]+)?$")]
Scalar = str | int | float | bool | None

Action = Literal[
    "store",
    "store_true",
    "store_false",
    "store_const",
    "boolean_optional",
    "deprecated_store_true",
    "deprecated_store_const",
    "deprecated_store",
    "deprecated",
    "lora_paths",
]
#: Converters that the parser knows by name; another one must be described under `converters`.
CONVERTERS = frozenset(
    {"str", "int", "float", "bool", "json", "json_list_type", "nullable_str", "human_readable_int"}
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FlagSource(_Strict):
    """Where a flag is declared in the release's package."""

    file: str
    symbol: str
    line: int | None = None


class FlagEntry(_Strict):
    """One flag, or one field that the command line cannot reach (`no_cli`)."""

    field: FieldName
    names: list[FlagName] = Field(default_factory=list)
    no_cli: bool = False
    parser_only: bool = Field(False, description="argparse knows it, the record has no such field")
    type: str = "str"
    action: Action = "store"
    nargs: Literal["?", "*", "+"] | int | None = None
    takes_value: bool = Field(False, description="takes a value though its action has none")
    const: Any = None
    default: Any = None
    choices: list[Scalar] | None = None
    choices_env: dict[str, list[Scalar]] | None = Field(
        None, description="choices that an environment variable adds"
    )
    required: bool = False
    fallback: Scalar = Field(None, description="read where neither user nor resolution sets it")
    resolvable: bool = Field(False, description="resolution may set it")
    new_flag: str | None = Field(None, description="what the release's own warning names instead")
    error_message: str | None = Field(None, description="a retired flag stops with this text")
    source: FlagSource

    @model_validator(mode="after")
    def _either_way(self) -> FlagEntry:
        if self.no_cli == bool(self.names):
            raise ValueError("a flag has names; a field without names says `no_cli`")
        if self.choices_env and self.choices is None:
            raise ValueError("`choices_env` adds to `choices`")
        return self


class ConverterFacts(_Strict):
    """What a release's own `type=` function refuses."""

    rejects: list[str] = Field(default_factory=list, description="values refused before choices")
    sections: dict[str, list[str]] | None = Field(
        None, description="sections of a JSON object and the keys each may have"
    )
    keys: dict[str, str] = Field(
        default_factory=dict, description="converters of keys inside the sections"
    )
    source: FlagSource


class ConfigFileRules(_Strict):
    """How the release merges a configuration file into the command line."""

    flag: FlagName
    keys: Literal["field", "names"] = Field(
        description="whether a key is compared with the field only, or with every long name"
    )
    checks_actions: bool = Field(description="a key of an unsupported action is refused")
    source: FlagSource


class ExplicitMark(_Strict):
    """A field that is true while one exact spelling stands on the command line."""

    field: FieldName
    flag: FlagName
    source: FlagSource


class AfterParse(_Strict):
    """A check the launcher makes right after argparse."""

    field: FieldName
    kind: Literal["logging-level"]
    source: FlagSource


class FlagsFile(_Strict):
    """`flags.yaml`: the command line of one release, in the order of registration."""

    release: Version
    config_file: ConfigFileRules | None = None
    explicit: list[ExplicitMark] = Field(default_factory=list)
    checks: list[AfterParse] = Field(default_factory=list)
    converters: dict[str, ConverterFacts] = Field(default_factory=dict)
    flags: list[FlagEntry]
    field_order: list[FieldName]

    @model_validator(mode="after")
    def _consistent(self) -> FlagsFile:
        fields = {entry.field for entry in self.flags}
        problems = []
        names = Counter(name for entry in self.flags for name in entry.names)
        problems += [f"{name} is declared twice" for name, count in names.items() if count > 1]
        missing = [name for name in self.field_order if name not in fields]
        problems += [f"field_order: no entry for {name}" for name in missing]
        for mark in self.explicit:
            if mark.flag not in names:
                problems.append(f"explicit: no flag {mark.flag}")
        for check in self.checks:
            if check.field not in fields:
                problems.append(f"checks: no field {check.field}")
        described = CONVERTERS | {
            name for name, facts in self.converters.items() if facts.rejects or facts.sections
        }
        used = {entry.type for entry in self.flags}
        used |= {name for facts in self.converters.values() for name in facts.keys.values()}
        problems += [f"converter {name} is not described" for name in sorted(used - described)]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class HistorySource(_Strict):
    """A public page, or the source of a release, that a remark rests on."""

    url: str | None = None
    file: str | None = None
    symbol: str | None = None
    release: Version | None = None


class FormerFlag(_Strict):
    """A flag that an older release had."""

    name: FlagName
    first_seen: Version
    last_seen: Version = Field(description="newest sampled release that had it")
    removed_in: Version = Field(description="oldest sampled release after it that had it no more")
    values: bool = Field(True, description="whether it took a value")
    replacement: list[str] = Field(
        default_factory=list, description="spellings that do its work today"
    )
    alike: bool = Field(True, description="whether the replacement does just the same")
    note: str | None = None
    source: HistorySource | None = None


class FormerValue(_Strict):
    """A value that an older release took for flags which are still there."""

    value: str
    flags: list[FlagName]
    first_seen: Version
    last_seen: Version
    removed_in: Version
    replacement: list[str] = Field(default_factory=list, description="values that serve instead")
    note: str | None = None
    source: HistorySource | None = None


class HistoryFile(_Strict):
    """`history.yaml`: names of older releases, and what became of them."""

    release: Version
    sampled: list[Version]
    flags: list[FormerFlag] = Field(default_factory=list)
    values: list[FormerValue] = Field(default_factory=list)
    added: dict[FlagName, dict[str, Version]] = Field(
        default_factory=dict,
        description="values that came after their flag, and the oldest sampled release with each",
    )

    @model_validator(mode="after")
    def _once(self) -> HistoryFile:
        names = Counter(entry.name for entry in self.flags)
        twice = [name for name, count in names.items() if count > 1]
        pairs = Counter((flag, entry.value) for entry in self.values for flag in entry.flags)
        twice += [f"{flag} {value}" for (flag, value), count in pairs.items() if count > 1]
        if twice:
            raise ValueError(f"given twice: {', '.join(twice)}")
        return self


class SubcommandRules(_Strict):
    """One subcommand of the release's console program."""

    serves: Literal["llm", "dispatch", "other"] = Field(
        description="`dispatch` chooses a backend by option or by the model"
    )
    backend_flag: FlagName | None = None
    backends: dict[str, Literal["llm", "auto", "other"]] = Field(default_factory=dict)
    positional: FlagName | None = Field(None, description="flag that a leading word stands for")
    required_any: list[FlagName] = Field(
        default_factory=list, description="one of these must be spelled out"
    )
    help: list[FlagName] = Field(default_factory=list, description="prints help wherever it stands")
    source: FlagSource


class DiffusionRules(_Strict):
    """What tells the diffusion server's launches from the language server's."""

    models: list[str] = Field(description="parts of the last part of a model's path, lower case")
    flags: list[FlagName] = Field(description="flags that only its own parser has")
    source: FlagSource


class CommandsFile(_Strict):
    """`commands.yaml`: the words that start this release's server."""

    release: Version
    program: str
    modules: dict[str, Literal["llm", "other"]]
    subcommands: dict[str, SubcommandRules]
    diffusion: DiffusionRules | None = None
    source: FlagSource
