"""Flags: where they are declared, and which values they take.

Three ways of declaring are followed, alone or mixed: `parser.add_argument("--x", choices=…)`, an
annotated field with `Arg(choices=…)`, and a field whose list of values stands elsewhere. Lists may
be literals, local names, module constants, class attributes or imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..source import syntax as sx
from ..source.modules import Codebase
from ..source.paths import Event, Scope, events
from ..source.segments import Segment
from .literals import Literals
from .model import Choice, Flag

_ADDS_ARGUMENT = re.compile(r"\badd_argument\s*\(")
_IS_FIELD = re.compile(r"\w+\s*:")


class Flags:
    """The flags declared in some files of a codebase."""

    def __init__(self, codebase: Codebase, literals: Literals, files: Iterable[str]) -> None:
        self.codebase = codebase
        self.literals = literals
        self.files = list(files)
        self._fields: dict[str, list[Segment]] | None = None
        self._arguments: dict[str, Flag] | None = None
        self._known: dict[str, Flag | None] = {}

    def get(self, name: str) -> Flag | None:
        """A flag by its field (`attention_backend`) or spelling (`--attention-backend`)."""
        field = name.removeprefix("--").replace("-", "_")
        if field not in self._known:
            self._known[field] = self._find(field)
        return self._known[field]

    def exists(self, spelling: str) -> bool:
        """Whether a flag is declared under this spelling, or as an alias of another."""
        if self.get(spelling) is not None or self._negates(spelling):
            return True
        needle = spelling.encode()
        quoted = (b'"' + needle + b'"', b"'" + needle + b"'")
        return any(form in self.codebase.tree.raw(file) for file in self.files for form in quoted)

    def _negates(self, spelling: str) -> bool:
        """Whether it is the `--no-…` that comes with a flag that is on or off."""
        name = spelling.removeprefix("--no-")
        if name == spelling:
            return False
        fields = self._field_segments().get(name.replace("-", "_"), ())
        if any("BooleanOptionalAction" in segment.blanked for segment in fields):
            return True
        declared = re.compile(rf"""[\"']--{re.escape(name)}[\"'][^()]*BooleanOptional""".encode())
        return any(declared.search(self.codebase.tree.raw(file)) for file in self.files)

    def fields(self) -> list[str]:
        """Every annotated field of the classes that hold arguments, by name."""
        return list(self._field_segments())

    def all(self) -> list[Flag]:
        """Every flag that has a list of values."""
        names = [*self._field_segments(), *self._declared_arguments()]
        found = [flag for name in dict.fromkeys(names) if (flag := self.get(name)) is not None]
        return list({flag.field: flag for flag in found}.values())

    def _find(self, field: str) -> Flag | None:
        spelling = "--" + field.replace("_", "-")
        found = self._declared_arguments().get(spelling)
        if found is not None and found.choices:
            return found
        for segment in self._field_segments().get(field, ()):
            flag = self._from_field(segment)
            if flag is not None and (flag.choices or found is None):
                return flag
        return found

    def _field_segments(self) -> dict[str, list[Segment]]:
        if self._fields is None:
            self._fields = {}
            for segment in self.codebase.segments(self.files):
                if segment.kind != "class":
                    continue
                for member in segment.members():
                    if member.kind == "assign" and _IS_FIELD.match(member.blanked):
                        self._fields.setdefault(member.name, []).append(member)
        return self._fields

    def _from_field(self, segment: Segment) -> Flag | None:
        for statement in self.codebase.parse(segment):
            if not isinstance(statement, sx.Assign) or statement.annotation is None:
                continue
            names = ["--" + segment.name.replace("_", "-")]
            choices: list[Choice] = []
            text = ""
            for node in sx.walk(statement.annotation):
                if isinstance(node, sx.Call) and sx.last_part(node.func) in {"Arg", "Field"}:
                    choices = self._choices(segment, node.keywords.get("choices"), None) or choices
                    text = sx.words(node.keywords.get("help")) or text
                    spelled = node.keywords.get("cli_name")
                    if isinstance(spelled, sx.Const):
                        names[0] = str(spelled.value)
                    names += sx.strings(node.keywords.get("aliases"))
                elif isinstance(node, sx.Index) and sx.last_part(node.value) == "Literal":
                    choices = choices or [
                        Choice(value, self.codebase.place(segment, node.key))
                        for value in sx.strings(node.key)
                    ]
            default = statement.value.value if isinstance(statement.value, sx.Const) else None
            return Flag(
                segment.name, tuple(names), self.codebase.place(segment, statement), choices,
                default, text,
            )  # fmt: skip
        return None

    def _choices(self, segment: Segment, node: sx.Expr | None, scope: Scope | None) -> list[Choice]:
        items = self.literals.collection(segment, node, scope) if node is not None else None
        return [Choice(item.value, item.place, item.comment) for item in items or ()]

    def _declared_arguments(self) -> dict[str, Flag]:
        """Flags given to `add_argument`, by each of their spellings."""
        if self._arguments is None:
            self._arguments = {}
            for segment in self.codebase.functions(self.files, _ADDS_ARGUMENT):
                for event in events(self.codebase.body(segment)):
                    call = event.value
                    if (
                        event.kind in {"do", "assign"}
                        and isinstance(call, sx.Call)
                        and sx.last_part(call.func) == "add_argument"
                    ):
                        self._register(segment, event, call)
        return self._arguments

    def _register(self, segment: Segment, event: Event, call: sx.Call) -> None:
        names = tuple(name for arg in call.args for name in sx.strings(arg))
        if not names or self._arguments is None:
            return
        default = call.keywords.get("default")
        target = call.keywords.get("dest")
        field = (
            str(target.value)
            if isinstance(target, sx.Const)
            else next((n for n in names if n.startswith("--")), names[0]).strip("-")
        )
        flag = Flag(
            field.replace("-", "_"),
            names,
            self.codebase.place(segment, event.statement),
            self._choices(segment, call.keywords.get("choices"), event.scope),
            default.value if isinstance(default, sx.Const) else None,
            sx.words(call.keywords.get("help")),
        )
        for name in names:
            self._arguments.setdefault(name, flag)
