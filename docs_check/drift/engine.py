"""Runs the rules over pages."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts.code import CodeFacts
from ..launches import LaunchJudge
from ..pages.page import Page
from .context import Context
from .findings import DriftFinding
from .rules import RULES


def check_page(
    page: Page, facts: CodeFacts, judge: LaunchJudge | None = None
) -> list[DriftFinding]:
    """Findings of one page of the LLM server, in the page's order."""
    context = Context(page, facts, judge)
    for rule in RULES:
        rule.check(context)
    return in_order(context.findings)


def in_order(findings: Iterable[DriftFinding]) -> list[DriftFinding]:
    """By place, then code."""
    return sorted(findings, key=lambda one: (one.path, one.line, one.column, one.code, one.subject))
