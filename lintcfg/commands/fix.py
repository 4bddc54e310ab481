"""`--fix` and `--diff` of `attn-lint check`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import options as o
from ..check import write
from ..check.fixer import Fixer
from ..check.result import FileReport, Told
from ..errors import InputError
from . import file_request as f
from .check import Check


def _fixer(check: Check) -> Fixer:
    return Fixer(check.checked, unsafe=check.request.given.has(f.UNSAFE))


def fix_files(check: Check, paths: Sequence[Path], finish: Callable[[Sequence[Told]], int]) -> int:
    """Fix files, or show how; a file that cannot be written keeps no other from it."""
    fixer = _fixer(check)
    only_shown = check.request.given.has(f.DIFF)
    reports, failed = [], []
    changed = 0
    for path in paths:
        report = check.file(path)
        before, written = report.lines.text, report.encoding
        after, fixed = fixer.fixed(report)
        if after != before and only_shown:
            _print_diff(report.path, before, after)
            changed += 1
        elif after != before:
            try:
                write.replace(path, written.encode(after), written.encode(before))
            except InputError as error:
                failed.append(str(error))
            else:
                changed += 1
                report = fixed
        reports.append(check.tell(report))
    if only_shown:
        return check.code(changed > 0)
    code = finish(reports)
    if changed:
        print(f"fixed {changed} file{'s' if changed != 1 else ''}", file=sys.stderr)
    if failed:
        raise InputError("\n".join(failed))
    return code


def fix_stdin(check: Check, report: FileReport) -> int:
    """Print the fixed text; what is left goes to standard error."""
    before = report.lines.text
    after, fixed = _fixer(check).fixed(report)
    if check.request.given.has(f.DIFF):
        _print_diff(report.path, before, after)
        return check.code(after != before)
    content = report.encoding.encode(after)
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(content.decode("utf-8", "replace"))
    else:
        sys.stdout.flush()
        out.write(content)
        out.flush()
    from ..reporters import source

    told = check.tell(fixed)
    for line in source.concise([told], verbose=check.request.given.has(o.VERBOSE)):
        print(line, file=sys.stderr)
    return check.code(told.fails)


def _print_diff(name: str, before: str, after: str) -> None:
    import difflib

    # A form feed or a lone carriage return ends no line for those who apply the difference.
    for line in difflib.unified_diff(_lines(before), _lines(after), name, name):
        sys.stdout.write(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
