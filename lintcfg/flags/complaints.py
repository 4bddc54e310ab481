"""Puts problems of a command line into words: ours, and those of the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..terminal import plain, shown
from .launch import Typed
from .problems import AFTER, CLASSIFY, CONSUME, LEFTOVER, REQUIRED, ParseProblem
from .table import HELP, Flag, FlagTable
from .words import AMBIGUOUS, Option, Words

#: How many names a message lists before it stops.
_LISTED = 8


#: Names that `logging` has a level for.
LEVELS = ("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING")


class Complaints:
    """Collects the problems of one command line."""

    def __init__(self, table: FlagTable, words: Words) -> None:
        self.table = table
        self.words = words
        self.problems: list[ParseProblem] = []

    def fail(
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
        index, last, spot = self.words.place(position, end)
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

    def deprecated(self, position: int, flag: Flag, name: str) -> None:
        index, last, spot = self.words.place(position, position + 1)
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

    def retired(self, position: int, flag: Flag, name: str) -> None:
        """A retired flag: it stops the launch if it has a text for that, else it does nothing."""
        index, last, spot = self.words.place(position, position + 1)
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

    def help(self, position: int, option: Option) -> None:
        _, name, explicit = option
        index, last, spot = self.words.place(position, position + 1)
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

    def stray(self, position: int, end: int) -> None:
        """Words that belong to no flag."""
        words = self.words.all[position:end]
        index, last, spot = self.words.place(position, end)
        text = plain(" ".join(words[:_LISTED]))
        if words[0] == "--":
            message = f"a bare -- ends the flags, and what follows is not accepted: {text}"
        else:
            message = f"{text} belongs to no flag"
            option = self.words.options[position - 1] if position else None
            if words[0].isspace():
                message += ": a backslash with a blank behind it does not continue the line"
            elif option is not None and option[0] >= 0 and option[2] is None:
                message += f": {plain(self.words.all[position - 1])} takes no value"
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

    def not_a_flag(self, position: int, end: int, option: Option) -> None:
        kind_index, head, _ = option
        table = self.table
        index, last, spot = self.words.place(position, end)
        history = table.history.flag(head)
        replacements = tuple(history.get("replacement") or ()) if history is not None else ()
        gone = ""
        if history is not None:
            gone = f"removed in {history['removed_in']}"
            if history.get("note"):
                gone += f" ({history['note']})"
            if replacements:
                gone += f"; use {_either(replacements)}"
        if kind_index == AMBIGUOUS:
            matching = table.matches(head)
            listed = ", ".join(matching[:_LISTED]) + (" …" if len(matching) > _LISTED else "")
            message = f"{plain(head)} is ambiguous: it could be {listed}"
            if gone and history is not None and history["name"] == head:
                message = f"{plain(head)} was {gone}; now it is short for {listed}"
            self.problems.append(
                ParseProblem(
                    "ambiguous",
                    message,
                    f"ambiguous option: {plain(self.words.all[position])} could match {listed}",
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
        self.problems.append(
            ParseProblem(
                "removed" if history is not None else "unknown-flag",
                f"SGLang {table.release} has no flag {plain(head)}" + (f": {gone}" if gone else ""),
                "unrecognized arguments",
                flag=head,
                value=" ".join(self.words.all[position + 1 : end]) or option[2],
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

    def not_a_choice(
        self, position: int, end: int, flag: Flag, value: Any, choices: tuple[Any, ...]
    ) -> None:
        """A value that is none of the flag's choices."""
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
        self.fail(
            position, end, flag, kind, message, says, text,
            choices=choices,
            history=dict(history) if history is not None else None,
            replacements=replacements,
            source=_page(history),
            _near=lambda: table.near_choices(flag, text),
        )  # fmt: skip

    def missing_value(self, position: int, flag: Flag, name: str) -> None:
        """A flag at the end, or before another option."""
        wanted = {"+": "at least one argument", None: "one argument"}.get(
            flag.nargs if not isinstance(flag.nargs, int) else "", f"{flag.nargs} arguments"
        )
        hint = ""
        place = position + 1
        following = self.words.options[place] if place < len(self.words.options) else None
        if following is not None and following[0] < HELP and flag.type == "str":
            word = plain(self.words.all[place])
            hint = f"; {word} begins with a dash, so write {name}={word}"
        self.fail(
            position, position + 1, flag, "missing-value", f"{name} needs a value{hint}",
            f"expected {wanted}",
        )  # fmt: skip

    def missing_required(self, flags: list[Flag]) -> None:
        """Flags that the command line must have and has not."""
        labels = ", ".join(flag.label for flag in flags)
        for flag in flags:
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

    def unknown_level(self, name: str, value: Any, typed: Typed | None) -> None:
        """A log level that Python has no name for."""
        flag = self.table.by_field.get(name)
        spelling = self.table.spelling(name)
        text = value if isinstance(value, str) else str(value)
        levels = tuple(level.lower() for level in LEVELS)
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


def _page(history: Mapping[str, Any] | None) -> str | None:
    """Public page that a former name's entry rests on."""
    source = (history or {}).get("source") or {}
    return source.get("url") or source.get("file")


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)
