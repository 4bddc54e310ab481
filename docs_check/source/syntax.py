"""A small syntax tree over libcst's, without layout: what facts are read from.

libcst nodes stay reachable (`origin`), for comments and for positions. Positions are worked out
for one segment at a time, and only when something in it is cited.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst


@dataclass(slots=True)
class Expr:
    """An expression; `origin` is libcst's node for it."""

    origin: cst.CSTNode | None = field(default=None, repr=False, compare=False, kw_only=True)


@dataclass(slots=True)
class Const(Expr):
    """None, a truth value, a number or a string."""

    value: Any


@dataclass(slots=True)
class Text(Expr):
    """A formatted string: fixed parts and expressions, in order."""

    parts: list[str | Expr]


@dataclass(slots=True)
class Name(Expr):
    id: str


@dataclass(slots=True)
class Attr(Expr):
    value: Expr
    name: str


@dataclass(slots=True)
class Call(Expr):
    func: Expr
    args: list[Expr]
    keywords: dict[str, Expr]


@dataclass(slots=True)
class Index(Expr):
    value: Expr
    key: Expr


@dataclass(slots=True)
class Compare(Expr):
    left: Expr
    ops: list[tuple[str, Expr]]


@dataclass(slots=True)
class Bool(Expr):
    op: str
    items: list[Expr]


@dataclass(slots=True)
class Not(Expr):
    item: Expr


@dataclass(slots=True)
class Seq(Expr):
    """A list, tuple or set; `comments` are those after its items, by index."""

    kind: str
    items: list[Expr]
    comments: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Map(Expr):
    items: list[tuple[Expr | None, Expr]]


@dataclass(slots=True)
class IfElse(Expr):
    test: Expr
    body: Expr
    orelse: Expr


@dataclass(slots=True)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True)
class Negative(Expr):
    item: Expr


@dataclass(slots=True)
class Other(Expr):
    """Anything else, with the expressions inside it."""

    items: list[Expr]


@dataclass(slots=True)
class Stmt:
    """A statement."""

    origin: cst.CSTNode | None = field(default=None, repr=False, compare=False, kw_only=True)


@dataclass(slots=True)
class If(Stmt):
    test: Expr
    body: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True)
class Return(Stmt):
    value: Expr | None


@dataclass(slots=True)
class Raise(Stmt):
    value: Expr | None


@dataclass(slots=True)
class Assert(Stmt):
    test: Expr
    message: Expr | None


@dataclass(slots=True)
class Assign(Stmt):
    targets: list[Expr]
    value: Expr | None
    annotation: Expr | None = None


@dataclass(slots=True)
class Augment(Stmt):
    target: Expr
    op: str
    value: Expr


@dataclass(slots=True)
class Do(Stmt):
    """An expression evaluated for its effect."""

    value: Expr


@dataclass(slots=True)
class Loop(Stmt):
    target: Expr | None
    source: Expr
    body: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True)
class With(Stmt):
    items: list[Expr]
    body: list[Stmt]


@dataclass(slots=True)
class Try(Stmt):
    body: list[Stmt]
    handlers: list[tuple[Expr | None, list[Stmt]]]
    orelse: list[Stmt]
    final: list[Stmt]


@dataclass(slots=True)
class Param:
    name: str
    default: Expr | None
    annotation: Expr | None


@dataclass(slots=True)
class Def(Stmt):
    name: str
    params: list[Param]
    body: list[Stmt]
    decorators: list[Expr]


@dataclass(slots=True)
class Class(Stmt):
    name: str
    bases: list[Expr]
    body: list[Stmt]
    decorators: list[Expr]


@dataclass(slots=True)
class Import(Stmt):
    """`from module import a as b` (names maps local to remote) or `import a.b as c`."""

    module: str
    names: dict[str, str]


@dataclass(slots=True)
class Leave(Stmt):
    """break or continue."""


@dataclass(slots=True)
class Blank(Stmt):
    """pass, global and their like."""


_COMPARE: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "==", cst.NotEqual: "!=", cst.LessThan: "<", cst.LessThanEqual: "<=",
    cst.GreaterThan: ">", cst.GreaterThanEqual: ">=", cst.In: "in", cst.NotIn: "not in",
    cst.Is: "is", cst.IsNot: "is not",
}  # fmt: skip
_BINARY: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/",
    cst.FloorDivide: "//", cst.Modulo: "%", cst.BitOr: "|", cst.BitAnd: "&", cst.Power: "**",
}  # fmt: skip


