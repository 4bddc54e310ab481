"""The shape of a release's `codes.yaml`: what findings are called, and which are not data-driven.

Checked when the data is authored, tested and built; nothing here is imported on the hot path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Code = Annotated[str, StringConstraints(pattern=r"^ATT[1-9][0-9]{2}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")]
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CodeEntry(_Strict):
    """What a code is called, and how grave its findings are."""

    name: Name
    severity: Literal["error", "warning", "info"]
    then: Literal["fails", "answers wrongly"] | None = Field(
        None, description="what a launch does that SGLang lets start"
    )


class InertFlags(_Strict):
    """Flags that do nothing without another one."""

    without: FieldName
    assume: Any = Field(description="the value to judge the launch with as well")
    companions: dict[FieldName, Any] = Field(
        default_factory=dict, description="what the launch needs besides to be whole"
    )
    flags: list[FieldName] = Field(min_length=1)


class RenamedValue(_Strict):
    """A value with a newer name for the same thing."""

    value: str
    name: str
    flags: list[FieldName] = Field(min_length=1)
    source: dict[str, str]


class CodesFile(_Strict):
    """The whole file."""

    codes: dict[Code, CodeEntry]
    changed_fields: dict[FieldName, Code] = Field(
        default_factory=dict, description="fields whose typed value, once changed, is told"
    )
    open_values: list[str] = Field(
        default_factory=list, description="typed values that leave the choice to SGLang"
    )
    same_values: dict[FieldName, list[Annotated[list[str], Field(min_length=2)]]] = Field(
        default_factory=dict, description="several names of one thing"
    )
    renamed_values: list[RenamedValue] = Field(
        default_factory=list, description="values that still work under a name that goes away"
    )
    parse_problems: dict[str, Code] = Field(default_factory=dict)
    inert_flags: list[InertFlags] = Field(default_factory=list)

    @model_validator(mode="after")
    def _known(self) -> CodesFile:
        unknown = sorted({code for code in self._used() if code not in self.codes})
        if unknown:
            raise ValueError(f"no such code: {', '.join(unknown)}")
        names = [entry.name for entry in self.codes.values()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"a name stands for two codes: {', '.join(twice)}")
        return self

    def _used(self) -> Iterator[str]:
        yield from self.changed_fields.values()
        yield from self.parse_problems.values()
