"""What the terminal can show: colour, and text that the output's encoding can carry."""

from __future__ import annotations

import os
import sys
from typing import TextIO

#: How much of a user's text a message repeats.
_LONG = 80
#: The most that a line of an error is allowed to be.
_LONGEST_LINE = 800

_CODES = {
    "error": "31;1", "warning": "33;1", "info": "36", "bold": "1", "dim": "2", "good": "32;1",
}  # fmt: skip


def printable(text: str) -> str:
    """Text whose control characters show instead of acting on the terminal."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def cut(text: str, limit: int = _LONGEST_LINE) -> str:
    """Text with its middle left out where it is longer than any line should be."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}…{text[-half:]}"


def shown(text: str, limit: int = _LONG) -> str:
    """A user's text as it can stand in a message: quoted, and no longer than `limit`."""
    if len(text) > limit:
        return f"{text[:limit]!r}… ({len(text)} characters)"
    return repr(text)


def plain(text: str, limit: int = _LONG) -> str:
    """As `shown`, without quotes where the text is harmless and can be seen."""
    if len(text) <= limit and text.isprintable() and text.strip():
        return text
    return shown(text, limit)


class Style:
    """Wraps text in ANSI colour where colour is wanted."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, kind: str, text: str) -> str:
        return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if self.enabled else text


def wants_color(when: str | None, stream: TextIO) -> bool:
    """Decide on colour: the option, then NO_COLOR, FORCE_COLOR, TERM and the terminal itself."""
    if when in {"always", "never"}:
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    if os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except ValueError:
        return False


def make_streams_safe() -> None:
    """Let no character that the locale lacks, and no lone surrogate, end in an exception."""
    # A stream that was closed before the start is None.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
