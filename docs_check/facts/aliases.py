"""Aliases of backends, and handlers of model families."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..source import syntax as sx
from ..source.modules import Place
from ..source.paths import events
from .conditions import terms
from .model import Alias

if TYPE_CHECKING:
    from .code import CodeFacts

_COMMENT = re.compile(r"alias (?:for|of) [\"'`]?(\w+)")


def find_aliases(facts: CodeFacts) -> dict[str, Alias]:
    """Values that are rewritten, that are marked as aliases, or that make another's backend."""
    found: dict[str, Alias] = {}
    flag = facts.backend_flag
    if flag is None:
        return found
    names = set(facts.names)
    for name, alias in _rewritten(facts, names).items():
        found[name] = alias
    for choice in flag.choices:
        match = _COMMENT.search(choice.comment)
        if match and match[1] in names and choice.value not in found:
            found[choice.value] = Alias(choice.value, match[1], choice.place)
    for name, entry in facts.registry.items():
        if entry.target is not None and name not in found:
            found[name] = Alias(name, entry.target, entry.place)
    return found


def _rewritten(facts: CodeFacts, names: set[str]) -> dict[str, Alias]:
    """`if backend == "old": … = "new"`, and tables from old to new."""
    found: dict[str, Alias] = {}
    unregistered = [name for name in names if facts.registry and name not in facts.registry]
    if not unregistered:
        return found
    raw = [f'"{name}"'.encode() for name in unregistered]
    raw += [f"'{name}'".encode() for name in unregistered]
    files = [
        file
        for file in facts.tree.candidates(facts.scan["resolution"])
        if any(needle in facts.tree.raw(file) for needle in raw)
    ]
    pattern = re.compile("|".join(rf"[\"']{re.escape(name)}[\"']" for name in unregistered))
    for segment in facts.codebase.segments(files):
        parts = segment.members() if segment.kind == "class" else [segment]
        for part in parts:
            if not pattern.search(part.text):
                continue
            if part.kind == "assign":
                _table(facts, part, unregistered, found)
                continue
            if part.kind != "def":
                continue
            for event in events(facts.codebase.body(part)):
                if event.kind not in {"assign", "return", "do"} or event.value is None:
                    continue
                condition = facts.conditions.read(part, event.guards, event.scope)
                old = [
                    value
                    for term in terms(condition, "backend") + terms(condition, "other")
                    if term.op == "in"
                    for value in term.values
                    if value in unregistered
                ]
                new = [
                    node.value
                    for node in sx.walk(event.value)
                    if isinstance(node, sx.Const) and node.value in facts.registry
                ]
                if old and new and str(old[0]) not in found:
                    found[str(old[0])] = Alias(
                        str(old[0]), str(new[0]), facts.codebase.place(part, event.statement)
                    )
            for node in sx.all_expressions(facts.codebase.body(part)):
                if isinstance(node, sx.Map):
                    _entries(facts, part, node, unregistered, found)
    return found


def _table(facts: CodeFacts, segment: Any, old: list[str], found: dict[str, Alias]) -> None:
    value = facts.codebase.value(segment)
    if isinstance(value, sx.Map):
        _entries(facts, segment, value, old, found)


def _entries(
    facts: CodeFacts, segment: Any, node: sx.Map, old: list[str], found: dict[str, Alias]
) -> None:
    for key, value in node.items:
        if (
            isinstance(key, sx.Const)
            and key.value in old
            and isinstance(value, sx.Const)
            and value.value in facts.registry
        ):
            found.setdefault(
                str(key.value),
                Alias(str(key.value), str(value.value), facts.codebase.place(segment, key)),
            )


def find_handlers(facts: CodeFacts, anchors: dict[str, Any]) -> dict[str, Place]:
    """First arguments of `Registry.register("name", handler)` calls at module level."""
    found: dict[str, Place] = {}
    needle = f"{anchors['class']}.{anchors['call']}("
    for file in facts.tree.search(needle, facts.tree.candidates(anchors["folders"])):
        for segment in facts.codebase.segments([file]):
            if segment.kind == "class" or needle not in segment.text:
                continue
            for node in sx.all_expressions(facts.codebase.parse(segment)):
                if (
                    isinstance(node, sx.Call)
                    and sx.last_part(node.func) == anchors["call"]
                    and node.args
                ):
                    for name in sx.strings(node.args[0]):
                        found.setdefault(name, facts.codebase.place(segment, node))
    return found
