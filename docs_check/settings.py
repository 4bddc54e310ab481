"""What a run is asked to do with its findings: which count, how they are told, and where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import reporting
from .accept import Accepted, sort_out
from .catalogue import Entry, describe, entries
from .drift.findings import CERTAINTIES, SEVERITIES, DriftFinding, Report, Severity
from .errors import InputError
from .facts.model import Certainty

FORMATS = ("text", "concise", "json", "github", "sarif")
EXIT_CLEAN = 0
EXIT_FINDINGS = 1


@dataclass(frozen=True, slots=True)
class Output:
    """How findings are selected and told.

    Attributes:
        select, ignore: codes, prefixes of codes or names.
        severity: code -> severity to report it with.
        fail_on: lowest severity that makes the exit code 1.
        certainty: least certainty that is reported.
        file: where the report goes instead of standard output.
        version: of attn-lint, for reports that name their tool.
    """

    format: str = "text"
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    accepted: Sequence[Accepted] = ()
    fail_on: Severity = "warning"
    certainty: Certainty = "review"
    exit_zero: bool = False
    file: Path | None = None
    paint: reporting.Painter = reporting.plain
    verbose: bool = False
    version: str = "0"

    def sort_out(self, findings: Sequence[DriftFinding]) -> Report:
        """The findings that are wanted, and apart from them those that are accepted."""
        wanted = []
        for finding in findings:
            if self.select and not _matches(finding, self.select):
                continue
            if _matches(finding, self.ignore):
                continue
            if CERTAINTIES.index(finding.certainty) > CERTAINTIES.index(self.certainty):
                continue
            level = self.severity.get(finding.code)
            wanted.append(replace(finding, severity=level) if level else finding)
        return sort_out(wanted, self.accepted)

    def idle(self, report: Report, pages: Iterable[str]) -> list[Accepted]:
        """Entries of the configuration that accept nothing any more, as far as can be known.

        Of an entry that names one of the pages it is known. Another may be for pages that were
        not checked: those are in it where everything is to be told.
        """
        if self.certainty != "review":
            return []
        checked = set(pages)
        return [
            one
            for one in report.idle
            if (self.verbose or one.page in checked) and self._looks_for(one.code)
        ]

    def _looks_for(self, code: str) -> bool:
        """Whether findings of a code, which may be a name, are made on pages and wanted."""
        known = [one for one in entries().values() if code in (one.code, one.name)]
        return not known or any(
            one.code.startswith("DOC")
            and (not self.select or _matches(one, self.select))
            and not _matches(one, self.ignore)
            for one in known
        )

    def exit_code(self, report: Report) -> int:
        """1 where a finding is as grave as asked for."""
        if self.exit_zero:
            return EXIT_CLEAN
        threshold = SEVERITIES.index(self.fail_on)
        grave = any(SEVERITIES.index(one.severity) <= threshold for one in report.findings)
        return EXIT_FINDINGS if grave else EXIT_CLEAN

    def tell(self, report: Report) -> None:
        """Print the report, or write it to the file asked for."""
        self.write(self.render(report))

    def render(self, report: Report) -> str:
        """The report in the format asked for."""
        if self.format == "sarif":
            return reporting.as_sarif(report, self.version, describe)
        plain: dict[str, Callable[[Report], str]] = {
            "json": reporting.as_json,
            "github": reporting.as_github,
        }
        if self.format in plain:
            return plain[self.format](report)
        paint = self.paint if self.file is None else reporting.plain
        if self.format == "concise":
            return reporting.as_concise(report, paint)
        return reporting.as_text(report, paint, verbose=self.verbose)

    def write(self, text: str) -> None:
        """Print a text, or write it to the file asked for.

        Raises:
            InputError: the file cannot be written.
        """
        if self.file is None:
            if text:
                print(text)
                sys.stdout.flush()
            return
        try:
            self.file.write_text(text + "\n" if text else "", encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"{self.file}: {error.strerror or error}") from None


def _matches(finding: DriftFinding | Entry, patterns: Sequence[str]) -> bool:
    return any(
        finding.code.startswith(pattern.upper()) or finding.name == pattern for pattern in patterns
    )
