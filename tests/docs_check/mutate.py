"""Changes source files in ways that leave their meaning as it is."""

from __future__ import annotations

import ast
import builtins
import random
from pathlib import Path


def reformat(text: str) -> str:
    """The same program in the style of `ast.unparse`: other quotes and breaks, no comments."""
    return ast.unparse(ast.parse(text)) + "\n"


def rename_locals(text: str) -> str:
    """Give the local variables of every function other names."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _rename(node)
    return ast.unparse(tree) + "\n"


def _rename(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    inner = [
        node
        for node in ast.walk(function)
        if node is not function
        and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
    ]
    if inner:
        return  # names of closures are left alone
    fixed = {
        name
        for node in ast.walk(function)
        if isinstance(node, (ast.Global, ast.Nonlocal))
        for name in node.names
    }
    taken = {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
    stored = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    stored -= fixed | taken | set(dir(builtins))
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in stored:
            node.id = f"own_{node.id}"


def reorder(text: str, seed: int) -> str:
    """Shuffle neighbouring functions and classes of a module that are decorated alike."""
    tree = ast.parse(text)
    body: list[ast.stmt] = []
    run: list[ast.stmt] = []
    for statement in [*tree.body, None]:
        if isinstance(statement, ast.FunctionDef) and statement.decorator_list:
            run.append(statement)
            continue
        random.Random(seed).shuffle(run)
        body += run
        run = []
        if statement is not None:
            body.append(statement)
    tree.body = body
    return ast.unparse(tree) + "\n"


def split(path: Path) -> None:
    """Move every other function of a module to a module beside it, and import it from there."""
    tree = ast.parse(path.read_text(encoding="utf-8-sig"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    moved = functions[::2]
    if len(functions) < 2:
        return
    rest = [node for node in tree.body if node not in moved]
    shared = [node for node in rest if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    name = f"{path.stem}_more"
    future = [node for node in shared if isinstance(node, ast.ImportFrom) and node.level == 0
              and node.module == "__future__"]  # fmt: skip
    others = [node for node in shared if node not in future]
    if any(_uses(node, functions) for node in moved):
        return  # functions that call each other would need imports both ways
    path.with_name(f"{name}.py").write_text(
        ast.unparse(ast.Module([*future, *others, *moved], [])) + "\n", encoding="utf-8"
    )
    names = [ast.alias(node.name) for node in moved]
    rest.insert(len(future), ast.ImportFrom(name, names, 1))
    path.write_text(ast.unparse(ast.fix_missing_locations(ast.Module(rest, []))) + "\n",
                    encoding="utf-8")  # fmt: skip


def _uses(node: ast.FunctionDef, functions: list[ast.FunctionDef]) -> bool:
    others = {function.name for function in functions} - {node.name}
    return any(isinstance(name, ast.Name) and name.id in others for name in ast.walk(node))
