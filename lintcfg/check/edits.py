"""Ways to write a change of a launch's words into its file.

How words stand in a file depends on its format: bare, in quotes, one an item of a list, as keys of
a mapping. Several ways may be open; each is only a proposal until the file was read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ..launches import Source
from .changes import Change
from .result import Edit

#: Text that means the same in every format that is read, and outside of quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_./:+=-]+")
_BULLET = re.compile(r"[ \t]*-[ \t]+")
_KEY_VALUE = re.compile(r"(?P<sep>[\"']?[ \t]*[:=][ \t]*)[\"']?(?i:true|yes|on|1)\b[\"']?")
_OPENING, _CLOSING = "[({,", ",])}"


def ways(change: Change, text: str) -> Iterator[tuple[Edit, ...]]:
    """Edits that would make a change, the likeliest way first."""
    words, new = change.words, change.new
    if not all(_PLAIN.fullmatch(word) for word in new):
        return
    kept = change.kept
    rest, added = words[kept:], new[kept:]
    if len(rest) == 1 and len(added) == 1:
        edit = _inside(rest[0], added[0], text, safe=change.safe)
        if edit is not None:
            yield (edit,)
            return
    if not rest and added:
        yield from _insertions(words[-1], added, text, safe=change.safe)
    elif rest and not added:
        yield from _removals(rest, text, safe=change.safe)
    elif len(rest) == 1 and added:
        yield from _expansions(rest[0], added, text, safe=change.safe)


def apply(text: str, edits: Iterable[Edit]) -> str:
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


# ------------------------------------------------------------- within one word


def _inside(word: Source, new: str, text: str, *, safe: bool) -> Edit | None:
    """The part of a word that differs, where it stands in the file as it is read."""
    old = word.text
    old_name, old_equals, old_value = old.partition("=")
    new_name, new_equals, new_value = new.partition("=")
    if old_equals != new_equals or not old:
        return None
    if old_name != new_name and old_value == new_value and old_name.startswith("--"):
        return _name(word, len(old_name), new_name, text, safe=safe)
    if old_name == new_name and old_equals:
        return _part(word.slice(len(old_name) + 1, len(old)), new_value, text, safe=safe)
    if not old_equals and not old.startswith("--"):
        return _part(word, new, text, safe=safe)
    return None


def _part(part: Source, new: str, text: str, *, safe: bool) -> Edit | None:
    if part.open or not part.text or not part.contiguous(0, len(part.text)):
        return None
    if not _PLAIN.fullmatch(part.text) or text[part.start : part.end] != part.text:
        return None
    return Edit(part.start, part.end, new, safe)


def _name(word: Source, length: int, name: str, text: str, *, safe: bool) -> Edit | None:
    """Another name in the place of a flag's, in the spelling that surrounds it."""
    if length < 4 or word.at(length - 1) - word.at(2) != length - 3:
        return None
    written = text[word.at(2) : word.at(length - 1) + 1]
    expected = word.text[2:length]
    new = name[2:]
    if written == expected.replace("-", "_") and "_" in written:
        new = new.replace("-", "_")
    elif written != expected:
        return None
    return Edit(word.at(2), word.at(length - 1) + 1, new, safe)


# ------------------------------------------------------- words come and words go


class _Spot:
    """How a word stands in the file: its quotes, and what separates it from others."""

    def __init__(self, word: Source, text: str) -> None:
        self.text = text
        start, end = word.start, word.end
        quote = text[start - 1 : start]
        self.quote = quote if quote and quote in "'\"" and text[end : end + 1] == quote else ""
        self.start, self.end = start - len(self.quote), end + len(self.quote)
        self.whole = (
            bool(word.text) and not word.open and word.contiguous(0, len(word.text))
            and text[start:end] == word.text
        )  # fmt: skip
        self.line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        self.line_end = len(text) if line_end < 0 else line_end
        before = text[self.line_start : self.start]
        after = text[self.end : self.line_end].strip()
        self.bullet = _BULLET.fullmatch(before) is not None
        self.own_line = not before.strip() and after in ("", ",")
        self.bare_line = after == ""
        left = text[: self.start].rstrip()[-1:]
        right = text[self.end :].lstrip()[:1]
        self.listed = bool(
            (left and left in _OPENING) or (right and right in _CLOSING and self.quote)
        )

    def joined(self, words: Iterable[str]) -> str:
        """Words side by side as this one stands, to be put inside its quotes."""
        between = ", " if self.listed else " "
        return f"{self.quote}{between}{self.quote}".join(words)

    def lines(self, words: Iterable[str]) -> str:
        """Words in lines of their own, as the line of this one is made."""
        between = "" if self.bullet else ","
        return f"{self.quote}{between}{self.break_}{self.quote}".join(words)

    @property
    def break_(self) -> str:
        """The end of a line, and what a line of its kind begins with."""
        ending = "\r\n" if self.text[self.line_end - 1 : self.line_end] == "\r" else "\n"
        return ending + self.text[self.line_start : self.start]


