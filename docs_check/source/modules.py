"""Modules and symbols: finding a definition, parsing it, following imports, citing a place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from . import syntax as sx
from .nesting import nested_too_deeply
from .segments import Segment, split, string_lines
from .tree import SourceTree

_WORD = re.compile(r"\w+")
#: A second name of a class: `Old = New`; also `New = New`, which aliases often are followed by.
_OTHER_NAME = re.compile(r"\w+\s*=\s*([A-Z]\w*[a-z]\w*)\s*(?:#.*)?$", re.M)
_IMPORT = re.compile(r"^[ \t]*from[ \t]+((?:sglang\b|\.)[\w.]*)[ \t]+import\b", re.M)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in the source that a statement rests on.

    `line` is 0 where the file as a whole is meant, as in "not in this file".
    """

    file: str
    line: int
    symbol: str = ""
    note: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}:{self.symbol}" if self.symbol else place

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        out: dict[str, Any] = {"file": self.file, "line": self.line}
        if self.symbol:
            out["symbol"] = self.symbol
        if self.note:
            out["note"] = self.note
        return out


@dataclass(slots=True)
class Place:
    """A node of a segment, cited only when asked: positions cost more than parsing does."""

    segment: Segment
    node: cst.CSTNode | None
    codebase: Codebase = field(repr=False)
    note: str = ""

    def evidence(self, note: str = "") -> Evidence:
        """File, line and symbol."""
        return Evidence(
            self.segment.file,
            self.codebase.line(self.segment, self.node),
            self.segment.qualname,
            note or self.note,
        )


@dataclass(slots=True)
class LinePlace(Place):
    """A place known by its line, found in the text and not in the syntax tree."""

    at: int = 0

    def evidence(self, note: str = "") -> Evidence:
        """File, line and symbol."""
        return Evidence(self.segment.file, self.at, self.segment.qualname, note or self.note)


@dataclass(slots=True)
class Module:
    """One file, cut into segments."""

    file: str
    segments: list[Segment]
    _by_name: dict[str, list[Segment]] | None = None

    def find(self, qualname: str) -> list[Segment]:
        """Definitions of a name (`f`, `Class`, `Class.method`); a name may have several."""
        if self._by_name is None:
            self._by_name = {}
            for segment in self.segments:
                self._by_name.setdefault(segment.name, []).append(segment)
        head, _, rest = qualname.partition(".")
        found = self._by_name.get(head, [])
        if not rest:
            return found
        return [member for segment in found for member in segment.members() if member.name == rest]


