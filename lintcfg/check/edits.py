"""Turns the cure of a finding into edits of the file."""

from __future__ import annotations

import re

from ..findings import Finding
from ..judge import Judgement
from ..launches import Source, Variant
from .result import Edit

_PLAIN = re.compile(r"[A-Za-z0-9_./:+-]+")


def edits_for(
    finding: Finding, judgement: Judgement, variant: Variant, text: str
) -> tuple[Edit, ...]:
    """Edits that cure a finding, where what they change stands in the file as it is typed."""
    index = finding.span.argument if finding.span is not None else None
    if index is None or index >= len(variant.words):
        return ()
    rename = _rename(finding, judgement, index)
    if rename is not None:
        name, value = rename
        word = variant.words[index]
        length = len(word.text.partition("=")[0])
        edit = _renamed(word, length, name, text)
        if edit is None or value is None:
            return (edit,) if edit is not None else ()
        return ()
    for fix in finding.fixes:
        typed = judgement.parsed.typed.get(fix.field)
        if typed is None or typed.index is None or fix.value is None or fix.value is True:
            continue
        edit = _valued(variant, typed.index, str(fix.value), text, safe=fix.safe)
        if edit is not None:
            return (edit,)
    return ()


def _rename(finding: Finding, judgement: Judgement, index: int) -> tuple[str, str | None] | None:
    """The new name of a flag that is gone or going, where it takes the same value."""
    for problem in judgement.parsed.problems:
        if problem.index != index or problem.kind not in ("removed", "deprecated"):
            continue
        replacement = problem.replacement
        if replacement and replacement.startswith("--") and len(problem.replacements) == 1:
            name, _, value = replacement.partition(" ")
            return name, value or None
    return None


def _renamed(word: Source, length: int, name: str, text: str) -> Edit | None:
    """Put another name in the place of a flag's, in the spelling that surrounds it."""
    written = text[word.at(2) : word.at(length - 1) + 1] if length > 2 else ""
    expected = word.text[2:length]
    if not written or word.at(length - 1) - word.at(2) != length - 3:
        return None
    new = name[2:]
    if written == expected.replace("-", "_") and "_" in written:
        new = new.replace("-", "_")
    elif written != expected:
        return None
    return Edit(word.at(2), word.at(length - 1) + 1, new, True)


def _valued(variant: Variant, index: int, value: str, text: str, *, safe: bool) -> Edit | None:
    """Put another value in the place of a flag's."""
    word = variant.words[index]
    place = word.text.find("=")
    if place >= 0:
        target = word.slice(place + 1, len(word.text))
    elif index + 1 < len(variant.words):
        target = variant.words[index + 1]
    else:
        return None
    if target.open or not target.text or not _PLAIN.fullmatch(target.text):
        return None
    if not target.contiguous(0, len(target.text)) or not _PLAIN.fullmatch(value):
        return None
    if text[target.start : target.end] != target.text:
        return None
    return Edit(target.start, target.end, value, safe)


def apply(text: str, edits: list[Edit]) -> str:
    """Text with edits made; of two that overlap the first one counts."""
    parts = []
    position = 0
    for edit in sorted(set(edits), key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            continue
        parts.append(text[position : edit.start])
        parts.append(edit.text)
        position = edit.end
    parts.append(text[position:])
    return "".join(parts)
