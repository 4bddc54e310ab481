"""`attn-lint check PATHS` and `attn-lint launches PATHS`: launches in files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...matrix.record import replaced
from .. import options as o
from ..check import discover
from ..check.result import FileReport, Located
from ..check.runner import Options, Runner
from ..config import FORMATS, Config, find_config, load_config
from ..errors import EXIT_CLEAN, EXIT_FINDINGS, InputError, UsageError
from ..findings import SEVERITIES, Finding, as_severity
from ..terminal import Style, wants_color

FORMAT = o.Option("--output-format", "FORMAT", f"one of {', '.join(FORMATS)}", FORMATS)
LIST_FORMAT = o.Option("--output-format", "FORMAT", "text or json", ("text", "json"))
OUTPUT = o.Option("--output-file", "FILE", "write the report there instead of printing it")
STDIN_NAME = o.Option("--stdin-filename", "NAME", "the name that what comes from - would have")
FIX = o.Option("--fix", None, "make the safe fixes in the files")
UNSAFE = o.Option("--unsafe-fixes", None, "make the other fixes as well, with --fix or --diff")
DIFF = o.Option("--diff", None, "show what --fix would change, and change nothing")
EXCLUDE = o.Option("--exclude", "PATTERN", "leave these files out of folders", repeat=True)
REASON = o.Option("--require-reason", None, "ask for a reason beside each explicit backend")
ISOLATED = o.Option("--isolated", None, "read no configuration file")
ALLOW_EMPTY = o.Option("--allow-empty", None, "let paths without any file pass")

CHECK_OPTIONS = (
    o.GPU, o.CUDA, o.SGLANG, o.MATRIX, FORMAT, OUTPUT, STDIN_NAME, FIX, UNSAFE, DIFF, o.SELECT,
    o.IGNORE, o.FAIL_ON, o.EXIT_ZERO, EXCLUDE, REASON, o.LINT_CONFIG, ISOLATED, ALLOW_EMPTY,
    o.COLOR, o.VERBOSE,
)  # fmt: skip
LIST_OPTIONS = (
    o.SGLANG, o.MATRIX, LIST_FORMAT, OUTPUT, STDIN_NAME, EXCLUDE, o.LINT_CONFIG, ISOLATED,
    ALLOW_EMPTY, o.VERBOSE,
)  # fmt: skip

_HELP = {
    "check": "attn-lint check [OPTIONS] PATHS…|-   judge every SGLang launch in files",
    "launches": "attn-lint launches [OPTIONS] PATHS…|-   list every SGLang launch in files",
}


class _Request:
    """A command line of these commands, taken apart."""

    def __init__(self, command: str, arguments: Sequence[str], own: Sequence[o.Option]) -> None:
        self.given = o.take_own_options(arguments, own)
        self.paths = list(self.given.launch)
        for path in self.paths:
            if path.startswith("-") and path != "-" and not Path(path).exists():
                import difflib

                close = difflib.get_close_matches(path, [option.name for option in own], 1)
                hint = f"; did you mean {close[0]}?" if close else f"; see attn-lint {command} -h"
                raise UsageError(f"{command} has no option {path}{hint}")
        if not self.paths:
            raise UsageError(f"{command} needs paths: {_HELP[command]}")
        explicit = self.given.get(o.LINT_CONFIG)
        if self.given.has(ISOLATED):
            self.config = Config()
        else:
            first = Path(self.paths[0])
            start = first if first.is_dir() else first.parent
            found = find_config(str(start.resolve())) if self.paths[0] != "-" else None
            self.config = load_config(explicit or found or find_config(str(Path.cwd())))
        folder = self.given.get(o.MATRIX)
        self.runner = Runner(
            Options(
                self.given.get(o.GPU), self.given.get(o.CUDA), self.given.get(o.SGLANG),
                Path(folder) if folder else None, self.given.has(REASON),
            ),
            self.config,
        )  # fmt: skip

    def files(self) -> list[Path]:
        """Files that the paths stand for."""
        names = [name for name in self.paths if name != "-"]
        patterns = [*self.given.all(EXCLUDE), *self.config.exclude]
        return list(discover.files(names, patterns))

    def stdin(self) -> tuple[str, str] | None:
        """Name and text of what comes from standard input, if it is asked for."""
        if "-" not in self.paths:
            return None
        name = self.given.get(STDIN_NAME) or "stdin.sh"
        content = sys.stdin.buffer.read()
        text, problem = self.runner.decode(name, content)
        if problem is not None:
            raise InputError(f"{name}: {problem}")
        return name, text if text is not None else content.decode("utf-8", "replace")

    def wanted(self, finding: Finding) -> Finding | None:
        """The finding with its configured severity, or None where it is not wanted."""
        select = self.given.all(o.SELECT) or list(self.config.select)
        ignore = [*self.given.all(o.IGNORE), *self.config.ignore]
        if select and not _matches(finding, select):
            return None
        if _matches(finding, ignore):
            return None
        level = self.config.severity.get(finding.code)
        return replaced(finding, severity=as_severity(level)) if level else finding

    def write(self, text: str) -> None:
        """Print a report, or write it to the file asked for."""
        name = self.given.get(OUTPUT)
        if name is None:
            if text:
                print(text)
            return
        try:
            Path(name).write_text(text + "\n" if text else "", encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None


def _matches(finding: Finding, patterns: Sequence[str]) -> bool:
    return any(
        finding.code.startswith(pattern.upper()) or finding.name == pattern for pattern in patterns
    )


def _help(command: str, own: Sequence[o.Option]) -> int:
    print(f"usage: {_HELP[command]}\n\noptions:")
    for option in own:
        name = f"{option.name} {option.metavar}" if option.metavar else option.name
        print(f"  {name:24} {option.help}")
    return EXIT_CLEAN


def run(arguments: Sequence[str]) -> int:
    """Judge the launches of files."""
    if {"-h", "--help"} & set(arguments):
        return _help("check", CHECK_OPTIONS)
    request = _Request("check", arguments, CHECK_OPTIONS)
    gpu = request.given.get(o.GPU)
    if gpu is not None:
        request.runner.default_judge.platforms.find(gpu)
    reports: list[FileReport] = []
    count = 0
    fixing = request.given.has(FIX) or request.given.has(DIFF)
    if request.given.has(UNSAFE) and not fixing:
        raise UsageError("--unsafe-fixes needs --fix or --diff beside it")
    fixes = _Fixes(request) if fixing else None
    stdin = request.stdin()
    if stdin is not None:
        count += 1
        report = request.runner.check_text(*stdin)
        _select(request, report)
        if fixes is not None:
            return fixes.stdin(report)
        reports.append(report)
    paths = request.files()
    for path in paths:
        count += 1
        report = request.runner.check_path(path)
        if not (report.launches or report.located or report.skipped):
            continue
        _select(request, report)
        if fixes is not None:
            report = fixes.file(path, report)
        reports.append(report)
    if not count and not request.given.has(ALLOW_EMPTY):
        raise InputError(f"no files below {', '.join(request.paths)}")
    if fixes is not None and fixes.diff:
        changed = fixes.changed and not request.given.has(o.EXIT_ZERO)
        return EXIT_FINDINGS if changed else EXIT_CLEAN
    _report(request, reports, count)
    for note in request.runner.notes:
        print(f"note: {note}", file=sys.stderr)
    if fixes is not None:
        if fixes.changed:
            print(f"fixed {fixes.changed} file{'s' if fixes.changed != 1 else ''}", file=sys.stderr)
        if fixes.failed:
            raise InputError("\n".join(fixes.failed))
    return _exit_code(request, reports)


def _select(request: _Request, report: FileReport) -> None:
    kept: list[Located] = []
    for located in report.located:
        finding = request.wanted(located.finding)
        if finding is not None:
            located.finding = finding
            kept.append(located)
    report.located = kept


def _report(request: _Request, reports: list[FileReport], count: int) -> None:
    output_format = request.given.get(FORMAT) or request.config.output_format or "text"
    from ..reporters import source

    verbose = request.given.has(o.VERBOSE)
    if output_format in ("text", "concise"):
        to_file = request.given.get(OUTPUT) is not None
        style = Style(not to_file and wants_color(request.given.get(o.COLOR), sys.stdout))
        if output_format == "concise":
            request.write("\n".join(source.concise(reports, verbose=verbose)))
            return
        parts = list(source.render(reports, style, verbose=verbose))
        parts.append(source.summary(reports, count))
        request.write("\n\n".join(parts))
        return
    from ..reporters.machine import BY_NAME
    from .version import installed_version

    codes = request.runner.default_judge.statements.codes
    if output_format != "json" and not verbose:
        # Annotations are for what is sure; JSON carries the rest, marked as uncertain.
        for report in reports:
            report.located = [one for one in report.located if one.finding.certain]
    request.write(BY_NAME[output_format](reports, installed_version() or "0", codes))


def _exit_code(request: _Request, reports: list[FileReport]) -> int:
    if request.given.has(o.EXIT_ZERO):
        return EXIT_CLEAN
    level = request.given.get(o.FAIL_ON) or request.config.fail_on or "warning"
    threshold = SEVERITIES.index(as_severity(level))
    reached = any(
        located.finding.certain and SEVERITIES.index(located.finding.severity) <= threshold
        for report in reports
        for located in report.located
    )
    return EXIT_FINDINGS if reached else EXIT_CLEAN


# ------------------------------------------------------------------------- fixes


class _Fixes:
    """Makes the fixes that a command line asks for."""

    def __init__(self, request: _Request) -> None:
        from ..check.fixer import Fixer

        self.request = request
        self.diff = request.given.has(DIFF)
        self.fixer = Fixer(self._checked, unsafe=request.given.has(UNSAFE))
        self.changed = 0
        self.failed: list[str] = []

    def _checked(self, name: str, text: str) -> FileReport:
        report = self.request.runner.check_text(name, text)
        _select(self.request, report)
        return report

    def file(self, path: Path, report: FileReport) -> FileReport:
        """Fix a file, or show how; returns the report on what is left."""
        if not self.fixer.fixable(report):
            return report
        before = report.lines.text
        after, fixed = self.fixer.fixed(report)
        if after == before:
            return report
        self.changed += 1
        if self.diff:
            _print_diff(report.path, before, after)
            return report
        try:
            write_atomically(path, report.encoded(after), report.encoded(before))
        except InputError as error:
            self.changed -= 1
            self.failed.append(str(error))
            return report
        return fixed

    def stdin(self, report: FileReport) -> int:
        """With - the fixed text is what is printed, and what is left goes to standard error."""
        before = report.lines.text
        after, fixed = self.fixer.fixed(report)
        if self.diff:
            _print_diff(report.path, before, after)
            changed = after != before and not self.request.given.has(o.EXIT_ZERO)
            return EXIT_FINDINGS if changed else EXIT_CLEAN
        out = getattr(sys.stdout, "buffer", None)
        if out is None:
            sys.stdout.write(report.mark + after)
        else:
            sys.stdout.flush()
            out.write(report.encoded(after))
            out.flush()
        from ..reporters import source

        for line in source.concise([fixed], verbose=self.request.given.has(o.VERBOSE)):
            print(line, file=sys.stderr)
        return _exit_code(self.request, [fixed])


def _print_diff(name: str, before: str, after: str) -> None:
    import difflib

    for line in difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    ):
        sys.stdout.write(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")


def write_atomically(path: Path, content: bytes, before: bytes) -> None:
    """Replace a file's content in one step, keeping its mode; a link's target is what changes.

    `before` is what the file held when it was read.

    Raises:
        InputError: the folder or the file cannot be written, or somebody else has changed it.
    """
    import tempfile

    try:
        target = path.resolve()
        if target.read_bytes() != before:
            raise InputError(f"{path}: changed by another program meanwhile; nothing was written")
        if not os.access(target, os.W_OK):
            raise InputError(f"{path}: cannot be written; nothing was changed")
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _copy_rights(target, name)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: {reason}; nothing was changed") from None


def _copy_rights(source: Path, name: str) -> None:
    """Owner, mode and further attributes of a file, as far as they may be given away."""
    import contextlib
    import shutil

    info = source.stat()
    with contextlib.suppress(OSError):
        os.chown(name, info.st_uid, info.st_gid)
    shutil.copystat(source, name)
    os.utime(name)


# --------------------------------------------------------------------- inventory


def run_launches(arguments: Sequence[str]) -> int:
    """List the launches of files, judged or not."""
    if {"-h", "--help"} & set(arguments):
        return _help("launches", LIST_OPTIONS)
    request = _Request("launches", arguments, LIST_OPTIONS)
    from ..check.inventory import entry

    runner = request.runner
    table = runner.default_judge.flags
    reports: list[FileReport] = []
    stdin = request.stdin()
    if stdin is not None:
        reports.append(runner.extract(*stdin))
    paths = request.files()
    for path in paths:
        text, problem = runner.read(path)
        if problem is not None:
            print(f"note: {path.as_posix()}: {problem}", file=sys.stderr)
        elif text is not None:
            reports.append(runner.extract(path.as_posix(), text))
    if not paths and stdin is None and not request.given.has(ALLOW_EMPTY):
        raise InputError(f"no files below {', '.join(request.paths)}")
    rows = [
        entry(report.path, found, report.lines, table)
        for report in reports
        for found in report.launches
    ]
    if request.given.get(LIST_FORMAT) == "json":
        request.write(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        lines = []
        for row in rows:
            flags = " ".join(
                name if value is True else f"{name} {value}" for name, value in row["flags"].items()
            )
            lines.append(f"{row['path']}:{row['line']}: {row['kind']} {row['engine']} {flags}")
        request.write("\n".join(lines))
    if request.given.has(o.VERBOSE):
        for report in reports:
            for skipped in report.skipped:
                line, column = report.lines.place(skipped.start)
                print(
                    f"{report.path}:{line}:{column}: skipped {skipped.what}: {skipped.reason}",
                    file=sys.stderr,
                )
    return EXIT_CLEAN
