"""Sub-backends of a sparse attention: choices by phase, what the kernels dispatch on, defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..source import syntax as sx
from ..source.modules import Place
from ..source.paths import Guard, events
from ..source.segments import Segment
from .conditions import Condition, Either, Term
from .memory import remembered
from .model import Support

if TYPE_CHECKING:
    from .code import CodeFacts

_RAISES = re.compile(r"\s*\)?\s*:\s*(?:#[^\n]*\s*)*raise\b")
_METHODS = {"prefill": "forward_extend", "decode": "forward_decode"}


@dataclass(slots=True)
class Default:
    """A sub-backend that a phase gets under a condition."""

    name: str
    phase: str
    condition: Condition
    place: Place


@remembered
def arms(facts: CodeFacts, backend: str, phase: str) -> dict[str, Place]:
    """Sub-backends that the phase's method compares with, or its implementation anywhere."""
    found: dict[str, Place] = {}
    for chain in facts.class_chains(backend, None):
        method = facts.codebase.method(chain, _METHODS[phase])
        if method is not None:
            _compared(facts, method, "impl", found)
        for segment in chain:
            for member in segment.members():
                if member.kind == "def" and member is not method:
                    _compared(facts, member, rf"{phase}_impl", found)
    return found


def _compared(facts: CodeFacts, segment: Segment, subject: str, found: dict[str, Place]) -> None:
    """Strings that a name is compared with; the methods are long and this is all they tell."""
    if "impl" not in segment.blanked:
        return
    one = re.compile(rf"{subject}\s*==\s*[\"'](\w+)[\"']")
    several = re.compile(rf"{subject}\s+in\s*[(\[{{]([^)\]}}]*)[)\]}}]")
    for match in one.finditer(segment.text):
        # A comparison that leads to a refusal is the opposite of a branch.
        if segment.is_code(match.start()) and not _RAISES.match(segment.text, match.end()):
            _note(facts, segment, match.start(), match[1], found)
    for match in several.finditer(segment.text):
        if segment.is_code(match.start()):
            for value in re.findall(r"[\"'](\w+)[\"']", match[1]):
                _note(facts, segment, match.start(), value, found)


def _note(
    facts: CodeFacts, segment: Segment, position: int, value: str, found: dict[str, Place]
) -> None:
    line = segment.line + segment.text.count("\n", 0, position)
    found.setdefault(value, facts.text_place(segment, line))


@remembered
def support(facts: CodeFacts, backend: str, name: str, phase: str) -> Support | None:
    """Whether a sub-backend serves a phase: among the choices, and dispatched to."""
    flag = facts.flags.get(f"{backend}_{phase}_backend")
    if flag is None or not flag.choices:
        return None
    choice = next((choice for choice in flag.choices if choice.value == name), None)
    if choice is None:
        return Support("no", [flag.place], f"not a choice of {flag.names[0]}")
    dispatched = arms(facts, backend, phase)
    if dispatched and name not in dispatched:
        method = next(
            (
                facts.codebase.method(chain, _METHODS[phase])
                for chain in facts.class_chains(backend, None)
            ),
            None,
        )
        place = facts.codebase.place(method) if method is not None else flag.place
        return Support(
            "no", [choice.place, place],
            f"a choice of {flag.names[0]}, but {_METHODS[phase]} has no branch for it",
        )  # fmt: skip
    return Support("yes", [choice.place], f"a choice of {flag.names[0]}")


def defaults(facts: CodeFacts, backend: str) -> list[Default]:
    """What each phase gets where nothing was asked for."""
    found: list[Default] = []
    pattern = re.compile(rf"{backend}_(prefill|decode)_backend")
    needle = re.compile(rf"{backend}_(prefill|decode)_backend|{backend}_split|declared")
    files = [
        file
        for file in facts.tree.candidates(facts.scan["resolution"])
        if f"{backend}_prefill_backend".encode() in facts.tree.raw(file)
        and not file.endswith(("field_order.py",))
    ]
    for segment in facts.codebase.functions(files, needle):
        if f"{backend}_prefill_backend" not in segment.text:
            continue
        body = facts.codebase.body(segment)
        for event in events(body):
            if event.kind != "assign" or event.value is None:
                continue
            target = event.target
            name = (
                str(target.key.value)
                if isinstance(target, sx.Index) and isinstance(target.key, sx.Const)
                else sx.last_part(target)
            )
            match = pattern.search(name)
            if not match:
                continue
            for value, extra in _values(event.value, event.scope):
                condition = facts.conditions.read(segment, (*event.guards, *extra), event.scope)
                found.append(
                    Default(
                        value,
                        match[1],
                        condition,
                        facts.codebase.place(segment, event.statement),
                    )
                )
    return found


def _values(node: sx.Expr, scope: object) -> list[tuple[str, tuple[Guard, ...]]]:
    if isinstance(node, sx.Name):
        bindings = scope.names.get(node.id, [])  # type: ignore[attr-defined]
        if not bindings:
            return []
        return _values(bindings[-1].value, scope)
    if isinstance(node, sx.Const) and isinstance(node.value, str):
        return [(node.value, ())]
    if isinstance(node, sx.IfElse):
        return [
            *((v, (Guard(node.test), *g)) for v, g in _values(node.body, scope)),
            *((v, (Guard(node.test, False), *g)) for v, g in _values(node.orelse, scope)),
        ]
    return []


def general(found: list[Default]) -> list[Default]:
    """Defaults that hang on machine and dtype alone, not on one model's traits or a flag."""
    if not found:
        return []
    common = set(found[0].condition)
    for default in found[1:]:
        common &= set(default.condition)
    kept = []
    for default in found:
        rest = tuple(term for term in default.condition if term not in common)
        if all(_plain(term) for term in rest):
            kept.append(Default(default.name, default.phase, rest, default.place))
    return kept


def _plain(term: Term | Either) -> bool:
    if isinstance(term, Either):
        return True
    return term.subject in {"platform", "kv_dtype", "capability", "sparse"} or term.op in {
        "false", "not in", "unset",
    }  # fmt: skip
