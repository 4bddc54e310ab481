"""Takes the command off a launch, so that its server's arguments remain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...matrix.record import record
from .problems import ParseProblem

#: A single word longer than this is not taken for a quoted command.
_MAX_COMMAND = 200_000
#: Python's `-m`, behind others of its options that take no value, and a module joined to it.
_MODULE = re.compile(r"-[bBdEiIOPqRsStuvx]*m(?P<module>.*)", re.DOTALL)


@record
class Command:
    """What a command line starts, and the arguments that its server gets.

    Attributes:
        argv: the server's arguments.
        environment: variables that the command sets.
        name: what starts the server, empty for bare flags.
        other_program: what is started instead of a server whose flags we know, or None.
        words: the words of the command after splitting; `origins` has the position in them of
            each argument.
        backend: "auto" where the program itself decides by the model which server it starts.
        unknown: positions in `argv` of words that only a shell could fill in.
        problems: what the command itself gets wrong, before any flag is read.
        contained: an image's own entrypoint is the server, and may add arguments to these.
        around: words that a quoted command stands behind.
    """

    argv: list[str]
    environment: dict[str, str]
    name: str
    other_program: str | None
    words: list[str]
    origins: list[int]
    backend: str = "llm"
    unknown: frozenset[int] = frozenset()
    problems: tuple[ParseProblem, ...] = ()
    contained: bool = False
    around: tuple[str, ...] = ()


def strip_command(
    argv: Sequence[str],
    commands: Mapping[str, Any] | None = None,
) -> Command:
    """Find the server's arguments. Never raises for bad input.

    Args:
        argv: words as the shell gave them, or a single word that holds a whole command.
        commands: the release's `commands` section; by default that of the default release.
    """
    words = list(argv)
    if not words or (words[0].startswith("-") and not (len(words) == 1 and is_quoted(words[0]))):
        return Command(words, {}, "", None, words, list(range(len(words))))
    from .finder import Finder

    if commands is None:
        from ...matrix.loader import load

        commands = load()["commands"]
    return Finder(commands or {}).find(words, {}, 0)


def module_at(words: Sequence[str], place: int) -> tuple[str, int] | None:
    """The module that a word says to run, and the position of its first argument.

    It is the following word, `-m MODULE`, or part of the same one, `-mMODULE`.
    """
    word = words[place]
    match = _MODULE.fullmatch(word)
    if match is not None and match.group("module"):
        return match.group("module"), place + 1
    if (match is not None or word == "--module") and place + 1 < len(words):
        return words[place + 1], place + 2
    return None


def is_quoted(word: str) -> bool:
    """Whether one word is a command somebody quoted as a whole."""
    if len(word) > _MAX_COMMAND or not any(space in word for space in " \n\t"):
        return False
    parts = word.split(None, 1)
    # A JSON object, or a value behind an equals sign, has blanks but is no command.
    if len(parts) < 2 or parts[0][0] in "{[":
        return False
    return not (parts[0].startswith("-") and "=" in parts[0] and " -" not in word)
