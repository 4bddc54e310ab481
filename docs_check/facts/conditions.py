"""Reads guards: which backends, family, platform, dtype, page size or topk they speak of.

A guard is turned into terms. A term has a subject that facts ask for (`backend`, `family`,
`platform`, `kv_dtype`, `page_size`, `topk`, `speculation`, …), an operator and values; what is not
understood is a term whose subject is `other`, with its source text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..source import syntax as sx
from ..source.paths import Guard, Scope, conjuncts
from ..source.segments import Segment
from .literals import Literals, values

_OPPOSITE = {
    "in": "not in", "not in": "in", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
    "true": "false", "false": "true",
}  # fmt: skip

#: Subject of a name that is compared; the first pattern that matches counts.
_SUBJECTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("kv_dtype", re.compile(r"kv_cache_dtype|kv_cache_quant|data_type$|^kv_dtype")),
    ("page_size", re.compile(r"page_size$")),
    ("topk", re.compile(r"(eagle_)?topk$")),
    ("speculation", re.compile(r"spec(ulative)?_algorithm")),
    ("vision", re.compile(r"mm_attention|qkv_backend")),
    ("linear", re.compile(r"linear_attn")),
    ("sparse", re.compile(r"(dsa|nsa)_(impl|prefill|decode|\w*backend)")),
    ("elsewhere", re.compile(r"moe|gemm|sampling|grammar|transfer|lora|a2a|allreduce|collective")),
    ("backend", re.compile(
        r"att(ention|n)_backends?|^(explicit_|configured_)?(prefill|decode|draft)_(be|backend)(_str)?$"
        r"|^backend(_str|_name|_type)?$"
    )),
    ("capability", re.compile(r"device_capability|^(sm_)?major$|device_sm|capability|sm_version")),
    ("device", re.compile(r"(^|\.)device(_type)?$")),
    ("head_dim", re.compile(r"head_dim$")),
    ("implementation", re.compile(r"impl_ver$")),
)  # fmt: skip
_FAMILY = re.compile(r"^_?(?:use|uses|is|using)_(?P<family>mla)(?:_backend)?$")
_PREDICATE = re.compile(r"^_?(?:is|has|use)_\w+$|support")


@dataclass(frozen=True, slots=True)
class Term:
    """One statement that has to hold."""

    subject: str
    op: str
    values: tuple[Any, ...] = ()
    name: str = ""

    def negated(self) -> Term:
        """The statement that this one does not hold."""
        return Term(self.subject, _OPPOSITE.get(self.op, f"not {self.op}"), self.values, self.name)

    def __str__(self) -> str:
        label = _LABELS.get(self.subject, self.name)
        if self.subject == "family":
            return "an MLA model" if (self.op == "true") else "a model that is not MLA"
        if self.op == "true":
            return label_of(self)
        if self.op == "false":
            return f"not {label_of(self)}"
        shown = ", ".join(str(value) for value in self.values)
        if self.op == "in" and len(self.values) == 1:
            return f"{label or self.name} is {shown}"
        if self.op == "not in" and len(self.values) == 1:
            return f"{label or self.name} is not {shown}"
        words = {"in": "is one of", "not in": "is none of"}.get(self.op, self.op)
        return f"{label or self.name} {words} {shown}"


_LABELS = {
    "kv_dtype": "KV cache dtype", "page_size": "page size", "topk": "speculative topk",
    "speculation": "speculative algorithm", "capability": "compute capability",
}  # fmt: skip


def label_of(term: Term) -> str:
    """A predicate's name as people would say it."""
    return term.name.removeprefix("_").replace("is_", "").replace("_", " ")


@dataclass(frozen=True, slots=True)
class Either:
    """One of several conjunctions of terms holds."""

    options: tuple[tuple[Term | Either, ...], ...]

    def __str__(self) -> str:
        return " or ".join(" and ".join(str(term) for term in option) for option in self.options)


Condition = tuple["Term | Either", ...]


@cache
def _subject_of(name: str) -> str | None:
    return next((subject for subject, pattern in _SUBJECTS if pattern.search(name)), None)


