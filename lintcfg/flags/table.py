"""The flags of one release as the parser reads them.

Built from the compiled matrix in well under a millisecond: rows become `Flag` objects when
something first asks for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from ...matrix.record import record
from .convert import Converter, converter

#: What argparse adds by itself.
HELP_NAMES = ("-h", "--help")
#: Index of the help action, which has no row.
HELP = -1

_VALUELESS = frozenset(
    {
        "store_true",
        "store_false",
        "store_const",
        "boolean_optional",
        "deprecated_store_true",
        "deprecated_store_const",
        "deprecated",
    }
)
_FALSE_BY_DEFAULT = frozenset({"store_true", "deprecated_store_true"})
#: Longest text for which near names are looked up; comparing is quadratic in the length.
_NEAR_LIMIT = 80
_NEAR_CACHE = 256
_NEAR_COUNT = 3


@record
class Flag:
    """One flag of the release."""

    index: int
    field: str
    names: tuple[str, ...]
    type: str
    action: str
    nargs: str | int | None
    takes_value: bool
    const: Any
    default: Any
    choices: tuple[Any, ...] | None
    choices_env: Mapping[str, list[Any]] | None
    required: bool
    fallback: Any
    resolvable: bool
    no_cli: bool
    parser_only: bool
    new_flag: str | None
    error_message: str | None
    source: Mapping[str, Any]
    convert: Converter

    @property
    def declared(self) -> str | None:
        """Where the release declares it: file and symbol."""
        file, symbol = self.source.get("file"), self.source.get("symbol")
        return f"{file} {symbol}" if file and symbol else file

    @property
    def label(self) -> str:
        """The name argparse uses in its messages."""
        if self.action != "boolean_optional":
            return "/".join(self.names)
        both = ((name, "--no-" + name[2:]) for name in self.names)
        return "/".join(name for pair in both for name in pair)


class FlagTable:
    """Every flag of a release, and what older releases called theirs."""

    def __init__(self, data: Mapping[str, Any] | list[Any], release_data: Any = None) -> None:
        if isinstance(data, list):
            data = {"flags": data}
        self.release: str = data.get("release") or ""
        self.config: Mapping[str, Any] | None = data.get("config_file")
        self.explicit: list[Any] = data.get("explicit") or []
        self.checks: list[Any] = data.get("checks") or []
        self.converters: Mapping[str, Any] = data.get("converters") or {}
        self.rows: list[Any] = data["flags"]
        self.names: dict[str, int] = dict.fromkeys(HELP_NAMES, HELP)
        self.defaults: dict[str, Any] = {}
        self.required: list[int] = []
        self._release_data = release_data
        self._flags: list[Flag | None] = [None] * len(self.rows)
        self._by_field: Mapping[str, Flag] | None = None
        self._by_name: Mapping[str, Flag] | None = None
        self._sorted: list[str] | None = None
        self._near: dict[tuple[str, str], tuple[str, ...]] = {}
        self._history: History | None = None
        self._build()

    def _build(self) -> None:
        names, defaults = self.names, self.defaults
        for index, row in enumerate(self.rows):
            action = row.get("action")
            field = row["field"]
            if field not in defaults:
                default = row.get("default")
                if default is None and action in _FALSE_BY_DEFAULT and "default" not in row:
                    default = False
                elif type(default) is str and row.get("type") is not None:
                    # argparse converts a default that is text, once nobody gave the flag.
                    default = converter(row["type"], self.converters)(default)
                defaults[field] = default
            if "names" in row:
                for name in row["names"]:
                    names[name] = index
                    if action == "boolean_optional" and name.startswith("--"):
                        names["--no-" + name[2:]] = index
                if "required" in row:
                    self.required.append(index)

    def flag(self, index: int) -> Flag:
        """The flag in that row."""
        found = self._flags[index]
        if found is None:
            found = self._flags[index] = self._make(index)
        return found

    def _make(self, index: int) -> Flag:
        row = self.rows[index]
        action = row.get("action", "store")
        takes_value = row.get("takes_value", False) or action not in _VALUELESS
        kind = row.get("type", "str" if takes_value else "bool")
        default = row.get("default", False if action in _FALSE_BY_DEFAULT else None)
        choices = row.get("choices")
        return Flag(
            index=index,
            field=row["field"],
            names=tuple(row.get("names", ())),
            type=kind,
            action=action,
            nargs=row.get("nargs"),
            takes_value=takes_value,
            const=row.get("const"),
            default=default,
            choices=tuple(choices) if choices else None,
            choices_env=row.get("choices_env"),
            required=row.get("required", False),
            fallback=row.get("fallback"),
            resolvable=row.get("resolvable", False),
            no_cli=row.get("no_cli", False),
            parser_only=row.get("parser_only", False),
            new_flag=row.get("new_flag"),
            error_message=row.get("error_message"),
            source=row.get("source") or {},
            convert=converter(kind, self.converters) if kind != "bool" else str,
        )

    @property
    def by_field(self) -> Mapping[str, Flag]:
        """The first flag that sets each field; fields without a flag have an entry too."""
        if self._by_field is None:
            rows: dict[str, int] = {}
            for index, row in enumerate(self.rows):
                rows.setdefault(row["field"], index)
            self._by_field = _Flags(self, rows)
        return self._by_field

    @property
    def by_name(self) -> Mapping[str, Flag]:
        """The flag of every name, spelled out."""
        if self._by_name is None:
            self._by_name = _Flags(
                self, {name: index for name, index in self.names.items() if index != HELP}
            )
        return self._by_name

    def spelling(self, field: str) -> str:
        """How a field is typed: its first name, or the field itself where it has none."""
        flag = self.by_field.get(field)
        return flag.names[0] if flag is not None and flag.names else field

    def matches(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, in the order of registration."""
        ordered = self._sorted
        if ordered is None:
            ordered = self._sorted = sorted(self.names)
        start = end = bisect_left(ordered, prefix)
        while end < len(ordered) and ordered[end].startswith(prefix):
            end += 1
        found = ordered[start:end]
        if len(found) > 1:
            rank = {name: position for position, name in enumerate(self.names)}
            found.sort(key=rank.__getitem__)
        return found

    def choices(self, flag: Flag, env: Mapping[str, str]) -> tuple[Any, ...] | None:
        """Choices of a flag, those included that the environment adds."""
        if flag.choices is None or not flag.choices_env:
            return flag.choices
        added: list[Any] = []
        for variable, values in flag.choices_env.items():
            if env.get(variable, "").lower() in {"true", "1", "yes", "y"}:
                added += values
        return (*flag.choices, *added)

    @property
    def history(self) -> History:
        """Names of older releases."""
        if self._history is None:
            data = None
            if self._release_data is not None:
                try:
                    data = self._release_data["history"]
                except KeyError:
                    data = None
            self._history = History(data or {})
        return self._history

    # ------------------------------------------------------------ near names

    def near_flags(self, name: str) -> tuple[str, ...]:
        """Names that look like `name`, best first."""
        name = name.replace("_", "-")
        if name in self.names:
            return (name,)
        return self._cached("", name, list(self.names))

    def near_choices(self, flag: Flag, value: str) -> tuple[str, ...]:
        """Choices that look like `value`, best first."""
        texts = [str(choice) for choice in flag.choices or ()]
        folded = _fold(value)
        same = tuple(text for text in texts if _fold(text) == folded)
        if same:
            return same
        longer: tuple[str, ...] = ()
        if len(folded) > 1:
            longer = tuple(text for text in texts if _fold(text).startswith(folded))
        close = self._cached(flag.field, value, texts)
        return tuple(dict.fromkeys((*longer, *close)))[:_NEAR_COUNT]

    def _cached(self, space: str, text: str, candidates: list[str]) -> tuple[str, ...]:
        if len(text) > _NEAR_LIMIT:
            return ()
        key = (space, text)
        found = self._near.get(key)
        if found is None:
            import difflib

            found = tuple(difflib.get_close_matches(text, candidates, n=_NEAR_COUNT, cutoff=0.7))
            if len(self._near) >= _NEAR_CACHE:
                self._near.clear()
            self._near[key] = found
        return found


