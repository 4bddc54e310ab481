"""What the scanner knows of a source tree, as plain data and as text.

Every statement is a record with an identity (`name`, and what tells it from others of its kind),
its value and its place; two listings can be compared record by record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from .data import load
from .facts.code import CodeFacts
from .facts.conditions import say
from .facts.diffusion import DiffusionFacts
from .facts.model import Effect
from .facts.selection import reachable
from .facts.speculation import page_tree
from .features import FAMILIES, backends_of, support
from .source.modules import Evidence, Place

Record = dict[str, Any]

_ABOUT = re.compile(r"backend|page_size|kv_cache_dtype|att(ention|n)|speculative|prefix_cache")


def listing(facts: CodeFacts, diffusion: DiffusionFacts | None = None) -> dict[str, Any]:
    """Every fact, by topic."""
    found: dict[str, Any] = {"release": facts.version, "root": facts.tree.root.name}
    found["flags"] = list(_flags(facts))
    found["backends"] = list(_backends(facts))
    found["aliases"] = [
        {"name": alias.name, "target": alias.target, **_at(alias.place)}
        for alias in facts.aliases.values()
    ]
    found["page_sizes"] = list(_page_sizes(facts))
    found["support"] = list(_support(facts))
    found["defaults"] = list(_defaults(facts))
    found["overrides"] = list(_overrides(facts))
    found["draft_backends"] = [
        {"name": name, "function": draft.function.name, **_at(place)}
        for draft in facts.draft_maps
        for name, (_, place) in draft.entries.items()
    ]
    found["lists"] = [
        {
            "name": segment.name,
            "values": [item.value for item in items],
            **_at(facts.codebase.place(segment)),
        }
        for segment, items in facts.name_lists()
    ]
    found["checks"] = list(_checks(facts.effects, set(facts.flags.fields())))
    tree = page_tree(facts)
    if tree is not None:
        found["page_trees"] = [{"name": name, **_at(tree[0].place)} for name in tree[1]]
    if diffusion is not None and diffusion.members:
        found["diffusion"] = _diffusion(diffusion)
    return found


def _at(place: Place | Evidence) -> Record:
    evidence = place.evidence() if isinstance(place, Place) else place
    return {"file": evidence.file, "line": evidence.line, "symbol": evidence.symbol}


def _flags(facts: CodeFacts) -> Iterable[Record]:
    for flag in sorted(facts.flags.all(), key=lambda one: one.field):
        if not flag.choices or not re.search(facts.scan["flags_about"], flag.field):
            continue
        yield {
            "name": flag.names[0] if flag.names else "--" + flag.field.replace("_", "-"),
            "field": flag.field,
            "values": flag.values(),
            "default": _plain(flag.default),
            **_at(flag.place),
        }


def _backends(facts: CodeFacts) -> Iterable[Record]:
    for name, entry in facts.registry.items():
        yield {
            "name": name,
            "accepted": name in facts.names,
            "only": entry.only,
            "alias_of": entry.target,
            "classes": [
                {
                    "class": implementation.segment.name,
                    "family": implementation.family,
                    "when": say(implementation.condition),
                    **_at(facts.codebase.place(implementation.segment)),
                }
                for implementation in entry.implementations
            ],
            **_at(entry.place),
        }


def _page_sizes(facts: CodeFacts) -> Iterable[Record]:
    for rule in facts.page_rules:
        yield {
            "name": rule.backend,
            "family": rule.family,
            "sizes": list(rule.allowed),
            "others": rule.outcome,
            "becomes": rule.target,
            "when": say(rule.condition),
            **_at(rule.place),
        }


def _support(facts: CodeFacts) -> Iterable[Record]:
    columns: dict[str, list[dict[str, Any]]] = load("columns")["generated"]
    for family in FAMILIES:
        for name in backends_of(facts, family):
            for column in columns[family]:
                group = column.get("group", "")
                found = support(facts, name, family, column["feature"], group)
                if found is None:
                    continue
                yield {
                    "name": name,
                    "family": family,
                    "feature": column["feature"] + (f" {group}" if group else ""),
                    "value": found.value,
                    "why": found.why,
                    "when": found.condition,
                    "certainty": found.certainty,
                    **(_at(found.places[0]) if found.places else {}),
                }


def _defaults(facts: CodeFacts) -> Iterable[Record]:
    for family in FAMILIES:
        for machine in facts.machines.classes:
            for decision, rest in reachable(facts, family, machine):
                yield {
                    "name": decision.backend,
                    "family": family,
                    "machine": facts.machines.title(machine),
                    "when": say(rest),
                    **_at(decision.place),
                }
                if not rest:
                    break


def _overrides(facts: CodeFacts) -> Iterable[Record]:
    # What a function keeps for itself before it sets the flag goes by the flag's name.
    fields = set(facts.flags.fields())
    for override in facts.overrides:
        yield {
            "name": override.backend,
            "field": override.field if override.field in fields else facts.scan["backend_flag"],
            "architectures": list(override.architectures),
            "when": say(override.condition),
            **_at(override.place),
        }


def _checks(effects: Iterable[Effect], fields: Collection[str] = ()) -> Iterable[Record]:
    """Refusals, and settings of flags; what a function keeps in its own names is left out."""
    for effect in effects:
        if effect.kind == "set" and fields and (effect.local or effect.field not in fields):
            continue
        condition = say(effect.condition)
        about = f"{condition} {effect.message}" if effect.kind == "refuse" else effect.field
        if not effect.backends and not _ABOUT.search(about.replace(" ", "_").lower()):
            continue
        yield {
            "name": effect.field or "refuse",
            "effect": effect.kind,
            "value": _plain(effect.value),
            "backends": list(effect.backends),
            "family": effect.family,
            "when": condition,
            "message": effect.message,
            **_at(effect.place),
        }


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return None


def _diffusion(facts: DiffusionFacts) -> dict[str, Any]:
    platforms = []
    for platform in facts.platforms:
        outcomes = facts.defaults(platform.kind)
        platforms.append(
            {
                "name": platform.kind,
                "defaults": [outcome.backend for outcome in outcomes],
                **_at(facts.codebase.place(platform.segment)),
            }
        )
    return {
        "backends": [
            {"name": name.lower(), "member": name, **_at(place)}
            for name, place in facts.members.items()
        ],
        "aliases": [
            {"name": alias.name, "target": alias.target, **_at(alias.place)}
            for alias in facts.aliases.values()
        ],
        "platforms": platforms,
        "keys": [
            {
                "name": key.name,
                "backends": list(key.backends),
                "default": _plain(key.default) if key.has_default else None,
                "required": key.required,
                **_at(key.place),
            }
            for key in facts.keys
        ],
        "constraints": list(_checks(facts.constraints)),
    }


def as_text(found: dict[str, Any]) -> str:
    """A listing for people: a topic at a time, a record a line."""
    lines = [f"SGLang {found['release'] or 'of an unknown release'} ({found['root']})"]
    for topic, records in found.items():
        if isinstance(records, dict):
            for part, inner in records.items():
                lines += _topic(f"{topic} {part}", inner)
        elif isinstance(records, list):
            lines += _topic(topic, records)
    return "\n".join(lines)


def _topic(topic: str, records: list[Record]) -> list[str]:
    if not records:
        return []
    lines = ["", f"{topic.replace('_', ' ')} ({len(records)})"]
    for record in records:
        place = f"{record['file']}:{record['line']}" if record.get("file") else ""
        if record.get("symbol"):
            place += f" {record['symbol']}"
        lines.append(f"  {_record(record):<60}  {place}".rstrip())
    return lines


def _record(record: Record) -> str:
    """The fields of a record without its place, in a line."""
    parts = [str(record.get("name", ""))]
    for key, value in record.items():
        if key in {"name", "file", "line", "symbol", "why", "certainty"}:
            continue
        if value is None or value == "" or value == [] or value is False:
            continue
        if key == "classes":
            value = ", ".join(one["class"] for one in value)
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        parts.append(f"{key.replace('_', ' ')}: {value}" if value is not True else key)
    return "; ".join(part for part in parts if part)
