"""The diffusion runtime: its enumeration, platforms, aliases, configuration keys and order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..data import load
from ..names import Displays
from ..source import syntax as sx
from ..source.modules import LinePlace, Place, local_imports
from ..source.paths import Event, Guard, Scope, conjuncts, events
from ..source.segments import Segment
from .code import CodeFacts
from .conditions import Either, Term, terms
from .effects import effects_of
from .machines import Machines
from .model import Alias, Effect

_METHODS_OF_DICT = frozenset(dir(dict))
_NOT_SET = re.compile(r"\b([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+) is not set")

#: An import anywhere in a module, in functions as well.
_IMPORT = re.compile(r"^[ \t]+(?:from|import)[ \t]+([\w.]+)", re.M)


@dataclass(slots=True)
class Outcome:
    """What a platform makes of a backend: itself, another, or a refusal.

    Attributes:
        machines: classes of machines that alone get it, where the code asks for the class;
            `decided`: whether it hangs on nothing else.
    """

    backend: str | None
    place: Place
    certain: bool
    why: str = ""
    machines: tuple[str, ...] = ()
    decided: bool = False


@dataclass(slots=True)
class Key:
    """A configuration key that code reads, and for which backends."""

    name: str
    place: Place
    default: Any
    has_default: bool
    required: bool
    nested_in: str = ""
    backends: tuple[str, ...] = ()


@dataclass(slots=True)
class Source:
    """One source of the selected backend, in the order in which sources are asked."""

    text: str
    place: Place


@dataclass(slots=True)
class Platform:
    """A platform class: its kind, and its selector method."""

    kind: str
    segment: Segment
    method: Segment
    resolvers: dict[str, Segment] = field(default_factory=dict)


class DiffusionFacts:
    """What the tree says about attention in the diffusion runtime."""

    def __init__(self, facts: CodeFacts) -> None:
        self.base = facts
        self.tree = facts.tree
        self.codebase = facts.codebase
        self.conditions = facts.conditions
        self.literals = facts.literals
        self.scan: dict[str, Any] = load("scan")["diffusion"]
        self.machines = Machines(diffusion=True)
        self._classes: dict[str, str | None] = {}

    # --- names

    @cached_property
    def enum(self) -> Segment | None:
        """The enumeration of backends."""
        anchors = self.scan["enum"]
        needle = f"class {anchors['name']}"
        for file in self.tree.search(needle, self.tree.candidates([anchors["folder"]])):
            module = self.codebase.module(file)
            for segment in module.find(anchors["name"]) if module is not None else ():
                return segment
        return None

    @cached_property
    def members(self) -> dict[str, Place]:
        """Members of the enumeration, in order."""
        if self.enum is None:
            return {}
        return {
            member.name: LinePlace(member, None, self.codebase, "", member.line)
            for member in self.enum.members()
            if member.kind == "assign" and re.fullmatch(r"[A-Z][A-Z0-9_]*", member.name)
        }

    @cached_property
    def values(self) -> list[str]:
        """What the flag takes: the members' names, lower case."""
        skipped = set(load("names")["diffusion"]["placeholders"])
        return [name.lower() for name in self.members if name not in skipped]

    @cached_property
    def displays(self) -> Displays:
        """Display names of backends."""
        return Displays("diffusion", [*self.values, *self.aliases], [])

    @cached_property
    def argument_files(self) -> list[str]:
        """Files that declare and adjust arguments."""
        return self.tree.candidates(self.scan["arguments"])

    def flag_exists(self, spelling: str) -> bool:
        """Whether the runtime declares a flag."""
        needles = [f'"{spelling}"'.encode(), f"'{spelling}'".encode()]
        field_ = spelling.removeprefix("--").replace("-", "_")
        pattern = re.compile(rf"^    {re.escape(field_)}\s*:".encode(), re.M)
        folders = [*self.scan["arguments"], *self.scan.get("more_arguments", [])]
        return any(
            any(needle in raw for needle in needles) or pattern.search(raw)
            for file in self.tree.candidates(folders)
            if (raw := self.tree.raw(file))
        )

    @cached_property
    def aliases(self) -> dict[str, Alias]:
        """Values that are turned into a member's name."""
        found: dict[str, Alias] = {}
        values = set(self.values)
        pattern = re.compile(r"attention_backend")
        for segment in self.codebase.functions(self.argument_files, pattern):
            if len(segment.text) > 20_000 or not re.search(r"==|\bin\b", segment.blanked):
                continue
            named = "attention_backend" in segment.name
            if not named and not re.search(r"attention_backend\s*=(?!=)", segment.blanked):
                continue
            for event in events(self.codebase.body(segment)):
                if event.kind != "assign" or not isinstance(event.value, sx.Const):
                    continue
                if not named and not sx.last_part(event.target).endswith("attention_backend"):
                    continue
                if event.value.value not in values:
                    continue
                for guard in event.guards[-1:]:
                    if not guard.holds or not isinstance(guard.test, sx.Compare):
                        continue
                    op, right = guard.test.ops[0]
                    if op not in {"==", "in"}:
                        continue
                    for old in sx.strings(right):
                        if old not in values and re.fullmatch(r"[a-z][a-z0-9_]*", old):
                            found.setdefault(
                                old,
                                Alias(
                                    old,
                                    str(event.value.value),
                                    self.codebase.place(segment, event.statement),
                                ),
                            )
        return found

    # --- platforms

    @cached_property
    def platforms(self) -> list[Platform]:
        """Platform classes with their own selector."""
        method = self.scan["selector_method"]
        files = self.tree.search(
            f"def {method}", self.tree.candidates([self.scan["enum"]["folder"]])
        )
        found: list[Platform] = []
        for segment in self.codebase.segments(files):
            if segment.kind != "class" or (self.enum and segment.file == self.enum.file):
                continue
            member = self.codebase.method([segment], method)
            if member is None:
                continue
            kind = self._kind(segment)
            if kind is None or any(one.kind == kind for one in found):
                continue
            found.append(Platform(kind, segment, member, self._resolvers(segment.file)))
        return found

    def platform(self, kind: str) -> Platform | None:
        """The platform of a kind."""
        return next((one for one in self.platforms if one.kind == kind), None)

    def _kind(self, segment: Segment) -> str | None:
        for member in segment.members():
            if member.name == "_enum":
                match = re.search(r"=\s*\w+\.(\w+)", member.text)
                if match:
                    return match[1].lower()
        stem = segment.file.rpartition("/")[2].removesuffix(".py")
        kinds = {str(one["kind"]) for one in self.machines.classes.values()}
        return stem if stem in kinds else None

    def _resolvers(self, file: str) -> dict[str, Segment]:
        """Classes with `backend = Enum.X` and a method that resolves it."""
        found: dict[str, Segment] = {}
        module = self.codebase.module(file)
        for segment in module.segments if module is not None else ():
            if segment.kind != "class":
                continue
            for member in segment.members():
                match = re.fullmatch(r"backend\s*=\s*\w+\.([A-Z][A-Z0-9_]*)\s*", member.text)
                if match:
                    found[match[1]] = segment
        return found

    def outcomes(self, kind: str, member: str | None) -> list[Outcome]:
        """What a platform may make of a member (None: nothing was chosen)."""
        platform = self.platform(kind)
        if platform is None:
            return []
        if member is not None and platform.resolvers:
            resolver = platform.resolvers.get(member)
            if resolver is None:
                return [
                    Outcome(None, self.codebase.place(platform.method), True, "no resolver for it")
                ]
            return self._resolved(resolver, kind)
        return self._method(platform.method, kind, member)

    def _resolved(self, resolver: Segment, kind: str) -> list[Outcome]:
        chain = self.codebase.class_chain(resolver)
        method = self.codebase.method(chain, "resolve")
        if method is None:
            return []
        found: list[Outcome] = []
        for event in events(self.codebase.body(method)):
            if event.kind != "return" or event.value is None:
                continue
            place = self.codebase.place(method, event.statement)
            name = self._returned(method, event.value, chain)
            if name is not None:
                machines, decided = self._machines(event.guards, kind)
                found.append(Outcome(name, place, not event.guards, "", machines, decided))
        return found

    def _machines(self, guards: Iterable[Guard], kind: str) -> tuple[tuple[str, ...], bool]:
        """Classes of machines that guards leave, if not all; and whether they ask nothing else."""
        every = self.machines.of_kind(kind)
        answers = [[self._on(guard.test, m) for m in every] for guard in guards]
        left = [
            machine
            for index, machine in enumerate(every)
            if all(
                answer[index] in (None, guard.holds)
                for guard, answer in zip(guards, answers, strict=True)
            )
        ]
        decided = all(None not in answer for answer in answers)
        return (tuple(left) if 0 < len(left) < len(every) else ()), decided

    def _on(self, test: sx.Expr, machine: str) -> bool | None:
        """What a question of the code comes to on a class of machines."""
        if isinstance(test, sx.Not):
            inner = self._on(test.item, machine)
            return None if inner is None else not inner
        if isinstance(test, sx.Bool):
            parts = [self._on(item, machine) for item in test.items]
            if test.op == "and":
                return False if False in parts else (True if all(parts) else None)
            return True if True in parts else (False if all(p is False for p in parts) else None)
        if isinstance(test, sx.Call):
            return self.machines.predicate(sx.last_part(test.func), machine)
        return None

    def _returned(
        self, method: Segment, node: sx.Expr, chain: list[Segment] | None = None
    ) -> str | None:
        """The member that a returned value stands for: by class path, or itself."""
        if isinstance(node, sx.Attr):
            owner = sx.dotted(node.value)
            if owner == self.scan["enum"]["name"]:
                return node.name
            if owner in {"cls", "self"} and chain is not None:
                for segment in chain:
                    for member in segment.members():
                        if member.name == node.name and member.kind == "assign":
                            return self._returned(segment, self.codebase.value(member) or node)
        if isinstance(node, sx.Const) and isinstance(node.value, str):
            return self._class_member(node.value)
        if isinstance(node, sx.Name):
            value = self.literals.constant(method, node)
            if isinstance(value, str):
                return self._class_member(value)
        text = sx.words(node)
        return self._class_member(text) if text else None

    def _class_member(self, path: str) -> str | None:
        """The member that a backend class says it is."""
        if path not in self._classes:
            self._classes[path] = None
            module, _, name = path.rpartition(".")
            file = self.tree.module_file(module)
            target = self.codebase.lookup(file, name) if file is not None else None
            if target is not None:
                for own in self.codebase.class_chain(target):
                    method = self.codebase.method([own], "get_enum")
                    if method is None:
                        continue
                    match = re.search(r"return\s+\w+\.([A-Z][A-Z0-9_]*)", method.blanked)
                    if match:
                        self._classes[path] = match[1]
                        break
                else:
                    self._classes[path] = self._by_file(module)
        return self._classes[path]

    def _by_file(self, module: str) -> str | None:
        """The member that a module is called after, where its class does not say."""
        stem = module.rpartition(".")[2].removesuffix("_backend")
        named = stem if stem in self.values else self.displays.find(stem.replace("_", " "))
        named = named or self.displays.find(stem.replace("_attn", "attention"))
        return named.upper() if named is not None and named.upper() in self.members else None

    def class_file(self, member: str) -> str | None:
        """The file of the backend class of a member."""
        for file in self.tree.candidates([self.scan["backends"]]):
            if f"return {self.scan['enum']['name']}.{member}\n".encode() in self.tree.raw(file):
                return file
        return None

    def _method(self, method: Segment, kind: str, member: str | None) -> list[Outcome]:
        """Walk a selector method with the selected backend known."""
        body = self.codebase.body(method)
        local = local_imports(body, method.file)
        definition = self.codebase.definition(method)
        selected = "selected_backend"
        if definition is not None and len(definition.params) > 1:
            selected = definition.params[1].name
        found: list[Outcome] = []
        replaced: Outcome | None = None
        for event in events(body):
            holds = self._path(method, event, kind, member, selected, local)
            if holds is False:
                continue
            place = self.codebase.place(method, event.statement)
            if event.kind == "assign" and isinstance(event.value, sx.Attr):
                other = self._returned(method, event.value)
                sure = [g for g in event.guards if self._truth(method, g.test, kind, local)
                        is g.holds and g.test is not None]  # fmt: skip
                if other is not None and sure and other != member:
                    replaced = Outcome(other, place, True, "falls back")
                continue
            if event.kind == "raise":
                found.append(Outcome(None, place, holds is True, event.message()))
                if holds is True:
                    return found
            elif event.kind == "return" and event.value is not None:
                name = self._returned(method, event.value)
                if name is None and holds is True and "." in sx.words(event.value):
                    return []  # A class that says nothing of itself: nothing is known then.
                if name is None:
                    continue
                if replaced is not None and name == member:
                    found.append(Outcome(replaced.backend, replaced.place, True, "falls back"))
                    continue
                own = [g for g in conjuncts(event.guards) if not _mentions(g.test, selected)]
                machines, decided = self._machines(own, kind)
                found.append(Outcome(name, place, holds is True, "", machines, decided))
                if holds is True:
                    return found
        return found

    def _path(
        self, method: Segment, event: Event, kind: str, member: str | None, selected: str,
        local: dict[str, tuple[str, str]],
    ) -> bool | None:  # fmt: skip
        """Whether an event is reached with this backend on this kind of machine."""
        condition = self.conditions.read(method, event.guards, event.scope)
        results = [self._term(term, kind, member, selected) for term in condition]
        for guard in event.guards:
            truth = self._truth(method, guard.test, kind, local)
            if truth is not None and truth is not guard.holds:
                return False
        if any(result is False for result in results):
            return False
        return True if all(result is True for result in results) else None

    def _term(
        self, term: Term | Either, kind: str, member: str | None, selected: str
    ) -> bool | None:
        if isinstance(term, Either):
            outcomes = []
            for option in term.options:
                parts = [self._term(part, kind, member, selected) for part in option]
                outcomes.append(
                    False if any(p is False for p in parts)
                    else (True if all(p is True for p in parts) else None)
                )  # fmt: skip
            if any(outcome is True for outcome in outcomes):
                return True
            return False if all(outcome is False for outcome in outcomes) else None
        if term.name == selected or selected in term.name.split():
            if term.op in {"in", "not in"}:
                inside = member in term.values
                return inside is (term.op == "in")
            if term.op in {"true", "false", "set", "unset"}:
                return (member is not None) is (term.op in {"true", "set"})
        return None

    def _truth(
        self, segment: Segment, test: sx.Expr, kind: str, local: dict[str, tuple[str, str]],
        depth: int = 0,
    ) -> bool | None:  # fmt: skip
        """What a question of the code comes to on a kind of machine."""
        if depth > 4:
            return None
        if isinstance(test, sx.Not):
            inner = self._truth(segment, test.item, kind, local, depth)
            return None if inner is None else not inner
        if isinstance(test, sx.Const):
            return bool(test.value)
        if isinstance(test, sx.Bool):
            parts = [self._truth(segment, item, kind, local, depth) for item in test.items]
            if test.op == "and":
                return False if False in parts else (True if all(parts) else None)
            return True if True in parts else (False if all(p is False for p in parts) else None)
        if isinstance(test, sx.Compare):
            known = self.machines.values.get(sx.dotted(test.left))
            if known is not None and kind in known:
                op, right = test.ops[0]
                if isinstance(right, sx.Const) and op in {"is", "is not", "==", "!="}:
                    return (known[kind] == right.value) is (op in {"is", "=="})
                return False
            return None
        if isinstance(test, sx.Call):
            name = sx.last_part(test.func)
            if name in self.machines.predicates:
                machines = self.machines.of_kind(kind)
                inside = [machine in self.machines.predicates[name] for machine in machines]
                if all(inside):
                    return True
                return False if not any(inside) else None
            target = self.codebase.lookup(segment.file, name, local)
            if target is not None and target.kind == "def":
                return self._function(target, kind, depth + 1)
        return None

    def _function(self, segment: Segment, kind: str, depth: int) -> bool | None:
        """What a predicate function returns on a kind of machine."""
        for event in events(self.codebase.body(segment)):
            reached = True
            for guard in event.guards:
                truth = self._truth(segment, guard.test, kind, {}, depth)
                if truth is None:
                    reached = None  # type: ignore[assignment]
                elif truth is not guard.holds:
                    reached = False
                    break
            if reached is False or event.kind != "return":
                continue
            if reached is None or event.value is None:
                return None
            return self._truth(segment, event.value, kind, {}, depth)
        return None

    def defaults(self, kind: str) -> list[Outcome]:
        """What a platform gives where nothing is chosen, argument handling first."""
        found: list[Outcome] = []
        pattern = re.compile(r"attention_backend")
        for segment in self.codebase.functions(self.argument_files, pattern):
            if "default" not in segment.name or "attention_backend" not in segment.name:
                continue
            for event in events(self.codebase.body(segment)):
                if event.kind != "assign":
                    continue
                if not sx.last_part(event.target).endswith("attention_backend"):
                    continue
                member = self._member_in(event)
                if member is None:
                    continue
                reached = [self._truth(segment, guard.test, kind, {}) is guard.holds
                           for guard in event.guards]  # fmt: skip
                if reached and all(reached):
                    found.append(
                        Outcome(member, self.codebase.place(segment, event.statement), True)
                    )
        return found or self.outcomes(kind, None)

    def _member_in(self, event: Event) -> str | None:
        node = event.scope.source(event.value)
        for part in sx.walk(node):
            if isinstance(part, sx.Attr) and part.name in self.members:
                return part.name
        return None

    # --- requirements

    def imports_of(self, member: str) -> dict[str, Place]:
        """Packages outside the tree that a member's resolver or class imports, by name."""
        found: dict[str, Place] = {}
        for platform in self.platforms:
            segment = platform.resolvers.get(member)
            if segment is not None:
                for method in segment.members():
                    if method.kind == "def":
                        self._imports(method, self.codebase.body(method), found)
        file = self.class_file(member)
        if file is not None:
            for segment in self.codebase.segments([file]):
                if segment.kind in {"import", "block"} and "import" in segment.blanked:
                    self._imports(segment, self.codebase.parse(segment), found)
                for match in _IMPORT.finditer(segment.blanked):
                    if not match[1].startswith((".", "sglang")):
                        found.setdefault(match[1], self.codebase.place(segment))
        return found

    def speaks_of(self, member: str, name: str) -> bool:
        """Whether a member's resolver or file has a name in a message, a comment or an address."""
        texts = [
            platform.resolvers[member].text
            for platform in self.platforms
            if member in platform.resolvers
        ]
        file = self.class_file(member)
        texts += [segment.text for segment in self.codebase.segments([file] if file else [])]
        return any(name.lower() in text.lower() for text in texts)

    def _imports(self, segment: Segment, body: list[sx.Stmt], found: dict[str, Place]) -> None:
        for statement in sx.all_statements(body):
            if not isinstance(statement, sx.Import):
                continue
            modules = [statement.module] if statement.module else list(statement.names.values())
            for module in modules:
                if module and not module.startswith((".", "sglang")):
                    found.setdefault(module, self.codebase.place(segment, statement))

    def unconditional_imports(self, member: str) -> dict[str, Place]:
        """Packages that a member's module imports whatever happens."""
        found: dict[str, Place] = {}
        file = self.class_file(member)
        for segment in self.codebase.segments([file] if file is not None else []):
            if segment.kind == "import":
                self._imports(segment, self.codebase.parse(segment), found)
        return found

    # --- configuration

    @cached_property
    def keys(self) -> list[Key]:
        """Configuration keys that code reads."""
        field_ = self.scan["config_field"]
        raw = field_.encode()
        files = [
            file for file in self.tree.candidates([self.scan["root"]])
            if raw in self.tree.raw(file)
        ]  # fmt: skip
        found: list[Key] = []
        for segment in self.codebase.segments(files):
            if segment.file in self.argument_files or field_ not in segment.text:
                continue
            members = segment.members() if segment.kind == "class" else [segment]
            for member in members:
                if member.kind == "def" and field_ in member.text:
                    found += self._keys_in(member, field_)
        return found

    def _keys_in(self, segment: Segment, field_: str) -> list[Key]:
        found: list[Key] = []
        owners = self._owners(segment)
        indexed: set[int] = set()
        seen: set[int] = set()
        for event in events(self.codebase.body(segment)):
            # What a branch asks is read as well, before what the branch does.
            for number, guard in enumerate(event.guards):
                if id(guard.test) not in seen:
                    seen.add(id(guard.test))
                    own = self._guarded(segment, event.guards[:number]) or owners
                    found += self._reads(segment, event, [guard.test], own, field_, indexed)
            own = self._guarded(segment, event.guards) or owners
            expressions = list(sx.own_expressions(event.statement))
            found += self._reads(segment, event, expressions, own, field_, indexed)
        return found

    def _reads(
        self, segment: Segment, event: Event, expressions: list[sx.Expr], own: tuple[str, ...],
        field_: str, indexed: set[int],
    ) -> list[Key]:  # fmt: skip
        """Reads of the configuration in some expressions of a function."""
        found: list[Key] = []
        nodes = [node for expr in expressions for node in sx.walk(expr)]
        for node in nodes:
            if isinstance(node, sx.Index):
                indexed |= {id(part) for part in sx.walk(node.key)}
        nested = {
            id(node.value): node for node in nodes
            if isinstance(node, sx.Attr) and isinstance(node.value, sx.Attr)
        }  # fmt: skip
        for node in nodes:
            key = self._key(segment, node, event.scope, field_)
            if key is None:
                continue
            name, default, has_default = key
            place = self.codebase.place(segment, event.statement)
            outer = nested.get(id(node))
            if outer is not None and outer.name in {"copy", "items", "get"}:
                found.append(Key(name, place, None, False, False, name, own))
            else:
                found.append(Key(name, place, default, has_default, id(node) in indexed, "", own))
        return found

    def _key(
        self, segment: Segment, node: sx.Expr, scope: Scope, field_: str
    ) -> tuple[str, Any, bool] | None:
        """Name and default of a read of the configuration."""
        owner: sx.Expr | None
        if isinstance(node, sx.Attr):
            owner = node.value
            if isinstance(owner, sx.Name) and scope.names.get(owner.id):
                owner = scope.names[owner.id][-1].value or owner
            if sx.last_part(owner) == field_ and node.name not in _METHODS_OF_DICT:
                return node.name, None, False
            return None
        if isinstance(node, sx.Call) and sx.last_part(node.func) == "get":
            owner = node.func.value if isinstance(node.func, sx.Attr) else None
            if not (node.args and isinstance(node.args[0], sx.Const)):
                return None
            if self._is_config(owner, scope, field_):
                default = node.args[1] if len(node.args) > 1 else None
                value = self._default(segment, default, scope)
                return str(node.args[0].value), value, len(node.args) > 1
        if (
            isinstance(node, sx.Index)
            and isinstance(node.key, sx.Const)
            and isinstance(node.key.value, str)
            and self._is_config(node.value, scope, field_)
        ):
            return node.key.value, None, False
        return None

    def _default(self, segment: Segment, node: sx.Expr | None, scope: Scope) -> Any:
        if isinstance(node, sx.Call) and sx.last_part(node.func) == "get" and len(node.args) > 1:
            return self._default(segment, node.args[1], scope)
        return self.literals.constant(segment, node, scope)

    def _is_config(self, node: sx.Expr | None, scope: Scope, field_: str) -> bool:
        seen = 0
        while isinstance(node, sx.Name) and seen < 4:
            bindings = scope.names.get(node.id, [])
            if not bindings:
                return False
            node = bindings[-1].value
            seen += 1
        if node is None:
            return False
        return any(
            (isinstance(part, sx.Attr) and part.name == field_)
            or (isinstance(part, sx.Const) and part.value == field_)
            for part in sx.walk(node)
        )

    def _owners(self, segment: Segment) -> tuple[str, ...]:
        """Members that a function serves, by its class, its file or its name."""
        match = re.search(
            rf"return\s+{self.scan['enum']['name']}\.([A-Z][A-Z0-9_]*)",
            self.tree.text(segment.file) or "",
        )
        if match and "/backends/" in segment.file:
            return (match[1],)
        short = {initials(name): name for name in self.members}
        parts = re.split(r"[_.]+", segment.qualname.lower())
        for size in (2, 1):
            for start in range(len(parts) - size + 1):
                # `prepare_sta_param` is about SLIDING_TILE_ATTN.
                part = "_".join(parts[start : start + size])
                if len(part) >= 3 and part in short:
                    return (short[part],)
        return ()

    def _guarded(self, segment: Segment, guards: Iterable[Guard]) -> tuple[str, ...]:
        """Members that a branch is for: by the enumeration, or by what the flag takes."""
        found: tuple[str, ...] = ()
        for guard in guards:
            test = guard.test
            differs = isinstance(test, sx.Compare) and test.ops[0][0] in {"!=", "is not", "not in"}
            if guard.holds is differs:
                continue
            names = tuple(
                dict.fromkeys(
                    name for part in sx.walk(test) if (name := self._named(part)) is not None
                )
            )
            if names:
                found = names
        return found

    def _named(self, node: sx.Expr) -> str | None:
        """The member that an expression is, by its name or its value."""
        if isinstance(node, sx.Attr) and sx.last_part(node.value) == self.scan["enum"]["name"]:
            return node.name if node.name in self.members else None
        if isinstance(node, sx.Const) and isinstance(node.value, str):
            return node.value.upper() if node.value in self.values else None
        return None

    def builder_parameters(self, member: str) -> dict[str, tuple[Any, bool, Place]]:
        """Parameters of the metadata builder of a member: default, whether there is one, place."""
        file = self.class_file(member)
        found: dict[str, tuple[Any, bool, Place]] = {}
        for segment in self.codebase.segments([file] if file is not None else []):
            if segment.kind != "class" or "Builder" not in segment.name:
                continue
            method = self.codebase.method([segment], "build")
            definition = self.codebase.definition(method) if method is not None else None
            if method is None or definition is None:
                continue
            for param in definition.params:
                value = param.default.value if isinstance(param.default, sx.Const) else None
                line = method.line + method.text[: method.text.find(f"{param.name}:")].count("\n")
                found[param.name] = (
                    value, param.default is not None,
                    LinePlace(method, None, self.codebase, "", line),
                )  # fmt: skip
        return found

    def environment_of(self, member: str) -> list[tuple[str, Effect]]:
        """Environment variables without which a member's functions refuse to go on."""
        found: list[tuple[str, Effect]] = []
        files = {key.place.segment.file for key in self.keys if member in key.backends}
        pattern = re.compile(r"\braise\b")
        for segment in self.codebase.functions(sorted(files), pattern):
            if "is not set" not in segment.text or self._owners(segment) != (member,):
                continue
            for effect in effects_of(self.codebase, self.conditions, segment):
                match = _NOT_SET.search(effect.message) if effect.kind == "refuse" else None
                if match:
                    found.append((match[1], effect))
        return found

    @cached_property
    def dead_branches(self) -> dict[str, Place]:
        """Members whose branch, where metadata is built, builds none."""
        field_ = self.scan["config_field"]
        found: dict[str, Place] = {}
        files = [
            file for file in self.tree.candidates([self.scan["root"]])
            if field_.encode() in self.tree.raw(file) and b"get_enum()" in self.tree.raw(file)
        ]  # fmt: skip
        for segment in self.codebase.functions(files, re.compile(r"\bget_enum\s*\(")):
            if "metadata" not in segment.name:
                continue
            for statement in sx.all_statements(self.codebase.body(segment)):
                if not isinstance(statement, sx.If):
                    continue
                names = self._guarded(segment, (Guard(statement.test),))
                if not names:
                    continue
                makes = any(
                    (isinstance(inner, sx.Return))
                    or (
                        isinstance(inner, sx.Assign)
                        and any("metadata" in sx.last_part(t) for t in inner.targets)
                    )
                    for inner in sx.all_statements(statement.body)
                )
                if not makes:
                    for name in names:
                        found[name] = self.codebase.place(segment, statement)
        return found

    # --- order and constraints

    @cached_property
    def order(self) -> list[Source]:
        """Sources of the selected backend, in the order in which they are asked."""
        anchors = self.scan["order"]
        segment = self.base.function(anchors["folder"], anchors["name"])
        if segment is None:
            return []
        found: list[Source] = []
        for statement in self.codebase.body(segment):
            for inner in sx.all_statements([statement]):
                if not isinstance(inner, sx.Assign) or inner.value is None:
                    continue
                if not any(sx.last_part(t) == anchors["variable"] for t in inner.targets):
                    continue
                text = " ".join(
                    part
                    for node in sx.walk(inner.value)
                    if (part := sx.dotted(node)) and not part.startswith(self.scan["enum"]["name"])
                )
                found.append(Source(text, self.codebase.place(segment, inner)))
        return found

    @cached_property
    def constraints(self) -> list[Effect]:
        """Refusals of every backend but some, under a condition on another flag."""
        pattern = re.compile(r"attention_backend")
        found: list[Effect] = []
        for segment in self.codebase.functions(self.argument_files, pattern):
            if "attention_backend" not in segment.name or "raise" not in segment.blanked:
                continue
            for effect in effects_of(self.codebase, self.conditions, segment):
                listed = [t for t in terms(effect.condition, "backend") if t.op == "not in"
                          and len(t.values) > 1]  # fmt: skip
                if effect.kind == "refuse" and listed:
                    found.append(effect)
        return found


def initials(name: str) -> str:
    """`sta` for SLIDING_TILE_ATTN, `vsa_h3` for VIDEO_SPARSE_ATTN_H3."""
    words = name.lower().split("_")
    plain = [word for word in words if not any(char.isdigit() for char in word)]
    marks = [word for word in words if any(char.isdigit() for char in word)]
    return "_".join(["".join(word[0] for word in plain), *marks])


def _mentions(node: sx.Expr, name: str) -> bool:
    return any(isinstance(part, sx.Name) and part.id == name for part in sx.walk(node))
