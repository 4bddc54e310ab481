"""Finds files that are no valid Python or are not there, so that no fact is missed in silence.

Modules are cut by text and parsed in pieces; a broken module may be cut in the wrong places. The
files that were cut are therefore read once as a whole by the interpreter's own parser, by way of
its symbol table: that is the one way to run the parser that makes no objects of the tree.
"""

from __future__ import annotations

import re
import symtable
import warnings
from collections.abc import Iterable, Iterator

import libcst as cst

from .modules import absolute, unvalidated
from .nesting import nested_too_deeply
from .segments import blank, split
from .tree import Problem, SourceTree

#: Imports that a module cannot do without: those at its top, and not within a `try`.
_IMPORT = re.compile(r"^from[ \t]+((?:sglang\b|\.)[\w.]*)[ \t]+import\b", re.M)


def unsound(tree: SourceTree, files: Iterable[str]) -> list[Problem]:
    """Problems of the files that do not parse, and of those that they import and are missing."""
    found: dict[tuple[str, str], Problem] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in files:
            text = tree.text(file)
            if text is None:
                continue
            problem = _problem(file, text)
            for one in (*([problem] if problem is not None else []), *_missing(tree, file, text)):
                found.setdefault((one.file, one.message), one)
    return list(found.values())


def _problem(file: str, text: str) -> Problem | None:
    try:
        symtable.symtable(text, file, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not _libcst_reads(file, text):
            line = getattr(error, "lineno", None) or 0
            reason = getattr(error, "msg", None) or str(error) or "nested too deeply"
            return Problem(file, line, f"is no valid Python: {reason}")
    return None


def _libcst_reads(file: str, text: str) -> bool:
    """Whether libcst takes what this interpreter does not: the syntax of another version."""
    if nested_too_deeply(text, blank(text)):
        return False
    segments = split(file, text)
    before = sum(len(segment.text) for segment in segments)
    if blank(text)[: len(text) - before].strip():
        return False  # something stands above the first statement, and is none
    try:
        with unvalidated():
            for segment in segments:
                cst.parse_module(segment.text)
    except Exception:
        # Besides ParserSyntaxError, its native parser raises errors of its own kind.
        return False
    return True


def _missing(tree: SourceTree, file: str, text: str) -> Iterator[Problem]:
    """Modules of the package that a module imports from, and that are not there or empty."""
    for match in _IMPORT.finditer(text):
        module = absolute(match[1], file)
        problem = tree.missing(module)
        if problem is not None:
            line = text.count("\n", 0, match.start()) + 1
            yield Problem(file, line, f"imports from {module}, which {problem}", module)