class Codebase:
    """A source tree with its modules, cut and parsed on demand."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._modules: dict[str, Module | None] = {}
        self._lines: dict[int, dict[int, int]] = {}
        self._imports: dict[str, dict[str, tuple[str, str]]] = {}
        self._chains: dict[tuple[str, str], list[Segment]] = {}
        self.parsed_bytes = 0

    def module(self, file: str) -> Module | None:
        """A file's module, or None where it is missing or cannot be decoded."""
        if file not in self._modules:
            text = self.tree.text(file) if file in self.tree.files() else None
            self._modules[file] = Module(file, split(file, text)) if text is not None else None
        return self._modules[file]

    def segments(self, files: Iterable[str]) -> Iterator[Segment]:
        """Top-level segments of files."""
        for file in files:
            module = self.module(file)
            if module is not None:
                yield from module.segments

    def functions(self, files: Iterable[str], needle: re.Pattern[str]) -> Iterator[Segment]:
        """Functions and methods whose code (not strings or comments) matches `needle`."""
        for segment in self.segments(files):
            if segment.kind == "def":
                if needle.search(segment.blanked):
                    yield segment
            elif segment.kind == "class" and needle.search(segment.blanked):
                for member in segment.members():
                    if member.kind == "def" and needle.search(member.blanked):
                        yield member

    def parse(self, segment: Segment) -> list[sx.Stmt]:
        """The statements of a segment; a segment that does not parse is a problem and empty."""
        found = segment.cache.get("statements")
        if found is None:
            tree = self._tree(segment)
            found = []
            if tree is not None:
                try:
                    found, segment.cache["order"] = sx.convert(tree.body)
                except RecursionError:
                    self._unparsed(segment, 0, "it is nested too deeply")
            segment.cache["statements"] = found
        return found  # type: ignore[return-value]

    def definition(self, segment: Segment) -> sx.Def | None:
        """The function that a segment defines."""
        for statement in self.parse(segment):
            if isinstance(statement, sx.Def):
                return statement
        return None

    def body(self, segment: Segment) -> list[sx.Stmt]:
        """Statements of a function, or of the segment itself where it is none."""
        definition = self.definition(segment)
        return definition.body if definition is not None else self.parse(segment)

    def value(self, segment: Segment) -> sx.Expr | None:
        """What an assignment assigns."""
        for statement in self.parse(segment):
            if isinstance(statement, sx.Assign):
                return statement.value
        return None

    def _tree(self, segment: Segment) -> cst.Module | None:
        if "tree" in segment.cache:
            return segment.cache["tree"]  # type: ignore[return-value]
        tree: cst.Module | None = None
        if nested_too_deeply(segment.text, segment.blanked):
            self._unparsed(segment, 0, "it is nested too deeply")
        else:
            try:
                self.parsed_bytes += len(segment.text)
                with unvalidated():
                    tree = cst.parse_module(segment.text)
            except cst.ParserSyntaxError as error:
                reason = error.message.partition(":")[0].strip()
                self._unparsed(segment, error.raw_line - 1, reason)
            except Exception as error:
                # What is nested too deeply ends in an error of the native parser's own kind.
                self._unparsed(segment, 0, str(error))
        segment.cache["tree"] = tree
        return tree

    def _unparsed(self, segment: Segment, line: int, reason: str) -> None:
        self.tree.problem(
            segment.file,
            segment.line + max(line, 0),
            f"`{segment.qualname or segment.kind}` cannot be parsed: {reason}",
        )

    def line(self, segment: Segment, node: cst.CSTNode | None) -> int:
        """Line of a node in its file."""
        if node is None:
            return segment.line
        tree = self._tree(segment)
        if tree is None:
            return segment.line
        known = self._lines.get(id(segment))
        if known is None:
            known = self._lines[id(segment)] = _cheap_lines(segment)
        if id(node) not in known:
            # libcst's own positions render the whole segment again: the slow and exact way.
            wrapper = MetadataWrapper(tree, unsafe_skip_copy=True)
            positions = wrapper.resolve(PositionProvider)
            known.update({id(key): value.start.line for key, value in positions.items()})
        return segment.line + known.get(id(node), 1) - 1

    def place(self, segment: Segment, item: sx.Expr | sx.Stmt | None = None) -> Place:
        """A citable place for something in a segment."""
        return Place(segment, item.origin if item is not None else None, self)

    # --- names

    def imports(self, file: str) -> dict[str, tuple[str, str]]:
        """What a module imports at its top: local name to (module, name there)."""
        cached = self._imports.get(file)
        if cached is not None:
            return cached
        module = self.module(file)
        if module is None:
            return {}
        found: dict[str, tuple[str, str]] = {}
        self._imports[file] = found
        for segment in module.segments:
            if segment.kind in {"import", "block"} and "import" in segment.blanked:
                found.update(_import_names(segment.text, file))
        return found

    def resolve(
        self, file: str, name: str, local: dict[str, tuple[str, str]] | None = None, depth: int = 0
    ) -> tuple[str, str] | None:
        """File and name of the definition that `name` means in `file`, through imports."""
        module = self.module(file)
        if module is None or depth > 8:
            return None
        target = (local or {}).get(name)
        if target is None:
            if module.find(name):
                return file, name
            target = self.imports(file).get(name)
        if target is None:
            return None
        remote, remote_name = target
        remote_file = self.tree.module_file(remote)
        if remote_file is None:
            self._missing(file, remote)
            return None
        if remote_file == file and remote_name == name:
            return None
        return self.resolve(remote_file, remote_name, None, depth + 1)

    def _missing(self, file: str, module: str) -> None:
        """Note that a module which is asked for a definition is not in the tree."""
        reason = self.tree.missing(module)
        if reason is None:
            return
        text = self.tree.text(file) or ""
        for match in _IMPORT.finditer(text):
            if absolute(match[1], file) == module:
                line = text.count("\n", 0, match.start()) + 1
                self.tree.problem(file, line, f"imports from {module}, which {reason}", module)
                return

    def lookup(
        self, file: str, name: str, local: dict[str, tuple[str, str]] | None = None, depth: int = 0
    ) -> Segment | None:
        """The last definition that `name` means in `file`, through second names of classes."""
        found = self.resolve(file, name, local)
        if found is None:
            return None
        module = self.module(found[0])
        segments = module.find(found[1]) if module is not None else []
        for segment in reversed(segments):
            other = _OTHER_NAME.match(segment.text) if segment.kind == "assign" else None
            if other is None or depth > 8:
                return segment
            if other[1] != found[1]:
                return self.lookup(found[0], other[1], None, depth + 1) or segment
        return segments[-1] if segments else None

    def class_chain(self, segment: Segment, depth: int = 0) -> list[Segment]:
        """A class and its bases inside the tree, nearest first."""
        key = (segment.file, segment.qualname)
        if key not in self._chains:
            self._chains[key] = self._class_chain(segment, depth)
        return self._chains[key]

    def _class_chain(self, segment: Segment, depth: int) -> list[Segment]:
        chain = [segment]
        if depth > 6:
            return chain
        header = segment.header()
        match = re.search(r"class\s+\w+\s*\((.*)\)\s*:", header, re.S)
        bases = re.sub(r"\w+\s*=\s*[\w.]+", "", match[1]) if match else ""
        for base in re.findall(r"[\w.]+", bases):
            found = self.lookup(segment.file, base.rpartition(".")[2])
            if found is not None and found.kind == "class" and found not in chain:
                chain += [one for one in self.class_chain(found, depth + 1) if one not in chain]
        return chain

    def method(self, chain: list[Segment], name: str) -> Segment | None:
        """The definition of a method that instances of the class at the chain's head have."""
        for segment in chain:
            for member in reversed(segment.members()):
                if member.kind == "def" and member.name == name:
                    return member
        return None

    def fingerprint(self, file: str, symbol: str) -> str | None:
        """A hash of a symbol's syntax, or None where there is no such symbol.

        Layout, comments and docstrings do not count; names, values and structure do.
        """
        module = self.module(file)
        if module is None:
            return None
        segments = module.find(symbol)
        if not segments:
            return None
        return self.fingerprint_of(*segments)

    @staticmethod
    def fingerprint_of(*segments: Segment) -> str:
        """The same for segments."""
        digest = hashlib.sha256()
        for segment in segments:
            digest.update(normal_form(segment.text).encode())
        return digest.hexdigest()[:16]


@contextmanager
def unvalidated() -> Iterator[None]:
    """Leave out the check of every node on its way out of libcst's own parser.

    It guards trees that are built by hand; here it would cost as much as parsing itself. Each
    change of a base class costs as much again, so a run enters this once, around all it does.
    """
    checked = cst.CSTNode.__post_init__
    if checked is _unchecked:
        yield
        return
    cst.CSTNode.__post_init__ = _unchecked  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = checked  # type: ignore[method-assign]


def _unchecked(node: cst.CSTNode) -> None:
    """Take a node as the parser made it."""


def _cheap_lines(segment: Segment) -> dict[int, int]:
    """Lines of statements and strings, matched by their order with what is cheap to position.

    Statements come in the same order in the standard library's tree, which knows its lines, and
    strings in the same order in the text. Where the counts differ, nothing is claimed.
    """
    import ast

    order = segment.cache.get("order")
    found: dict[int, int] = {}
    if not isinstance(order, sx.Order):
        return found
    try:
        reference = list(_in_order(ast.parse(segment.text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        reference = []
    decorators = [
        decorator.lineno for node in reference for decorator in getattr(node, "decorator_list", ())
    ]
    if len(reference) == len(order.statements):
        lines = [node.lineno for node in reference]
        found = dict(zip(order.statements, lines, strict=True))
        found.update((node, found[owner]) for node, owner in order.alone.items())
    if len(decorators) == len(order.decorators):
        found.update(zip(order.decorators, decorators, strict=True))
    places = string_lines(segment.text)
    if len(places) == len(order.strings):
        found.update(zip(order.strings, places, strict=True))
    return found


def _in_order(node: Any) -> Iterator[Any]:
    """Statements of the standard library's tree, in the order of the text."""
    import ast

    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, name, None) or ():
            if isinstance(child, ast.stmt):
                yield child
            if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                yield from _in_order(child)


def _import_names(text: str, file: str) -> dict[str, tuple[str, str]]:
    """What the imports of a piece of text bind; they are many, and need no layout."""
    import ast

    found: dict[str, tuple[str, str]] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            module = "." * node.level + (node.module or "")
            found.update(import_targets(sx.Import(module, names), file))
        elif isinstance(node, ast.Import):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            found.update(import_targets(sx.Import("", names), file))
    return found


def import_targets(statement: sx.Import, file: str) -> dict[str, tuple[str, str]]:
    """Local names that an import binds, with module and name there."""
    if statement.module:
        module = absolute(statement.module, file)
        return {local: (module, remote) for local, remote in statement.names.items()}
    return {local: (remote, "") for local, remote in statement.names.items()}


def absolute(module: str, file: str) -> str:
    """The full name of a module that a file imports by a name that may be relative."""
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    parts = ["sglang", *file.removesuffix(".py").split("/")]
    base = parts[: len(parts) - level]
    rest = module.lstrip(".")
    return ".".join([*base, *([rest] if rest else [])])


def local_imports(body: list[sx.Stmt], file: str) -> dict[str, tuple[str, str]]:
    """What is imported inside a block, at any depth."""
    found: dict[str, tuple[str, str]] = {}
    for statement in sx.all_statements(body):
        if isinstance(statement, sx.Import):
            found.update(import_targets(statement, file))
    return found


def normal_form(text: str) -> str:
    """A definition's syntax without layout, comments and docstrings.

    The standard library's parser is enough here and fast; its dump is written out by hand, so
    that fingerprints do not change with the version of Python.
    """
    import ast

    try:
        tree = ast.parse(text)
        return _dump(_without_docstrings(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(_WORD.findall(text))


def _without_docstrings(tree: Any) -> Any:
    import ast

    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module))
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            node.body = body[1:] or [ast.Pass()]
    return tree


def _dump(node: Any) -> str:
    import ast

    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_dump(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != [] and name not in {"ctx", "kind", "type_comment"}
        ]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(_dump(item) for item in node)}]"
    return repr(node)
