"""A page names a backend that the code does not have.

What it does: looks up every backend named in tables, lists and text.
Why: a reader who follows the page gets an error from the argument parser.
Example: a row **Cutlass MLA** after release 0.5.20, which removed `cutlass_mla`.
Fix: drop the row or name what replaced it; the finding says since when the name is gone.
"""

from __future__ import annotations

from ...source.modules import Evidence, Place
from ..context import Context, RuleInfo, Spot, with_value

INFO = RuleInfo("DOC101", "documented-name", "removed-name", "error")


def check(context: Context) -> None:
    """Hold rows and text against the names of the release."""
    facts = context.facts
    known = {*facts.names, *facts.registry}
    if not known:
        return
    rows: set[int] = set()
    for view in context.support_tables():
        # A table of which most rows are known is one of these backends; another is of others.
        ours = 2 * sum(row.backend is not None for row in view.rows) >= len(view.rows)
        for row in view.rows:
            rows.add(row.name.line)
            name = row.backend
            if name is None and not ours:
                continue
            if name is None:
                candidate = row.name.text.split("(")[0].strip()
                _gone(context, Spot.of(row.name), candidate, candidate, certain=False)
            elif name not in known:
                _gone(context, Spot.of(row.name), row.name.text, name)
    for block in context.page.prose():
        if _leads_a_fence(context, block.line):
            continue
        for name in facts.former:
            for line in block.lines:
                place = context.displays.mentions(name, line.text)
                if place >= 0:
                    spot = Spot(line.number, line.column + place)
                    _gone(context, spot, _as_written(context, name, line.text), name)


def _leads_a_fence(context: Context, line: int) -> bool:
    """The text right above a command is judged with the command."""
    return any(
        block.lead is not None and block.lead.line == line for block in context.page.fences()
    )


def _as_written(context: Context, name: str, text: str) -> str:
    for form in context.displays.forms(name):
        position = text.lower().find(form)
        if position >= 0:
            return text[position : position + len(form)]
    return name


def _gone(context: Context, spot: Spot, shown: str, name: str, *, certain: bool = True) -> None:
    facts = context.facts
    former = facts.former.get(name)
    places: list[Place | Evidence] = []
    flag = facts.backend_flag
    if flag is not None and flag.choices:
        first = flag.choices[0].place.evidence()
        places.append(Evidence(first.file, first.line, first.symbol, f"no {name} among the values"))
    if facts.registry:
        entry = next(iter(facts.registry.values()))
        places.append(Evidence(entry.place.segment.file, 0, "", f"no {name} registered"))
    told = f": {former}" if former is not None else ""
    use = f"; use {', '.join(former.replacement)}" if former and former.replacement else ""
    context.report(
        INFO, spot,
        message=f"{with_value(shown, name)} is documented; the code has no such backend{told}{use}",
        claim=f"{shown} is an available backend",
        actual=f"{name} is neither a value of the flag nor registered{told}",
        places=places,
        certainty="proved" if certain and former is not None else "review",
        subject=name,
    )  # fmt: skip
