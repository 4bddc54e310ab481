"""An alias that the code accepts is not documented, or one that is documented is gone.

What it does: compares values that are rewritten to another value with those that the page names.
Why: old command lines keep working through aliases; a page that lists some seems to list all.
Example: `compressed` is rewritten to `dsv4`.
"""

from __future__ import annotations

import re

from ..context import Context, RuleInfo, Spot, with_value

INFO = RuleInfo("DOC103", "alias", "alias", "info")
_CLAIM = re.compile(r"(?:deprecated )?alias(?:es)?(?: for `?(\w+)`?|:? `?(\w+)`?)")


def check(context: Context) -> None:
    """Report aliases that are missing, and claims of aliases that are none."""
    facts = context.facts
    if context.is_overview:
        for name, alias in facts.aliases.items():
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", context.page.text, re.I):
                continue
            if context.displays.mentions(name, context.page.text) >= 0:
                continue
            context.report(
                INFO, Spot(0, 0),
                message=f"the alias `{name}` of `{alias.target}` is not documented",
                claim=f"(omission) the page never mentions the alias {name}",
                actual=f"{name} is accepted and becomes {alias.target}",
                places=[alias.place],
                subject=name,
            )  # fmt: skip
    _rows_that_are_aliases(context)
    for block in context.page.prose():
        for match in _CLAIM.finditer(block.text):
            name = match[2]
            if name is None or name not in facts.names:
                continue
            entry = facts.registry.get(name)
            if name in facts.aliases or (entry is not None and entry.target is not None):
                continue
            spot = block.find(name)
            context.report(
                INFO, Spot(*spot),
                message=f"`{name}` is called an alias; the code treats it as a backend of its own",
                claim=f"{name} is an alias", actual=f"{name} is registered by itself",
                places=[entry.place] if entry is not None else [], certainty="review",
                subject=name,
            )  # fmt: skip


def _rows_that_are_aliases(context: Context) -> None:
    """Rows and lines about a name that has become another backend's alias."""
    facts = context.facts
    for view in context.support_tables():
        for row in view.rows:
            alias = facts.aliases.get(row.backend or "")
            if alias is None or row.backend in facts.registry:
                continue
            context.report(
                INFO, Spot.of(row.name), severity="warning",
                message=f"{with_value(row.name.text, alias.name)} is no backend of its own any"
                f" more: it is accepted and becomes `{alias.target}`",
                claim=f"{row.name.text} is a backend of its own",
                actual=f"{alias.name} becomes {alias.target}",
                places=[alias.place], subject=alias.name,
            )  # fmt: skip