class Conditions:
    """Turns guards into terms."""

    def __init__(self, literals: Literals) -> None:
        self.literals = literals

    def read(self, segment: Segment, guards: Iterable[Guard], scope: Scope) -> Condition:
        """The terms of a path, in order."""
        found: list[Term | Either] = []
        for guard in conjuncts(guards):
            found += self._guard(segment, guard, scope, 0)
        return tuple(dict.fromkeys(found))

    def _guard(
        self, segment: Segment, guard: Guard, scope: Scope, depth: int
    ) -> list[Term | Either]:
        test, holds = guard.test, guard.holds
        if isinstance(test, sx.Name) and depth < 5:
            bound = scope.single(test.id)
            if bound is not None and not isinstance(bound, (sx.Const, sx.Name)):
                term = self._named_predicate(test, holds)
                if term is not None and term.subject == "family":
                    return [term]
                return [
                    part
                    for inner in conjuncts([Guard(bound, holds)])
                    for part in self._guard(segment, inner, scope, depth + 1)
                ]
        if isinstance(test, sx.Compare):
            return self._compare(segment, test, holds, scope)
        if isinstance(test, sx.Bool):
            return self._disjunction(segment, test, holds, scope, depth)
        if isinstance(test, sx.Const):
            return []
        term = self._named_predicate(test, holds)
        if term is not None:
            return [term]
        return [Term("other", "true" if holds else "false", (), describe(test))]

    def _named_predicate(self, test: sx.Expr, holds: bool) -> Term | None:
        name = sx.last_part(test)
        if not name:
            return None
        op = "true" if holds else "false"
        family = _FAMILY.match(name)
        if family:
            return Term("family", op, (), family["family"])
        subject = _subject_of(name)
        if subject in {"page_size", "topk", "speculation"}:
            return Term(subject, "set" if holds else "unset", (), name)
        if _PREDICATE.search(name):
            return Term("platform", op, (), name)
        return Term("other", op, (), describe(test))

    def _disjunction(
        self, segment: Segment, test: sx.Bool, holds: bool, scope: Scope, depth: int
    ) -> list[Term | Either]:
        """A disjunction on one subject is one term; any other is kept whole."""
        options: list[tuple[Term | Either, ...]] = []
        for item in test.items:
            parts: list[Term | Either] = []
            for inner in conjuncts([Guard(item, holds)]):
                parts += self._guard(segment, inner, scope, depth + 1)
            options.append(tuple(parts))
        flat = [option[0] for option in options if len(option) == 1]
        if len(flat) == len(options) and all(
            isinstance(term, Term) and term.op == "in" and term.subject == flat[0].subject  # type: ignore[union-attr]
            for term in flat
        ):
            terms = [term for term in flat if isinstance(term, Term)]
            merged = tuple(dict.fromkeys(value for term in terms for value in term.values))
            names = tuple(dict.fromkeys(term.name for term in terms))
            return [Term(terms[0].subject, "in", merged, "|".join(names))]
        if (
            flat
            and len(flat) == len(options)
            and all(
                isinstance(term, Term)
                and term.op == "not in"
                and term.subject == "backend"
                and term.values == flat[0].values  # type: ignore[union-attr]
                for term in flat
            )
        ):
            names = tuple(term.name for term in flat if isinstance(term, Term))
            first = next(term for term in flat if isinstance(term, Term))
            return [Term("backend", "not in", first.values, "|".join(dict.fromkeys(names)))]
        return [Either(tuple(options))]

    def _compare(
        self, segment: Segment, test: sx.Compare, holds: bool, scope: Scope
    ) -> list[Term | Either]:
        found: list[Term | Either] = []
        left = test.left
        for op, right in test.ops:
            found.append(self._one(segment, left, op, right, holds, scope))
            left = right
        return found

    def _one(
        self, segment: Segment, left: sx.Expr, op: str, right: sx.Expr, holds: bool, scope: Scope
    ) -> Term:
        if op in {"==", "!=", "is", "is not", "in", "not in"}:
            positive = op in {"==", "is", "in"}
            constant = self._constants(segment, right, scope)
            subject = left
            if constant is None or (op in {"in", "not in"} and not isinstance(right, _COLLECTIONS)):
                other = self._constants(segment, left, scope)
                if other is not None and (constant is None or op in {"in", "not in"}):
                    inner = self._constants(segment, right, scope)
                    if inner is None:
                        constant, subject = other, right
            if constant is not None:
                name, kind = self._subject(segment, subject, scope)
                return Term(kind, "in" if positive is holds else "not in", tuple(constant), name)
            name, kind = self._subject(segment, left, scope)
            other_name, other_kind = self._subject(segment, right, scope)
            if kind == other_kind == "backend" and op in {"==", "!="}:
                return Term(
                    "pair", "true" if positive is holds else "false", (), f"{name} = {other_name}"
                )
            return Term(
                "other", "true" if holds else "false", (),
                describe(sx.Compare(left, [(op, right)])),
            )  # fmt: skip
        value = self._number(segment, right, scope)
        subject = left
        if value is None:
            value = self._number(segment, left, scope)
            subject = right
            op = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
        name, kind = self._subject(segment, subject, scope)
        if value is None:
            return Term(
                "other", "true" if holds else "false", (),
                describe(sx.Compare(left, [(op, right)])),
            )  # fmt: skip
        return Term(kind, op if holds else _OPPOSITE.get(op, f"not {op}"), (value,), name)

    def _constants(self, segment: Segment, node: sx.Expr, scope: Scope) -> list[Any] | None:
        if isinstance(node, sx.Const):
            return [node.value]
        if isinstance(node, sx.Attr):
            name = sx.dotted(node)
            # Members of enumerations and dtypes are constants that keep their names.
            if re.match(r"torch\.(float|bfloat|int|uint|half)", name) or re.search(
                r"(^|\.)[A-Z]\w*\.[A-Z][A-Z0-9_]*$", name
            ):
                return [name.rpartition(".")[2]]
        if isinstance(node, sx.Seq):
            parts = [self._constants(segment, item, scope) for item in node.items]
            if parts and all(part is not None for part in parts):
                return [value for part in parts for value in part or ()]
            return None
        if isinstance(node, (sx.Name, sx.Call, sx.Binary, sx.Attr)):
            found = self.literals.collection(segment, node, scope)
            if found is not None:
                return values(found)
            value = self.literals.constant(segment, node, scope)
            if value is not None:
                return [value]
        return None

    def _number(self, segment: Segment, node: sx.Expr, scope: Scope) -> Any:
        if isinstance(node, sx.Const) and isinstance(node.value, (int, float, str)):
            return node.value
        if isinstance(node, sx.Seq):
            parts = [item.value for item in node.items if isinstance(item, sx.Const)]
            return tuple(parts) if len(parts) == len(node.items) and parts else None
        if isinstance(node, sx.Name):
            return self.literals.constant(segment, node, scope)
        return None

    def _subject(self, segment: Segment, node: sx.Expr, scope: Scope) -> tuple[str, str]:
        """Name and kind of what a comparison is about."""
        names = list(_names_of(node, scope))
        for name in names:
            subject = _subject_of(name)
            if subject is not None:
                return name, subject
        return (names[0] if names else describe(node)), "other"


