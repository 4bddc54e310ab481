"""Rows of the backend table against the enumeration, and aliases against the parser.

What it does: reports members without a row, rows without a member, and aliases left out.
Why: the table says what the flag takes.
Example: `DYNAMIC_CUDNN_SDPA`, the default on SM100, without a row.
"""

from __future__ import annotations

import re

from ...source.modules import Place
from ..context import Context, Spot
from ..rules import aliases, documented_name, undocumented_name


def check(context: Context) -> None:
    """Compare the table with the enumeration."""
    facts = context.diffusion
    if facts is None or not facts.members:
        return
    for view in context.tables:
        if view.name != "enum":
            continue
        documented: set[str] = set()
        for row in view.rows:
            values = {code.lower() for code in row.name.codes} or {
                part.strip().lower() for part in row.name.text.split("/")
            }
            documented |= values
            for value in values:
                if value not in facts.values and value not in facts.aliases:
                    context.report(
                        documented_name.INFO, Spot.of(row.name),
                        message=f"`{value}` is documented; the enumeration has no such member",
                        claim=f"{value} is a backend", actual="no such member",
                        places=[_enum_place(context)], subject=value,
                    )  # fmt: skip
            cell = row.get("member")
            for name in cell.codes if cell is not None else ():
                if name not in facts.members:
                    context.report(
                        documented_name.INFO, Spot.of(cell),
                        message=f"`{name}` is no member of {facts.scan['enum']['name']}",
                        claim=f"{name} is a member", actual="no such member",
                        places=[_enum_place(context)], subject=name,
                    )  # fmt: skip
        for name, place in facts.members.items():
            value = name.lower()
            if value in documented:
                continue
            idle = value not in facts.values
            if idle and (name in context.page.text or value in context.page.text):
                continue
            context.report(
                undocumented_name.INFO, Spot(view.table.line, 1),
                message=f"`{name}` (`{value}`) is a member of {facts.scan['enum']['name']} and"
                " has no row" + ("; it stands for none of the backends" if idle else ""),
                claim=f"(omission) no row for {name}",
                actual=f"{name} exists; the flag takes {value}", places=[place], subject=value,
                certainty="review" if idle else "proved", severity="info" if idle else None,
            )  # fmt: skip
    _aliases(context)


def _enum_place(context: Context) -> Place:
    facts = context.diffusion
    assert facts is not None and facts.enum is not None
    return facts.codebase.place(facts.enum)


def _aliases(context: Context) -> None:
    facts = context.diffusion
    if facts is None or not context.is_overview:
        return
    block = next(
        (block for block in context.page.prose() if re.search(r"\balias(es)?\b", block.text)), None
    )
    for name, alias in facts.aliases.items():
        if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", context.page.text):
            continue
        context.report(
            aliases.INFO, Spot.of(block),
            message=f"the alias `{name}` of `{alias.target}` is not documented",
            claim="the aliases are "
            + ", ".join(n for n in facts.aliases if n in context.page.text),
            actual=f"{name} is accepted and becomes {alias.target}"
            f" ({alias.place.segment.name})",
            places=[alias.place], certainty="partial",
            condition=f"where {alias.place.segment.name} reads the value", subject=name,
        )  # fmt: skip
