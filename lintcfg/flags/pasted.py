"""Splits a command that somebody pasted as text, as far as that goes without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from ...matrix.record import replaced
from .command import Command

_OPERATORS = ";|&()<>\n"
#: Text that only a shell can fill in, and words that stand for a value.
_EXPANSION = re.compile(r"\$\([^()]*\)|\$\{[^{}]*\}|\$[A-Za-z_0-9?@*#]\w*|`[^`]*`")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w ./:-]*>")
_VARIABLE = re.compile(r"^\$\{?([A-Za-z_]\w*)\}?$")
_DESCRIPTOR = re.compile(r"(?<!\S)\d+(?=[<>])")
#: Characters that stand for such text while the command is split.
_MARK = 0xF0000
_MARKS = 0xFFFD


def split_text(text: str) -> tuple[list[str], list[str]]:
    """Words and operators of a command, with marks for the text that is returned beside them.

    Raises:
        ValueError: a quote or an escape is left open.
    """
    marked, kept = _mark(text.replace("\\\r\n", " ").replace("\\\n", " "))
    lexer = shlex.shlex(marked, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer), kept


def segments(words: list[str]) -> list[list[str]]:
    """Simple commands of a split line, without their redirections."""
    found: list[list[str]] = [[]]
    skip = False
    for word in words:
        if word and set(word) <= set(_OPERATORS):
            # What follows an arrow is a file; every other operator ends the command.
            skip = "<" in word or ">" in word
            if not skip:
                found.append([])
        elif skip:
            skip = False
        else:
            found[-1].append(word)
    return [segment for segment in found if segment]


def _mark(text: str) -> tuple[str, list[str]]:
    """Replace what only a shell can fill in by marks that survive the splitting."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        if len(kept) >= _MARKS:
            return match.group()
        kept.append(match.group())
        return chr(_MARK + len(kept) - 1)

    return _DESCRIPTOR.sub("", _PLACEHOLDER.sub(keep, _EXPANSION.sub(keep, text))), kept


def unmark(command: Command, kept: list[str], env: Mapping[str, str]) -> Command:
    """Put marked text back; a variable that the text itself set is filled in."""
    if not kept:
        return command
    open_words: set[int] = set()

    def restore(word: str, place: int | None = None) -> str:
        parts = []
        for character in word:
            number = ord(character) - _MARK
            if not 0 <= number < len(kept):
                parts.append(character)
                continue
            match = _VARIABLE.match(kept[number])
            known = env.get(match.group(1)) if match is not None else None
            if known is None and place is not None:
                open_words.add(place)
            parts.append(kept[number] if known is None else known)
        return "".join(parts)

    argv = [restore(word, place) for place, word in enumerate(command.argv)]
    return replaced(
        command,
        argv=argv,
        environment={key: restore(value) for key, value in command.environment.items()},
        other_program=None if command.other_program is None else restore(command.other_program),
        words=[restore(word) for word in command.words],
        unknown=frozenset(open_words) | command.unknown,
    )
