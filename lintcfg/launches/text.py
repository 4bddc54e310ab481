"""Text that remembers where it stands in its file.

A word of a launch may come through quotes, continuations, YAML folding and variables; each of its
characters still knows the place in the file that it was typed at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter

#: Stands for template text while a format is parsed; as long as what it replaces.
MASK = "\ue000"


@dataclass(frozen=True, slots=True)
class Source:
    """A text, the place of each part of it in the file, and the parts that are not known.

    Attributes:
        text: the characters.
        starts: local offsets at which a run of characters begins that are neighbours in the file.
        places: the file offset of each run's first character.
        holes: half-open ranges of the text that only a shell or a template could fill in, in order.
    """

    text: str
    starts: tuple[int, ...] = (0,)
    places: tuple[int, ...] = (0,)
    holes: tuple[tuple[int, int], ...] = ()

    def at(self, offset: int) -> int:
        """File offset of a local one."""
        run = bisect_right(self.starts, offset) - 1
        return self.places[run] + offset - self.starts[run]

    @property
    def start(self) -> int:
        """File offset of the first character."""
        return self.places[0]

    @property
    def end(self) -> int:
        """File offset after the last character."""
        return self.at(len(self.text) - 1) + 1 if self.text else self.places[0]

    @property
    def open(self) -> bool:
        """Whether part of it is not known."""
        return bool(self.holes)

    def slice(self, start: int, end: int) -> Source:
        """Part of the text."""
        end = min(end, len(self.text))
        first = bisect_right(self.starts, start) - 1
        starts, places = [0], [self.places[first] + start - self.starts[first]]
        for run in range(first + 1, len(self.starts)):
            if self.starts[run] >= end:
                break
            starts.append(self.starts[run] - start)
            places.append(self.places[run])
        holes = []
        for number in range(self._hole_from(start), len(self.holes)):
            left, right = self.holes[number]
            if left >= end:
                break
            holes.append((max(left, start) - start, min(right, end) - start))
        return Source(self.text[start:end], tuple(starts), tuple(places), tuple(holes))

    def _hole_from(self, position: int) -> int:
        """Number of the first hole that ends behind a position."""
        return bisect_right(self.holes, position, key=itemgetter(1)) if self.holes else 0

    def covers(self, place: int) -> bool:
        """Whether one of the characters stands at a place in the file."""
        ends = (*self.starts[1:], len(self.text))
        return any(
            there <= place < there + end - start
            for start, end, there in zip(self.starts, ends, self.places, strict=True)
        )

    def contiguous(self, start: int, end: int) -> bool:
        """Whether the characters from `start` to `end` are neighbours in the file."""
        return start >= end or self.at(end - 1) - self.at(start) == end - 1 - start

    def opened(self) -> Source:
        """The same text, none of it known."""
        return Source(self.text, self.starts, self.places, ((0, max(1, len(self.text))),))

    def split(self) -> list[Source]:
        """Words between blanks; text that is not known keeps its blanks."""
        words = []
        position, count = 0, len(self.text)
        while position < count:
            if self.text[position].isspace() and not self.in_hole(position):
                position += 1
                continue
            end = position
            while end < count and (not self.text[end].isspace() or self.in_hole(end)):
                end += 1
            words.append(self.slice(position, end))
            position = end
        return words

    def in_hole(self, position: int) -> bool:
        """Whether a character is one that is not known."""
        number = self._hole_from(position)
        return number < len(self.holes) and self.holes[number][0] <= position

    def lines(self, *, breaks: bool = False) -> Iterator[Source]:
        """Lines, with their breaks if asked for.

        What Python calls a line may end at a form feed and the like; nobody else's does.
        """
        position = 0
        while position < len(self.text):
            end = self.text.find("\n", position) + 1 or len(self.text)
            line = self.slice(position, end)
            yield line if breaks else line.slice(0, len(line.text.rstrip("\r\n")))
            position = end


def whole(text: str) -> Source:
    """A whole file, with line breaks of one kind."""
    if "\r\n" not in text:
        return Source(text)
    starts = [0]
    places = [0]
    length = 0
    position = 0
    while (found := text.find("\r\n", position)) >= 0:
        length += found - position
        # The break stands where its second character does.
        starts.append(length)
        places.append(found + 1)
        length += 1
        position = found + 2
        starts.append(length)
        places.append(position)
    runs = dict(zip(starts, places, strict=True))
    return Source(text.replace("\r\n", "\n"), tuple(runs), tuple(runs.values()))


#: Longest word that Linux passes to a program (MAX_ARG_STRLEN). What doubles itself ends here.
LONGEST_WORD = 131_072
#: More words than any command has.
MOST_WORDS = 10_000


def capped(word: Source) -> Source:
    """The word, or nothing known in its place where it is longer than any argument can be."""
    if len(word.text) <= LONGEST_WORD and len(word.holes) <= MOST_WORDS:
        return word
    return made("", word.start, known=False)


def join(parts: Iterable[Source], between: str = "") -> Source:
    """Texts one behind the other, with `between` standing where the text before it ends."""
    text: list[str] = []
    starts: list[int] = []
    places: list[int] = []
    holes: list[tuple[int, int]] = []
    length = 0
    last: Source | None = None
    for part in parts:
        if last is not None and between:
            starts.append(length)
            places.append(last.end)
            text.append(between)
            length += len(between)
        starts += [start + length for start in part.starts]
        places += part.places
        holes += [(left + length, right + length) for left, right in part.holes]
        text.append(part.text)
        length += len(part.text)
        last = part
    if last is None:
        return Source("")
    # An empty part leaves two runs with one start; the later one is the one that holds.
    runs = dict(zip(starts, places, strict=True))
    if length in runs and len(runs) > 1:
        del runs[length]
    ordered = sorted(runs)
    return Source("".join(text), tuple(ordered), tuple(runs[key] for key in ordered), tuple(holes))


def made(text: str, place: int, *, known: bool = True) -> Source:
    """Text that is not in the file, standing at a place in it."""
    source = Source(text, (0,), (place,))
    return source if known else source.opened()


def aligned(value: str, raw: Source) -> Source:
    """Map a decoded value onto the raw text it was decoded from, character by character.

    Quotes, escapes, indentation and breaks that decoding dropped are skipped; a blank stands for
    any run of white space. Where the texts do not fit, the rest stands at the last fitting place.
    """
    text = raw.text
    found = text.find(value)
    if found >= 0 and value:
        return raw.slice(found, found + len(value))
    starts: list[int] = []
    places: list[int] = []
    position = 0
    expected = -1
    count = len(text)
    for index, character in enumerate(value):
        here = position
        if character.isspace():
            while here < count and not text[here].isspace() and text[here] != "\\":
                here += 1
        else:
            limit = here
            while limit < count and text[limit] != character:
                limit += 1
            here = limit
        if here >= count:
            here = min(position, max(count - 1, 0))
            position = here
        elif text[here] == "\\" and character.isspace():
            position = here + 2
        else:
            position = here + 1
        place = raw.at(here)
        if place != expected:
            starts.append(index)
            places.append(place)
        expected = place + 1
    if not starts:
        return made("", raw.start)
    return Source(value, tuple(starts), tuple(places))


@dataclass(slots=True)
class Lines:
    """Line and column of offsets in a file, both from 1; columns count characters."""

    text: str
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            self.starts.append(position + 1)
            position = self.text.find("\n", position + 1)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of a line, without its break."""
        start = self.starts[number - 1]
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def offset(self, line: int, column: int = 1) -> int:
        """Offset of a line and column."""
        return self.starts[min(line, len(self.starts)) - 1] + column - 1


def unmasked(source: Source, text: str) -> Source:
    """Put back what was masked, from the text of the file."""
    if MASK not in source.text:
        return source
    characters = [
        text[place] if character == MASK and (place := source.at(number)) < len(text) else character
        for number, character in enumerate(source.text)
    ]
    return replace(source, text="".join(characters))
