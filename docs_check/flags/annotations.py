"""Reads type annotations as the release's own argument helper reads them."""

from __future__ import annotations

import ast
from typing import Any


def unwrap_optional(node: ast.expr) -> tuple[ast.expr, bool]:
    """`Optional[X]` and `X | None` give X."""
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value).split(".")[-1]
        if name == "Optional":
            return node.slice, True
        if name == "Union" and isinstance(node.slice, ast.Tuple):
            members = [item for item in node.slice.elts if ast.unparse(item) != "None"]
            if len(members) == 1 and len(node.slice.elts) == 2:
                return members[0], True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        members = [item for item in (node.left, node.right) if ast.unparse(item) != "None"]
        if len(members) == 1:
            return members[0], True
    return node, False


def literal_values(node: ast.expr) -> list[Any] | None:
    """Values of `Literal[…]`, None for another type."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] == "Literal":
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [item.value for item in items if isinstance(item, ast.Constant)]
    return None


def is_list(node: ast.expr) -> bool:
    """Whether it is a list type."""
    name = node.value if isinstance(node, ast.Subscript) else node
    return ast.unparse(name).split(".")[-1] in {"List", "list"}


def element_type(node: ast.expr) -> str:
    """Text of the type inside a list type."""
    return ast.unparse(node.slice) if isinstance(node, ast.Subscript) else "str"


def infer(name: str) -> str:
    """The converter that argparse gets for a plain type: what is not a number is text."""
    return name if name in {"int", "float"} else "str"


def type_name(node: ast.expr) -> str:
    """The converter that a field without a flag would have."""
    text = ast.unparse(node)
    return text if text in {"int", "float", "bool"} else "str"