@dataclass(slots=True)
class Order:
    """Statements, decorators and strings in the order of the text, by the identity of nodes.

    They are what positions are matched by; conversion below goes in the order of the text. `alone`
    are expressions that are all of a statement, with that statement.
    """

    statements: list[int] = field(default_factory=list)
    decorators: list[int] = field(default_factory=list)
    strings: list[int] = field(default_factory=list)
    alone: dict[int, int] = field(default_factory=dict)


_order = Order()


def convert(nodes: Sequence[cst.CSTNode]) -> tuple[list[Stmt], Order]:
    """Convert a module's statements, with the order in which they and their strings stand."""
    global _order
    _order = own = Order()
    return statements(nodes), own


def expression(node: cst.BaseExpression) -> Expr:
    """Convert one libcst expression."""
    convert = _EXPRESSIONS.get(type(node))
    if convert is None:
        return Other(list(_expressions_below(node)), origin=node)
    found: Expr = convert(node)
    found.origin = node
    return found


def _expressions_below(node: cst.CSTNode) -> Iterator[Expr]:
    for child in node.children:
        if isinstance(child, cst.BaseExpression):
            yield expression(child)
        else:
            yield from _expressions_below(child)


_TRIPLE = ('"""', "'''")


def _string(node: Any) -> Expr:
    _order.strings.append(id(node))
    raw = node.value
    if "\\" not in raw and raw[0] in "\"'":
        return Const(raw[3:-3] if raw[:3] in _TRIPLE else raw[1:-1])
    try:
        return Const(ast.literal_eval(raw))
    except (ValueError, SyntaxError):
        return Const(node.value)


def _concatenated(node: cst.ConcatenatedString) -> Expr:
    left, right = expression(node.left), expression(node.right)
    if isinstance(left, Const) and isinstance(right, Const):
        if isinstance(left.value, str) and isinstance(right.value, str):
            return Const(left.value + right.value)
        return Const(left.value)
    parts: list[str | Expr] = []
    for part in (left, right):
        if isinstance(part, Text):
            parts += part.parts
        elif isinstance(part, Const):
            parts.append(str(part.value))
    return Text(parts)


def _formatted(node: cst.FormattedString) -> Expr:
    own = len(_order.strings)
    parts: list[str | Expr] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            parts.append(part.value.replace("{{", "{").replace("}}", "}"))
        elif isinstance(part, cst.FormattedStringExpression):
            parts.append(expression(part.expression))
    # In the text a formatted string is one token, whatever it holds.
    del _order.strings[own:]
    _order.strings.append(id(node))
    return Text(parts)


def _number(node: Any) -> Expr:
    if node.value.isdecimal() and (node.value[0] != "0" or node.value == "0"):
        return Const(int(node.value))
    try:
        return Const(ast.literal_eval(node.value))
    except (ValueError, SyntaxError):
        return Other([])


def _name(node: cst.Name) -> Expr:
    constants = {"None": None, "True": True, "False": False}
    return Const(constants[node.value]) if node.value in constants else Name(node.value)


def _call(node: cst.Call) -> Expr:
    args: list[Expr] = []
    keywords: dict[str, Expr] = {}
    for argument in node.args:
        value = expression(argument.value)
        if argument.keyword is not None:
            keywords[argument.keyword.value] = value
        elif argument.star:
            keywords.setdefault(argument.star, value)
        else:
            args.append(value)
    return Call(expression(node.func), args, keywords)


def _subscript(node: cst.Subscript) -> Expr:
    keys: list[Expr] = []
    for element in node.slice:
        if isinstance(element.slice, cst.Index):
            keys.append(expression(element.slice.value))
        elif isinstance(element.slice, cst.Slice):
            below: list[Expr] = []
            for part in (element.slice.lower, element.slice.upper, element.slice.step):
                if part is not None:
                    below.append(expression(part))
            keys.append(Other(below))
    key = keys[0] if len(keys) == 1 else Seq("tuple", keys)
    return Index(expression(node.value), key)


def _compare(node: cst.Comparison) -> Expr:
    ops = []
    for target in node.comparisons:
        ops.append((_COMPARE.get(type(target.operator), "?"), expression(target.comparator)))
    return Compare(expression(node.left), ops)


