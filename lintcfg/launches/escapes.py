"""Escapes of JSON, TOML and the shell's `$'…'`, undone so that each character keeps its place."""

from __future__ import annotations

import re

from .text import Source

_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "e": "\x1b", "/": "/", "\\": "\\",
          '"': '"', "'": "'"}  # fmt: skip
#: A number, in UTF-16 perhaps in two halves; or a break and the blanks before the next text.
_LONG = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})"
    r"|\\U([0-9a-fA-F]{8})|\\[ \t]*\r?\n[ \t\r\n]*"
)


def unescaped(raw: Source) -> Source | None:
    """Undo escapes exactly; None where there are others."""
    text = raw.text
    out: list[str] = []
    starts: list[int] = []
    places: list[int] = []
    place = 0
    expected = -1
    while place < len(text):
        character, width = text[place], 1
        if character == "\\":
            found = _escape(text, place)
            if found is None:
                return None
            character, width = found
        where = raw.at(place)
        if character and where != expected:
            starts.append(len(out))
            places.append(where)
        if character:
            out.append(character)
            expected = where + 1
        place += width
    if not out:
        return None
    return Source("".join(out), tuple(starts), tuple(places))


def _escape(text: str, place: int) -> tuple[str, int] | None:
    """What an escape stands for, and its length."""
    plain = _PLAIN.get(text[place + 1 : place + 2])
    if plain is not None:
        return plain, 2
    match = _LONG.match(text, place)
    if match is None:
        return None
    high, low, short, long = match.groups()
    if high is not None:
        code = 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
    elif short is not None or long is not None:
        code = int(short or long, 16)
    else:
        return "", match.end() - place
    return (chr(code), match.end() - place) if code <= 0x10FFFF else None
