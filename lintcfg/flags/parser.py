"""Reads a command line as the release's argparse parser would.

argparse stops at its first error. This parser goes on, so that every problem is told, and keeps
argparse's order beside each one: the first that refuses is what the release itself would say.
The behaviour is that of CPython 3.11 and 3.12 for a parser without positional arguments.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..resolver.values import Unknown
from ..terminal import shown
from .complaints import LEVELS, Complaints
from .convert import TYPE_NAMES, Rejected
from .launch import ParsedLaunch, Typed
from .problems import ConfigSpot, ParseProblem
from .table import HELP, Flag, FlagTable
from .words import Option, Words

if TYPE_CHECKING:
    from pathlib import Path


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
    argv = tuple(argv)
    words: list[str] = list(argv)
    origins: list[int | ConfigSpot] | None = None
    problems = list(before)
    config_path: str | None = None
    config_keys: dict[str, ConfigSpot] = {}
    if table.config is not None and table.config["flag"] in argv:
        from .config_file import merge

        merged = merge(argv, table, directory)
        words, origins = merged.words, merged.origins
        config_path, config_keys = merged.path, merged.keys
        # Nothing is said about a file whose name is not known.
        problems += [
            one for one in merged.problems if one.index is None or one.index + 1 not in unknown
        ]
        # What a file that cannot be read would have held is not missed.
        partial = partial or bool(merged.problems)
    parser = _Parser(table, env or {}, Words(argv, table, words, origins, frozenset(unknown)))
    parser.run(partial)
    problems += parser.complain.problems
    if len(problems) > 1:
        problems.sort(key=lambda problem: problem.order)
    return ParsedLaunch(
        parser.values,
        parser.typed,
        parser.occurrences,
        problems,
        env or {},
        argv,
        config_path,
        config_keys,
        partial or parser.open_ended,
    )


class _Failed(Exception):
    """A value was refused; the problem is on the list already."""


class _Parser:
    """State of one parse."""

    def __init__(self, table: FlagTable, env: Mapping[str, str], words: Words) -> None:
        self.table = table
        self.env = env
        self.words = words
        self.complain = Complaints(table, words)
        self.values = dict(table.defaults)
        self.typed: dict[str, Typed] = {}
        self.occurrences: list[Typed] = []
        self.seen: set[int] = set()
        self.open_ended = False

    def run(self, partial: bool) -> None:
        """Walk the words and give every flag its values."""
        words = self.words
        options = words.options
        position, count = 0, len(words.all)
        while position < count:
            option = options[position]
            if option is None:
                end = words.values_end(position, count)
                if words.holds_unknown(position, end):
                    self.open_ended = True
                else:
                    self.complain.stray(position, end)
                position = end
            elif option[0] >= 0:
                position = self._flag(position, option)
            elif option[0] == HELP:
                self.complain.help(position, option)
                position += 1
            else:
                end = words.values_end(position + 1, count)
                self.complain.not_a_flag(position, end, option)
                position = end
        self._finish(partial or self.open_ended)

    def _flag(self, position: int, option: Option) -> int:
        index, name, explicit = option
        flag = self.table.flag(index)
        self.seen.add(index)
        end = position + 1
        if not flag.takes_value:
            if explicit is not None:
                self.complain.fail(
                    position, end, flag, "unexpected-value", f"{name} takes no value",
                    f"ignored explicit argument {shown(explicit)}", explicit,
                )  # fmt: skip
            else:
                self._switch(position, flag, name)
            return end
        if explicit is not None:
            if isinstance(flag.nargs, int) and flag.nargs != 1:
                self.complain.fail(
                    position, end, flag, "unexpected-value",
                    f"{name} takes {flag.nargs} values, which cannot follow an equals sign",
                    f"ignored explicit argument {shown(explicit)}", explicit,
                )  # fmt: skip
                return end
            raw = [explicit]
        else:
            end = self._match(position, flag)
            raw = self.words.all[position + 1 : end]
            if not raw and flag.nargs not in ("?", "*"):
                self.complain.missing_value(position, flag, name)
                return position + 1
        self._store(position, end, flag, name, raw)
        return end

    def _match(self, position: int, flag: Flag) -> int:
        """Position after the values that a flag takes from the words that follow it."""
        start, nargs = position + 1, flag.nargs
        words = self.words.all
        if nargs == "*" or nargs == "+":
            limit = len(words)
        else:
            limit = min(start + (nargs if isinstance(nargs, int) else 1), len(words))
        end = self.words.values_end(start, limit)
        # The words from a bare "--" on count as values, but no flag may take them.
        for place in range(start, end):
            if words[place] == "--":
                end = place
                break
        if isinstance(nargs, int) and end - start < nargs:
            return start
        return end

    def _switch(self, position: int, flag: Flag, name: str) -> None:
        """A flag that takes no value."""
        action = flag.action
        if action == "deprecated":
            self.complain.retired(position, flag, name)
            return
        if action.startswith("deprecated"):
            self.complain.deprecated(position, flag, name)
        if action == "boolean_optional":
            value: Any = not name.startswith("--no-")
        elif action in ("store_const", "deprecated_store_const"):
            value = flag.const
        else:
            value = action != "store_false"
        self._record(position, position + 1, flag, name, (), value)

    def _store(self, position: int, end: int, flag: Flag, name: str, raw: list[str]) -> None:
        """Convert, check and keep the values of a flag."""
        nargs = flag.nargs
        if "--" in raw:
            raw.remove("--")  # argparse drops it even from `--flag=--`, and then skips all checks
            if not raw and nargs is None:
                self._record(position, end, flag, name, (), [])
                return
        if self.words.unknown and self.words.holds_unknown(position, end):
            candidates = flag.choices if nargs is None else None
            self._record(position, end, flag, name, tuple(raw), Unknown(candidates))
            return
        try:
            value = self._value(position, end, flag, raw)
        except _Failed:
            return
        if flag.action.startswith("deprecated"):
            self.complain.deprecated(position, flag, name)
            if flag.action == "deprecated_store_const":
                value = flag.const
        self._record(position, end, flag, name, tuple(raw), value)

    def _value(self, position: int, end: int, flag: Flag, raw: list[str]) -> Any:
        """The value that words stand for; raises _Failed where it is refused."""
        nargs = flag.nargs
        if not raw and nargs == "?":
            if not isinstance(flag.const, str):
                return flag.const
            raw = [flag.const]
        if nargs is None or nargs == "?":
            value = self._convert(position, end, flag, raw[0])
            if flag.choices is not None:
                self._check(position, end, flag, value)
            return value
        values = [self._convert(position, end, flag, text) for text in raw]
        if flag.choices is not None:
            for value in values:
                self._check(position, end, flag, value)
        if flag.action == "lora_paths":
            return [self._adapter(position, end, flag, text.strip()) for text in values]
        return values

    def _convert(self, position: int, end: int, flag: Flag, text: str) -> Any:
        try:
            return flag.convert(text)
        except Rejected as error:
            says, why = str(error), f": {error}"
        except (TypeError, ValueError):
            kind = TYPE_NAMES.get(flag.type, flag.type)
            says = f"invalid {kind} value: {shown(text)}"
            why = f"; it takes {_TYPE_WORDS.get(flag.type, 'another kind of value')}"
        raise self._refused(position, end, flag, text, why, says)

    def _check(self, position: int, end: int, flag: Flag, value: Any) -> None:
        choices = self.table.choices(flag, self.env)
        if choices is not None and value not in choices:
            self.complain.not_a_choice(position, end, flag, value, choices)
            raise _Failed

    def _adapter(self, position: int, end: int, flag: Flag, text: str) -> Any:
        """A path as it is, or a JSON object that must name an adapter."""
        if not (text.startswith("{") and text.endswith("}")):
            return text
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            why = "it looks like JSON but is none"
        else:
            if "lora_path" in parsed and "lora_name" in parsed:
                return parsed
            why = "an object needs the keys lora_name and lora_path"
        raise self._refused(position, end, flag, text, f": {why}", why)

    def _refused(
        self, position: int, end: int, flag: Flag, text: str, why: str, says: str
    ) -> _Failed:
        """Put a value that cannot be converted on the list; the caller raises the result."""
        message = f"{flag.names[0]} cannot be {shown(text)}{why}"
        self.complain.fail(position, end, flag, "bad-type", message, says, text)
        return _Failed()

    def _record(
        self, position: int, end: int, flag: Flag, name: str, raw: tuple[str, ...], value: Any
    ) -> None:
        word = self.words.all[position]
        index, last, spot = self.words.place(position, end)
        spelling = word if word == name else word.partition("=")[0]
        typed = Typed(flag.field, name, spelling, index, last, raw, value, spot)
        self.values[flag.field] = value
        self.typed[flag.field] = typed
        self.occurrences.append(typed)

    def _finish(self, partial: bool) -> None:
        """What argparse and the launcher look at once all words are read."""
        table = self.table
        missing = [table.flag(index) for index in table.required if index not in self.seen]
        if missing and not partial:
            self.complain.missing_required(missing)
        for mark in table.explicit:
            name = mark["flag"]
            start = name + "="
            self.values[mark["field"]] = any(
                word == name or word.startswith(start) for word in self.words.all
            )
        for check in table.checks:
            field = check["field"]
            level = self.values[field]
            known = isinstance(level, Unknown) or (
                isinstance(level, str) and level.upper() in LEVELS
            )
            if not known:
                self.complain.unknown_level(field, level, self.typed.get(field))


_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "json": "JSON",
    "json_list_type": "a JSON list",
}
