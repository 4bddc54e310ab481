"""Evaluates lists of strings, numbers and small constants, following names and imports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..source import syntax as sx
from ..source.modules import Codebase, Place
from ..source.paths import Guard, Scope
from ..source.segments import Segment

#: Calls that pass their first argument through as a collection.
_WRAPPERS = {"frozenset", "set", "list", "tuple", "sorted", "dict"}


@dataclass(frozen=True, slots=True)
class Item:
    """One member of a literal collection, with the comment beside it and where it stands."""

    value: Any
    place: Place
    comment: str = ""
    guards: tuple[Guard, ...] = ()


class Literals:
    """Evaluates literal expressions of a codebase."""

    def __init__(self, codebase: Codebase) -> None:
        self.codebase = codebase

    def collection(
        self, segment: Segment, node: sx.Expr | None, scope: Scope | None = None, depth: int = 0
    ) -> list[Item] | None:
        """The members of a list, tuple, set or dict (its keys), or None where it is not one."""
        if node is None or depth > 10:
            return None
        if isinstance(node, sx.Seq):
            return self._sequence(segment, node, scope, depth)
        if isinstance(node, sx.Map):
            return [
                Item(key.value, self.codebase.place(segment, key))
                for key, _ in node.items
                if isinstance(key, sx.Const)
            ]
        if isinstance(node, sx.Binary) and node.op in {"+", "|"}:
            left = self.collection(segment, node.left, scope, depth + 1)
            right = self.collection(segment, node.right, scope, depth + 1)
            return left + right if left is not None and right is not None else None
        if isinstance(node, sx.Call):
            name = sx.last_part(node.func)
            if name in _WRAPPERS:
                return self.collection(segment, node.args[0], scope, depth + 1) if node.args else []
            if name in {"keys", "copy"} and isinstance(node.func, sx.Attr):
                return self.collection(segment, node.func.value, scope, depth + 1)
            return None
        if isinstance(node, sx.Name):
            return self._named(segment, node, scope, depth)
        if isinstance(node, sx.Attr):
            return self._attribute(segment, node, depth)
        return None

    def _sequence(
        self, segment: Segment, node: sx.Seq, scope: Scope | None, depth: int
    ) -> list[Item] | None:
        found: list[Item] = []
        for index, item in enumerate(node.items):
            if isinstance(item, sx.Const):
                found.append(
                    Item(
                        item.value,
                        self.codebase.place(segment, item),
                        node.comments.get(index, ""),
                    )
                )
                continue
            value = self.constant(segment, item, scope, depth + 1)
            if value is not None:
                found.append(Item(value, self.codebase.place(segment, item)))
                continue
            inner = self.collection(segment, item, scope, depth + 1)
            if inner is not None and isinstance(item, (sx.Name, sx.Attr, sx.Other)):
                found += inner  # a starred name
        return found

    def _named(
        self, segment: Segment, node: sx.Name, scope: Scope | None, depth: int
    ) -> list[Item] | None:
        bindings = scope.names.get(node.id, []) if scope is not None else []
        if bindings:
            found: list[Item] = []
            for binding in bindings:
                if binding.index is not None:
                    return None
                part = self.collection(segment, binding.value, None, depth + 1)
                if part is None:
                    return None
                found += [
                    Item(item.value, item.place, item.comment, binding.guards) for item in part
                ]
            return found
        target = self.codebase.lookup(segment.file, node.id)
        if target is None or target is segment:
            return None
        return self.assigned(target, depth + 1)

    def _attribute(self, segment: Segment, node: sx.Attr, depth: int) -> list[Item] | None:
        """`cls.NAME` or `module.NAME`."""
        base = sx.dotted(node.value)
        owner = segment.qualname.rpartition(".")[0]
        if base in {"self", "cls"} and owner:
            base = owner
        target = self.codebase.lookup(segment.file, base) if base else None
        if target is None:
            return None
        for member in target.members():
            if member.name == node.name:
                return self.assigned(member, depth + 1)
        return None

    def assigned(self, segment: Segment, depth: int = 0) -> list[Item] | None:
        """The members of the collection that an assignment makes."""
        return self.collection(segment, self.codebase.value(segment), None, depth)

    def constant(
        self, segment: Segment, node: sx.Expr | None, scope: Scope | None = None, depth: int = 0
    ) -> Any:
        """A number, a string or None, following names; None also where it is not constant."""
        if isinstance(node, sx.Const):
            return node.value
        if depth > 8:
            return None
        if isinstance(node, sx.Name):
            bound = scope.single(node.id) if scope is not None else None
            if bound is not None:
                return self.constant(segment, bound, None, depth + 1)
            target = self.codebase.lookup(segment.file, node.id)
            if target is not None and target is not segment and target.kind == "assign":
                return self.constant(target, self.codebase.value(target), None, depth + 1)
        return None


def values(items: Iterable[Item] | None) -> list[Any]:
    """The values of items, in order and once each."""
    return list(dict.fromkeys(item.value for item in items or ()))
