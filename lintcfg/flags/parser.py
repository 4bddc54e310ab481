"""Reads a command line as the release's argparse parser would.

argparse stops at its first error. This parser goes on, so that every problem is told, and keeps
argparse's order beside each one: the first that refuses is what the release itself would say.
The behaviour is that of CPython 3.11 and 3.12 for a parser without positional arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..resolver.values import Unknown
from .convert import TYPE_NAMES, Rejected
from .problems import (
    AFTER,
    CLASSIFY,
    CONSUME,
    LEFTOVER,
    REQUIRED,
    ConfigSpot,
    ParseProblem,
    plain,
    shown,
)
from .table import HELP, Flag, FlagTable

#: Index of an option that the parser does not have, and of one that could be several.
_UNKNOWN, _AMBIGUOUS = -2, -3

_NEGATIVE_NUMBER = r"^-\d+$|^-\d*\.\d+$"

#: Names that `logging` has a level for.
_LEVELS = ("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING")

#: How many names a message lists before it stops.
_LISTED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """One occurrence of a flag on the command line or in a configuration file."""

    field: str
    name: str
    """The flag's full name that was meant."""
    spelling: str
    """What was typed, up to an equals sign."""
    index: int | None
    """Position in argv; None where it stands in a configuration file."""
    end: int | None
    """Position after the last word that belongs to it."""
    raw: tuple[str, ...]
    """The words of its value as typed."""
    value: Any
    config: ConfigSpot | None = None

    @property
    def file(self) -> str | None:
        """Configuration file that it stands in."""
        return self.config.path if self.config is not None else None

    @property
    def line(self) -> int | None:
        """Line in that file."""
        return self.config.line if self.config is not None else None

    @property
    def abbreviated(self) -> bool:
        """Whether the name was cut short."""
        return self.spelling != self.name


@dataclass(slots=True, eq=False)
class ParsedLaunch:
    """What a command line says: a value for every field, and where each typed one stands.

    `values` starts from the defaults and holds every field, `typed` only those given, the last
    occurrence of each; `occurrences` has all of them in order. `problems` is in the order in
    which the release would notice them.
    """

    values: dict[str, Any]
    typed: dict[str, Typed]
    occurrences: list[Typed]
    problems: list[ParseProblem]
    env: Mapping[str, str]
    argv: tuple[str, ...]
    config_path: str | None = None
    config_keys: dict[str, ConfigSpot] = field(default_factory=dict)
    open_ended: bool = False
    """Whether further flags may stand in what is not seen here."""

    @property
    def refusal(self) -> ParseProblem | None:
        """The problem at which the release stops, if it does."""
        return next((problem for problem in self.problems if problem.refuses), None)


def parse(
    argv: Sequence[str],
    table: FlagTable,
    env: Mapping[str, str] | None = None,
    *,
    before: Iterable[ParseProblem] = (),
    unknown: Collection[int] = (),
    partial: bool = False,
    directory: Path | None = None,
) -> ParsedLaunch:
    """Parse what follows the server's command word. Never raises for bad input.

    Args:
        argv: words after the command.
        table: flags of the release.
        env: environment of the launch; it may widen choices.
        before: problems found while the command itself was read, which come first.
        unknown: positions of words that only a shell could fill in: values there become
            `Unknown`, and nothing is said about such words.
        partial: the words are only part of a command line, so nothing is required of them.
        directory: folder that a relative configuration file is looked for in.
    """
    parser = _Parser(argv, env or {}, table, frozenset(unknown), directory)
    parser.open_ended = partial
    return parser.run(before)


