"""What the checker has to say about a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..facts.model import Certainty
from ..source.modules import Evidence

if TYPE_CHECKING:
    from ..accept import Accepted

Severity = Literal["error", "warning", "info"]

#: From the gravest to the lightest, and from the surest to the least sure.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
CERTAINTIES: tuple[Certainty, ...] = ("proved", "partial", "review")


def unless(condition: str) -> str:
    """Where a claim is true that denies what the code serves under a condition."""
    if condition.startswith("except that "):
        return condition.replace("except that", "where", 1)
    return f"except {condition.removesuffix(' only')}" if condition else ""


@dataclass(frozen=True, slots=True)
class PageFix:
    """A replacement in one line of a page: columns are 1-based, the end is exclusive."""

    line: int
    column: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DriftFinding:
    """A claim of a page that the code does not bear out.

    Attributes:
        code, name: stable code and its name; kind: what sort of claim it is.
        line: 0 where the page as a whole lacks something.
        claim: what the page says, in words; actual: what the code says.
        evidence: places in the source.
        certainty: proved; partial (true only under `condition`); review (a person should look).
        condition: the end of a sentence that begins “the claim is true”: `on Hopper`, `if …`.
        fix: a replacement, where there is one right value.
    """

    code: str
    name: str
    kind: str
    severity: Severity
    path: str
    line: int
    column: int
    message: str
    claim: str
    actual: str
    evidence: tuple[Evidence, ...] = ()
    certainty: Certainty = "proved"
    condition: str = ""
    end_column: int = 0
    fix: PageFix | None = None
    subject: str = ""
    release: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; empty optional entries are left out."""
        out: dict[str, Any] = {
            "code": self.code,
            "name": self.name,
            "kind": self.kind,
            "severity": self.severity,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "claim": self.claim,
            "actual": self.actual,
            "evidence": [place.to_json() for place in self.evidence],
            "certainty": self.certainty,
        }
        if self.end_column:
            out["end_column"] = self.end_column
        for key in ("condition", "subject", "release"):
            value = getattr(self, key)
            if value:
                out[key] = value
        if self.fix is not None:
            out["fix"] = {
                "line": self.fix.line, "column": self.fix.column, "old": self.fix.old,
                "new": self.fix.new,
            }  # fmt: skip
        return out


@dataclass(slots=True)
class Report:
    """Findings of a run, and those that the configuration accepts, with the reason.

    `pages` is how many pages were read, None where the run is on none; `on_topic` is whether
    something on them speaks of attention backends. `idle` are entries that accept nothing.
    """

    findings: list[DriftFinding] = field(default_factory=list)
    accepted: list[tuple[DriftFinding, str]] = field(default_factory=list)
    pages: int | None = None
    on_topic: bool = True
    idle: list[Accepted] = field(default_factory=list)
