"""What rules work on: a page, what it names, and the facts to hold it against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..data import load
from ..facts.code import CodeFacts
from ..facts.model import Certainty, Support
from ..names import Displays
from ..pages.claims import TableView, read_tables
from ..pages.page import Block, Line, Page
from ..pages.tables import Cell
from ..source.modules import Evidence, Place
from .findings import DriftFinding, PageFix, Severity

if TYPE_CHECKING:
    from ..facts.diffusion import DiffusionFacts
    from ..launches import LaunchJudge


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule's identity: everything about a finding that does not hang on the page."""

    code: str
    name: str
    kind: str
    severity: Severity


@dataclass(slots=True)
class Spot:
    """A place on the page."""

    line: int
    column: int
    end_column: int = 0

    @classmethod
    def of(cls, item: Cell | Block | Line | None) -> Spot:
        """The place of a cell, a block or a line; of nothing: the page as a whole."""
        if isinstance(item, Cell):
            return cls(item.line, item.column, item.column + len(item.raw.split("\n")[0]))
        if isinstance(item, Block):
            first = item.lines[0] if item.lines else Line(0, 0, "")
            return cls(first.number, first.column, first.column + len(first.text))
        if isinstance(item, Line):
            return cls(item.number, item.column, item.column + len(item.text))
        return cls(0, 0)


@dataclass
class Context:
    """A page under test."""

    page: Page
    facts: CodeFacts
    judge: LaunchJudge | None = None
    diffusion: DiffusionFacts | None = None
    findings: list[DriftFinding] = field(default_factory=list)

    @cached_property
    def displays(self) -> Displays:
        """Display names of backends."""
        return self.diffusion.displays if self.diffusion is not None else self.facts.displays

    def flag_exists(self, spelling: str) -> bool:
        """Whether the program that the page is about declares a flag."""
        if self.diffusion is not None:
            return self.diffusion.flag_exists(spelling)
        return self.facts.flags.exists(spelling) or self.facts.other_flag(spelling)

    @cached_property
    def tables(self) -> list[TableView]:
        """Tables whose columns are known."""
        views = read_tables(self.page, self.displays)
        for view in views:
            for row in view.rows:
                row.target = self.canonical(row.backend)
        return views

    def canonical(self, name: str | None) -> str | None:
        """The registered backend that a name comes to, or None."""
        if name is None or self.diffusion is not None:
            return None
        if name in self.facts.registry:
            return name
        alias = self.facts.aliases.get(name)
        return alias.target if alias is not None and alias.target in self.facts.registry else None

    def backend_named(self, text: str) -> str | None:
        """The registered backend that a display name stands for."""
        return self.canonical(self.displays.find(text))

    @cached_property
    def mentioned(self) -> set[str]:
        """Backends that the page names anywhere, by value or display name."""
        return {
            name
            for name in (*self.facts.names, *self.facts.registry)
            if self.displays.mentions(name, self.page.text) >= 0
        }

    @cached_property
    def is_overview(self) -> bool:
        """Whether the page sets out to list what there is."""
        if self.diffusion is not None:
            return any(view.name in {"enum", "platforms"} for view in self.tables)
        enough = min(int(load("columns")["overview"]), len(self.facts.registry) // 2 + 1)
        return len(self.mentioned) >= enough

    def support_tables(self) -> Iterable[TableView]:
        """Tables of backends by feature."""
        return (view for view in self.tables if view.name == "backends")

    def report(
        self,
        rule: RuleInfo,
        spot: Spot,
        *,
        message: str,
        claim: str,
        actual: str,
        places: Iterable[Place | Evidence] = (),
        certainty: Certainty = "proved",
        condition: str = "",
        fix: PageFix | None = None,
        subject: str = "",
        severity: Severity | None = None,
    ) -> None:
        """Add a finding; one rule says one thing once at a place."""
        evidence: dict[Evidence, None] = {}
        for place in places:
            evidence[place.evidence() if isinstance(place, Place) else place] = None
        finding = DriftFinding(
            rule.code, rule.name, rule.kind, severity or rule.severity, self.page.path, spot.line,
            spot.column, message, claim, actual, tuple(evidence), certainty, condition,
            spot.end_column, fix, subject, self.facts.version or "",
        )  # fmt: skip
        if not any(
            (one.code, one.line, one.subject, one.claim)
            == (finding.code, finding.line, finding.subject, finding.claim)
            for one in self.findings
        ):
            self.findings.append(finding)

    def cell_fix(self, cell: Cell, new: str) -> PageFix | None:
        """A replacement of a cell's text, where the cell stands on one line."""
        if "\n" in cell.raw or cell.raw == new:
            return None
        return PageFix(cell.line, cell.column, cell.raw, new)


def names_in(displays: Displays, text: str, names: Iterable[str]) -> list[str]:
    """Those of some names that a text mentions, in its order."""
    found = [(displays.mentions(name, text), name) for name in names]
    return [name for place, name in sorted(found) if place >= 0]


def listed(values: Iterable[Any], last: str = "or") -> str:
    """`1, 2 or 3`."""
    parts = [str(value) for value in values]
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def supported(support: Support | None) -> str:
    """The value of a support, or an empty string."""
    return support.value if support is not None else ""


SENTENCE = re.compile(r"(?<=[.;])\s+(?=[A-Z`*])")
