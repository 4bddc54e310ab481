"""Turns the bytes of a file into text, and a changed text back into bytes."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass

#: Byte order marks, longer ones first: that of UTF-16 is how one of UTF-32 begins.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)
_UTF8 = "utf-8"


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's text is written: an encoding, and the byte order mark before it.

    `exact` tells that the text, encoded again, gives the very bytes that it was read from.
    """

    name: str = _UTF8
    mark: bytes = b""
    exact: bool = True

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text."""
        return self.mark + text.encode(self.name, "surrogateescape")


#: How nearly all files are written.
UTF8 = Encoding()


class Undecodable(Exception):
    """The bytes of a file are no text that is read here; says what would be."""


def narrow(content: bytes) -> bytes:
    """The content with one byte for each character of ASCII, whatever the file's encoding."""
    mark = next((mark for mark, _ in _MARKS if content.startswith(mark)), b"")
    body = content[len(mark) :] if mark else content
    return body.replace(b"\0", b"") if b"\0" in body else body


def decode(content: bytes, *, python: bool = False) -> tuple[str, Encoding]:
    """The text of a file, and how it is written.

    A byte order mark tells the encoding, or else a comment in the first two lines: always that of
    a program in Python (PEP 263), and of other files, where editors read the same comment, if they
    are not UTF-8.

    Raises:
        Undecodable: the file is no text, or not in the encoding that it claims.
    """
    mark, name = next((one for one in _MARKS if content.startswith(one[0])), (b"", ""))
    if python and name in ("", _UTF8):
        name = _named(content)
    try:
        text = content[len(mark) :].decode(name or _UTF8)
    except UnicodeDecodeError as error:
        if not (python or mark) and (named := _named(content, strict=False)):
            name, text = named, content.decode(named, "surrogateescape")
        else:
            raise Undecodable(_garbled(name, len(mark) + error.start)) from None
    if "\0" in text:
        raise Undecodable(
            "holds NUL characters, so it is no text: save it as UTF-8; UTF-16 needs a byte order "
            "mark to be read"
        )
    encoding = Encoding(name or _UTF8, mark)
    if encoding.encode(text) != content:
        encoding = Encoding(encoding.name, mark, exact=False)
    return text, encoding


def _garbled(name: str, place: int) -> str:
    if name:
        return f"not {name.upper()} (byte {place}), as it says it is: save it as UTF-8"
    return (
        f"not UTF-8 (byte {place}): save it as UTF-8, or name its encoding in the first line, as "
        "in # coding: latin-1"
    )


def _named(content: bytes, *, strict: bool = True) -> str:
    """The encoding that a comment names as Python reads it; empty for UTF-8 and where none does.

    Raises:
        Undecodable: Python would refuse the file for what it says, if that is to be `strict`.
    """
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        "".encode(name)  # there are encodings of other things than text
    except (SyntaxError, LookupError) as error:
        if strict and not str(error).startswith("invalid or missing"):
            raise Undecodable(f"not Python: {error}") from None
        return ""
    name = name.removesuffix("-sig")
    return "" if name == _UTF8 else name
