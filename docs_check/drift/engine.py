"""Runs the rules over pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import ModuleType

from ..data import load
from ..facts.code import CodeFacts
from ..facts.diffusion import DiffusionFacts
from ..launches import LaunchJudge
from ..pages.page import Page
from ..parallel import processors, start
from ..source.soundness import unsound
from ..source.tree import Problem, SourceTree
from .context import Context
from .diffusion import RULES as DIFFUSION_RULES
from .findings import DriftFinding
from .holes import missing_facts, unreadable_source
from .rules import GROUPS, RULES


class Checker:
    """Holds pages against one source tree."""

    def __init__(self, tree: SourceTree, judge: LaunchJudge | None = None) -> None:
        self.facts = CodeFacts(tree)
        self.judge = judge

    @cached_property
    def diffusion(self) -> DiffusionFacts:
        """Facts of the diffusion runtime."""
        return DiffusionFacts(self.facts)

    def check(self, page: Page, rules: Sequence[ModuleType] = ()) -> list[DriftFinding]:
        """Findings of one page, in the page's order; of all rules, or of some."""
        diffusion = self.diffusion if about_diffusion(page) else None
        context = Context(page, self.facts, self.judge, diffusion)
        for rule in rules or (DIFFUSION_RULES if diffusion is not None else RULES):
            rule.check(context)
        return in_order(context.findings)


@dataclass(slots=True)
class _Share:
    """What one process comes to: findings, what it could not read, and which files it read."""

    findings: list[DriftFinding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    read: list[str] = field(default_factory=list)


def check_pages(
    tree: SourceTree, pages: Sequence[Page], judge: LaunchJudge | None = None
) -> list[DriftFinding]:
    """Findings of several pages, and of the source where it could not be read.

    The work is shared between processes where there are processors for it: the two runtimes have
    next to no source in common, and the rules of one are independent of each other.
    """
    checker = Checker(tree, judge)
    version, package = checker.facts.version, tree.root.name
    server = [page for page in pages if not about_diffusion(page)]
    diffusion = [page for page in pages if about_diffusion(page)]

    def rules_on(part: Sequence[Page], rules: Sequence[ModuleType] = ()) -> _Share:
        found = [one for page in part for one in checker.check(page, rules)]
        return _Share(found, list(tree.problems), tree.read())

    def all_on_diffusion() -> _Share:
        share = rules_on(diffusion)
        share.findings += missing_facts(checker.facts, checker.diffusion, package)
        return share

    shares: list[Callable[[], _Share]] = []
    if diffusion:
        shares.append(start(all_on_diffusion))
    if server:
        missing = missing_facts(checker.facts, None, package)
        shares += [start(partial(rules_on, server, group)) for group in GROUPS[1:]]
        shares.append(partial(rules_on, server, GROUPS[0]))
        shares.append(lambda: _Share(missing))
    done = [waiting() for waiting in reversed(shares)]
    findings = in_order(one for part in done for one in part.findings)
    problems = [one for part in done for one in part.problems]
    problems += _unsound(tree, {file for part in done for file in part.read})
    return [*_once(findings), *unreadable_source(one_a_place(problems), version, package)]


def _unsound(tree: SourceTree, files: Iterable[str]) -> list[Problem]:
    """What is no valid Python among the files that were read, looked for by several processes."""
    largest_first = sorted(files, key=lambda file: (-tree.size(file), file))
    count = processors()
    parts = [largest_first[number::count] for number in range(count)]
    shares = [start(partial(unsound, tree, part)) for part in parts]
    return [problem for waiting in shares for problem in waiting()]


def _once(findings: Iterable[DriftFinding]) -> list[DriftFinding]:
    """Findings without what two rules say alike."""
    found: dict[tuple[str, str, int, str, str], DriftFinding] = {}
    for one in findings:
        found.setdefault((one.path, one.code, one.line, one.subject, one.claim), one)
    return list(found.values())


def one_a_place(problems: Iterable[Problem]) -> list[Problem]:
    """Problems without what says again of a whole file, or of a missing one, what is known."""
    found: dict[str, list[Problem]] = {}
    asking: dict[str, list[Problem]] = {}
    for problem in problems:
        others = found.setdefault(problem.file, [])
        if problem.about:
            asking.setdefault(problem.about, []).append(problem)
        elif problem not in others and not (others and problem.message.startswith("is no valid")):
            others.append(problem)
    told = [problem for group in found.values() for problem in group]
    for group in asking.values():
        first = min(group, key=lambda one: (one.file, one.line))
        more = len({one.file for one in group}) - 1
        rest = f" ({more} more file{'s' if more > 1 else ''} import from it)" if more else ""
        told.append(replace(first, message=first.message + rest))
    return told


def about_diffusion(page: Page) -> bool:
    """Whether a page is about the diffusion runtime and not about the LLM server."""
    marks: list[str] = load("scan")["diffusion"]["marks"]
    return any(re.search(re.escape(mark), page.text) for mark in marks)


def in_order(findings: Iterable[DriftFinding]) -> list[DriftFinding]:
    """By place, then code."""
    return sorted(findings, key=lambda one: (one.path, one.line, one.column, one.code, one.subject))
