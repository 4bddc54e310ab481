"""Reads what a release's own `type=` functions accept."""

from __future__ import annotations

import ast
from typing import Any

from .statics import Evaluator, External, Scope, Symbol, is_known


class Converters:
    """Names the converters of a release and notes, once each, what they refuse."""

    def __init__(self, evaluator: Evaluator, problems: list[str]) -> None:
        self.evaluator = evaluator
        self.tree = evaluator.tree
        self.problems = problems
        self.facts: dict[str, dict[str, Any]] = {}

    def name(self, function: Any) -> str:
        """Name of a `type=` function; what it rejects is noted once."""
        if isinstance(function, External):
            plain = function.dotted.removeprefix("builtins.")
            return {"json.loads": "json"}.get(plain, plain.split(".")[-1])
        if not isinstance(function, Symbol):
            self.problems.append("a converter is not a plain function")
            return "str"
        name = function.name
        if name not in self.facts and isinstance(function.node, ast.FunctionDef):
            self.facts[name] = self._facts_of(function)
        return name

    def _facts_of(self, function: Symbol) -> dict[str, Any]:
        """Literal values a converter refuses, and the sections a JSON converter allows."""
        node = function.node
        assert isinstance(node, ast.FunctionDef)
        facts: dict[str, Any] = {}
        parameter = node.args.args[0].arg if node.args.args else ""
        for statement in ast.walk(node):
            if isinstance(statement, ast.If) and any(
                isinstance(item, ast.Raise) for item in statement.body
            ):
                value = _compared_constant(statement.test, parameter)
                if value is not None:
                    facts.setdefault("rejects", []).append(value)
            if isinstance(statement, ast.Subscript) and isinstance(statement.value, ast.Name):
                table = self.evaluator.lookup(function.module, statement.value.id)
                if isinstance(table, dict) and table and is_known(list(table.values())):
                    facts["sections"] = {key: list(value) for key, value in table.items()}
            if isinstance(statement, ast.If) and isinstance(statement.test, ast.Compare):
                key = statement.test.left
                call = statement.body[0].value if isinstance(statement.body[0], ast.Expr) else None
                if isinstance(key, ast.Constant) and isinstance(call, ast.Call):
                    inner = self.evaluator.evaluate(call.func, Scope(function.module))
                    if isinstance(inner, Symbol):
                        facts["keys"] = {key.value: self.name(inner)}
        facts["source"] = self.tree.source(function.module, node, function.name)
        return facts


def _compared_constant(test: ast.expr, parameter: str) -> str | None:
    if (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == parameter
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
    ):
        return str(test.comparators[0].value)
    return None
