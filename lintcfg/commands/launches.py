"""`attn-lint launches PATHS`: the inventory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .. import options as o
from ..check.inventory import entry
from ..check.result import FileReport
from ..errors import EXIT_CLEAN, InputError
from ..json_text import dumps
from ..terminal import printable
from . import file_request as f


def run(arguments: Sequence[str]) -> int:
    """List the launches of files, judged or not."""
    if {"-h", "--help"} & set(arguments):
        return f.show_help("launches", f.LIST_OPTIONS)
    request = f.FileRequest("launches", arguments, f.LIST_OPTIONS)
    runner = request.runner
    table = runner.default_judge.flags
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []

    def take(report: FileReport) -> None:
        rows.extend(entry(report.path, found, report.lines, table) for found in report.launches)
        for one in report.skipped:
            line, column = report.lines.place(one.start)
            skipped.append(
                f"{printable(report.path)}:{line}:{column}: skipped {one.what}: {one.reason}"
            )

    stdin = request.stdin()
    if stdin is not None:
        take(runner.extract(*stdin[:2]))
    paths = request.files()
    for path in paths:
        content = runner.read(path)
        if content.problem is not None:
            print(f"note: {path.as_posix()}: {content.problem}", file=sys.stderr)
        elif content.text is not None:
            take(runner.extract(path.as_posix(), content.text))
    if not paths and stdin is None and not request.given.has(f.ALLOW_EMPTY):
        raise InputError(f"no files below {', '.join(request.paths)}")
    if request.given.get(f.LIST_FORMAT) == "json":
        request.write(dumps(rows, indent=1))
    else:
        lines = []
        for row in rows:
            flags = " ".join(
                name if value is True else f"{name} {value}" for name, value in row["flags"].items()
            )
            lines.append(
                f"{printable(row['path'])}:{row['line']}: {row['kind']} {row['engine']} {flags}"
            )
        request.write("\n".join(lines))
    if request.given.has(o.VERBOSE):
        for text in skipped:
            print(text, file=sys.stderr)
    return EXIT_CLEAN
