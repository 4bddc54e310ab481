"""Runs the rules over pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from ..data import load
from ..facts.code import CodeFacts
from ..facts.diffusion import DiffusionFacts
from ..launches import LaunchJudge
from ..pages.page import Page
from ..source.tree import SourceTree
from .context import Context
from .diffusion import RULES as DIFFUSION_RULES
from .findings import DriftFinding
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


def about_diffusion(page: Page) -> bool:
    """Whether a page is about the diffusion runtime and not about the LLM server."""
    marks: list[str] = load("scan")["diffusion"]["marks"]
    return any(re.search(re.escape(mark), page.text) for mark in marks)


def in_order(findings: Iterable[DriftFinding]) -> list[DriftFinding]:
    """By place, then code."""
    return sorted(findings, key=lambda one: (one.path, one.line, one.column, one.code, one.subject))
