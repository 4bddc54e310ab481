"""What an audit works on: a release's data, and the facts of a source tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..drift.context import RuleInfo
from ..drift.findings import DriftFinding
from ..facts.code import CodeFacts
from ..facts.model import Certainty
from ..source.modules import Evidence, Place


@dataclass(slots=True)
class Subject:
    """An audit under way."""

    folder: Path
    shown: str
    release: str
    facts: CodeFacts
    findings: list[DriftFinding] = field(default_factory=list)

    def path(self, file: Path) -> str:
        """A data file as findings name it."""
        return f"{self.shown}/{file.relative_to(self.folder).as_posix()}"

    def report(
        self,
        rule: RuleInfo,
        path: str,
        line: int,
        *,
        message: str,
        claim: str,
        actual: str,
        places: Iterable[Place | Evidence] = (),
        certainty: Certainty = "proved",
        subject: str = "",
    ) -> None:
        """Add a finding."""
        evidence = tuple(
            place.evidence() if isinstance(place, Place) else place for place in places
        )
        self.findings.append(
            DriftFinding(
                rule.code, rule.name, rule.kind, rule.severity, path, line, 1 if line else 0,
                message, claim, actual, evidence, certainty, subject=subject,
                release=self.facts.version or "",
            )
        )  # fmt: skip
