"""Packages that a page says a backend requires, and branches that lead nowhere.

What it does: looks the package up among the imports of the backend's resolver and class; and
reports backends for which no metadata is ever built.
Why: installing the wrong package does not help; a dead branch fails in the first step.
"""

from __future__ import annotations

import re

from ..context import Context, RuleInfo, Spot
from ..rules import symbol

INFO = RuleInfo("DOC120", "dead-branch", "dead-path", "error")
_REQUIRES = re.compile(r"[Rr]equires `([\w.]+)`")


def check(context: Context) -> None:
    """Check notes of the backend and platform tables."""
    facts = context.diffusion
    if facts is None:
        return
    reported: set[str] = set()
    for view in context.tables:
        if view.name not in {"enum", "platforms"}:
            continue
        for row in view.rows:
            value = (row.name.codes or [row.name.text])[0].strip().lower()
            member = value.upper()
            cell = row.get("notes")
            if member not in facts.members or cell is None:
                continue
            match = _REQUIRES.search(cell.raw)
            if (
                match
                and facts.class_file(member) is not None
                and not any(
                    module == match[1] or module.startswith(f"{match[1]}.")
                    for module in facts.imports_of(member)
                )
                and not facts.speaks_of(member, match[1])
            ):
                context.report(
                    symbol.INFO, Spot.of(cell),
                    message=f"`{value}` does not import `{match[1]}`",
                    claim=f"{value} requires {match[1]}", actual="no such import",
                    certainty="review", subject=match[1],
                )  # fmt: skip
            if member in facts.dead_branches and member not in reported:
                reported.add(member)
                context.report(
                    INFO, Spot.of(cell),
                    message=f"`{value}` cannot work: its branch builds no attention metadata",
                    claim=f"{value} is usable and configurable",
                    actual="the branch sets values that nothing uses",
                    places=[facts.dead_branches[member]], certainty="review", subject=value,
                )  # fmt: skip
