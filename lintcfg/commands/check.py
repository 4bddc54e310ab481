"""`attn-lint check PATHS`: judges the launches in files."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import options as o
from ..basis import numbers
from ..check.encoding import UTF8, Encoding
from ..check.fixer import mark_fixable
from ..check.result import FileReport, Located, Told, told
from ..errors import EXIT_CLEAN, EXIT_FINDINGS, InputError, UsageError
from ..findings import SEVERITIES, as_severity
from ..terminal import Style, printable, wants_color
from . import file_request as f


class Check:
    """One run of the command."""

    def __init__(self, request: f.FileRequest) -> None:
        self.request = request

    def select(self, report: FileReport) -> FileReport:
        """Leave out of a report what is not wanted."""
        kept: list[Located] = []
        config = self.request.runner.config_for(report.path)
        for located in report.located:
            finding = self.request.wanted(located.finding, config)
            if finding is not None:
                located.finding = finding
                kept.append(located)
        report.located = kept
        return report

    def checked(self, name: str, text: str, written: Encoding = UTF8) -> FileReport:
        """The report on a text; `written` says how it is encoded."""
        return self.select(self.request.runner.check_text(name, text, written))

    def file(self, path: Path) -> FileReport:
        """The report on a file."""
        return self.select(self.request.runner.check_path(path))

    def tell(self, report: FileReport) -> Told:
        """What is told of a file."""
        mark_fixable(report, self.checked)
        return told(report, fails=self.fails(report))

    def fails(self, report: FileReport) -> bool:
        """Whether a finding reaches the threshold."""
        config = self.request.runner.config_for(report.path)
        level = self.request.given.get(o.FAIL_ON) or config.fail_on or "warning"
        threshold = SEVERITIES.index(as_severity(level))
        return any(
            located.finding.certain and SEVERITIES.index(located.finding.severity) <= threshold
            for located in report.located
        )

    def code(self, fails: bool) -> int:
        """The exit code."""
        return EXIT_FINDINGS if fails and not self.request.given.has(o.EXIT_ZERO) else EXIT_CLEAN


def run(arguments: Sequence[str]) -> int:
    """Judge the launches of files."""
    if {"-h", "--help"} & set(arguments):
        return f.show_help("check", f.CHECK_OPTIONS)
    request = f.FileRequest("check", arguments, f.CHECK_OPTIONS)
    check = Check(request)
    fixing = request.given.has(f.FIX) or request.given.has(f.DIFF)
    if request.given.has(f.UNSAFE) and not fixing:
        raise UsageError("--unsafe-fixes needs --fix or --diff beside it")
    reports: list[Told] = []
    stdin = request.stdin()
    paths = request.files()
    if stdin is not None:
        report = check.checked(*stdin)
        if fixing:
            if paths:
                raise UsageError("--fix and --diff take - alone, or paths")
            from .fix import fix_stdin

            return fix_stdin(check, report)
        reports.append(check.tell(report))
    count = len(paths) + (stdin is not None)
    if not count and not request.given.has(f.ALLOW_EMPTY):
        raise InputError(f"no files below {', '.join(request.paths)}")
    if fixing:
        from .fix import fix_files

        return fix_files(check, paths, lambda told: finish(check, [*reports, *told], count))
    from ..check.parallel import each

    reports += each(paths, lambda path: check.tell(check.file(path)), request.runner.notes)
    return finish(check, reports, count)


def finish(check: Check, reports: Sequence[Told], count: int) -> int:
    """Print the report and return the exit code."""
    kept = [one for one in reports if one.launches or one.located or one.skipped]
    _report(check.request, kept, count)
    for note in told_once(check.request.runner.notes):
        print(f"note: {printable(note)}", file=sys.stderr)
    return check.code(any(one.fails for one in kept))


_ABSENT = re.compile(r"SGLang (\S+) is not in the matrix; launches that name it are (.*)")


def told_once(notes: Sequence[str]) -> list[str]:
    """Notes, with those on several releases made one."""
    absent: dict[str, list[str]] = {}
    rest = []
    for note in notes:
        match = _ABSENT.fullmatch(note)
        if match is None:
            rest.append(note)
        else:
            absent.setdefault(match.group(2), []).append(match.group(1))
    for judged, releases in absent.items():
        which = ", ".join(sorted(releases, key=numbers))
        verb, whom = ("is", "it") if len(releases) == 1 else ("are", "them")
        rest.append(
            f"SGLang {which} {verb} not in the matrix; launches that name {whom} are {judged}"
        )
    return rest


def _report(request: f.FileRequest, reports: list[Told], count: int) -> None:
    output_format = request.given.get(f.FORMAT) or request.config.output_format or "text"
    from ..reporters import source

    verbose = request.given.has(o.VERBOSE)
    if output_format in ("text", "concise"):
        to_file = request.given.get(f.OUTPUT) is not None
        style = Style(not to_file and wants_color(request.given.get(o.COLOR), sys.stdout))
        if output_format == "concise":
            request.write("\n".join(source.concise(reports, verbose=verbose)))
            return
        parts = list(source.render(reports, style, verbose=verbose))
        parts.append(source.summary(reports, count, verbose=verbose))
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
