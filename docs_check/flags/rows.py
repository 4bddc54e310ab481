"""What is known about one flag of a release, and about all of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass
class FlagRow:
    """One flag, or one field that has no flag."""

    field: str | None
    names: list[str]
    type: str = "str"
    action: str = "store"
    nargs: str | int | None = None
    takes_value: bool = False
    const: Any = None
    default: Any = None
    choices: list[Any] | None = None
    choices_env: dict[str, list[Any]] | None = None
    required: bool = False
    fallback: Any = None
    resolvable: bool = False
    no_cli: bool = False
    new_flag: str | None = None
    error_message: str | None = None
    source: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclass
class FlagSet:
    """What a release's command line consists of."""

    release: str
    flags: list[FlagRow]
    field_order: list[str]
    converters: dict[str, dict[str, Any]]
    checks: list[dict[str, Any]]
    explicit: list[dict[str, Any]]
    config: dict[str, Any] | None
    problems: list[str]


#: How argparse's own actions are called in the data.
ACTIONS = {
    "store": "store",
    "store_true": "store_true",
    "store_false": "store_false",
    "store_const": "store_const",
    "append": "append",
    "count": "count",
    "help": "help",
    "version": "version",
    "BooleanOptionalAction": "boolean_optional",
    "DeprecatedStoreTrueAction": "deprecated_store_true",
    "DeprecatedStoreConstAction": "deprecated_store_const",
    "DeprecatedAliasStoreAction": "deprecated_store",
    "DeprecatedAction": "deprecated",
    "LoRAPathAction": "lora_paths",
}
#: Actions that take no value unless the registration says otherwise.
VALUELESS = {
    "store_true",
    "store_false",
    "store_const",
    "count",
    "help",
    "version",
    "boolean_optional",
    "deprecated_store_true",
    "deprecated_store_const",
    "deprecated",
}
#: Actions whose unset value is False.
FALSE_BY_DEFAULT = {"store_true", "deprecated_store_true"}