def _prefixed(word: Source, text: str) -> str:
    """What a wrapper puts before the name of a flag, such as `--sglang-`."""
    written = text[word.start : word.end]
    name = word.text[2:] if word.text.startswith("--") else ""
    if name and written.endswith(name) and written != word.text:
        return written[: -len(name)]
    return "--"


def _expansions(
    word: Source, new: tuple[str, ...], text: str, *, safe: bool
) -> Iterator[tuple[Edit, ...]]:
    """Several words, or one of another shape, in the place of one."""
    spot = _Spot(word, text)
    written = text[word.start : word.end]
    prefix = _prefixed(word, text)
    names = [prefix + one[2:] for one in new]
    if spot.whole or (prefix != "--" and written.startswith("--")):
        apart = spot.bullet or (spot.listed and spot.own_line)
        joined = spot.lines(names) if apart else spot.joined(names)
        yield (Edit(word.start, word.end, joined, safe),)
        return
    # A key of a mapping, or an argument by name: the value stands behind it.
    match = _KEY_VALUE.match(text, word.end)
    if match is None:
        return
    underscored = "_" in written
    pairs = [one[2:].partition("=") for one in new]
    if any(not equals for _, equals, _ in pairs):
        return
    keys = [name.replace("-", "_") if underscored else name for name, _, _ in pairs]
    for quote in ("", '"'):
        parts = [
            f"{key}{match.group('sep')}{quote}{value}{quote}"
            for key, (_, _, value) in zip(keys, pairs, strict=True)
        ]
        alone = not text[spot.line_start : spot.start].strip()
        if alone and not text[match.end() : spot.line_end].strip(" \t\r,"):
            for between in ("", ","):
                made = f"{between}{spot.break_}{spot.quote}".join(parts)
                yield (Edit(word.start, match.end(), made, safe),)
        yield (Edit(word.start, match.end(), f", {spot.quote}".join(parts), safe),)


def _insertions(
    word: Source, new: tuple[str, ...], text: str, *, safe: bool
) -> Iterator[tuple[Edit, ...]]:
    """Words behind one that stays."""
    spot = _Spot(word, text)
    if not spot.whole:
        return
    if (spot.bullet and spot.bare_line) or (spot.listed and spot.own_line):
        added = spot.lines(("", *new))
    elif spot.bullet:
        return
    else:
        added = spot.joined(("", *new))
    yield (Edit(word.end, word.end, added, safe),)


def _removals(words: tuple[Source, ...], text: str, *, safe: bool) -> Iterator[tuple[Edit, ...]]:
    """Words taken away with what separated them from their neighbours."""
    spots = [_Spot(word, text) for word in words]
    if not all(spot.whole for spot in spots):
        return
    if all(spot.bullet for spot in spots):
        if all(spot.bare_line for spot in spots):
            yield tuple(_line(spot, safe) for spot in spots)
        return
    first, last = spots[0], spots[-1]
    gaps = [text[left.end : right.start] for left, right in pairwise(spots)]
    if any(gap.strip(" \t\r\n\\,") or not gap for gap in gaps):
        return  # not in this order, or with a comment between them
    whole_lines = not text[first.line_start : first.start].strip() and not text[
        last.end : last.line_end
    ].strip(" \t\r,")
    if first.listed or last.listed:
        if whole_lines:
            yield (Edit(first.line_start, min(last.line_end + 1, len(text)), "", safe),)
        after = re.compile(r"[ \t]*,[ \t]*").match(text, last.end)
        if after is not None:
            yield (Edit(first.start, after.end(), "", safe),)
        before = re.compile(r",[ \t\r\n]*$").search(text[: first.start])
        if before is not None:
            yield (Edit(before.start(), last.end, "", safe),)
        return
    before = re.compile(r"(?:[ \t]|\\\r?\n)+$").search(text[: first.start])
    continues = text[: first.line_start].rstrip("\r\n").endswith("\\")
    rest = text[last.end : last.line_end].strip(" \t\r")
    leads = not text[first.line_start : first.start].strip()
    if (whole_lines and not continues) or (leads and continues and rest == "\\"):
        yield (Edit(first.line_start, min(last.line_end + 1, len(text)), "", safe),)
    elif leads and rest:
        after = re.compile(r"[ \t]+").match(text, last.end)
        if after is not None:
            yield (Edit(first.start, after.end(), "", safe),)
    if before is not None:
        yield (Edit(before.start(), last.end, "", safe),)


def _line(spot: _Spot, safe: bool) -> Edit:
    return Edit(spot.line_start, min(spot.line_end + 1, len(spot.text)), "", safe)
