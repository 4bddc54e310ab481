"""Backends that the code can make: decorators, dicts, or a chain of comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..source import syntax as sx
from ..source.modules import Codebase, local_imports
from ..source.paths import Event, events
from ..source.segments import Segment
from .conditions import Conditions, family_of
from .effects import effects_of
from .model import Implementation, Registered

_WARNS_OF_AGE = re.compile(r"deprecat", re.I)


class RegistryReader:
    """Finds registered names in the files that may register them."""

    def __init__(
        self, codebase: Codebase, conditions: Conditions, *, decorator: str, table: str, chain: str
    ) -> None:
        self.codebase = codebase
        self.conditions = conditions
        self._decorator = re.compile(rf"@\s*[\w.]*{decorator}\s*\(")
        self._table = re.compile(rf"^_?{table}$")
        self._chain = re.compile(chain)

    def read(self, files: Sequence[str]) -> dict[str, Registered]:
        """Every registered name, in source order."""
        found: dict[str, Registered] = {}
        for segment in self.codebase.segments(files):
            if segment.kind == "def" and self._decorator.search(segment.blanked):
                self._decorated(segment, found)
            elif segment.kind == "assign" and self._table.search(segment.name):
                self._dict(segment, found)
        if found:
            return found
        for segment in self.codebase.functions(files, self._chain):
            if self._chain.search(f"def {segment.name}("):
                self._compared(segment, found)
        return found

    def _decorated(self, segment: Segment, found: dict[str, Registered]) -> None:
        definition = self.codebase.definition(segment)
        if definition is None:
            return
        for decorator in definition.decorators:
            if not isinstance(decorator, sx.Call):
                continue
            names = [name for arg in decorator.args for name in sx.strings(arg)]
            for name in names:
                entry = Registered(name, self.codebase.place(segment, decorator))
                self._factory(segment, segment, entry)
                found[name] = entry

    def _dict(self, segment: Segment, found: dict[str, Registered]) -> None:
        value = self.codebase.value(segment)
        if not isinstance(value, sx.Map):
            return
        for key, item in value.items:
            if not (isinstance(key, sx.Const) and isinstance(key.value, str)):
                continue
            entry = Registered(key.value, self.codebase.place(segment, key))
            factory = self.codebase.lookup(segment.file, sx.last_part(item))
            if factory is not None and factory.kind == "def":
                self._factory(factory, factory, entry)
            elif factory is not None and factory.kind == "class":
                entry.implementations.append(
                    Implementation(factory, None, {}, (), self.codebase.place(segment, item))
                )
            found[key.value] = entry

    def _factory(self, segment: Segment, home: Segment, entry: Registered) -> None:
        """Read what a factory returns, and which models it refuses."""
        body = self.codebase.body(segment)
        local = local_imports(body, segment.file)
        for event in events(body):
            if event.kind == "return" and event.value is not None:
                self._returned(segment, event, local, entry)
        for effect in effects_of(self.codebase, self.conditions, segment):
            if effect.kind != "refuse":
                continue
            entry.refusals.append(effect)
            if len(effect.condition) == 1 and effect.family is not None:
                entry.only = "mla" if effect.family == "mha" else "mha"

    def _returned(
        self, segment: Segment, event: Event, local: dict[str, tuple[str, str]], entry: Registered
    ) -> None:
        value = event.scope.source(event.value)
        if not isinstance(value, sx.Call):
            return
        name = sx.last_part(value.func)
        target = self.codebase.lookup(segment.file, name, local)
        if target is None:
            return
        if target.kind == "def":
            registered = self._registered_name(target)
            if registered is not None and _WARNS_OF_AGE.search(segment.text):
                entry.target = registered
            return
        condition = self.conditions.read(segment, event.guards, event.scope)
        arguments = {
            key: item.value for key, item in value.keywords.items() if isinstance(item, sx.Const)
        }
        entry.implementations.append(
            Implementation(
                target,
                family_of(condition),
                arguments,
                condition,
                self.codebase.place(segment, event.statement),
                value,
            )
        )

    def _registered_name(self, segment: Segment) -> str | None:
        definition = self.codebase.definition(segment)
        for decorator in definition.decorators if definition is not None else ():
            if isinstance(decorator, sx.Call) and decorator.args:
                names = sx.strings(decorator.args[0])
                if names:
                    return names[0]
        return None

    def _compared(self, segment: Segment, found: dict[str, Registered]) -> None:
        """Arms of `if x == "a": … elif x == "b": …` that make something."""
        body = self.codebase.body(segment)
        local = local_imports(body, segment.file)
        for arm, names in _arms(body):
            for name in names:
                if name in found:
                    continue
                entry = Registered(name, self.codebase.place(segment, arm))
                for event in events(arm.body):
                    if event.kind in {"return", "assign"}:
                        self._returned(segment, event, local, entry)
                found[name] = entry


def _arms(body: Sequence[sx.Stmt]) -> Iterable[tuple[sx.If, list[str]]]:
    for statement in sx.all_statements(body):
        if isinstance(statement, sx.If):
            names = _compared_names(statement.test)
            if names:
                yield statement, names


def _compared_names(test: sx.Expr) -> list[str]:
    if isinstance(test, sx.Bool):
        return [name for item in test.items for name in _compared_names(item)]
    if not isinstance(test, sx.Compare) or len(test.ops) != 1:
        return []
    op, right = test.ops[0]
    subject = sx.last_part(test.left)
    if not re.search(r"backend", subject):
        return []
    return sx.strings(right) if op in {"==", "in"} else []
