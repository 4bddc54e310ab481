"""Finds and parses the modules of a release's source tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(eq=False)
class Module:
    """One parsed source file."""

    name: str
    path: Path
    tree: ast.Module
    is_package: bool
    bindings: dict[str, ast.AST] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def __hash__(self) -> int:
        return hash(self.name)


class Tree:
    """A release's `sglang` package on disk."""

    def __init__(self, root: Path) -> None:
        """Take `root`: the folder `sglang` itself, or the one that holds it."""
        self.root = root / "sglang" if (root / "sglang").is_dir() else root
        self._modules: dict[str, Module | None] = {}

    def relative(self, module: Module) -> str:
        """Path of a module below the package, with forward slashes."""
        return module.path.relative_to(self.root).as_posix()

    def source(self, module: Module, node: ast.AST, symbol: str) -> dict[str, Any]:
        """Where a node stands, as the data says it."""
        return {
            "file": self.relative(module),
            "symbol": symbol,
            "line": getattr(node, "lineno", None),
        }

    def module(self, dotted: str) -> Module | None:
        """The module of that name, or None where the tree has no such file or it is broken."""
        if dotted not in self._modules:
            self._modules[dotted] = self._load(dotted)
        return self._modules[dotted]

    def _load(self, dotted: str) -> Module | None:
        first, *rest = dotted.split(".")
        if first != "sglang":
            return None
        base = self.root.joinpath(*rest)
        is_package = base.is_dir()
        path = base / "__init__.py" if is_package else base.with_suffix(".py")
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            return None
        module = Module(dotted, path, tree, is_package)
        for statement in _top_level(tree.body):
            _bind(module, statement)
        return module


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Module statements, those inside `if` and `try` included, of both branches."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _top_level(statement.body)
            yield from _top_level(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _top_level(statement.body)
            for handler in statement.handlers:
                yield from _top_level(handler.body)
        else:
            yield statement


def import_target(module: Module, node: ast.ImportFrom) -> str:
    """Absolute dotted name of the module that `from … import` names."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def _bind(module: Module, statement: ast.stmt) -> None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        module.bindings[statement.name] = statement
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                # A class rebuilt under its own name stays the class that was written down.
                if isinstance(module.bindings.get(target.id), ast.ClassDef):
                    continue
                module.bindings[target.id] = statement.value
    elif isinstance(statement, ast.AnnAssign):
        if isinstance(statement.target, ast.Name) and statement.value is not None:
            module.bindings[statement.target.id] = statement.value
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            name = alias.asname or alias.name.split(".")[0]
            module.imports[name] = (alias.name if alias.asname else name, None)
    elif isinstance(statement, ast.ImportFrom):
        target_name = import_target(module, statement)
        for alias in statement.names:
            if alias.name == "*":
                module.stars.append(target_name)
            else:
                module.imports[alias.asname or alias.name] = (target_name, alias.name)