def _boolean(node: cst.BooleanOperation) -> Expr:
    op = "and" if isinstance(node.operator, cst.And) else "or"
    items: list[Expr] = []
    for side in (node.left, node.right):
        part = expression(side)
        if isinstance(part, Bool) and part.op == op:
            items += part.items
        else:
            items.append(part)
    return Bool(op, items)


def _unary(node: cst.UnaryOperation) -> Expr:
    item = expression(node.expression)
    if isinstance(node.operator, cst.Not):
        return Not(item)
    if isinstance(node.operator, cst.Minus):
        if isinstance(item, Const) and isinstance(item.value, (int, float)):
            return Const(-item.value)
        return Negative(item)
    return Other([item])


def _binary(node: cst.BinaryOperation) -> Expr:
    return Binary(
        _BINARY.get(type(node.operator), "?"), expression(node.left), expression(node.right)
    )


def _sequence(node: Any) -> Expr:
    kind = type(node).__name__.lower()
    items: list[Expr] = []
    comments: dict[int, str] = {}
    for index, element in enumerate(node.elements):
        items.append(expression(element.value))
        comment = _comment_after(element)
        if comment is None and index == len(node.elements) - 1:
            comment = _comment_in(getattr(node, "rbracket", None) or getattr(node, "rbrace", None))
        if comment:
            comments[index] = comment
    return Seq(kind, items, comments)


def _comment_after(element: Any) -> str | None:
    comma = getattr(element, "comma", None)
    space = getattr(comma, "whitespace_after", None)
    return _comment_of(space)


def _comment_in(bracket: Any) -> str | None:
    return _comment_of(getattr(bracket, "whitespace_before", None))


def _comment_of(space: Any) -> str | None:
    line = getattr(space, "first_line", None)
    comment = getattr(line, "comment", None)
    return comment.value.lstrip("# ").strip() if comment is not None else None


def _dict(node: cst.Dict) -> Expr:
    items: list[tuple[Expr | None, Expr]] = []
    for element in node.elements:
        key = expression(element.key) if isinstance(element, cst.DictElement) else None
        items.append((key, expression(element.value)))
    return Map(items)


def _conditional(node: cst.IfExp) -> Expr:
    body = expression(node.body)
    test = expression(node.test)
    return IfElse(test, body, expression(node.orelse))


def _attribute(node: cst.Attribute) -> Expr:
    return Attr(expression(node.value), node.attr.value)


_EXPRESSIONS: dict[type[cst.CSTNode], Any] = {
    cst.SimpleString: _string, cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted, cst.Integer: _number, cst.Float: _number,
    cst.Imaginary: _number, cst.Name: _name, cst.Attribute: _attribute, cst.Call: _call,
    cst.Subscript: _subscript, cst.Comparison: _compare, cst.BooleanOperation: _boolean,
    cst.UnaryOperation: _unary, cst.BinaryOperation: _binary, cst.List: _sequence,
    cst.Tuple: _sequence, cst.Set: _sequence, cst.Dict: _dict, cst.IfExp: _conditional,
}  # fmt: skip


def statements(nodes: Sequence[cst.CSTNode]) -> list[Stmt]:
    """Convert libcst statements; several on one line become several."""
    found: list[Stmt] = []
    for node in nodes:
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                found.append(_small(small))
        else:
            found.append(_compound(node))
    return found


def _small(node: cst.BaseSmallStatement) -> Stmt:
    _order.statements.append(id(node))
    found: Stmt = Blank()
    if isinstance(node, cst.Expr):
        _order.alone[id(node.value)] = id(node)
        found = Do(expression(node.value))
    elif isinstance(node, cst.Return):
        found = Return(expression(node.value) if node.value else None)
    elif isinstance(node, cst.Raise):
        found = Raise(expression(node.exc) if node.exc else None)
    elif isinstance(node, cst.Assert):
        found = Assert(expression(node.test), expression(node.msg) if node.msg else None)
    elif isinstance(node, cst.Assign):
        found = Assign(
            [expression(target.target) for target in node.targets], expression(node.value)
        )
    elif isinstance(node, cst.AnnAssign):
        target = expression(node.target)
        annotation = expression(node.annotation.annotation)
        value = expression(node.value) if node.value else None
        found = Assign([target], value, annotation)
    elif isinstance(node, cst.AugAssign):
        found = Augment(
            expression(node.target), type(node.operator).__name__, expression(node.value)
        )
    elif isinstance(node, cst.ImportFrom):
        found = _import_from(node)
    elif isinstance(node, cst.Import):
        found = Import(
            "",
            {
                (_dotted(alias.asname.name) if alias.asname else _dotted(alias.name)): _dotted(
                    alias.name
                )
                for alias in node.names
            },
        )
    elif isinstance(node, (cst.Break, cst.Continue)):
        found = Leave()
    found.origin = node
    return found