class _Flags(Mapping[str, Flag]):
    """Flags by some key, made when they are asked for."""

    __slots__ = ("_rows", "_table")

    def __init__(self, table: FlagTable, rows: dict[str, int]) -> None:
        self._table, self._rows = table, rows

    def __getitem__(self, key: str) -> Flag:
        return self._table.flag(self._rows[key])

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _fold(text: str) -> str:
    return text.lower().replace("-", "_")


class History:
    """What older releases called their flags and values."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._flags: dict[str, Mapping[str, Any]] = {
            entry["name"]: entry for entry in data.get("flags") or ()
        }
        self._values: dict[tuple[str, str], Mapping[str, Any]] = {
            (flag, entry["value"]): entry
            for entry in data.get("values") or ()
            for flag in entry["flags"]
        }
        self.added: Mapping[str, Any] = data.get("added") or {}

    def flag(self, name: str) -> Mapping[str, Any] | None:
        """A former flag, found by its name or by an abbreviation that fits no other."""
        exact = self._flags.get(name)
        if exact is not None or len(name) < 5:
            return exact
        matching = [entry for key, entry in self._flags.items() if key.startswith(name)]
        return matching[0] if len(matching) == 1 else None

    def value(self, flag: str, value: str) -> Mapping[str, Any] | None:
        """A former value of a flag; the flag is named by its first spelling."""
        return self._values.get((flag, value))


def load_flags(release_data: Any) -> FlagTable:
    """The flag table of a loaded release: anything whose `["flags"]` is the flags section."""
    return FlagTable(release_data["flags"], release_data)
