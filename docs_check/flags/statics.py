"""Evaluates the small part of Python that a release uses to spell its flags.

Nothing of the tree is imported or run. Literals, names, imports inside the package, attributes of
classes, list and set building, and calls of simple functions are followed; all else is UNKNOWN.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .tree import Module, Tree, import_target

#: How deep function calls and references are followed before giving up.
MAX_DEPTH = 24


class _Unknown:
    """The value of an expression that is not followed."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False


UNKNOWN = _Unknown()
_BUILTIN_NAMES = frozenset(dir(builtins))


@dataclass(frozen=True)
class External:
    """Something defined outside the tree, or not worth following: `json.loads`."""

    dotted: str


@dataclass(frozen=True)
class Symbol:
    """A function or class of the tree."""

    module: Module
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

    @property
    def dotted(self) -> str:
        """Full dotted path."""
        return f"{self.module.name}.{self.name}"

    def __hash__(self) -> int:
        return hash(self.dotted)


@dataclass(frozen=True)
class EnumMember:
    """One member of an Enum class of the tree."""

    name: str
    value: Any


class Choices(list[Any]):
    """A list, tuple or set of the source, in order, with what a condition may add.

    `when_env` maps an environment variable to the members added while it is set.
    """

    def __init__(self, items: Iterator[Any] | list[Any] | tuple[Any, ...] = ()) -> None:
        super().__init__(items)
        self.when_env: dict[str, list[Any]] = {}
        if isinstance(items, Choices):
            self.when_env = {key: list(value) for key, value in items.when_env.items()}


