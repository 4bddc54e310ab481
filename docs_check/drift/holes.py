"""What the scanner could not read or find, as findings: no fact is missed in silence."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts.code import CodeFacts
from ..facts.diffusion import DiffusionFacts
from ..source.modules import Evidence
from ..source.tree import Problem
from .context import RuleInfo
from .findings import DriftFinding

SOURCE = RuleInfo("DOC190", "unreadable-source", "unreadable-source", "error")
PAGE = RuleInfo("DOC191", "unreadable-page", "unreadable-page", "error")
FACT = RuleInfo("DOC192", "missing-fact", "missing-fact", "warning")


def unreadable_source(
    problems: Iterable[Problem], release: str | None, package: str, rule: RuleInfo = SOURCE
) -> list[DriftFinding]:
    """A finding for each file, or part of one, that could not be read."""
    return [
        DriftFinding(
            rule.code, rule.name, rule.kind, rule.severity,
            f"{package}/{problem.file}", problem.line, 1 if problem.line else 0,
            f"{problem.message}; facts about attention may be missing",
            "", problem.message, (Evidence(problem.file, problem.line),), subject=problem.file,
            release=release or "",
        )
        for problem in sorted(problems, key=lambda one: (one.file, one.line))
    ]  # fmt: skip


def unreadable_page(path: str, reason: str, line: int = 0) -> DriftFinding:
    """A page that cannot be read."""
    return DriftFinding(
        PAGE.code, PAGE.name, PAGE.kind, PAGE.severity, path, line, 1 if line else 0,
        f"the page cannot be read: {reason}", "", reason,
    )  # fmt: skip


def missing_facts(
    facts: CodeFacts, diffusion: DiffusionFacts | None, package: str
) -> list[DriftFinding]:
    """What every release has and the scanner did not find in this one."""
    missing: list[tuple[str, str]] = []
    if diffusion is not None:
        if not diffusion.members:
            missing.append(("backends", f"the enumeration {diffusion.scan['enum']['name']}"))
        elif not diffusion.platforms:
            missing.append(("platforms", f"a method {diffusion.scan['selector_method']}"))
    else:
        if not facts.names:
            missing.append(("choices", f"the choices of {_flag(facts)}"))
        if not facts.registry:
            missing.append(("registry", "the registry of backends"))
        if not facts.effects:
            missing.append(("resolution", f"what arguments do to {_flag(facts)}"))
        if not facts.decisions:
            missing.append(("defaults", f"the default of {_flag(facts)}"))
    return [
        DriftFinding(
            FACT.code, FACT.name, FACT.kind, FACT.severity, package, 0, 0,
            f"the scanner did not find {what}; claims about it are not checked",
            "", "not found", certainty="review", subject=subject, release=facts.version or "",
        )
        for subject, what in missing
    ]  # fmt: skip


def _flag(facts: CodeFacts) -> str:
    return "--" + str(facts.scan["backend_flag"]).replace("_", "-")


PAGES: tuple[tuple[RuleInfo, str], ...] = (
    (
        SOURCE,
        """A part of the source tree could not be read.

What it does: reports files that cannot be decoded or are no valid Python.
Why: what they say about attention is missing from the facts, so that a claim may be passed over.
""",
    ),
    (
        PAGE,
        """A page could not be read.

What it does: reports pages that are not UTF-8 or cannot be opened.
Why: their claims were not checked.
""",
    ),
    (
        FACT,
        """The scanner did not find what every release has.

What it does: checks that there are choices, a registry, argument handling and a default.
Why: where the code moved out of the scanner's sight, silence would look like agreement.
Fix: name the new place in the scanner's data.
""",
    ),
)
