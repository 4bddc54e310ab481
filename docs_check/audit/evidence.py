"""The sources of the matrix's statements: whether they are still there, and still the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..facts.code import CodeFacts
from ..source.modules import Codebase, Evidence
from ..source.segments import Segment
from . import codes
from .marked import read, sources
from .subject import Subject

#: File with the fingerprints of a release's sources, beside its data.
RECORD = "fingerprints.yaml"
#: Written from the source by itself, and compared as a whole.
_GENERATED = ("flags.yaml", RECORD)


@dataclass(slots=True)
class Use:
    """A source and the statements that rest on it."""

    file: str
    symbol: str
    fingerprint: str | None
    path: str
    line: int
    owners: list[str] = field(default_factory=list)


def uses(folder: Path, shown: str) -> list[Use]:
    """Every source of a release's data, once."""
    found: dict[tuple[str, str], Use] = {}
    for file in sorted(folder.rglob("*.yaml")):
        name = file.relative_to(folder).as_posix()
        if name in _GENERATED:
            continue
        for source, line, owner in sources(read(file)):
            if not isinstance(source.get("file"), str):
                continue
            key = (source["file"], source.get("symbol") or "")
            use = found.get(key)
            if use is None:
                given = source.get("fingerprint")
                use = found[key] = Use(*key, given, f"{shown}/{name}", line)
            if owner and owner not in use.owners:
                use.owners.append(owner)
    return list(found.values())


def recorded(folder: Path) -> dict[str, str]:
    """The fingerprints on record: `file:symbol` -> hash."""
    file = folder / RECORD
    if not file.is_file():
        return {}
    content = read(file)
    entries = content.get("fingerprints") if isinstance(content, dict) else None
    return {str(key): str(value) for key, value in (entries or {}).items()}


def record(folder: Path, facts: CodeFacts, release: str) -> str:
    """The text of a record, from the release's own source."""
    lines = [
        "# A hash of the syntax of every place in the source that a statement of this release",
        "# rests on: what differs in another release is to be read again. Generated; do not edit:",
        "#",
        f"#     attn-lint matrix audit --source TREE --sglang {release} --record",
        f"release: {release}",
        "fingerprints:",
    ]
    for use in sorted(uses(folder, ""), key=lambda one: (one.file, one.symbol)):
        found = fingerprint(facts.codebase, use.file, use.symbol)
        if found is not None:
            lines.append(f'  "{use.file}:{use.symbol}": "{found}"')
    return "\n".join(lines) + "\n"


def check(subject: Subject) -> None:
    """Look up every source."""
    codebase, known = subject.facts.codebase, recorded(subject.folder)
    for use in uses(subject.folder, subject.shown):
        wanted = use.fingerprint or known.get(f"{use.file}:{use.symbol}")
        now = fingerprint(codebase, use.file, use.symbol)
        if now is None:
            _gone(subject, use, wanted)
        elif wanted is not None and now != wanted:
            segment = next(_segments(codebase, use.file, use.symbol), None)
            line = segment.line if segment is not None else 0
            subject.report(
                codes.CHANGED, use.path, use.line,
                message=f"{_named(use)} was rewritten; {_rests(use)}",
                claim=f"{_named(use)} is as in {subject.release}", actual="its syntax differs",
                places=[Evidence(use.file, line, use.symbol)], certainty="review",
                subject=f"{use.file}:{use.symbol}",
            )  # fmt: skip


def _gone(subject: Subject, use: Use, wanted: str | None) -> None:
    codebase = subject.facts.codebase
    there = use.file in codebase.tree.files()
    if there and codebase.module(use.file) is None:
        return  # reported as unreadable
    what = f"no symbol {use.symbol} in {use.file}" if there else f"no file {use.file}"
    for file, symbol in _elsewhere(subject.facts, use):
        same = wanted is not None and fingerprint(codebase, file, symbol) == wanted
        segment = next(_segments(codebase, file, symbol), None)
        told = ", unchanged" if same else ""
        subject.report(
            codes.MOVED, use.path, use.line,
            message=f"{_named(use)} is now in {file}{told}; {_rests(use)}",
            claim=f"{_named(use)} is in {use.file}", actual=f"{symbol} is in {file}{told}",
            places=[Evidence(file, segment.line if segment is not None else 0, symbol)],
            certainty="proved" if same else "partial", subject=f"{use.file}:{use.symbol}",
        )  # fmt: skip
        return
    subject.report(
        codes.VANISHED, use.path, use.line, message=f"{what}; {_rests(use)}",
        claim=f"{_named(use)} is there", actual=what, subject=f"{use.file}:{use.symbol}",
    )  # fmt: skip


def _named(use: Use) -> str:
    return f"`{use.symbol}` of {use.file}" if use.symbol else use.file


def _rests(use: Use) -> str:
    shown = use.owners[:4]
    more = len(use.owners) - len(shown)
    rest = f" and {more} more" if more > 0 else ""
    return f"on it: {', '.join(shown)}{rest}" if shown else "one statement rests on it"


def _elsewhere(facts: CodeFacts, use: Use) -> Iterator[tuple[str, str]]:
    """Another place of a symbol, where there is exactly one; of a file, one of its name."""
    if not use.symbol:
        name = use.file.rpartition("/")[2]
        same = [file for file in facts.tree.files() if file.rpartition("/")[2] == name]
        if len(same) == 1:
            yield same[0], ""
        return
    head = use.symbol.partition(".")[0]
    needle = head.encode()
    pattern = re.compile(
        rb"^(?:[ \t]*(?:async )?(?:def|class) )?%s\b(?:\s*[(:]|\s*=[^=])" % re.escape(needle), re.M
    )
    files = [
        file
        for file in facts.tree.candidates(["srt", "multimodal_gen"])
        if needle in (raw := facts.tree.raw(file)) and pattern.search(raw)
    ]
    found = [file for file in files if any(_segments(facts.codebase, file, use.symbol))]
    if len(found) == 1:
        yield found[0], use.symbol


def fingerprint(codebase: Codebase, file: str, symbol: str) -> str | None:
    """The fingerprint of a symbol, or of a file; None where it is not there."""
    if not symbol:
        return "present" if codebase.tree.exists(file) else None
    if file not in codebase.tree.files():
        return None
    direct = codebase.fingerprint(file, symbol)
    if direct is not None:
        return direct
    segment = next(_segments(codebase, file, symbol), None)
    return codebase.fingerprint_of(segment) if segment is not None else None


def _segments(codebase: Codebase, file: str, symbol: str) -> Iterator[Segment]:
    """Segments that define a symbol, also inside of blocks and functions."""
    module = codebase.module(file) if file in codebase.tree.files() else None
    if module is None:
        return
    found = module.find(symbol)
    if found:
        yield from found
        return
    last = re.escape(symbol.rpartition(".")[2])
    pattern = re.compile(
        rf"^[ \t]*(?:async )?(?:def|class) {last}\b|^[ \t]*{last}\s*(?::[^=\n]*)?=[^=]", re.M
    )
    outer = symbol.rpartition(".")[0]
    inside = list(_segments(codebase, file, outer)) if outer else module.segments
    for segment in inside:
        if pattern.search(segment.blanked):
            yield segment
