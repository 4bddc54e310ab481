"""Configuration keys on a page against those that the code reads.

What it does: compares names, nesting and defaults of documented keys with reads of the
configuration, and reports backends whose keys are documented nowhere.
Why: an unknown key is ignored without a word.
Example: `sta_mode`, where the code reads `STA_mode`.
"""

from __future__ import annotations

import re
from typing import Any

from ...facts.diffusion import DiffusionFacts, Key, initials
from ...pages.claims import RowView, TableView
from ..context import Context, RuleInfo, Spot, listed

INFO = RuleInfo("DOC115", "configuration-key", "config-parameter", "warning")


def check(context: Context) -> None:
    """Check every table of parameters, then what is missing."""
    facts = context.diffusion
    if facts is None or not facts.keys:
        return
    documented: dict[str, set[str]] = {}
    heading = 0
    for view in context.tables:
        if view.name != "parameters":
            continue
        member = _member(context, view)
        if member is None:
            continue
        heading = heading or view.table.heading_line or view.table.line
        documented[member] = {_name(row) for row in view.rows}
        _table(context, facts, view, member)
    if documented:
        _missing(context, facts, documented, heading)


def _member(context: Context, view: TableView) -> str | None:
    """The backend whose keys a table lists, from the line above it."""
    facts = context.diffusion
    assert facts is not None
    for value in re.findall(r"`(\w+)`", view.table.lead):
        if value.upper() in facts.members:
            return str(value.upper())
    found = facts.displays.find(view.table.lead)
    return found.upper() if found is not None and found.upper() in facts.members else None


def _name(row: RowView) -> str:
    return (row.name.codes or [row.name.text])[0].strip()


def _table(context: Context, facts: DiffusionFacts, view: TableView, member: str) -> None:
    own = [key for key in facts.keys if member in key.backends]
    names = {key.name for key in own} | {key.name for key in facts.keys if not key.backends}
    parameters = facts.builder_parameters(member)
    nested = next((key for key in own if key.nested_in), None)
    flat_in_nest = [
        row for row in view.rows if nested is not None and _name(row) in parameters
        and _name(row) not in names
    ]  # fmt: skip
    if nested is not None and flat_in_nest:
        context.report(
            INFO, Spot.of(flat_in_nest[0].name),
            message=f"{len(flat_in_nest)} keys are documented at the top level; the code reads"
            f" them inside `{nested.nested_in}`",
            claim=f"{', '.join(_name(row) for row in flat_in_nest[:3])} … are top-level keys",
            actual=f"a mapping named {nested.nested_in} is read", places=[nested.place],
            subject=nested.nested_in,
        )  # fmt: skip
    for row in view.rows:
        name = _name(row)
        reads = [key for key in own if key.name == name] or [
            key for key in facts.keys if key.name == name and not key.backends
        ]
        if not reads and name in parameters:
            default, has_default, place = parameters[name]
            _default(context, row, name, default, has_default, place)
        elif not reads:
            _unknown(context, row, name, own)
        else:
            best = next((key for key in reads if key.has_default), reads[0])
            _default(context, row, name, best.default, best.has_default, best.place)
        description = row.get("description")
        if description is not None and re.search(r"\brequired\b", description.text, re.I):
            _environment(context, facts, member, name, description)


def _unknown(context: Context, row: RowView, name: str, own: list[Key]) -> None:
    close = next((key for key in own if key.name.lower() == name.lower()), None)
    hint = f"; the code reads `{close.name}`" if close else ""
    context.report(
        INFO, Spot.of(row.name),
        message=f"the key `{name}` is never read{hint}",
        claim=f"{name} is a configuration key", actual=f"it is never read{hint}",
        places=[close.place] if close else [], certainty="proved" if close else "review",
        subject=name,
    )  # fmt: skip
    if close is not None:
        _default(context, row, close.name, close.default, close.has_default, close.place)


def _default(
    context: Context, row: RowView, name: str, default: Any, has_default: bool, place: Any
) -> None:
    cell = row.get("default")
    if cell is None:
        return
    stated = cell.text.strip("` ")
    none_stated = stated in {"", "-", "–", "—", "None", "n/a"}
    if none_stated:
        return
    if not has_default:
        context.report(
            INFO, Spot.of(cell),
            message=f"`{name}` has no default in the code; the page says {stated}",
            claim=f"{name} defaults to {stated}", actual="no default: an unset key reads as empty",
            places=[place], certainty="partial", condition="where the caller sets it",
            subject=f"{name} default",
        )  # fmt: skip
    elif default is not None and not _same(stated, default):
        context.report(
            INFO, Spot.of(cell),
            message=f"`{name}` defaults to {default}, not {stated}",
            claim=f"{name} defaults to {stated}", actual=f"{default}", places=[place],
            subject=f"{name} default",
        )  # fmt: skip


def _same(stated: str, default: Any) -> bool:
    if str(default).lower() == stated.strip("\"'").lower():
        return True
    try:
        return float(stated) == float(default)
    except (TypeError, ValueError):
        return False


def _environment(
    context: Context, facts: DiffusionFacts, member: str, name: str, cell: Any
) -> None:
    for variable, effect in facts.environment_of(member):
        if variable in context.page.text:
            continue
        context.report(
            INFO, Spot.of(cell),
            message=f"`{name}` is not the only required input: `{variable}` must be set as well",
            claim=f"{name} is what is required", actual=effect.message, places=[effect.place],
            certainty="review", condition="", subject=variable,
        )  # fmt: skip


def _missing(
    context: Context, facts: DiffusionFacts, documented: dict[str, set[str]], heading: int
) -> None:
    """Keys of backends that no table is about."""
    by_member: dict[str, dict[str, Key]] = {}
    for key in facts.keys:
        for member in key.backends:
            if key.nested_in or (member in documented and _known(key.name, documented[member])):
                continue
            if any(one != member and _called_after(key.name, one) for one in key.backends):
                continue
            by_member.setdefault(member, {}).setdefault(key.name, key)
    for member, keys in by_member.items():
        if member in documented:
            _beside(context, member, keys, heading)
            continue
        context.report(
            INFO, Spot(heading, 1), severity="info",
            message=f"the keys of `{member.lower()}` are not documented: {listed(keys, 'and')}",
            claim=f"(omission) parameters of {member.lower()}",
            actual=f"{listed(keys, 'and')} are read",
            places=[key.place for key in list(keys.values())[:4]], subject=member.lower(),
        )  # fmt: skip


def _beside(context: Context, member: str, keys: dict[str, Key], heading: int) -> None:
    """Keys of a backend that its table leaves out; a branch that several share tells nothing."""
    own = {
        name: key for name, key in keys.items()
        if key.backends == (member,) or _called_after(name, member)
    }  # fmt: skip
    own = {name: key for name, key in own.items() if name not in context.page.text}
    if own:
        context.report(
            INFO, Spot(heading, 1), severity="info",
            message=f"{listed([f'`{name}`' for name in own], 'and')} of `{member.lower()}`"
            f" {'is' if len(own) == 1 else 'are'} not documented",
            claim=f"(omission) further parameters of {member.lower()}",
            actual=f"{listed(own, 'and')} {'is' if len(own) == 1 else 'are'} read",
            places=[key.place for key in own.values()], subject=member.lower(),
        )  # fmt: skip


def _called_after(name: str, member: str) -> bool:
    """Whether a key is called after a backend, as `VSA_sparsity` is after VIDEO_SPARSE_ATTN."""
    return name.lower().startswith(f"{initials(member)}_")


def _known(name: str, documented: set[str]) -> bool:
    return any(name.lower() == other.lower() for other in documented)
