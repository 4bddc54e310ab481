"""Comments for attn-lint: `# attn-lint: ignore[ATT201] -- reason`, `# attn-lint: gpu=h100`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .result import FileReport, Located

_COMMENT = re.compile(r"(?P<mark>#|//|<!--|\{/\*)\s*attn-lint:\s*(?P<text>.*)")
_IGNORE = re.compile(
    r"(?P<file>file-)?ignore(?:\[(?P<codes>[^\]]*)\])?(?P<rest>\s*(?:--.*|-->.*|\*/.*|$))?"
)
_SETTING = re.compile(r"(?P<name>[\w-]+)=(?P<value>[\w.+-]+)")
_END = re.compile(r"\s*(?:-->|\*/\}).*$|\s+--\s.*$|\s*$")
#: Words of the docs checker, which reads its own.
_DOCS = ("table", "end")
_SETTINGS = ("gpu", "sglang", "cuda")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


@dataclass(slots=True)
class Suppression:
    """A comment that silences findings.

    A comment behind something speaks for its line; one on a line of its own for the next line,
    and for the whole launch if that line begins one.
    """

    line: int
    column: int
    end_column: int
    codes: tuple[str, ...]
    alone: bool
    whole_file: bool
    target: int
    used: set[str] = field(default_factory=set)

    def covers(self, located: Located, launch_line: int | None) -> bool:
        """Whether it silences a finding; the codes that do are noted."""
        here = (
            self.whole_file
            or located.place.line == self.target
            or (launch_line is not None and launch_line == self.target)
        )
        if not here:
            return False
        if not self.codes:
            self.used.add("")
            return True
        finding = located.finding
        meant = [
            code
            for code in self.codes
            if finding.code.startswith(code.upper()) or finding.name == code
        ]
        self.used.update(meant)
        return bool(meant)

    @property
    def unused(self) -> tuple[str, ...]:
        """Codes that silence nothing; an empty one where it names none."""
        return tuple(code for code in self.codes or ("",) if code not in self.used)


@dataclass(frozen=True, slots=True)
class Oddity:
    """A comment that says nothing, or part of one, with what is wrong about it."""

    line: int
    column: int
    end_column: int
    problem: str


@dataclass(slots=True)
class Comments:
    """The comments of a file that are meant for attn-lint."""

    suppressions: list[Suppression] = field(default_factory=list)
    settings: list[tuple[int, int, str, str]] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)


def find(text: str, *, markup: bool = False) -> Comments:
    """The comments of a file; in `markup`, those with a hash count in blocks of code only."""
    out = Comments()
    if "attn-lint:" not in text:
        return out
    lines = text.split("\n")
    for number, line, match in _comments(lines, markup):
        said = match.group("text").rstrip("\r")
        column, end = match.start() + 1, len(line.rstrip("\r")) + 1
        ignore = _IGNORE.match(said)
        if ignore is not None and ignore.group("rest") is not None:
            alone = not line[: match.start()].strip()
            given = ignore.group("codes")
            codes = tuple(code.strip() for code in (given or "").split(",") if code.strip())
            if given is not None and not codes:
                out.oddities.append(Oddity(number, column, end, "it names no code"))
                continue
            target = _target(lines, number) if alone else number
            out.suppressions.append(
                Suppression(number, column, end, codes, alone, bool(ignore.group("file")), target)
            )
            continue
        problem = _settings(said, number, column, out)
        if problem is not None:
            out.oddities.append(Oddity(number, column, end, problem))
    return out


def _comments(lines: Sequence[str], markup: bool) -> Iterator[tuple[int, str, re.Match[str]]]:
    fence = ""
    for number, line in enumerate(lines, 1):
        if markup:
            mark = _FENCE.match(line)
            if mark is not None and not fence:
                fence = mark.group(1)
            elif mark is not None and mark.group(1).startswith(fence):
                fence = ""
        if "attn-lint:" not in line:
            continue
        match = _COMMENT.search(line)
        if match is None or (markup and not fence and match.group("mark") in ("#", "//")):
            continue
        if match.start() and line[match.start() - 1] in "`'\"":
            continue  # spoken of, not said
        yield number, line, match


def _target(lines: Sequence[str], number: int) -> int:
    """The line that a comment on a line of its own speaks for."""
    target = number + 1
    while target <= len(lines):
        stripped = lines[target - 1].strip()
        if stripped and not stripped.startswith("#") and _FENCE.match(stripped) is None:
            break
        target += 1
    return target


def _settings(said: str, number: int, column: int, out: Comments) -> str | None:
    """Settings of a comment; returns what is wrong with it."""
    body = _END.sub("", said)
    if body.split(" ", 1)[0] in _DOCS:
        return None
    found = list(_SETTING.finditer(body))
    if not found or _SETTING.sub("", body).strip(" ,;"):
        close = _near(body.split("[", 1)[0].split("=", 1)[0].strip())
        return f"{body[:60]!r} is nothing that it knows{close}"
    for match in found:
        name = match.group("name")
        if name not in _SETTINGS:
            return f"{name!r} is no setting of it{_near(name)}"
        out.settings.append((number, column, name, match.group("value")))
    return None


def _near(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, ("ignore", "file-ignore", *_SETTINGS), 1)
    return (
        f"; did you mean {close[0]!r}?" if close else "; it knows ignore[…], gpu=, sglang=, cuda="
    )


def apply(report: FileReport, suppressions: Sequence[Suppression]) -> list[Located]:
    """Findings that remain."""
    kept = []
    for located in report.located:
        line = None
        if located.launch is not None:
            line = report.lines.place(report.launches[located.launch].start)[0]
        silencers = [one for one in suppressions if one.covers(located, line)]
        if not silencers:
            kept.append(located)
    return kept