_COLLECTIONS = (sx.Seq, sx.Name, sx.Call, sx.Binary, sx.Attr, sx.Map)


def _names_of(node: sx.Expr, scope: Scope, depth: int = 0) -> Iterable[str]:
    """Names that an expression goes by: its own, and what local names stand for."""
    if depth > 4:
        return
    if isinstance(node, (sx.Bool, sx.Binary)):
        for item in sx.children(node):
            yield from _names_of(item, scope, depth + 1)
        return
    if isinstance(node, sx.Seq):
        for item in node.items:
            yield from _names_of(item, scope, depth + 1)
        return
    if isinstance(node, sx.Call):
        name = sx.last_part(node.func)
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], sx.Const):
            yield str(node.args[1].value)
            return
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], sx.Name):
            bound = scope.names.get(node.args[1].id, [])
            for binding in bound:
                yield from sx.strings(binding.value)
        if name in {"get", "upper", "lower", "set", "list", "tuple", "str"}:
            inner = node.func.value if isinstance(node.func, sx.Attr) else None
            for part in (inner, *node.args):
                if part is not None:
                    yield from _names_of(part, scope, depth + 1)
            return
    name = sx.last_part(node)
    if name:
        yield name
    if isinstance(node, sx.Name):
        for binding in scope.names.get(node.id, []):
            yield from _names_of(binding.value, scope, depth + 1)
    elif isinstance(node, (sx.Index, sx.Attr)):
        yield from _names_of(node.value, scope, depth + 1)


def describe(node: sx.Expr) -> str:
    """An expression as short source text."""
    if isinstance(node, sx.Compare):
        return " ".join(
            [describe(node.left), *(f"{op} {describe(right)}" for op, right in node.ops)]
        )
    if isinstance(node, sx.Const):
        return repr(node.value)
    if isinstance(node, sx.Bool):
        return f" {node.op} ".join(describe(item) for item in node.items)
    if isinstance(node, sx.Not):
        return f"not {describe(node.item)}"
    if isinstance(node, sx.Seq):
        return "(" + ", ".join(describe(item) for item in node.items) + ")"
    if isinstance(node, sx.Binary):
        return f"{describe(node.left)} {node.op} {describe(node.right)}"
    if isinstance(node, sx.Call):
        inner = ", ".join(describe(arg) for arg in node.args[:2])
        return f"{sx.dotted(node.func) or '…'}({inner})"
    return sx.dotted(node) or "…"


def terms(condition: Condition, subject: str) -> list[Term]:
    """The plain terms of a condition on one subject."""
    return [term for term in condition if isinstance(term, Term) and term.subject == subject]


def backends_of(condition: Condition) -> list[str]:
    """Backends that a path is about: those of every positive term on backends, in order."""
    found: dict[str, None] = {}
    for term in terms(condition, "backend"):
        if term.op == "in":
            for value in term.values:
                if isinstance(value, str):
                    found[value] = None
    return list(found)


def family_of(condition: Condition) -> str | None:
    """`mla`, `mha`, or None where a path holds for both."""
    for term in terms(condition, "family"):
        return term.name if term.op == "true" else "mha"
    return None


def without(condition: Condition, *subjects: str) -> Condition:
    """A condition without the terms on some subjects."""
    return tuple(
        term for term in condition if not (isinstance(term, Term) and term.subject in subjects)
    )


def say(condition: Condition) -> str:
    """A condition in words."""
    return " and ".join(str(term) for term in condition)
