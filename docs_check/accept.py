"""Accepted deviations: findings that a configuration keeps quiet, each with a reason.

[[docs.accept]]
code = "DOC104"            # or a name
page = "docs/**/*.mdx"     # optional: a pattern of paths
match = "trtllm_mla"       # optional: a text in the claim, the value or the message
reason = "the page speaks of the default only"
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .drift.findings import DriftFinding, Report
from .errors import UsageError

_KEYS = ("code", "page", "match", "reason")


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted deviation; `place` is where the configuration has it."""

    code: str
    reason: str
    page: str = ""
    match: str = ""
    place: str = ""

    def __str__(self) -> str:
        match = f", {self.match!r}" if self.match else ""
        page = f" on {self.page}" if self.page else ""
        return f"{self.place} ({self.code}{match}{page})"

    def fits(self, finding: DriftFinding) -> bool:
        """Whether it speaks of this finding."""
        if self.code not in (finding.code, finding.name):
            return False
        if self.page and not fnmatch.fnmatch(finding.path, self.page):
            return False
        texts = (finding.message, finding.claim, finding.actual, finding.subject)
        return not self.match or any(self.match in text for text in texts)


def read_accepted(table: Mapping[str, Any], where: str) -> list[Accepted]:
    """The accepted deviations of a `docs` table of a configuration.

    Raises:
        UsageError: an entry lacks its code or its reason, or has a key that means nothing.
    """
    entries = table.get("accept", [])
    for key in table:
        if key != "accept":
            raise UsageError(f"{where}: unknown key docs.{key}; known: docs.accept")
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise UsageError(f"{where}: docs.accept is a list of tables")
    found = []
    for number, entry in enumerate(entries, 1):
        place = f"{where}: docs.accept {number}"
        for key, value in entry.items():
            if key not in _KEYS:
                raise UsageError(f"{place}: unknown key {key!r}; known: {', '.join(_KEYS)}")
            if not isinstance(value, str):
                raise UsageError(f"{place}: {key} takes a string, not {value!r}")
        for key in ("code", "reason"):
            if not entry.get(key, "").strip():
                raise UsageError(f"{place}: {key} is missing")
        found.append(
            Accepted(
                entry["code"], entry["reason"], entry.get("page", ""), entry.get("match", ""), place
            )
        )
    return found


def sort_out(findings: Sequence[DriftFinding], accepted: Sequence[Accepted]) -> Report:
    """Findings, and apart from them those that are accepted."""
    report = Report()
    for finding in findings:
        reason = next((one.reason for one in accepted if one.fits(finding)), None)
        if reason is None:
            report.findings.append(finding)
        else:
            report.accepted.append((finding, reason))
    report.idle = [one for one in accepted if not any(map(one.fits, findings))]
    return report