class _Parser:
    """State of one parse."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        table: FlagTable,
        unknown: frozenset[int],
        directory: Path | None,
    ) -> None:
        self.argv = tuple(argv)
        self.env = env
        self.table = table
        self.unknown = unknown
        self.directory = directory
        self.open_ended = False
        self.values = dict(table.defaults)
        self.typed: dict[str, Typed] = {}
        self.occurrences: list[Typed] = []
        self.problems: list[ParseProblem] = []
        self.seen: set[int] = set()
        self.leftover: list[str] = []
        # The words that argparse gets, and for each where it comes from.
        self.words: list[str] = list(argv)
        self.origins: list[int | ConfigSpot] | None = None
        self.config_path: str | None = None
        self.config_keys: dict[str, ConfigSpot] = {}
        self.config_failed = False
        self.options: list[tuple[int, str, str | None] | None] = []

    def run(self, before: Iterable[ParseProblem]) -> ParsedLaunch:
        config = self.table.config
        if config is not None and config["flag"] in self.argv:
            self._merge_config()
        self._classify()
        self._consume()
        self._finish()
        problems = [*before, *self.problems]
        if len(problems) > 1:
            problems.sort(key=lambda problem: problem.order)
        return ParsedLaunch(
            self.values,
            self.typed,
            self.occurrences,
            problems,
            self.env,
            self.argv,
            self.config_path,
            self.config_keys,
            self.open_ended,
        )

    def _merge_config(self) -> None:
        from .config_file import merge

        merged = merge(self.argv, self.table, self.directory)
        self.words, self.origins = merged.words, merged.origins
        self.problems += merged.problems
        self.config_path, self.config_keys = merged.path, merged.keys
        self.config_failed = bool(merged.problems)

    # ---------------------------------------------------------------- classify

    def _classify(self) -> None:
        """Tell options from values, word by word, as argparse does before anything else."""
        names = self.table.names
        options = self.options
        for word in self.words:
            if not word or word[0] != "-":
                options.append(None)
            elif word in names:
                options.append((names[word], word, None))
            elif word == "--":
                break  # all that follows is a value, and nothing takes it
            else:
                options.append(self._option(word))
        options += [None] * (len(self.words) - len(options))

    def _option(self, word: str) -> tuple[int, str, str | None] | None:
        """An option that is not spelled out: `(flag, full name, explicit value)`."""
        if len(word) == 1:
            return None
        names = self.table.names
        head, equals, tail = word.partition("=")
        explicit = tail if equals else None
        if equals and head in names:
            return names[head], head, explicit
        if word.startswith("--"):
            matching = self.table.matches(head)
            if len(matching) == 1:
                return names[matching[0]], matching[0], explicit
            if matching:
                return _AMBIGUOUS, head, explicit
        elif word[:2] in names:
            return names[word[:2]], word[:2], word[2:]
        if re.match(_NEGATIVE_NUMBER, word) or " " in word:
            return None
        return _UNKNOWN, head, explicit

    # ----------------------------------------------------------------- consume

    def _consume(self) -> None:
        """Walk the words and give every flag its values."""
        position, count = 0, len(self.words)
        while position < count:
            option = self.options[position]
            if option is None:
                end = self._values_end(position, count)
                self._stray(position, end)
                position = end
            elif option[0] >= 0:
                position = self._flag(position, option)
            elif option[0] == HELP:
                self._help(position, option)
                position += 1
            else:
                end = self._values_end(position + 1, count)
                self._not_a_flag(position, end, option)
                position = end

    def _values_end(self, start: int, limit: int) -> int:
        """Position after the run of values that begins at `start`."""
        options = self.options
        while start < limit and options[start] is None:
            start += 1
        return start

    def _flag(self, position: int, option: tuple[int, str, str | None]) -> int:
        index, name, explicit = option
        flag = self.table.flag(index)
        self.seen.add(index)
        end = position + 1
        if not flag.takes_value:
            if explicit is not None:
                self._fail(
                    position, end, flag, "unexpected-value", f"{name} takes no value",
                    f"ignored explicit argument {shown(explicit)}", explicit,
                )  # fmt: skip
            else:
                self._switch(position, flag, name)
            return end
        if explicit is not None:
            if isinstance(flag.nargs, int) and flag.nargs != 1:
                self._fail(
                    position, end, flag, "unexpected-value",
                    f"{name} takes {flag.nargs} values, which cannot follow an equals sign",
                    f"ignored explicit argument {shown(explicit)}", explicit,
                )  # fmt: skip
                return end
            raw: list[str] = [explicit]
        else:
            end = self._match(position, flag)
            raw = self.words[position + 1 : end]
            if not raw and flag.nargs not in ("?", "*"):
                self._missing_value(position, flag, name)
                return position + 1
        self._store(position, end, flag, name, raw)
        return end

    def _match(self, position: int, flag: Flag) -> int:
        """Position after the values that a flag takes from the words that follow it."""
        start, nargs = position + 1, flag.nargs
        if nargs == "*" or nargs == "+":
            limit = len(self.words)
        elif isinstance(nargs, int):
            limit = min(start + nargs, len(self.words))
        else:
            limit = min(start + 1, len(self.words))
        end = self._values_end(start, limit)
        # The words from a bare "--" on count as values, but no flag may take them.
        for place in range(start, end):
            if self.words[place] == "--":
                end = place
                break
        if isinstance(nargs, int) and end - start < nargs:
            return start
        return end

    def _missing_value(self, position: int, flag: Flag, name: str) -> None:
        wanted = {"+": "at least one argument", None: "one argument"}.get(
            flag.nargs if not isinstance(flag.nargs, int) else "", f"{flag.nargs} arguments"
        )
        hint = ""
        following = self.words[position + 1] if position + 1 < len(self.words) else ""
        if following.startswith("-") and len(following) > 1:
            hint = f"; {plain(following)} begins with a dash, so write {name}={plain(following)}"
            if self.options[position + 1] is None or self.options[position + 1][0] >= HELP:  # type: ignore[index]
                hint = ""
        self._fail(
            position, position + 1, flag, "missing-value", f"{name} needs a value{hint}",
            f"expected {wanted}",
        )  # fmt: skip

    def _switch(self, position: int, flag: Flag, name: str) -> None:
        """A flag that takes no value."""
        action = flag.action
        if action == "deprecated":
            self._retired(position, flag, name)
            return
        if action.startswith("deprecated"):
            self._deprecated(position, flag, name)
        if action == "boolean_optional":
            value: Any = not name.startswith("--no-")
        elif action in ("store_const", "deprecated_store_const"):
            value = flag.const
        else:
            value = action != "store_false"
        self._record(position, position + 1, flag, name, (), value)

    def _store(self, position: int, end: int, flag: Flag, name: str, raw: list[str]) -> None:
        """Convert, check and keep the values of a flag."""
        if "--" in raw:
            raw.remove("--")  # argparse drops it even from `--flag=--`, and then skips all checks
            if not raw and flag.nargs is None:
                self._record(position, end, flag, name, (), [])
                return
        nargs = flag.nargs
        if self.unknown and self._holds_unknown(position, end):
            candidates = flag.choices if nargs is None else None
            self._record(position, end, flag, name, tuple(raw), Unknown(candidates))
            return
        try:
            if not raw and nargs == "?":
                value: Any = flag.const
                if isinstance(value, str):
                    value = self._converted(position, end, flag, value)
            elif nargs is None or nargs == "?":
                value = self._converted(position, end, flag, raw[0])
            else:
                value = [self._convert(position, end, flag, text) for text in raw]
                for item in value:
                    self._check(position, end, flag, item)
            if flag.action == "lora_paths":
                value = self._lora_paths(position, end, flag, value)
        except _Failed:
            return
        if flag.action.startswith("deprecated"):
            self._deprecated(position, flag, name)
            if flag.action == "deprecated_store_const":
                value = flag.const
        self._record(position, end, flag, name, tuple(raw), value)

    def _holds_unknown(self, position: int, end: int) -> bool:
        """Whether one of the words is one that only a shell could fill in."""
        if self.origins is None:
            return any(place in self.unknown for place in range(position, end))
        return any(self.origins[place] in self.unknown for place in range(position, end))

    def _converted(self, position: int, end: int, flag: Flag, text: str) -> Any:
        value = self._convert(position, end, flag, text)
        if flag.choices is not None:
            self._check(position, end, flag, value)
        return value

    def _convert(self, position: int, end: int, flag: Flag, text: str) -> Any:
        try:
            return flag.convert(text)
        except Rejected as error:
            says, why = str(error), f": {error}"
        except (TypeError, ValueError):
            kind = TYPE_NAMES.get(flag.type, flag.type)
            says = f"invalid {kind} value: {shown(text)}"
            why = f"; it takes {_TYPE_WORDS.get(flag.type, 'another kind of value')}"
        self._fail(
            position, end, flag, "bad-type", f"{flag.names[0]} cannot be {shown(text)}{why}", says,
            text,
        )  # fmt: skip
        raise _Failed

    def _check(self, position: int, end: int, flag: Flag, value: Any) -> None:
        choices = self.table.choices(flag, self.env)
        if choices is None or value in choices:
            return
        text = value if isinstance(value, str) else str(value)
        table = self.table
        history = table.history.value(flag.names[0], text)
        says = (
            f"invalid choice: {shown(repr(value) if not isinstance(value, str) else text)} "
            f"(choose from {', '.join(map(repr, choices))})"
        )
        if history is not None:
            replacements = tuple(history.get("replacement") or ())
            message = (
                f"{flag.names[0]} has no value {shown(text)} in SGLang {table.release}: "
                f"removed in {history['removed_in']}"
            )
            if history.get("note"):
                message += f" ({history['note']})"
            if replacements:
                message += f"; use {_either(replacements)}"
            kind: Any = "removed"
        else:
            replacements, kind = (), "invalid-choice"
            message = f"{flag.names[0]} has no value {shown(text)} in SGLang {table.release}"
        self._fail(
            position, end, flag, kind, message, says, text,
            choices=choices,
            history=dict(history) if history is not None else None,
            replacements=replacements,
            source=_page(history),
            _near=lambda: table.near_choices(flag, text),
        )  # fmt: skip
        raise _Failed

    def _lora_paths(self, position: int, end: int, flag: Flag, values: Any) -> list[Any]:
        """Paths as they are, and JSON objects that must name an adapter."""
        out: list[Any] = []
        for text in values or ():
            text = text.strip()
            if not (text.startswith("{") and text.endswith("}")):
                out.append(text)
                continue
            try:
                parsed = json.loads(text)
                why = "" if "lora_path" in parsed and "lora_name" in parsed else (
                    "an object needs the keys lora_name and lora_path"
                )  # fmt: skip
            except (ValueError, RecursionError):
                why = "it looks like JSON but is none"
            if why:
                self._fail(
                    position, end, flag, "bad-type",
                    f"{flag.names[0]} cannot be {shown(text)}: {why}", why, text,
                )  # fmt: skip
                raise _Failed
            out.append(parsed)
        return out

    def _record(
        self, position: int, end: int, flag: Flag, name: str, raw: tuple[str, ...], value: Any
    ) -> None:
        word = self.words[position]
        index, last, spot = self._place(position, end)
        typed = Typed(
            flag.field,
            name,
            word if word == name else word.partition("=")[0],
            index,
            last,
            raw,
            value,
            spot,
        )
        self.values[flag.field] = value
        self.typed[flag.field] = typed
        self.occurrences.append(typed)

    def _place(self, position: int, end: int) -> tuple[int | None, int | None, ConfigSpot | None]:
        """Where words stand in the argv that was given, or in a configuration file."""
        if self.origins is None:
            return position, end, None
        origin = self.origins[position] if position < len(self.origins) else len(self.argv)
        if isinstance(origin, ConfigSpot):
            return None, None, origin
        return origin, origin + (end - position), None

    # ---------------------------------------------------------------- problems

    def _fail(
        self,
        position: int,
        end: int,
        flag: Flag,
        kind: Any,
        message: str,
        says: str,
        value: str | None = None,
        **more: Any,
    ) -> None:
        index, last, spot = self._place(position, end)
        self.problems.append(
            ParseProblem(
                kind,
                message,
                f"argument {flag.label}: {says}",
                flag=flag.names[0],
                field=flag.field,
                value=value,
                index=index,
                end=last,
                config=spot,
                source=more.pop("source", None) or flag.declared,
                order=(CONSUME, position),
                **more,
            )
        )

    def _deprecated(self, position: int, flag: Flag, name: str) -> None:
        index, last, spot = self._place(position, position + 1)
        use = f"; use {flag.new_flag}" if flag.new_flag else ""
        self.problems.append(
            ParseProblem(
                "deprecated",
                f"{name} still works but is deprecated{use}",
                f"{name!r} is deprecated",
                refuses=False,
                flag=name,
                field=flag.field,
                index=index,
                end=last,
                config=spot,
                replacements=(flag.new_flag,) if flag.new_flag else (),
                source=flag.declared,
                order=(CONSUME, position),
            )
        )

    def _retired(self, position: int, flag: Flag, name: str) -> None:
        """A retired flag: it stops the launch if it has a text for that, else it does nothing."""
        index, last, spot = self._place(position, position + 1)
        self.problems.append(
            ParseProblem(
                "deprecated",
                f"{name} no longer does anything"
                if flag.error_message is None
                else f"{name} is retired: {flag.error_message}",
                flag.error_message or f"The command line argument {name!r} is deprecated",
                refuses=flag.error_message is not None,
                flag=name,
                field=flag.field,
                index=index,
                end=last,
                config=spot,
                order=(CONSUME, position),
            )
        )

    def _help(self, position: int, option: tuple[int, str, str | None]) -> None:
        _, name, explicit = option
        index, last, spot = self._place(position, position + 1)
        chained = explicit is not None and name == "-h" and set(explicit) == {"h"}
        if explicit is not None and not chained:
            self.problems.append(
                ParseProblem(
                    "unexpected-value",
                    f"{name} takes no value",
                    f"argument -h/--help: ignored explicit argument {shown(explicit)}",
                    flag=name,
                    value=explicit,
                    index=index,
                    end=last,
                    config=spot,
                    order=(CONSUME, position),
                )
            )
            return
        self.problems.append(
            ParseProblem(
                "help",
                f"{name} prints the help and starts no server",
                "usage: …",
                flag=name,
                index=index,
                end=last,
                config=spot,
                order=(CONSUME, position),
            )
        )

    def _stray(self, position: int, end: int) -> None:
        """Words that belong to no flag."""
        words = self.words[position:end]
        if self.unknown and self._holds_unknown(position, end):
            self.open_ended = True
            return
        self.leftover += words
        index, last, spot = self._place(position, end)
        text = plain(" ".join(words[:_LISTED]))
        if words[0] == "--":
            message = f"a bare -- ends the flags, and what follows is not accepted: {text}"
        else:
            message = f"{text} belongs to no flag"
            option = self.options[position - 1] if position else None
            if option is not None and option[0] >= 0 and option[2] is None:
                message += f": {plain(self.words[position - 1])} takes no value"
        self.problems.append(
            ParseProblem(
                "stray-value",
                message,
                "unrecognized arguments",
                value=" ".join(words[:_LISTED]),
                index=index,
                end=last,
                config=spot,
                order=(LEFTOVER, position),
            )
        )

    def _not_a_flag(self, position: int, end: int, option: tuple[int, str, str | None]) -> None:
        kind_index, head, _ = option
        table = self.table
        index, last, spot = self._place(position, end)
        history = table.history.flag(head)
        replacements = tuple(history.get("replacement") or ()) if history is not None else ()
        gone = ""
        if history is not None:
            gone = f"removed in {history['removed_in']}"
            if history.get("note"):
                gone += f" ({history['note']})"
            if replacements:
                gone += f"; use {_either(replacements)}"
        if kind_index == _AMBIGUOUS:
            matching = table.matches(head)
            listed = ", ".join(matching[:_LISTED]) + (" …" if len(matching) > _LISTED else "")
            message = f"{plain(head)} is ambiguous: it could be {listed}"
            if gone and history is not None and history["name"] == head:
                message = f"{plain(head)} was {gone}; now it is short for {listed}"
            self.problems.append(
                ParseProblem(
                    "ambiguous",
                    message,
                    f"ambiguous option: {plain(self.words[position])} could match {listed}",
                    flag=head,
                    index=index,
                    end=last,
                    config=spot,
                    choices=tuple(matching),
                    history=dict(history) if history is not None else None,
                    replacements=replacements,
                    source=_page(history),
                    order=(CLASSIFY, position),
                    _near=lambda: tuple(matching[:_LISTED]),
                )
            )
            return
        self.leftover += self.words[position:end]
        self.problems.append(
            ParseProblem(
                "removed" if history is not None else "unknown-flag",
                f"SGLang {table.release} has no flag {plain(head)}" + (f": {gone}" if gone else ""),
                "unrecognized arguments",
                flag=head,
                value=" ".join(self.words[position + 1 : end]) or option[2],
                index=index,
                end=last,
                config=spot,
                history=dict(history) if history is not None else None,
                replacements=replacements,
                source=_page(history),
                order=(LEFTOVER, position),
                _near=lambda: table.near_flags(head),
            )
        )

    # ------------------------------------------------------------------ finish

    def _finish(self) -> None:
        missing = [
            self.table.flag(index) for index in self.table.required if index not in self.seen
        ]
        if missing and not self.config_failed and not self.open_ended:
            labels = ", ".join(flag.label for flag in missing)
            for flag in missing:
                self.problems.append(
                    ParseProblem(
                        "missing-required",
                        f"{flag.names[0]} is required",
                        f"the following arguments are required: {labels}",
                        flag=flag.names[0],
                        field=flag.field,
                        order=(REQUIRED, flag.index),
                    )
                )
        for mark in self.table.explicit:
            name = mark["flag"]
            start = name + "="
            self.values[mark["field"]] = any(
                word == name or word.startswith(start) for word in self.words
            )
        for check in self.table.checks:
            self._after(check)

    def _after(self, check: Mapping[str, Any]) -> None:
        """What the launcher looks up right after parsing."""
        name = check["field"]
        value = self.values[name]
        if isinstance(value, Unknown) or (isinstance(value, str) and value.upper() in _LEVELS):
            return
        typed = self.typed.get(name)
        flag = self.table.by_field.get(name)
        spelling = self.table.spelling(name)
        text = value if isinstance(value, str) else str(value)
        levels = tuple(level.lower() for level in _LEVELS)
        self.problems.append(
            ParseProblem(
                "invalid-choice",
                f"{spelling} has no value {shown(text)}; Python knows {', '.join(levels)}",
                f"module 'logging' has no attribute {shown(text.upper())}",
                flag=flag.names[0] if flag is not None else None,
                field=name,
                value=text,
                index=typed.index if typed is not None else None,
                end=typed.end if typed is not None else None,
                config=typed.config if typed is not None else None,
                choices=levels,
                order=(AFTER, 0),
            )
        )


class _Failed(Exception):
    """A value was refused; the problem is on the list already."""


_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "json": "JSON",
    "json_list_type": "a JSON list",
}


def _page(history: Mapping[str, Any] | None) -> str | None:
    """Public page that a former name's entry rests on."""
    source = (history or {}).get("source") or {}
    return source.get("url") or source.get("file")


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)