def _import_from(node: cst.ImportFrom) -> Import:
    module = "." * len(node.relative) + (_dotted(node.module) if node.module else "")
    names: dict[str, str] = {}
    if not isinstance(node.names, cst.ImportStar):
        for alias in node.names:
            remote = _dotted(alias.name)
            names[_dotted(alias.asname.name) if alias.asname else remote] = remote
    return Import(module, names)


def _dotted(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return ""


def _block(node: Any) -> list[Stmt]:
    if node is None:
        return []
    if isinstance(node, cst.SimpleStatementSuite):
        return [_small(small) for small in node.body]
    if isinstance(node, cst.IndentedBlock):
        return statements(node.body)
    if isinstance(node, cst.Else):
        return _block(node.body)
    return [_compound(node)]


def _compound(node: cst.CSTNode) -> Stmt:
    _order.statements.append(id(node))
    found: Stmt = Blank()
    if isinstance(node, cst.If):
        found = If(expression(node.test), _block(node.body), _block(node.orelse))
    elif isinstance(node, cst.FunctionDef):
        decorators = _decorators(node.decorators)
        params = _params(node.params)
        if node.returns is not None:
            expression(node.returns.annotation)
        found = Def(node.name.value, params, _block(node.body), decorators)
    elif isinstance(node, cst.ClassDef):
        decorators = _decorators(node.decorators)
        bases = [expression(base.value) for base in node.bases]
        found = Class(node.name.value, bases, _block(node.body), decorators)
    elif isinstance(node, cst.For):
        found = Loop(
            expression(node.target), expression(node.iter), _block(node.body), _block(node.orelse)
        )
    elif isinstance(node, cst.While):
        found = Loop(None, expression(node.test), _block(node.body), _block(node.orelse))
    elif isinstance(node, cst.With):
        found = With([expression(item.item) for item in node.items], _block(node.body))
    elif isinstance(node, (cst.Try, cst.TryStar)):
        found = Try(
            _block(node.body),
            [
                (expression(handler.type) if handler.type else None, _block(handler.body))
                for handler in node.handlers
            ],
            _block(node.orelse),
            _block(node.finalbody.body) if node.finalbody else [],
        )
    elif isinstance(node, cst.Match):
        found = _match(node)
    found.origin = node
    return found


def _decorators(nodes: Sequence[cst.Decorator]) -> list[Expr]:
    _order.decorators += [id(node.decorator) for node in nodes]
    return [expression(node.decorator) for node in nodes]


def _match(node: cst.Match) -> Stmt:
    """A match statement over literals as the if chain that it amounts to."""
    subject = expression(node.subject)
    chain: list[Stmt] = []
    for case in reversed(node.cases):
        body = _block(case.body)
        patterns = list(_literals(case.pattern))
        if not patterns:
            chain = body
            continue
        test: Expr = (
            Compare(subject, [("==", patterns[0])])
            if len(patterns) == 1
            else Compare(subject, [("in", Seq("tuple", patterns))])
        )
        arm = If(test, body, chain)
        arm.origin = case
        chain = [arm]
    return chain[0] if chain else Blank()


def _literals(pattern: cst.MatchPattern) -> Iterator[Expr]:
    if isinstance(pattern, cst.MatchValue):
        yield expression(pattern.value)
    elif isinstance(pattern, cst.MatchOr):
        for element in pattern.patterns:
            yield from _literals(element.pattern)


def _params(node: cst.Parameters) -> list[Param]:
    found = []
    for param in (*node.posonly_params, *node.params, *node.kwonly_params):
        found.append(
            Param(
                param.name.value,
                *_default_and_annotation(param),
            )
        )
    return found


def _default_and_annotation(param: cst.Param) -> tuple[Expr | None, Expr | None]:
    annotation = expression(param.annotation.annotation) if param.annotation else None
    return (expression(param.default) if param.default else None), annotation


def dotted(node: Expr | None) -> str:
    """`a.b().c` for names, attributes and calls without arguments; else an empty string.

    Arguments of calls are left out: the path says what is asked, not of whom.
    """
    if isinstance(node, Name):
        return node.id
    if isinstance(node, Attr):
        base = dotted(node.value)
        return f"{base}.{node.name}" if base else node.name
    if isinstance(node, Call):
        base = dotted(node.func)
        return f"{base}()" if base else ""
    if isinstance(node, Index):
        return dotted(node.value)
    return ""


def last_part(node: Expr | None) -> str:
    """The last name of a path, without parentheses."""
    return dotted(node).rpartition(".")[2].removesuffix("()")


def children(node: Expr) -> Iterator[Expr]:
    """The expressions directly inside one."""
    if isinstance(node, Text):
        yield from (part for part in node.parts if isinstance(part, Expr))
    elif isinstance(node, Attr):
        yield node.value
    elif isinstance(node, Call):
        yield node.func
        yield from node.args
        yield from node.keywords.values()
    elif isinstance(node, Index):
        yield node.value
        yield node.key
    elif isinstance(node, Compare):
        yield node.left
        yield from (right for _, right in node.ops)
    elif isinstance(node, (Bool, Seq, Other)):
        yield from node.items
    elif isinstance(node, (Not, Negative)):
        yield node.item
    elif isinstance(node, Map):
        for key, value in node.items:
            if key is not None:
                yield key
            yield value
    elif isinstance(node, IfElse):
        yield from (node.test, node.body, node.orelse)
    elif isinstance(node, Binary):
        yield from (node.left, node.right)


def walk(node: Expr | None) -> Iterator[Expr]:
    """An expression and all inside it."""
    if node is None:
        return
    yield node
    for child in children(node):
        yield from walk(child)


def own_expressions(statement: Stmt) -> Iterator[Expr]:
    """The expressions of a statement itself, without those of its blocks."""
    if isinstance(statement, If):
        yield statement.test
    elif isinstance(statement, (Return, Raise)):
        if statement.value is not None:
            yield statement.value
    elif isinstance(statement, Assert):
        yield statement.test
        if statement.message is not None:
            yield statement.message
    elif isinstance(statement, Assign):
        yield from statement.targets
        if statement.value is not None:
            yield statement.value
        if statement.annotation is not None:
            yield statement.annotation
    elif isinstance(statement, Augment):
        yield from (statement.target, statement.value)
    elif isinstance(statement, Do):
        yield statement.value
    elif isinstance(statement, Loop):
        if statement.target is not None:
            yield statement.target
        yield statement.source
    elif isinstance(statement, With):
        yield from statement.items
    elif isinstance(statement, Def):
        yield from statement.decorators
        for param in statement.params:
            if param.default is not None:
                yield param.default
    elif isinstance(statement, Class):
        yield from statement.bases


def blocks(statement: Stmt) -> Iterator[list[Stmt]]:
    """The blocks inside a statement."""
    if isinstance(statement, (If, Loop)):
        yield statement.body
        yield statement.orelse
    elif isinstance(statement, (With, Def, Class)):
        yield statement.body
    elif isinstance(statement, Try):
        yield statement.body
        for _, handler in statement.handlers:
            yield handler
        yield statement.orelse
        yield statement.final


def all_statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement of a block and of the blocks inside it, in order."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from all_statements(block)


def all_expressions(body: Sequence[Stmt]) -> Iterator[Expr]:
    """Every expression of a block, nested ones included."""
    for statement in all_statements(body):
        for own in own_expressions(statement):
            yield from walk(own)


def strings(node: Expr | None) -> list[str]:
    """The strings of a list, tuple or set literal (or of one string), in order."""
    if isinstance(node, Const) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, Seq):
        return [item.value for item in node.items
                if isinstance(item, Const) and isinstance(item.value, str)]  # fmt: skip
    return []


def words(node: Expr | None) -> str:
    """The fixed text of a string or a formatted string, holes as `…`."""
    if isinstance(node, Const) and isinstance(node.value, str):
        return node.value
    if isinstance(node, Text):
        return "".join(part if isinstance(part, str) else "…" for part in node.parts)
    if isinstance(node, Binary) and node.op == "+":
        return words(node.left) + words(node.right)
    return ""
