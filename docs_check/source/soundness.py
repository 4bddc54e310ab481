"""Finds files that are no valid Python, so that no fact is missed in silence.

Modules are cut by text and parsed in pieces; a broken module may be cut in the wrong places. The
files that were cut are therefore read once as a whole by the interpreter's own parser, by way of
its symbol table: that is the one way to run the parser that makes no objects of the tree.
"""

from __future__ import annotations

import symtable
import warnings
from collections.abc import Iterable

import libcst as cst

from .tree import Problem, SourceTree


def unsound(tree: SourceTree, files: Iterable[str]) -> list[Problem]:
    """Problems of the files that do not parse."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in files:
            text = tree.text(file)
            problem = _problem(file, text) if text is not None else None
            if problem is not None:
                found.append(problem)
    return found


def _problem(file: str, text: str) -> Problem | None:
    try:
        symtable.symtable(text, file, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not _libcst_reads(text):
            line = getattr(error, "lineno", None) or 0
            return Problem(file, line, f"is no valid Python: {getattr(error, 'msg', error)}")
    return None


def _libcst_reads(text: str) -> bool:
    """Whether libcst takes what this interpreter does not: the syntax of another version."""
    try:
        cst.parse_module(text)
    except Exception:
        # Besides ParserSyntaxError, its native parser raises errors of its own kind.
        return False
    return True
