"""Reads what a release's launcher does around its parser."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

from .statics import Evaluator, Symbol, called_name
from .tree import Tree


def checks(tree: Tree, prepare: Symbol | None, fields: Collection[str]) -> list[dict[str, Any]]:
    """Values that the launcher looks up in `logging` right after parsing."""
    out = []
    for node in ast.walk(prepare.node) if prepare is not None else ():
        if (
            isinstance(node, ast.Call)
            and called_name(node) == "getattr"
            and len(node.args) == 2
            and ast.unparse(node.args[0]) == "logging"
        ):
            inner = node.args[1]
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                inner = inner.func.value
            if isinstance(inner, ast.Attribute) and inner.attr in fields:
                assert prepare is not None
                out.append(
                    {
                        "field": inner.attr,
                        "kind": "logging-level",
                        "source": tree.source(prepare.module, node, prepare.name),
                    }
                )
    return out


def explicit(tree: Tree, prepare: Symbol | None, fields: Collection[str]) -> list[dict[str, Any]]:
    """Fields that tell whether one exact spelling stands on the command line."""
    if prepare is None:
        return []
    spelled: dict[str, tuple[str, ast.AST]] = {}
    out = []
    for node in ast.walk(prepare.node):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name) and isinstance(value, ast.Call):
            flags = [
                item.value
                for item in ast.walk(value)
                if isinstance(item, ast.Constant)
                and isinstance(item.value, str)
                and item.value.startswith("--")
                and not item.value.endswith("=")
            ]
            if called_name(value) == "any" and flags:
                spelled[target.id] = (flags[0], node)
        elif isinstance(target, ast.Attribute) and isinstance(value, ast.Name):
            found = spelled.get(value.id)
            if found is not None and target.attr in fields:
                out.append(
                    {
                        "field": target.attr,
                        "flag": found[0],
                        "source": tree.source(prepare.module, found[1], prepare.name),
                    }
                )
    return out


def config_file(evaluator: Evaluator) -> dict[str, Any] | None:
    """How the release merges `--config FILE`: which keys it knows."""
    tree = evaluator.tree
    module = tree.module("sglang.srt.utils.server_args_config_parser")
    if module is None:
        module = tree.module("sglang.srt.server_args_config_parser")
    if module is None:
        return None
    merger = evaluator.lookup(module, "ConfigArgumentMerger")
    if not isinstance(merger, Symbol):
        return None
    functions = {item for item in module.bindings if item.startswith("_config_keys")}
    text = ast.unparse(merger.node)
    return {
        "flag": "--config",
        "keys": "names" if functions else "field",
        "checks_actions": "unsupported_actions" in text,
        "source": tree.source(merger.module, merger.node, merger.name),
    }
