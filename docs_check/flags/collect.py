"""Collects every flag that a release registers with argparse, from its source alone.

Two ways of declaring flags are followed, and their mixture: `parser.add_argument` calls, and
annotated fields (`A[type, Arg(…)]`) that the release turns into such calls itself.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import launcher
from .annotations import element_type, infer, is_list, literal_values, type_name, unwrap_optional
from .converters import Converters
from .rows import ACTIONS, FALSE_BY_DEFAULT, VALUELESS, FlagRow, FlagSet
from .statics import (
    UNKNOWN,
    Choices,
    Evaluator,
    External,
    Scope,
    Symbol,
    called_name,
    is_known,
)
from .tree import Module, Tree

#: Where a release keeps its server arguments.
SERVER_ARGS_MODULE = "sglang.srt.server_args"
SERVER_ARGS_CLASS = "ServerArgs"

MISSING: Any = object()


class ExtractionError(Exception):
    """The tree does not look like a release whose flags can be read."""


def collect(root: Path) -> FlagSet:
    """Read a release tree.

    Raises:
        ExtractionError: the tree has no server arguments that can be read.
    """
    tree = Tree(root)
    module = tree.module(SERVER_ARGS_MODULE)
    if module is None:
        raise ExtractionError(f"{root}: no readable srt/server_args.py below it")
    return _Collector(tree, module).run()


class _Collector:
    def __init__(self, tree: Tree, module: Module) -> None:
        self.tree, self.module = tree, module
        self.evaluator = Evaluator(tree)
        self.rows: list[FlagRow] = []
        self.problems: list[str] = []
        owner = self.evaluator.lookup(module, SERVER_ARGS_CLASS)
        if not (isinstance(owner, Symbol) and isinstance(owner.node, ast.ClassDef)):
            raise ExtractionError(f"{module.path}: no class {SERVER_ARGS_CLASS}")
        self.owner = owner
        self.fields = self._fields()
        self.converters = Converters(self.evaluator, self.problems)

    def run(self) -> FlagSet:
        method = self._method("add_cli_args")
        if method is None:
            raise ExtractionError(f"{self.module.path}: {SERVER_ARGS_CLASS} has no add_cli_args")
        self._registrations(method, [self.owner])
        known = {row.field for row in self.rows}
        for name in self.fields:
            if name not in known:
                self.rows.append(self._fieldless(name))
        prepare = self._function("prepare_server_args")
        return FlagSet(
            release=self._release(),
            flags=self.rows,
            field_order=list(self.fields),
            converters=self.converters.facts,
            checks=launcher.checks(self.tree, prepare, self.fields),
            explicit=launcher.explicit(self.tree, prepare, self.fields),
            config=launcher.config_file(self.evaluator),
            problems=self.problems,
        )

    def _release(self) -> str:
        """Version as the tree itself states it, or as its wheel's metadata does."""
        for name in ("sglang._version", "sglang.version"):
            module = self.tree.module(name)
            for key in ("version", "__version__") if module is not None else ():
                assert module is not None
                value = self.evaluator.lookup(module, key)
                if isinstance(value, str) and value[:1].isdigit():
                    return value
        for path in self.tree.root.parent.glob("sglang-*.dist-info"):
            return path.name.removeprefix("sglang-").removesuffix(".dist-info")
        return "unknown"

    # ----------------------------------------------------------------- fields

    def _fields(self) -> dict[str, _Field]:
        """Fields of the record in constructor order."""
        own = self._annotated(self.owner)
        if own:
            return own
        declared: dict[str, _Field] = {}
        order: list[Any] = []
        for call in ast.walk(self.module.tree):
            if not (isinstance(call, ast.Call) and called_name(call) == "collect_input_fields"):
                continue
            sources = self.evaluator.evaluate(call.args[0], Scope(self.module))
            for source in sources if isinstance(sources, list) else ():
                if isinstance(source, Symbol):
                    declared.update(self._annotated(source))
            function = self.evaluator.evaluate(call.func, Scope(self.module))
            if isinstance(function, Symbol):
                found = self.evaluator.lookup(function.module, "POSITIONAL_FIELD_ORDER")
                order = found if isinstance(found, list) else []
        if not declared:
            raise ExtractionError(f"{self.module.path}: {SERVER_ARGS_CLASS} has no fields")
        names = [name for name in order if name in declared]
        names += [name for name in declared if name not in set(names)]
        return {name: declared[name] for name in names}

    def _annotated(self, owner: Symbol) -> dict[str, _Field]:
        assert isinstance(owner.node, ast.ClassDef)
        out = {}
        for statement in owner.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if "ClassVar" in ast.unparse(statement.annotation):
                    continue
                name = statement.target.id
                out[name] = _Field(name, owner, statement)
        return out

    def _default(self, name: str) -> Any:
        """Default of a field, MISSING where it has none."""
        declared = self.fields.get(name)
        if declared is None or declared.node.value is None:
            return MISSING
        value = declared.node.value
        scope = Scope(declared.owner.module)
        if isinstance(value, ast.Call) and called_name(value) == "field":
            for keyword in value.keywords:
                if keyword.arg == "default":
                    return self.evaluator.evaluate(keyword.value, scope)
                if keyword.arg == "default_factory":
                    made = ast.Call(func=keyword.value, args=[], keywords=[])
                    if isinstance(keyword.value, ast.Lambda):
                        return self.evaluator.evaluate(keyword.value.body, scope)
                    return self.evaluator.evaluate(made, scope)
            return MISSING
        return self.evaluator.evaluate(value, scope)

    def _fieldless(self, name: str) -> FlagRow:
        """A field that argparse never hears of."""
        declared = self.fields[name]
        row = FlagRow(field=name, names=[], no_cli=True, source=self._field_source(declared))
        metadata, inner = self._metadata(declared)
        row.type = type_name(unwrap_optional(inner)[0])
        self._set_default(row, self._default(name))
        if isinstance(metadata, dict):
            row.fallback = metadata.get("fallback")
            row.resolvable = bool(metadata.get("resolvable"))
        return row

    def _field_source(self, declared: _Field) -> dict[str, Any]:
        return self.tree.source(
            declared.owner.module, declared.node, f"{declared.owner.name}.{declared.name}"
        )

    def _set_default(self, row: FlagRow, value: Any) -> None:
        if value is MISSING:
            return
        if value is UNKNOWN or isinstance(value, Symbol | External):
            self.problems.append(f"{row.field}: default is not a literal")
            return
        row.default = list(value) if isinstance(value, list) else value

    # ------------------------------------------------------- annotated fields

    def _metadata(self, declared: _Field) -> tuple[dict[str, Any] | None, ast.expr]:
        """Keyword arguments of a field's `Arg(…)`, and its bare type; None without metadata."""
        annotation = declared.node.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        scope = Scope(declared.owner.module)
        if not (
            isinstance(annotation, ast.Subscript)
            and ast.unparse(annotation.value).split(".")[-1] in {"A", "Annotated"}
            and isinstance(annotation.slice, ast.Tuple)
        ):
            return None, annotation
        inner, *rest = annotation.slice.elts
        for item in rest:
            if isinstance(item, ast.Call) and called_name(item) == "Arg":
                return {
                    keyword.arg: keyword.value
                    if keyword.arg in {"type_parser", "action", "action_kwargs"}
                    else self.evaluator.evaluate(keyword.value, scope)
                    for keyword in item.keywords
                    if keyword.arg and keyword.arg != "help"
                }, inner
            if isinstance(item, ast.Constant | ast.JoinedStr | ast.BinOp):
                return {}, inner
        return None, inner

    def _field_flags(self, only: list[str] | None) -> None:
        """Register the annotated fields as the release's own helper does."""
        for name, declared in self.fields.items():
            if only is not None and name not in only:
                continue
            metadata, inner = self._metadata(declared)
            if metadata is None or metadata.get("no_cli"):
                continue
            self.rows.append(self._field_flag(declared, metadata, inner))

    def _field_flag(self, declared: _Field, metadata: dict[str, Any], inner: ast.expr) -> FlagRow:
        scope = Scope(declared.owner.module)
        name = metadata.get("cli_name") or "--" + declared.name.replace("_", "-")
        row = FlagRow(
            field=declared.name,
            names=[name, *(metadata.get("aliases") or [])],
            source=self._field_source(declared),
            resolvable=bool(metadata.get("resolvable")),
            fallback=metadata.get("fallback"),
        )
        default = self._default(declared.name)
        if metadata.get("action") is not None:
            keywords = _dict_nodes(metadata.get("action_kwargs"))
            keywords["action"] = metadata["action"]
            self._set_default(row, default)
            self._apply(row, keywords, scope)
            return row
        self._set_default(row, default)
        bare, _ = unwrap_optional(inner)
        literal = literal_values(bare)
        parser = metadata.get("type_parser")
        row.const = metadata.get("const")
        if parser is not None:
            row.type = self.converters.name(self.evaluator.evaluate(parser, scope))
        if literal is not None:
            row.type = row.type if parser is not None else infer(type(literal[0]).__name__)
            self._set_choices(row, metadata.get("choices") or literal)
        elif is_list(bare) and parser is None:
            row.type = infer(element_type(bare))
            row.nargs = metadata.get("nargs") or "+"
            self._set_choices(row, metadata.get("choices"))
        elif ast.unparse(bare) == "bool":
            row.action, row.type, row.const = "store_true", "bool", None
        else:
            row.type = row.type if parser is not None else infer(ast.unparse(bare))
            row.nargs = metadata.get("nargs")
            self._set_choices(row, metadata.get("choices"))
            required = metadata.get("required")
            row.required = required is True or (required is None and default is MISSING)
        return row

    # ------------------------------------------------------------ add_argument

    def _method(self, name: str) -> Symbol | None:
        found = self.evaluator.attribute(self.owner, name)
        return found if isinstance(found, Symbol) else None

    def _function(self, name: str) -> Symbol | None:
        found = self.evaluator.lookup(self.module, name)
        if isinstance(found, Symbol) and isinstance(found.node, ast.FunctionDef):
            return found
        return None

    def _registrations(self, function: Symbol, seen: list[Symbol]) -> None:
        """Follow the body of a function that fills a parser."""
        assert isinstance(function.node, ast.FunctionDef)
        arguments = [argument.arg for argument in function.node.args.args]
        parsers = {name for name in arguments if "parser" in name}
        scope = Scope(function.module)
        self._statements(function.node.body, function, scope, parsers, [*seen, function])

    def _statements(
        self,
        body: list[ast.stmt],
        function: Symbol,
        scope: Scope,
        parsers: set[str],
        seen: list[Symbol],
    ) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                self._branch(statement, function, scope, parsers, seen)
                continue
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                target = statement.targets[0]
                called = statement.value.func
                if isinstance(target, ast.Name) and isinstance(called, ast.Attribute):
                    owner = ast.unparse(called.value)
                    if owner in parsers and "group" in called.attr:
                        parsers.add(target.id)
                        continue
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and self._registration(
                call, function, scope, parsers, seen
            ):
                continue
            self.evaluator.execute(statement, scope)

    def _branch(
        self,
        statement: ast.If,
        function: Symbol,
        scope: Scope,
        parsers: set[str],
        seen: list[Symbol],
    ) -> None:
        """A branch on an environment variable may add choices; others are followed both ways."""
        variable = _environment_test(statement.test)
        if variable is None:
            self._statements(statement.body, function, scope, parsers, seen)
            self._statements(statement.orelse, function, scope, parsers, seen)
            return
        for inner in statement.body:
            call = inner.value if isinstance(inner, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                target = self.evaluator.evaluate(call.func.value, scope)
                value = self.evaluator.evaluate(call.args[0], scope) if call.args else UNKNOWN
                if isinstance(target, Choices):
                    added = list(value) if isinstance(value, list) else [value]
                    target.when_env.setdefault(variable, []).extend(added)

    def _registration(
        self,
        call: ast.Call,
        function: Symbol,
        scope: Scope,
        parsers: set[str],
        seen: list[Symbol],
    ) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            if ast.unparse(call.func.value) in parsers:
                self.rows.append(self._argument(call, function, scope))
                return True
            return False
        if not any(isinstance(item, ast.Name) and item.id in parsers for item in call.args):
            return False
        if called_name(call) == "add_cli_args_from_dataclass":
            only = None
            for keyword in call.keywords:
                if keyword.arg == "fields":
                    only = self.evaluator.evaluate(keyword.value, scope)
            self._field_flags(only)
            return True
        target = self.evaluator.evaluate(call.func, scope)
        if (
            isinstance(target, Symbol)
            and isinstance(target.node, ast.FunctionDef)
            and target not in seen
        ):
            self._registrations(target, seen)
            return True
        return False

    def _argument(self, call: ast.Call, function: Symbol, scope: Scope) -> FlagRow:
        names = [self.evaluator.evaluate(item, scope) for item in call.args]
        spelled = [name for name in names if isinstance(name, str)]
        if len(spelled) != len(names):
            self.problems.append(f"{function.dotted}:{call.lineno}: a name is not a literal")
        keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        dest = keywords.get("dest")
        name = self.evaluator.evaluate(dest, scope) if dest is not None else None
        if not isinstance(name, str):
            longest = next((item for item in spelled if item.startswith("--")), *spelled[:1])
            name = longest.lstrip("-").replace("-", "_")
        source = self.tree.source(function.module, call, function.name)
        row = FlagRow(field=name, names=spelled, source=source)
        if name in self.fields:
            metadata, _ = self._metadata(self.fields[name])
            row.resolvable = bool((metadata or {}).get("resolvable"))
            row.fallback = (metadata or {}).get("fallback")
        self._apply(row, keywords, scope)
        return row

    def _apply(self, row: FlagRow, keywords: dict[str, ast.expr], scope: Scope) -> None:
        """Fill a row from the keyword arguments of `add_argument`."""
        get = {key: self.evaluator.evaluate(value, scope) for key, value in keywords.items()}
        action = get.get("action", "store")
        if isinstance(action, External | Symbol):
            action = (action.dotted if isinstance(action, External) else action.name).split(".")[-1]
        row.action = ACTIONS.get(action, f"custom:{action}") if isinstance(action, str) else "?"
        if row.action.startswith("custom:") or row.action == "?":
            self.problems.append(f"{row.field}: action {action!r} is not known")
        if row.action in VALUELESS:
            row.type = "bool"
        if "type" in keywords:
            row.type = self.converters.name(get["type"])
        row.nargs = get.get("nargs")
        if row.nargs is UNKNOWN:
            self.problems.append(f"{row.field}: nargs is not a literal")
            row.nargs = None
        if "nargs" in get and row.action in VALUELESS and row.nargs is None:
            # A value is taken although the action normally has none.
            row.type = self.converters.name(get["type"]) if "type" in keywords else "str"
            row.takes_value = True
        if "const_value" in get or "const" in get:
            row.const = get.get("const_value", get.get("const"))
        row.required = get.get("required") is True
        for key in ("new_flag", "error_message"):
            if isinstance(get.get(key), str):
                setattr(row, key, get[key])
        if "default" in keywords:
            self._set_default(row, self._argument_default(keywords["default"], get["default"]))
        elif row.default is None and row.action in FALSE_BY_DEFAULT:
            row.default = False
        self._set_choices(row, get.get("choices"))

    def _argument_default(self, node: ast.expr, value: Any) -> Any:
        """A default written as the field's own: `ServerArgs.x` or `helper("x")`."""
        if isinstance(node, ast.Attribute) and node.attr in self.fields:
            return self._default(node.attr)
        if (
            isinstance(node, ast.Call)
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Constant)
            and node.args[0].value in self.fields
        ):
            return self._default(node.args[0].value)
        if isinstance(value, External) and value.dotted == "argparse.SUPPRESS":
            return MISSING
        return value

    def _set_choices(self, row: FlagRow, value: Any) -> None:
        if not value and value is not UNKNOWN:
            return
        if isinstance(value, dict):
            value = Choices(list(value))
        if not isinstance(value, list) or not is_known(value):
            self.problems.append(f"{row.field}: choices are not literal")
            return
        row.choices = list(value)
        if isinstance(value, Choices) and value.when_env:
            row.choices_env = value.when_env


@dataclass(frozen=True)
class _Field:
    name: str
    owner: Symbol
    node: ast.AnnAssign


def _dict_nodes(node: Any) -> dict[str, ast.expr]:
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _environment_test(test: ast.expr) -> str | None:
    """`envs.NAME.get()`: the name."""
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Attribute)
        and test.func.attr == "get"
        and isinstance(test.func.value, ast.Attribute)
        and ast.unparse(test.func.value.value) == "envs"
    ):
        return test.func.value.attr
    return None