class UniqueChoices(Choices):
    """A set of the source: no member twice."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        unique = list(dict.fromkeys(item for item in self if _hashable(item)))
        self[:] = unique


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class Scope:
    """Where names are looked up: a module, and the locals of a function being followed."""

    def __init__(self, module: Module, names: dict[str, Any] | None = None) -> None:
        self.module = module
        self.names: dict[str, Any] = names if names is not None else {}


class Evaluator:
    """Follows expressions and simple functions of one tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._depth = 0
        self._cache: dict[tuple[str, str], Any] = {}

    # ------------------------------------------------------------------ names

    def lookup(self, module: Module, name: str) -> Any:
        """Value of a module-level name."""
        key = (module.name, name)
        if key in self._cache:
            return self._cache[key]
        self._cache[key] = UNKNOWN  # a name that refers to itself is not followed
        value = self._lookup(module, name)
        self._cache[key] = value
        return value

    def _lookup(self, module: Module, name: str) -> Any:
        node = module.bindings.get(name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return Symbol(module, name, node)
        if node is not None:
            assert isinstance(node, ast.expr)
            return self.evaluate(node, Scope(module))
        if name in module.imports:
            return self.imported(*module.imports[name])
        for star in module.stars:
            other = self.tree.module(star)
            if other is not None and (name in other.bindings or name in other.imports):
                return self.lookup(other, name)
        if name in _BUILTIN_NAMES:
            return External(f"builtins.{name}")
        return UNKNOWN

    def imported(self, module_name: str, name: str | None) -> Any:
        """Value of `from module_name import name`, or of `import module_name`."""
        if name is None:
            return External(module_name)
        module = self.tree.module(module_name)
        if module is not None:
            value = self.lookup(module, name)
            if value is not UNKNOWN:
                return value
        if self.tree.module(f"{module_name}.{name}") is not None:
            return External(f"{module_name}.{name}")
        return External(f"{module_name}.{name}") if module is None else UNKNOWN

    # ------------------------------------------------------------ expressions

    def evaluate(self, node: ast.expr | None, scope: Scope) -> Any:
        """Value of an expression, or UNKNOWN."""
        if node is None:
            return UNKNOWN
        if self._depth > MAX_DEPTH:
            return UNKNOWN
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            return UNKNOWN
        self._depth += 1
        try:
            return method(node, scope)
        finally:
            self._depth -= 1

    def _Constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _Name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope.names:
            return scope.names[node.id]
        return self.lookup(scope.module, node.id)

    def _items(self, nodes: list[ast.expr], scope: Scope) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.evaluate(node.value, scope)
                out += value if isinstance(value, list) else [UNKNOWN]
            else:
                out.append(self.evaluate(node, scope))
        return out

    def _List(self, node: ast.List, scope: Scope) -> Any:
        return Choices(self._items(node.elts, scope))

    def _Tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return Choices(self._items(node.elts, scope))

    def _Set(self, node: ast.Set, scope: Scope) -> Any:
        return UniqueChoices(self._items(node.elts, scope))

    def _Dict(self, node: ast.Dict, scope: Scope) -> Any:
        out: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                value = self.evaluate(value_node, scope)
                if isinstance(value, dict):
                    out.update(value)
                continue
            key = self.evaluate(key_node, scope)
            if _hashable(key):
                out[key] = self.evaluate(value_node, scope)
        return out

    def _UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.USub) and isinstance(value, int | float):
            return -value
        if isinstance(node.op, ast.Not) and value is not UNKNOWN:
            return not value
        return UNKNOWN

    def _BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        if isinstance(left, list) and isinstance(right, list):
            if isinstance(node.op, ast.Add):
                return Choices([*left, *right])
            if isinstance(node.op, ast.BitOr):
                return UniqueChoices([*left, *right])
            if isinstance(node.op, ast.Sub):
                return UniqueChoices([item for item in left if item not in right])
            return UNKNOWN
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        strings = isinstance(left, str) and isinstance(right, str)
        if isinstance(node.op, ast.Add) and (numbers or strings):
            return left + right
        if not numbers:
            return UNKNOWN
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Pow) and abs(right) < 64:
            return left**right
        if isinstance(node.op, ast.LShift) and isinstance(right, int) and 0 <= right < 64:
            return left << right
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        return left / right if isinstance(node.op, ast.Div) and right else UNKNOWN

    def _IfExp(self, node: ast.IfExp, scope: Scope) -> Any:
        test = self.evaluate(node.test, scope)
        if test is UNKNOWN:
            return UNKNOWN
        return self.evaluate(node.body if test else node.orelse, scope)

    def _JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        parts = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            value = self.evaluate(part.value, scope)
            if not isinstance(value, str | int | float):
                return UNKNOWN
            parts.append(str(value))
        return "".join(parts)

    def _Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute(self.evaluate(node.value, scope), node.attr)

    def attribute(self, base: Any, name: str) -> Any:
        """`base.name` of a followed value."""
        if isinstance(base, External):
            module = self.tree.module(base.dotted)
            if module is not None:
                return self.lookup(module, name)
            return External(f"{base.dotted}.{name}")
        if isinstance(base, EnumMember):
            return {"name": base.name, "value": base.value}.get(name, UNKNOWN)
        if isinstance(base, Symbol) and isinstance(base.node, ast.ClassDef):
            return self._class_attribute(base, name)
        return UNKNOWN

    def _class_attribute(self, owner: Symbol, name: str) -> Any:
        assert isinstance(owner.node, ast.ClassDef)
        scope = Scope(owner.module, _ClassNames(self, owner))
        for statement in owner.node.body:
            value = class_value(statement, name)
            if value is not None:
                found = self.evaluate(value, scope)
                if is_enum(owner.node):
                    return EnumMember(name, found)
                return found
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return Symbol(owner.module, f"{owner.name}.{name}", statement)
        return UNKNOWN

    def enum_members(self, owner: Symbol) -> list[EnumMember]:
        """Members of an Enum class in order."""
        assert isinstance(owner.node, ast.ClassDef)
        out = []
        for statement in owner.node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if not name.startswith("_"):
                    value = self.evaluate(statement.value, Scope(owner.module))
                    out.append(EnumMember(name, value))
        return out

    def _Subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base = self.evaluate(node.value, scope)
        if isinstance(base, dict | list):
            key = self.evaluate(node.slice, scope)
            try:
                return base[key]
            except (KeyError, IndexError, TypeError):
                return UNKNOWN
        return UNKNOWN

    def _ListComp(self, node: ast.ListComp, scope: Scope) -> Any:
        return self._comprehension(node, scope)

    def _SetComp(self, node: ast.SetComp, scope: Scope) -> Any:
        value = self._comprehension(node, scope)
        return UniqueChoices(value) if isinstance(value, list) else value

    def _GeneratorExp(self, node: ast.GeneratorExp, scope: Scope) -> Any:
        return self._comprehension(node, scope)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope
    ) -> Any:
        if len(node.generators) != 1 or node.generators[0].ifs:
            return UNKNOWN
        generator = node.generators[0]
        source = self._iterable(self.evaluate(generator.iter, scope))
        if source is None or not isinstance(generator.target, ast.Name):
            return UNKNOWN
        out = Choices()
        for item in source:
            inner = Scope(scope.module, {**scope.names, generator.target.id: item})
            out.append(self.evaluate(node.elt, inner))
        return out

    def _iterable(self, value: Any) -> list[Any] | None:
        if isinstance(value, Symbol) and isinstance(value.node, ast.ClassDef):
            return list(self.enum_members(value)) if is_enum(value.node) else None
        if isinstance(value, dict):
            return list(value)
        return value if isinstance(value, list) else None

    # ------------------------------------------------------------------ calls

    def _Call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Attribute):
            base = self.evaluate(node.func.value, scope)
            if isinstance(base, list | dict | str):
                return self._method(base, node.func.attr, self._items(node.args, scope))
        function = self.evaluate(node.func, scope)
        arguments = self._items(node.args, scope)
        if isinstance(function, External):
            return self._builtin(function.dotted, arguments)
        if isinstance(function, Symbol) and isinstance(function.node, ast.FunctionDef):
            keywords = {
                keyword.arg: self.evaluate(keyword.value, scope)
                for keyword in node.keywords
                if keyword.arg
            }
            return self.call(function, arguments, keywords)
        return UNKNOWN

    def _builtin(self, dotted: str, arguments: list[Any]) -> Any:
        name = dotted.removeprefix("builtins.")
        if not arguments:
            return {"list": Choices(), "set": UniqueChoices(), "dict": {}}.get(name, UNKNOWN)
        source = self._iterable(arguments[0])
        if source is None:
            return UNKNOWN
        if name in {"list", "tuple"}:
            return Choices(source)
        if name in {"set", "frozenset"}:
            return UniqueChoices(source)
        if name == "sorted":
            try:
                return Choices(sorted(source))
            except TypeError:
                return UNKNOWN
        return UNKNOWN

    def _method(self, base: Any, name: str, arguments: list[Any]) -> Any:
        if isinstance(base, dict):
            if name == "keys":
                return Choices(list(base))
            if name == "values":
                return Choices(list(base.values()))
            if name == "get" and arguments and _hashable(arguments[0]):
                return base.get(*arguments[:2])
            return UNKNOWN
        if isinstance(base, str):
            if name in {"lower", "upper", "strip"} and not arguments:
                return getattr(base, name)()
            if name == "replace" and all(isinstance(item, str) for item in arguments):
                return base.replace(*arguments)
            return UNKNOWN
        if name in {"append", "add"} and arguments:
            if not (isinstance(base, UniqueChoices) and arguments[0] in base):
                base.append(arguments[0])
            return None
        if name in {"extend", "update"} and arguments and isinstance(arguments[0], list):
            base.extend(arguments[0])
            return None
        return type(base)(base) if name == "copy" else UNKNOWN

    def call(self, function: Symbol, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Follow a function of the tree; a branch that cannot be decided is taken both ways."""
        assert isinstance(function.node, ast.FunctionDef)
        if self._depth > MAX_DEPTH:
            return UNKNOWN
        parameters = function.node.args
        names = dict(zip((argument.arg for argument in parameters.args), arguments, strict=False))
        scope = Scope(function.module, {**names, **keywords})
        returned = list(self.run(function.node.body, scope))
        known = [value for value in returned if is_known(value)]
        return known[0] if known else (returned[0] if returned else None)

    def run(self, body: list[ast.stmt], scope: Scope) -> Iterator[Any]:
        """Follow statements; yields the value of each `return` that may be reached."""
        for statement in body:
            if isinstance(statement, ast.Return):
                yield self.evaluate(statement.value, scope) if statement.value else None
                return
            if isinstance(statement, ast.If):
                test = self.evaluate(statement.test, scope)
                if test is UNKNOWN or isinstance(test, External | Symbol):
                    yield from self.run(statement.body, scope)
                    yield from self.run(statement.orelse, scope)
                else:
                    yield from self.run(statement.body if test else statement.orelse, scope)
            else:
                self.execute(statement, scope)

    def execute(self, statement: ast.stmt, scope: Scope) -> None:
        """Follow one statement that binds names or changes a list."""
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            scope.names[statement.targets[0].id] = self.evaluate(statement.value, scope)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            scope.names[statement.target.id] = self.evaluate(statement.value, scope)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.split(".")[0]
                scope.names[name] = External(alias.name if alias.asname else name)
        elif isinstance(statement, ast.ImportFrom):
            target = import_target(scope.module, statement)
            for alias in statement.names:
                scope.names[alias.asname or alias.name] = self.imported(target, alias.name)
        elif isinstance(statement, ast.Expr):
            self.evaluate(statement.value, scope)


class _ClassNames(dict[str, Any]):
    """Names of a class body, evaluated when one of its values refers to them."""

    def __init__(self, evaluator: Evaluator, owner: Symbol) -> None:
        super().__init__()
        self._evaluator, self._owner = evaluator, owner

    def __contains__(self, name: object) -> bool:
        assert isinstance(self._owner.node, ast.ClassDef)
        return any(class_value(item, str(name)) is not None for item in self._owner.node.body)

    def __getitem__(self, name: str) -> Any:
        assert isinstance(self._owner.node, ast.ClassDef)
        for statement in self._owner.node.body:
            value = class_value(statement, name)
            if value is not None:
                return self._evaluator.evaluate(value, Scope(self._owner.module, self))
        raise KeyError(name)


def class_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """The expression that a class statement binds to `name`."""
    if isinstance(statement, ast.Assign):
        if any(isinstance(target, ast.Name) and target.id == name for target in statement.targets):
            return statement.value
    elif (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id == name
    ):
        return statement.value
    return None


def is_enum(node: ast.ClassDef) -> bool:
    """Whether a base class says Enum."""
    return any(ast.unparse(base).split(".")[-1].endswith("Enum") for base in node.bases)


def is_known(value: Any) -> bool:
    """Whether nothing in a value is UNKNOWN."""
    if isinstance(value, list):
        return all(is_known(item) for item in value)
    if isinstance(value, dict):
        return all(is_known(item) for item in value)
    return value is not UNKNOWN and not isinstance(value, External)


def called_name(call: ast.Call) -> str:
    """Last part of what is called."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
