"""Corrects the cells and lists of a page that have one right value."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .drift.findings import DriftFinding, PageFix
from .errors import InputError

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def fixed(text: str, findings: Iterable[DriftFinding]) -> tuple[str, list[DriftFinding]]:
    """The text with the fixes of findings made, and the findings whose fix was made.

    A fix is left out where the page no longer has what it replaces, or where another one has
    changed the same place already. Line ends stay as they are.
    """
    lines = _lines(text)
    by_line: dict[int, list[tuple[PageFix, DriftFinding]]] = {}
    for finding in findings:
        if finding.fix is not None:
            by_line.setdefault(finding.fix.line, []).append((finding.fix, finding))
    made: list[DriftFinding] = []
    for number, wanted in by_line.items():
        if not 0 < number <= len(lines):
            continue
        line, taken = lines[number - 1], len(lines[number - 1]) + 1
        # From right to left, so that columns hold for what is still to come.
        for fix, finding in sorted(wanted, key=lambda one: -one[0].column):
            start, end = fix.column - 1, fix.column - 1 + len(fix.old)
            if end <= taken and line[start:end] == fix.old:
                line = line[:start] + fix.new + line[end:]
                made.append(finding)
                taken = start
        lines[number - 1] = line
    return "".join(lines), made


def _lines(text: str) -> list[str]:
    """Lines with their ends, by the same ends as a page is read with."""
    return _LINE.findall(text)


def difference(path: str, before: str, after: str) -> str:
    """A unified diff; empty where nothing changes."""
    parts = []
    for line in difflib.unified_diff(_lines(before), _lines(after), path, path):
        parts.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(parts)


def write(path: Path, text: str) -> None:
    """Replace a page's content in one step, keeping its mode; a link's target is what changes.

    Raises:
        InputError: the folder or the file cannot be written.
    """
    target = path.resolve()
    try:
        mode = target.stat().st_mode & 0o7777
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
            Path(name).chmod(mode)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
