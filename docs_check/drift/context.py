"""What rules work on: a page, what it names, and the facts to hold it against."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..data import load
from ..facts.code import CodeFacts
from ..facts.model import Certainty, Support
from ..features import FAMILIES, backends_of
from ..names import Displays
from ..pages.claims import TableView, read_tables
from ..pages.page import Block, Line, Page
from ..pages.tables import Cell
from ..source.modules import Evidence, Place
from .findings import CERTAINTIES, DriftFinding, PageFix, Severity

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
    _serving: dict[str, list[str]] = field(default_factory=dict)

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
        """Whether the page's author sets out to list what there is.

        A generated table holds what its title says, and claims nothing of other backends.
        """
        if self.diffusion is not None:
            return any(view.name in {"enum", "platforms"} for view in self.tables)
        enough = min(int(load("columns")["overview"]), len(self.facts.registry) // 2 + 1)
        text = self.page.own_text
        return sum(self.displays.mentions(name, text) >= 0 for name in self.mentioned) >= enough

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
        if not any(same_claim(one, finding) for one in self.findings):
            self.findings.append(finding)

    def by_family(
        self, family: str | None, backend: str, check: Callable[[str | None], None]
    ) -> None:
        """Run a check of a claim on a backend for the family that the page tells.

        Where it tells none, what is claimed may be meant of any that the backend serves: only
        what is wrong of each is drift, and what is right of one is wrong under a condition.
        """
        served = [name for name in FAMILIES if backend in self.serving(name)]
        if family is not None or len(served) < 2:
            check(family or (served[0] if served else None))
            return
        kept, self.findings = self.findings, []
        found: dict[str, list[DriftFinding]] = {}
        for name in served:
            check(name)
            found[name], self.findings = self.findings, []
        self.findings = kept
        for one in _merged(found):
            if not any(same_claim(one, other) for other in self.findings):
                self.findings.append(one)

    def serving(self, family: str) -> list[str]:
        """Backends that serve models of a family."""
        if family not in self._serving:
            self._serving[family] = backends_of(self.facts, family)
        return self._serving[family]

    def cell_fix(self, cell: Cell, new: str) -> PageFix | None:
        """A replacement of a cell's text, where the cell stands on one line."""
        if "\n" in cell.raw or cell.raw == new:
            return None
        return PageFix(cell.line, cell.column, cell.raw, new)


def same_claim(one: DriftFinding, other: DriftFinding) -> bool:
    """Whether two findings of a page are on one claim."""
    return (one.code, one.line, one.subject, one.claim) == (
        other.code, other.line, other.subject, other.claim,
    )  # fmt: skip


def _merged(found: dict[str, list[DriftFinding]]) -> Iterator[DriftFinding]:
    """What was found for each family, as one: with the family where it isn't found for all."""
    seen: list[DriftFinding] = []
    for one in (one for findings in found.values() for one in findings):
        if any(same_claim(one, other) for other in seen):
            continue
        seen.append(one)
        alike = {
            family: other
            for family, findings in found.items()
            for other in findings
            if same_claim(one, other)
        }
        if len(alike) == len(found):
            yield _of_all(alike)
            continue
        condition = f"for {_titled(name for name in found if name not in alike)} models"
        if one.condition:
            condition += f", and {one.condition} for {_titled(alike)} models"
        yield replace(
            one, condition=condition, fix=None,
            certainty="partial" if one.certainty == "proved" else one.certainty,
            message=f"{one.message} (for {_titled(alike)} models; nothing here tells which are"
            " meant)",
        )  # fmt: skip


def _of_all(alike: dict[str, DriftFinding]) -> DriftFinding:
    """A finding that each family has, perhaps for reasons of its own."""
    first = next(iter(alike.values()))
    actual = dict.fromkeys(one.actual for one in alike.values())
    if len(actual) > 1:
        told = "; ".join(f"{one.actual} ({_titled([name])})" for name, one in alike.items())
        first = replace(first, actual=told)
    return replace(
        first,
        fix=first.fix if all(one.fix == first.fix for one in alike.values()) else None,
        certainty=max((one.certainty for one in alike.values()), key=CERTAINTIES.index),
        condition=" or ".join(dict.fromkeys(filter(None, (o.condition for o in alike.values())))),
        evidence=tuple(dict.fromkeys(e for one in alike.values() for e in one.evidence)),
    )


def _titled(families: Iterable[str]) -> str:
    return listed([name.upper() for name in families], "and")


def names_in(displays: Displays, text: str, names: Iterable[str]) -> list[str]:
    """Those of some names that a text mentions, in its order."""
    found = [(displays.mentions(name, text), name) for name in names]
    return [name for place, name in sorted(found) if place >= 0]


def with_value(shown: str, name: str) -> str:
    """What a page calls a backend, with the value that it stands for where that is another."""
    same = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", shown)
    return f"`{shown}`" if same else f"`{shown}` ({name})"


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
