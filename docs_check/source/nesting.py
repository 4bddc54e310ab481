"""Tells what is nested too deeply to be parsed.

libcst's native parser takes quadratic time for what is nested, and ends the whole process where its
stack does not suffice. Nobody writes such code by hand, but a scanner must outlive it.
"""

from __future__ import annotations

import ast
import re

#: Levels of syntax; SGLang's deepest function has a tenth of them.
_DEEPEST = 250
#: Levels of brackets; Python itself takes 200.
_BRACKETS = 60
#: As many of these may follow each other in a chain before the syntax is looked at.
_CHAINS = 250
_LONG_LINE = 2000
_BRACKET = re.compile(r"[\[({\])}]")
_CLOSING = "])}"
_OPERATORS = ("+", "-", "*", "/", "|", "&", "^", "~", "%")


def nested_too_deeply(text: str, blanked: str) -> bool:
    """Whether a piece of a module must not reach libcst; `blanked` is without its strings."""
    return _suspicious(blanked) and _depth(text) > _DEEPEST


def _suspicious(blanked: str) -> bool:
    """Whether a text has so much of what nests that it may nest deeply."""
    count = blanked.count
    opened = count("(") + count("[") + count("{")
    if opened > _BRACKETS and _brackets(blanked) > _BRACKETS:
        return True
    if sum(map(count, _OPERATORS)) > _CHAINS or count("\n.") + count(" .") > _CHAINS:
        return True
    if count("else") + count("elif") + count("lambda") + count("not ") > _CHAINS:
        return True
    if count("and ") + count("or ") > _CHAINS:
        return True
    return len(blanked) > _LONG_LINE and max(map(len, blanked.split("\n"))) > _LONG_LINE


def _brackets(blanked: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(blanked):
        depth += -1 if bracket in _CLOSING else 1
        deepest = max(deepest, depth)
    return deepest


def _depth(text: str) -> int:
    """Levels of the syntax, as libcst nests it; of what Python does not take either, too many."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _DEEPEST + 1
    deepest = 0
    level: list[tuple[ast.AST, int]] = [(tree, 0)]
    while level:
        node, depth = level.pop()
        # A chain of `and` or of strings is one node here and nested there.
        if isinstance(node, ast.BoolOp):
            depth += len(node.values)
        deepest = max(deepest, depth)
        level += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest
