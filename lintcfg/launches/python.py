"""Launches of Python programs: engines built in code, and commands given to a subprocess."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ..context import Context
from . import shell
from .command import Commands, keyed
from .context import CARD
from .model import TOO_DEEP, Extraction
from .text import MASK, MOST_WORDS, Lines, Source, aligned, capped, join, made

#: Classes that start an engine from keyword arguments named like flags.
_ENGINES = frozenset({"Engine", "ServerArgs", "Runtime", "AsyncEngine"})
#: The part of SGLang whose engines draw; its classes share their names with the others.
_DIFFUSION = "multimodal_gen"
_LAUNCHERS = frozenset({"popen_launch_server", "popen_launch_pd_server", "launch_server_cmd",
                        "execute_shell_command"})  # fmt: skip
_TALK = frozenset({"print", "debug", "info", "warning", "error", "exception", "log", "write",
                   "add_argument", "ArgumentParser", "fail", "skip", "echo"})  # fmt: skip
_MAX_ELEMENTS = 2000
#: Ways in which a list grows, and their arguments.
_GROWING = frozenset({("append", 1), ("extend", 1), ("insert", 2)})
#: What `str.format` fills in.
_FIELD = re.compile(r"(?<!\{)\{(?:[A-Za-z_]\w*|\d*)\}(?!\})")
#: What `%` fills in.
_CONVERSION = re.compile(
    r"%(?:%|(?:\(\w+\))?[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[diouxXeEfFgGcrsa])"
)
#: Further flags of a command.
_FLAGGED = re.compile(r"\s*--[A-Za-z]")
#: A command that a sentence speaks of.
_QUOTED = re.compile(r"(?<!`)`(?!`)[^`\n]*sglang")


@dataclass(slots=True)
class _Scope:
    """Names of one function, or of the module."""

    values: dict[str, list[Source]] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    keywords: dict[str, list[tuple[Source, Source | None]]] = field(default_factory=dict)
    parent: _Scope | None = None
    whole_class: bool = False

    def owner(self) -> _Scope:
        """The class that this stands in, or the module."""
        scope = self
        while not scope.whole_class and scope.parent is not None:
            scope = scope.parent
        return scope

    def words(self, name: str) -> list[Source] | None:
        """Words that a name holds."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None

    def keep(self, name: str, words: list[Source], *, text: bool) -> None:
        """Take the words of a name, of which there is one where it is a `text` and no list."""
        self.values[name] = words
        (self.texts.add if text else self.texts.discard)(name)

    def is_text(self, name: str) -> bool:
        """Whether a name holds a text."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return name in scope.texts
            scope = scope.parent
        return False

    def pairs(self, name: str) -> list[tuple[Source, Source | None]] | None:
        """Keywords that a dictionary's name holds."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.keywords:
                return scope.keywords[name]
            scope = scope.parent
        return None


def find(
    source: Source,
    commands: Commands,
    out: Extraction,
    kind: str = "python",
    *,
    several: bool = False,
) -> str | None:
    """Find the launches of a program; returns what is wrong with it, if it cannot be parsed.

    `several` tells that the file holds it in several pieces, as a notebook does; each goes on
    where the last one ended.
    """
    if "\r" in source.text:
        # A carriage return alone ends a line, too; only here, it does for others than Python.
        source = replace(source, text=source.text.replace("\r", "\n"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError) as error:
        return f"not Python: {error.args[0] if error.args else error}"
    except (RecursionError, MemoryError):
        return TOO_DEEP
    _Module(source, commands, out, kind, out.names if several else {}).run(tree)
    return None


class _Module:
    def __init__(
        self,
        source: Source,
        commands: Commands,
        out: Extraction,
        kind: str,
        shared: dict[str, Any],
    ) -> None:
        self.source = source
        self.commands = commands
        self.out = out
        self.kind = kind
        self.lines = Lines(source.text)
        #: Lines that were asked for, with the character at each of their bytes.
        self._columns: dict[int, list[int] | None] = {}
        self.modules: set[str] = shared.setdefault("modules", set())
        self.names: dict[str, str] = shared.setdefault("names", {})
        self.scope: _Scope = shared.setdefault("scope", _Scope())
        self.done: set[int] = set()
        self.cards: set[str] = set()
        self.begun: set[int] = set()
        #: Lists that made up a launch, as they stand by now, by the place that they begin at.
        self.taken: dict[int, list[list[Source]]] = {}
        #: Lists that are handed on as they are: where they begin and how many words they have.
        self.alone: set[tuple[int, int]] = set()
        #: Lists that a name shares the words of, and that grow by themselves.
        self.copies: dict[int, list[Source]] = {}
        #: Where lists stand that a function returns: its caller may add to them.
        self.returned: list[tuple[int, int]] = []

    # ------------------------------------------------------------------ places

    def offset(self, line: int, column: int) -> int:
        """Character offset of a line and a column in UTF-8 bytes."""
        if line not in self._columns:
            self._columns[line] = _columns(self.lines.line(line))
        columns = self._columns[line]
        return self.lines.starts[line - 1] + (column if columns is None else columns[column])

    def piece(self, node: ast.AST) -> Source:
        """Text of a node."""
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return self.source.slice(start, end)

    # -------------------------------------------------------------- statements

    def run(self, tree: ast.Module) -> None:
        """Walk the module."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "sglang":
                        self.modules.add(alias.asname or alias.name)
            elif (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("sglang")
                and _DIFFUSION not in (node.module or "")
            ):
                for alias in node.names:
                    self.names[alias.asname or alias.name] = alias.name
            elif isinstance(node, ast.keyword) and node.arg == "gpu":
                self.card(node.value)
        if len(self.cards) == 1:
            self.out.context.note("gpu", self.cards.pop(), "gpu=")
        self.body(tree.body, self.scope)
        self.finish()

    def finish(self) -> None:
        """Drop what only began other launches, and miss nothing in what callers may add to."""
        for several in self.taken.values():
            for words in several[:_MAX_ELEMENTS]:
                is_start = any(
                    len(one) > len(words) and one[: len(words)] == words for one in several
                )
                if is_start and (words[0].start, len(words)) not in self.alone:
                    self.drop_list(words)
        for found in self.out.launches:
            if any(start <= found.start < end for start, end in self.returned):
                found.partial = True

    def drop_list(self, words: list[Source]) -> None:
        """Take out what a list of words made up."""
        starts = [word.start for word in words]
        kept = []
        for found in self.out.launches:
            found.variants = [
                variant
                for variant in found.variants
                if not variant.words
                or [word.start for word in variant.words] != starts[-len(variant.words) :]
            ]
            if found.variants:
                kept.append(found)
        self.out.launches[:] = kept

    def card(self, value: ast.expr) -> None:
        """`gpu="H100:8"`, as tools that run functions on machines take it."""
        if isinstance(value, ast.JoinedStr) and value.values:
            value = value.values[0]
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            match = CARD.match(value.value.rstrip(":"))
            if match is not None:
                self.cards.add(match.group(1))

    def body(self, statements: Iterable[ast.stmt], scope: _Scope) -> None:
        """Statements in order; every branch is taken."""
        for statement in statements:
            self.statement(statement, scope)

    def statement(self, node: ast.stmt, scope: _Scope) -> None:
        """One statement."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = _Scope(parent=scope)
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    self.expression(default, scope)
            self.body(node.body, inner)
            return
        if isinstance(node, ast.ClassDef):
            self.body(node.body, _Scope(parent=scope, whole_class=True))
            return
        if isinstance(node, ast.Assign):
            self.assign(node.targets, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign([node.target], node.value, scope)
        elif isinstance(node, ast.AugAssign):
            self.augment(node, scope)
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, (ast.Constant, ast.JoinedStr)):
                return  # a docstring, or a comment in quotes
            if self.extended(node.value, scope):
                return
            self.expression(node.value, scope)
        elif isinstance(node, ast.If):
            self.branches(node, scope)
        else:
            if isinstance(node, ast.Return) and isinstance(node.value, (ast.List, ast.BinOp)):
                whole = self.piece(node.value)
                self.returned.append((whole.start, whole.end))
            for name in ("test", "iter", "value", "exc", "subject"):
                part = getattr(node, name, None)
                if isinstance(part, ast.expr):
                    self.expression(part, scope)
            for item in getattr(node, "items", ()):
                self.expression(item.context_expr, scope)
            for name in ("body", "orelse", "finalbody"):
                self.body(getattr(node, name, ()), scope)
            for handler in getattr(node, "handlers", ()):
                self.body(handler.body, scope)
            for case in getattr(node, "cases", ()):
                self.body(case.body, scope)

    def branches(self, node: ast.If, scope: _Scope) -> None:
        """Both ways of a conditional: lists grow by both, a text that differs is not known."""
        self.expression(node.test, scope)
        before = dict(scope.values)
        self.body(node.body, scope)
        first = {
            name: words[0]
            for name, words in scope.values.items()
            if len(words) == 1 and words is not before.get(name)
        }
        for name in first:
            if name in before:
                scope.values[name] = before[name]
            else:
                del scope.values[name]
        self.body(node.orelse, scope)
        for name, one in first.items():
            known = scope.values.get(name)
            if known is None or len(known) != 1:
                scope.values[name] = [one] if known is None else known
                continue
            start = before[name][0].text if len(before.get(name, ())) == 1 else ""
            scope.values[name] = [_either(one, known[0], start)]

    def assign(self, targets: list[ast.expr], value: ast.expr, scope: _Scope) -> None:
        """`name = …`: kept if it is words or keywords; a list may still grow before it is used."""
        name = _variable(targets[0]) if len(targets) == 1 else None
        keeper = scope.owner() if name is not None and name.startswith(".") else scope
        is_text = self.is_text(value, scope)
        if name is not None and not is_text and self.shares(value):
            words = self.words(value, scope)
            if words:
                keeper.keep(name, words, text=False)
                self.copies[id(words)] = words
                return
        is_list = isinstance(value, (ast.List, ast.Tuple, ast.BinOp)) or (
            isinstance(value, ast.Call) and _called(value.func) == "split"
        )
        if name is not None and is_list and not is_text:
            words = self.words(value, scope)
            if words is not None:
                keeper.keep(name, words, text=False)
                self.done.add(id(value))
                if not self.consider(words, scope, value):
                    for child in ast.iter_child_nodes(value):
                        if isinstance(child, ast.expr):
                            self.expression(child, scope)
                return
        if name is not None and (is_text or isinstance(value, ast.Constant)):
            text = self.text(value, scope)
            if text is not None:
                keeper.keep(name, [text], text=is_text)
        if name is not None:
            pairs = self.dictionary(value, scope)
            if pairs is not None:
                keeper.keywords[name] = pairs
        if isinstance(targets[0], ast.Subscript) and isinstance(targets[0].value, ast.Name):
            pairs = scope.pairs(targets[0].value.id)
            key = self.text(targets[0].slice, scope)
            if pairs is not None and key is not None:
                pairs.append((key, self.text(value, scope)))
        self.expression(value, scope)

    @staticmethod
    def shares(value: ast.expr) -> bool:
        """Whether a value has the words of a list: `list(x)`, `x.copy()`, `x[:]`, `[*x]`, `x`."""
        of: ast.expr | None = value
        if isinstance(value, ast.Call):
            of = value.args[0] if _called(value.func) == "list" and len(value.args) == 1 else None
            if isinstance(value.func, ast.Attribute) and _called(value.func) == "copy":
                of = value.func.value
        elif isinstance(value, ast.List) and len(value.elts) == 1:
            of = value.elts[0].value if isinstance(value.elts[0], ast.Starred) else None
        elif isinstance(value, ast.Subscript) and _is_whole_slice(value):
            of = value.value
        return of is not None and _variable(of) is not None

    def augment(self, node: ast.AugAssign, scope: _Scope) -> None:
        """`name += …`."""
        name = _variable(node.target)
        if name is not None:
            known = scope.words(name)
            words = self.words(node.value, scope)
            if known is None and isinstance(node.value, (ast.List, ast.Tuple)):
                known = []  # what it starts with was made elsewhere
            if known is not None and words is not None and isinstance(node.op, ast.Add):
                text = self.is_text(node.value, scope)
                grown = [join([*known, *words])] if text and len(known) == 1 else [*known, *words]
                (scope.owner() if name.startswith(".") else scope).values[name] = grown
                if len(grown) == 1 == len(known):
                    self.longer(known[0], grown[0])
                else:
                    self.further(known, grown, scope, node.value)
                return
        self.expression(node.value, scope)

    def extended(self, node: ast.expr, scope: _Scope) -> bool:
        """`name.append(…)` and `name.extend(…)`."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return False
        if node.func.attr == "update":
            return self.updated(node, node.func, scope)
        if (node.func.attr, len(node.args)) not in _GROWING:
            return False
        name = _variable(node.func.value)
        known = scope.words(name) if name is not None else None
        if known is None and isinstance(node.args[0], (ast.List, ast.Tuple)):
            known = []
        if name is None or known is None:
            return False
        at = len(known)
        if node.func.attr == "insert":
            place = node.args[0]
            if not (isinstance(place, ast.Constant) and type(place.value) is int):
                return False
            at = min(place.value, at) if place.value >= 0 else max(0, at + place.value)
        if node.func.attr == "extend":
            words = self.words(node.args[0], scope)
        else:
            text = self.text(node.args[-1], scope)
            words = [text] if text is not None else None
        if words is None:
            return False
        grown = [*known[:at], *words, *known[at:]]
        (scope.owner() if name.startswith(".") else scope).values[name] = grown
        self.further(known, grown, scope, node.args[-1], at)
        return True

    def longer(self, before: Source, after: Source) -> None:
        """A command in a text that was taken already is read again with what was added."""
        if "sglang" in before.text and self.dropped(before):
            self.script(after)

    def dropped(self, text: Source) -> bool:
        """Take out the launches that lie within a text; returns whether there were any."""
        kept = [
            found
            for found in self.out.launches
            if not text.covers(found.start)
            or not all(text.covers(word.start) for word in found.variants[0].words)
        ]
        fewer = len(kept) < len(self.out.launches)
        self.out.launches[:] = kept
        return fewer

    def updated(self, node: ast.Call, function: ast.Attribute, scope: _Scope) -> bool:
        """`name.update(…)` of a dictionary of keywords."""
        name = _variable(function.value)
        pairs = scope.pairs(name) if name is not None else None
        if pairs is None:
            return False
        for argument in node.args:
            pairs += self.dictionary(argument, scope) or []
        pairs += self.keywords(node.keywords, scope)
        return True

    def keywords(
        self, keywords: list[ast.keyword], scope: _Scope
    ) -> list[tuple[Source, Source | None]]:
        """Names and values of a call's keywords, those of a known `**dictionary` among them."""
        pairs: list[tuple[Source, Source | None]] = []
        for keyword in keywords:
            if keyword.arg is None:
                pairs += self.dictionary(keyword.value, scope) or []
                continue
            start = self.offset(keyword.lineno, keyword.col_offset)
            word = self.source.slice(start, start + len(keyword.arg))
            pairs.append((word, self.value(keyword.value, scope)))
        return pairs

    def further(
        self,
        before: list[Source],
        after: list[Source],
        scope: _Scope,
        node: ast.expr,
        at: int | None = None,
    ) -> None:
        """A list has got further words: those of a command that was taken, or that start one."""
        is_copy = self.copies.pop(id(before), None) is not None
        if not is_copy and self.grow(before, after, len(before) if at is None else at):
            return
        starts = {word.start for word in after if "sglang" in word.text}
        if starts and (is_copy or not starts & self.begun) and self.consider(
            after, scope, node, before[0].start if before else None
        ):  # fmt: skip
            for part in ast.walk(node):
                self.done.add(id(part))

    def grow(self, before: list[Source], after: list[Source], at: int) -> bool:
        """A command that was taken already has got words at a place; returns whether one has."""
        if not before:
            return False
        for found in self.out.launches:
            for number, variant in enumerate(found.variants):
                last = variant.words[-1] if variant.words else None
                if last is not None and last == before[-1] and len(before) > len(variant.words):
                    here = max(0, at - (len(before) - len(variant.words)))
                    new = after[at : at + len(after) - len(before)]
                    found.variants[number] = replace(
                        variant, words=(*variant.words[:here], *new, *variant.words[here:])
                    )
                    lists = self.taken.get(before[0].start, [])
                    if before in lists:
                        lists[lists.index(before)] = after
                    return True
        return False

    # -------------------------------------------------------------- expressions

    def expression(self, node: ast.expr, scope: _Scope) -> None:
        """Look for launches inside an expression."""
        if id(node) in self.done:
            return
        self.done.add(id(node))
        if isinstance(node, ast.Call):
            self.call(node, scope)
            return
        name = _variable(node)
        words = scope.words(name) if name is not None else None
        if words:
            self.alone.add((words[0].start, len(words)))
        if isinstance(node, ast.BinOp) and self.is_text(node, scope):
            self.string(node, scope)
            for operand in _parts(node):
                if not isinstance(operand, (ast.Constant, ast.JoinedStr)):
                    self.expression(operand, scope)
            return
        if isinstance(node, (ast.List, ast.Tuple)) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        ):
            words = self.words(node, scope)
            if words is not None and self.consider(words, scope, node):
                for part in ast.walk(node):
                    self.done.add(id(part))
                return
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            self.string(node, scope)
            return
        for child in _parts(node):
            self.expression(child, scope)

    def call(self, node: ast.Call, scope: _Scope) -> None:
        """A call: an engine, a helper that launches a server, a subprocess, or anything else."""
        name = _called(node.func)
        if name in _TALK:
            return
        if self.starts_engine(node.func):
            self.engine(node, scope)
            return
        if name in ("popen_launch_server", "popen_launch_pd_server") and self.launched(node, scope):
            return
        if name == "prepare_server_args" and self.prepared(node, scope):
            return
        if self.is_text(node, scope):
            self.string(node, scope)
            for part in ast.walk(node):
                if not (isinstance(part, ast.expr) and _variable(part) is not None):
                    self.done.add(id(part))
        if isinstance(node.func, ast.expr):
            self.expression(node.func, scope)
        for argument in node.args:
            part = argument.value if isinstance(argument, ast.Starred) else argument
            if name in _LAUNCHERS and isinstance(part, (ast.Constant, ast.JoinedStr)):
                text = self.text(part, scope)
                if text is not None:
                    self.script(text)
                    self.done.add(id(part))
                    continue
            self.expression(part, scope)
        for keyword in node.keywords:
            if keyword.arg not in ("help", "description", "epilog", "usage"):
                self.expression(keyword.value, scope)

    def starts_engine(self, function: ast.expr) -> bool:
        """Whether a call builds one of SGLang's engines."""
        if isinstance(function, ast.Attribute):
            path = _dotted(function)
            if path is None:
                return False
            head, _, last = path.rpartition(".")
            root = head.split(".")[0]
            return (last in _ENGINES and (head in self.modules or root in self.modules) and (
                self.names.get(root) is None
            )) or (last in _ENGINES and root in ("sgl", "sglang"))  # fmt: skip
        return isinstance(function, ast.Name) and self.names.get(function.id) in _ENGINES

    def engine(self, node: ast.Call, scope: _Scope) -> None:
        """Keyword arguments as flags."""
        argv: list[Source] = []
        partial = False
        for keyword in node.keywords:
            if keyword.arg is None:
                pairs = self.dictionary(keyword.value, scope)
                if pairs is None:
                    partial = True
                for key, value in pairs or ():
                    argv += self.pair(key, value)
                continue
            start = self.offset(keyword.lineno, keyword.col_offset)
            key = self.source.slice(start, start + len(keyword.arg))
            argv += self.pair(key, self.value(keyword.value, scope), keyword.value)
        whole = self.piece(node)
        if not argv:
            return  # nothing but what is passed through
        self.commands._add(
            argv, {}, self.out, self.kind, (whole.start, whole.end), Context(),
            partial=partial or bool(node.args), command=_called(node.func) or "Engine",
        )  # fmt: skip

    def pair(self, key: Source, value: Source | None, node: ast.expr | None = None) -> list[Source]:
        """One keyword; a value that is not known opens its flag."""
        if node is not None and isinstance(node, ast.Constant) and node.value in (False, None):
            return []
        if node is not None and isinstance(node, (ast.List, ast.Tuple)):
            words = self.words(node, _Scope())
            name = "--" + key.text.replace("_", "-")
            if words and self.commands.is_flag(name):
                return [Source(name, (0,), (key.start,)), *words]
            return []
        if value is None:
            value = Source("?", (0,), (key.end,)).opened()
        return keyed(key, value, self.commands.flags.__contains__)

    def value(self, node: ast.expr, scope: _Scope) -> Source | None:
        """A value as the text of a flag."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            piece = self.piece(node)
            return piece if not isinstance(node.value, bytes) else None
        text = self.text(node, scope)
        return text if text is not None else self.piece(node).opened()

    def launched(self, node: ast.Call, scope: _Scope) -> bool:
        """A test helper's server: the model, and further arguments as a list."""
        argv: list[Source] = []
        if node.args:
            model = self.text(node.args[0], scope)
            where = self.piece(node.args[0])
            argv = [made("--model-path", where.start), model or where.opened()]
        for keyword in node.keywords:
            if keyword.arg in ("model", "model_path") and not argv:
                where = self.piece(keyword.value)
                model = self.text(keyword.value, scope)
                argv = [made("--model-path", where.start), model or where.opened()]
        found = False
        environment: dict[str, Source] = {}
        for keyword in node.keywords:
            if keyword.arg == "other_args":
                words = self.words(keyword.value, scope)
                if words is not None:
                    argv += words
                    found = True
                    for part in ast.walk(keyword.value):
                        self.done.add(id(part))
            elif keyword.arg == "env":
                for key, value in self.dictionary(keyword.value, scope) or ():
                    if value is not None:
                        environment[key.text] = value
        if not argv:
            return False
        whole = self.piece(node)
        self.commands._add(
            argv, environment, self.out, self.kind, (whole.start, whole.end), Context(),
            partial=not found, command=_called(node.func) or "",
        )  # fmt: skip
        return True

    def prepared(self, node: ast.Call, scope: _Scope) -> bool:
        """SGLang's own parser, given a list of words."""
        words = self.words(node.args[0], scope) if node.args else None
        if not words or not words[0].text.startswith("-"):
            return False
        whole = self.piece(node)
        self.commands._add(
            words, {}, self.out, self.kind, (whole.start, whole.end), Context(),
            command="prepare_server_args",
        )  # fmt: skip
        for part in ast.walk(node):
            self.done.add(id(part))
        return True

    def consider(
        self, words: list[Source], scope: _Scope, node: ast.expr, start: int | None = None
    ) -> bool:
        """Words of a list as a command."""
        if len(words) < 2 or not any("sglang" in word.text for word in words):
            return False
        shells = [
            number
            for number in range(1, len(words))
            if words[number - 1].text in ("-c", "-lc", "-ec") and " " in words[number].text
        ]
        if shells:
            self.script(words[shells[0]])
            return True
        whole = self.piece(node)
        start = whole.start if start is None else min(start, whole.start)
        if not self.commands.take(words, {}, self.out, self.kind, span=(start, whole.end)):
            return False
        self.begun |= {word.start for word in words if "sglang" in word.text}
        self.taken.setdefault(words[0].start, []).append(words)
        return True

    def string(self, node: ast.expr, scope: _Scope) -> None:
        """A text that may be a command line."""
        text = self.text(node, scope)
        if text is None or "sglang" not in text.text or " " not in text.text:
            return
        literal = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
        own = " ".join(str(part.value) for part in literal if isinstance(part.value, str))
        if "--sglang-" in own and "train" not in own.split("--sglang-")[0]:
            self.commands.take(text.split(), {}, self.out, self.kind)
            return
        if "sglang" in own and _QUOTED.search(own) is None:
            self.script(text)
        elif isinstance(node, (ast.BinOp, ast.JoinedStr)):
            self.continued(node, text, scope)

    def continued(self, node: ast.expr, text: Source, scope: _Scope) -> None:
        """A command that a name holds, with further flags behind it."""
        first, *rest = [
            part.value if isinstance(part, ast.FormattedValue) else part for part in _parts(node)
        ]
        before = self.text(first, scope)
        if before is None or "sglang" not in before.text or "--sglang-" in before.text:
            return
        added = [self.text(part, scope) for part in rest]
        if any(one is not None and _FLAGGED.match(one.text) for one in added):
            self.dropped(before)
            self.script(text)

    def script(self, text: Source) -> None:
        """A command line or a script in a text."""
        masked = "".join(
            MASK if any(left <= number < right for left, right in text.holes) else character
            for number, character in enumerate(text.text)
        ) if text.holes else text.text  # fmt: skip
        masked = _FIELD.sub(lambda match: MASK * len(match.group()), masked)
        text = replace(text, text=masked, holes=())
        shell.find(shell.prepared(text), self.commands, self.out, self.kind, depth=1)

    # ------------------------------------------------------------------- values

    def words(self, node: ast.expr, scope: _Scope, depth: int = 0) -> list[Source] | None:
        """The words that an expression is a list of; None where it is no list."""
        if depth > 20:
            return None
        if isinstance(node, (ast.List, ast.Tuple)):
            found: list[Source] = []
            for item in node.elts[:_MAX_ELEMENTS]:
                if isinstance(item, ast.Starred):
                    inner = self.words(item.value, scope, depth + 1)
                    found += inner if inner is not None else [self.piece(item).opened()]
                    continue
                text = self.text(item, scope)
                found.append(text if text is not None else self.piece(item).opened())
            return found
        name = _variable(node)
        if name is not None:
            known = scope.words(name) or scope.words(name.removeprefix("."))
            return list(known) if known is not None else None
        if isinstance(node, ast.BinOp) and self.is_text(node, scope):
            text = self.text(node, scope)
            return [text] if text is not None else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.sum(_parts(node), scope, depth)
        if _is_whole_slice(node):
            return self.words(node.value, scope, depth + 1)  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and _called(node.func) == "copy" and not node.args:
            whole = node.func.value if isinstance(node.func, ast.Attribute) else None
            return self.words(whole, scope, depth + 1) if whole is not None else None
        if isinstance(node, ast.IfExp):
            first = self.words(node.body, scope, depth + 1)
            return first if first else self.words(node.orelse, scope, depth + 1)
        if isinstance(node, ast.Call) and _called(node.func) in ("split", "list"):
            if isinstance(node.func, ast.Attribute) and _called(node.func) == "split":
                target = (
                    node.args[0]
                    if _dotted(node.func) == "shlex.split" and node.args
                    else (node.func.value)
                )
                text = self.text(target, scope)
                return text.split() if text is not None else None
            return self.words(node.args[0], scope, depth + 1) if node.args else []
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            text = self.text(node, scope)
            return [text] if text is not None else None
        return None

    def sum(self, parts: list[ast.expr], scope: _Scope, depth: int) -> list[Source] | None:
        """Words of lists that are added; None where none of them is known."""
        lists = [self.words(part, scope, depth + 1) for part in parts]
        if all(words is None for words in lists):
            return None
        found: list[Source] = []
        for part, words in zip(parts, lists, strict=True):
            found += words if words is not None else [self.piece(part).opened()]
        return found if len(found) <= MOST_WORDS else None

    def changed(self, node: ast.Call, scope: _Scope, depth: int) -> Source | None:
        """A text as a function gives it back: stripped, joined, dedented, characters replaced."""
        function = node.func
        name, given = _called(function), [self.constant(argument) for argument in node.args]
        if name in ("dedent", "cleandoc") and len(node.args) == 1:
            return self.text(node.args[0], scope, depth + 1)
        if not isinstance(function, ast.Attribute):
            return None
        if name == "join" and len(given) == 1 and (self.constant(function.value) or "").isspace():
            words = self.words(node.args[0], scope, depth + 1)
            return capped(join(words, " ")) if words else None
        if name not in ("strip", "lstrip", "rstrip", "replace"):
            return None
        text = self.text(function.value, scope, depth + 1)
        if text is None or not self.is_text(function.value, scope):
            return None
        if name == "replace" and len(given) == 2 and None not in given:
            old, new = str(given[0]), str(given[1])
            return replace(text, text=text.text.replace(old, new)) if len(old) == len(new) else None
        if name == "replace" or given:
            return None
        start = 0 if name == "rstrip" else len(text.text) - len(text.text.lstrip())
        return text.slice(start, len(text.text if name == "lstrip" else text.text.rstrip()))

    @staticmethod
    def constant(node: ast.expr) -> str | None:
        """A text that is written out."""
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return str(node.value) if is_text else None  # type: ignore[attr-defined]

    def is_text(self, node: ast.expr, scope: _Scope) -> bool:
        """Whether an expression is a text, as a sum is of which one part is known to be."""
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Mod):
                return self.is_text(node.left, scope)
            return isinstance(node.op, ast.Add) and any(
                self.is_text(part, scope) for part in _parts(node)
            )
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str)
        if isinstance(node, ast.Call):
            return self.changed(node, scope, 0) is not None
        name = _variable(node)
        return isinstance(node, ast.JoinedStr) or (name is not None and scope.is_text(name))

    def text(self, node: ast.expr, scope: _Scope, depth: int = 0) -> Source | None:
        """The text that an expression is, with holes; None where it is none."""
        if depth > 20:
            return None
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return aligned(node.value, self.piece(node))
            if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
                return self.piece(node)
            return None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and (
            isinstance(node.operand, ast.Constant)
        ):  # fmt: skip
            return self.piece(node)
        name = _variable(node)
        if name is not None:
            known = scope.words(name) or scope.words(name.removeprefix("."))
            if known is not None and len(known) == 1:
                return known[0]
            return self.piece(node).opened()
        if isinstance(node, ast.JoinedStr):
            return self.joined(node, scope)
        if isinstance(node, ast.Call):
            changed = self.changed(node, scope, depth)
            if changed is not None:
                return changed
        if isinstance(node, ast.Call) and _called(node.func) == "str" and len(node.args) == 1:
            return self.text(node.args[0], scope, depth + 1)
        if isinstance(node, ast.Call) and _called(node.func) == "format" and (
            isinstance(node.func, ast.Attribute)
        ):  # fmt: skip
            text = self.text(node.func.value, scope, depth + 1)
            return text.opened() if text is not None else None
        if isinstance(node, ast.Call) and _called(node.func) in ("getenv", "get") and (
            len(node.args) == 2
        ):  # fmt: skip
            return self.text(node.args[1], scope, depth + 1)
        if isinstance(node, ast.Call) and _called(node.func) == "dumps":
            return self.piece(node).opened()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = _parts(node)
            texts = [self.text(part, scope, depth + 1) for part in parts]
            if not self.is_text(node, scope) and None in texts:
                return None
            return capped(
                join(
                    text if text is not None else self.piece(part).opened()
                    for part, text in zip(parts, texts, strict=True)
                )
            )
        if isinstance(node, ast.BinOp) and self.is_text(node, scope):
            text = self.text(node.left, scope, depth + 1)
            return _percent(text) if text is not None else None
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.IfExp)):
            return self.piece(node).opened()
        return None

    def joined(self, node: ast.JoinedStr, scope: _Scope) -> Source:
        """An f-string. Its texts have no places of their own in this Python, so they are sought."""
        raw = self.piece(node)
        parts: list[Source] = []
        position = 0
        for value in node.values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                rest = raw.slice(position, len(raw.text))
                text = value.value
                place = rest.text.find(text) if text else 0
                if place >= 0:
                    parts.append(rest.slice(place, place + len(text)))
                    position += place + len(text)
                else:
                    mapped = aligned(text, rest)
                    parts.append(mapped)
                    while mapped.text and position < len(raw.text) and (
                        raw.at(position) < mapped.end
                    ):  # fmt: skip
                        position += 1
            elif isinstance(value, ast.FormattedValue):
                known = None
                name = _variable(value.value)
                if name is not None:
                    words = scope.words(name) or scope.words(name.removeprefix("."))
                    if words is not None and len(words) == 1:
                        known = words[0]
                opening = raw.text.find("{", position)
                closing = raw.text.find("}", opening) if opening >= 0 else -1
                if closing >= 0:
                    hole = raw.slice(opening, closing + 1).opened()
                    position = closing + 1
                else:
                    hole = made("{}", raw.start, known=False)
                parts.append(known if known is not None else hole)
        return join(parts) if parts else made("", raw.start)

    def dictionary(
        self, node: ast.expr, scope: _Scope
    ) -> list[tuple[Source, Source | None]] | None:
        """Keys and values of a dictionary that an expression is."""
        name = _variable(node)
        if name is not None:
            return scope.pairs(name)
        pairs: list[tuple[Source, Source | None]] = []
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    pairs += self.dictionary(value, scope) or []
                    continue
                text = self.text(key, scope)
                if text is not None and not text.open:
                    pairs.append((text, self.value(value, scope)))
            return pairs
        if isinstance(node, ast.Call) and _called(node.func) == "dict":
            return pairs + self.keywords(node.keywords, scope)
        return None


def _columns(text: str) -> list[int] | None:
    """The character at each byte of a line's UTF-8, and the end; None where they are the same."""
    if text.isascii():
        return None
    columns = []
    for number, character in enumerate(text):
        columns += [number] * len(character.encode("utf-8", "replace"))
    return [*columns, len(text)]


def _parts(node: ast.expr) -> list[ast.expr]:
    """The parts of a sum in their order, however many; of another expression, those beneath it."""
    if not _is_sum(node):
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    parts: list[ast.expr] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.BinOp) and _is_sum(one):
            waiting += (one.right, one.left)
        else:
            parts.append(one)
    return parts


def _is_whole_slice(node: ast.expr) -> bool:
    """Whether an expression is `x[:]`."""
    part = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)


def _is_sum(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _percent(text: Source) -> Source:
    """A text with holes where `%` fills in values."""
    parts: list[Source] = []
    position = 0
    for match in _CONVERSION.finditer(text.text):
        parts.append(text.slice(position, match.start()))
        if match.group() == "%%":
            parts.append(text.slice(match.start(), match.start() + 1))
        else:
            parts.append(text.slice(match.start(), match.end()).opened())
        position = match.end()
    return join([*parts, text.slice(position, len(text.text))])


def _either(one: Source, other: Source, start: str) -> Source:
    """What a text is that two branches leave behind, each from the same start."""
    if one.open or other.open:
        return one if one.open else other
    if one.text == other.text or not other.text.strip() or one.text.startswith(other.text):
        return one
    if not one.text.strip() or other.text.startswith(one.text):
        return other
    if start and one.text.startswith(start) and other.text.startswith(start):
        return join([one, other.slice(len(start), len(other.text))])
    return one.opened()


def _variable(node: ast.expr) -> str | None:
    """What a name is kept under; attributes of `self` and `cls` belong to their class."""
    path = _dotted(node)
    if path is None:
        return None
    head, _, rest = path.partition(".")
    return f".{rest}" if rest and head in ("self", "cls") else path


def _called(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _dotted(node.value)
        return f"{head}.{node.attr}" if head is not None else None
    return None
