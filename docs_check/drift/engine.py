"""Runs the rules over pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from ..data import load
from ..facts.code import CodeFacts
from ..facts.diffusion import DiffusionFacts
from ..launches import LaunchJudge
from ..pages.page import Page
from ..parallel import start
from ..source.soundness import unsound
from ..source.tree import Problem, SourceTree
from .context import Context
from .diffusion import RULES as DIFFUSION_RULES
from .findings import DriftFinding
from .holes import missing_facts, unreadable_source
from .rules import RULES


class Checker:
    """Holds pages against one source tree."""

    def __init__(self, tree: SourceTree, judge: LaunchJudge | None = None) -> None:
        self.facts = CodeFacts(tree)
        self.judge = judge

    @cached_property
    def diffusion(self) -> DiffusionFacts:
        """Facts of the diffusion runtime."""
        return DiffusionFacts(self.facts)

    def check(self, page: Page) -> list[DriftFinding]:
        """Findings of one page, in the page's order."""
        diffusion = self.diffusion if about_diffusion(page) else None
        context = Context(page, self.facts, self.judge, diffusion)
        for rule in DIFFUSION_RULES if diffusion is not None else RULES:
            rule.check(context)
        return in_order(context.findings)


def check_pages(
    tree: SourceTree, pages: Sequence[Page], judge: LaunchJudge | None = None
) -> list[DriftFinding]:
    """Findings of several pages, and of the source where it could not be read.

    The two runtimes share next to no source, so each is read in a process of its own.
    """
    checker = Checker(tree, judge)
    version, package = checker.facts.version, tree.root.name
    server = [page for page in pages if not about_diffusion(page)]
    diffusion = [page for page in pages if about_diffusion(page)]

    def check_diffusion() -> tuple[list[DriftFinding], list[Problem]]:
        found = [one for page in diffusion for one in checker.check(page)]
        found += missing_facts(checker.facts, checker.diffusion, package)
        return found, [*tree.problems, *unsound(tree, tree.read())]

    findings: list[DriftFinding] = []
    problems: list[Problem] = []
    waiting = None
    if diffusion:
        waiting = start(check_diffusion) if server else check_diffusion
    if server:
        missing = missing_facts(checker.facts, None, package)
        known = tree.read()
        first = start(lambda: unsound(tree, known))
        findings = [one for page in server for one in checker.check(page)] + missing
        rest = unsound(tree, [file for file in tree.read() if file not in set(known)])
        problems = [*tree.problems, *first(), *rest]
    if waiting is not None:
        more, further = waiting()
        findings += more
        problems += further
    return [*in_order(findings), *unreadable_source(_one_a_place(problems), version, package)]


def _one_a_place(problems: Iterable[Problem]) -> list[Problem]:
    """Problems with those left out that say of a whole file what is known of its parts."""
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        others = found.setdefault(problem.file, [])
        if problem not in others and not (others and problem.message.startswith("is no valid")):
            others.append(problem)
    return [problem for group in found.values() for problem in group]


def about_diffusion(page: Page) -> bool:
    """Whether a page is about the diffusion runtime and not about the LLM server."""
    marks: list[str] = load("scan")["diffusion"]["marks"]
    return any(re.search(re.escape(mark), page.text) for mark in marks)


def in_order(findings: Iterable[DriftFinding]) -> list[DriftFinding]:
    """By place, then code."""
    return sorted(findings, key=lambda one: (one.path, one.line, one.column, one.code, one.subject))
