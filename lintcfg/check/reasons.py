"""The opt-in rule: an explicit choice of a backend wants a reason beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..judge import Judgement
from ..launches import Found, Lines, Source, Variant

#: Formats that have no comments: nothing can be asked of them.
_SILENT = frozenset({"json", "notebook"})
_OWN_LINE = re.compile(r"\s*(?:#|//|<!--|--\s|\.\.\s)(?P<text>.*)")
_BEHIND = re.compile(r"[ \t](?:#|//|<!--)(?P<text>.*)")
#: Comments that are for programs.
_FOR_PROGRAMS = re.compile(
    r"^!|^\s*(?:attn-lint:(?!.*--)|shellcheck\b|noqa\b|type:|pylint:|hadolint\b|yamllint\b|syntax=)"
)


def without_reason(
    found: Found, judgement: Judgement, variant: Variant, lines: Lines
) -> Iterator[tuple[str, Source]]:
    """Flags that override SGLang's choice of a backend unexplained, as typed, with their words.

    A comment explains what it stands behind or above; one above the launch explains all of it, as
    a shell lets nobody write between lines that are continued.
    """
    if found.kind in _SILENT:
        return
    start = lines.place(found.start)[0]
    for name, typed in judgement.parsed.typed.items():
        if not name.endswith("attention_backend") or typed.index is None:
            continue
        word = variant.words[typed.index]
        line = lines.place(word.start)[0]
        end = lines.place(max(word.start, variant.words[-1].end))[0]
        if _explained(lines, line) or _above(lines, start):
            continue
        if any(_continues(lines, n) for n in (line, line - 1)) and _behind(lines, end):
            continue  # behind the last of the lines that are continued
        yield typed.name, word


def _explained(lines: Lines, number: int) -> bool:
    return _behind(lines, number) or _above(lines, number)


def _behind(lines: Lines, number: int) -> bool:
    return any(_says(match) for match in _BEHIND.finditer(lines.line(number)))


def _above(lines: Lines, number: int) -> bool:
    """Whether the lines right above are a comment that says something."""
    number -= 1
    while number >= 1:
        match = _OWN_LINE.match(lines.line(number))
        if match is None:
            return False
        if _says(match):
            return True
        number -= 1
    return False


def _continues(lines: Lines, number: int) -> bool:
    return number >= 1 and lines.line(number).rstrip().endswith("\\")


def _says(match: re.Match[str]) -> bool:
    text = match.group("text")
    return _FOR_PROGRAMS.search(text) is None and any(one.isalpha() for one in text)
