"""Launches of shell scripts, found by walking the syntax tree with the variables in hand.

Nothing is run. Assignments are followed; a conditional is walked once for each branch; what only a
run could tell becomes a hole in the word that it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ..context import Context
from .command import Commands, talks
from .escapes import unescaped
from .model import Extraction
from .text import MASK, MOST_WORDS, Source, capped, join, made

#: More ways through a script than this are folded together.
MAX_STATES = 12
_MAX_DEPTH = 6
_MAX_CALLS = 200
#: Functions that call each other are followed this far, one that calls itself a little.
_MAX_CALLING = 12
_MAX_RECURSION = 3
_MAX_LOOP = 8
#: States from which a function is walked that the script never calls.
_MAX_UNCALLED = 3
#: Trees deeper than this are not walked.
_MAX_TREE = 100
_PLACEHOLDER = re.compile(r"""<[A-Za-z][\w ./:-]*>|(?<=["'])[Yy]our [\w -]+(?=["'])""")
_PROMPT = re.compile(r"^(?:\$|%|❯|>>>|(?:\([\w.-]+\) )?[\w.-]+@[\w.-]+[:\s][^$#\n]*[$#]) (?=\S)")
_SLIP = re.compile(rb"[ \t]*\\([ \t])[ \t]*(?:#[^\n]*)?\n[ \t]*--?[A-Za-z]")
_ASIDE = re.compile(r"\\[ \t]+#[^\n]*(?=\n[ \t]*-)")
_QUOTED_COMMENT = re.compile(r"`#[^`\n]*`")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_BUILTINS = frozenset({"set", "shift", "alias", "source", "."})
#: Programs that read a script from their standard input, and the format that they read.
_READERS = {"python": "python", "python3": "python", "kubectl": "yaml", "oc": "yaml"}


@dataclass(frozen=True, slots=True)
class Value:
    """A variable: its words, one where it is no array.

    `soft` marks a default that the caller's environment may outweigh.
    """

    words: tuple[Source, ...]
    array: bool = False
    exported: bool = False
    soft: bool = False


@dataclass(slots=True)
class State:
    """Variables on one way through the script."""

    variables: dict[str, Value] = field(default_factory=dict)
    arguments: tuple[Source, ...] | None = None

    def copy(self) -> State:
        """A state that can go another way."""
        return State(dict(self.variables), self.arguments)


#: Takes an embedded text of another format: its source and the format's name.
Embedded = Callable[[Source, str], None]


def _position(text: str) -> int | None:
    """Return the number that digits stand for; None for other text and absurdly long numbers.

    Python refuses to read integers of thousands of digits; no list here is that long.
    """
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def find(
    source: Source,
    commands: Commands,
    out: Extraction,
    kind: str,
    *,
    environment: Mapping[str, Source] | None = None,
    context: Context | None = None,
    embedded: Embedded | None = None,
    arguments: Sequence[Source] | None = None,
    depth: int = 0,
) -> None:
    """Find the launches of a script, which `arguments` are given to where they are known."""
    if depth > _MAX_DEPTH:
        if any(mark in source.text for mark in _MARKS):
            out.cut(source.start)
        return
    if not source.text.strip():
        return
    state = State({name: Value((value,), exported=True) for name, value in
                   (environment or {}).items()},
                  tuple(arguments) if arguments is not None else None)  # fmt: skip
    Shell(source, commands, out, kind, context, embedded, depth).run([state])


def prepared(source: Source) -> Source:
    """Take prompts off, and mask what documentation leaves for the reader to fill in."""
    text = source.text
    if "<" in text or "our " in text:
        masked = _PLACEHOLDER.sub(lambda match: MASK * len(match.group()), text)
        if masked != text:
            source = replace(source, text=masked)
    lines = source.text.split("\n")
    told = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if len(told) > 1 and all(line.startswith("--") for line in told):
        # Flags one a line, as documentation lists them: one set.
        source = replace(source, text=_comments_blanked(source.text).replace("\n", " "))
        lines = source.text.split("\n")
    if not any(_PROMPT.match(line.lstrip()) for line in lines):
        return source
    parts = []
    position = 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        match = _PROMPT.match(line[indent:])
        begin = position + indent + (match.end() if match else 0)
        parts.append(source.slice(begin, min(position + len(line) + 1, len(source.text))))
        position += len(line) + 1
    return join(parts)


def without_asides(source: Source) -> Source:
    """Documentation with its comments between continued lines, and behind them, blanked.

    A shell would end the command there; whoever wrote the page meant it to go on.
    """
    if "\\" not in source.text or "#" not in source.text:
        return source
    text = _ASIDE.sub(lambda match: " " * (len(match.group()) - 1) + "\\", source.text)
    lines = text.split("\n")
    for number in range(1, len(lines)):
        bare = lines[number].strip()
        if bare.startswith("#") and lines[number - 1].endswith("\\") and number + 1 < len(lines):
            lines[number] = " " * (len(lines[number]) - 1) + "\\"
    return replace(source, text="\n".join(lines))


def _comments_blanked(text: str) -> str:
    """Comment lines and comments behind flags as blanks of the same length."""
    return re.sub(r"(?m)(^|(?<=\s))#[^\n]*", lambda match: " " * len(match.group()), text)


_PARSERS: dict[str, Any] = {}


def parse(text: bytes) -> Any:
    """The syntax tree of a script."""
    parser = _PARSERS.get("bash")
    if parser is None:
        import tree_sitter
        import tree_sitter_bash

        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
        _PARSERS["bash"] = parser
    return parser.parse(text).root_node


class Shell:
    """One script being walked."""

    def __init__(
        self,
        source: Source,
        commands: Commands,
        out: Extraction,
        kind: str,
        context: Context | None,
        embedded: Embedded | None,
        depth: int,
    ) -> None:
        self.source = source = _without_quoted_comments(source)
        self.commands = commands
        self.out = out
        self.kind = kind
        self.context = context or Context()
        self.embedded = embedded
        self.depth = depth
        self.bytes = source.text.encode("utf-8", "replace")
        self._ascii = len(self.bytes) == len(source.text)
        self._offsets: list[int] = []
        self.functions: dict[str, Any] = {}
        self.foreign: dict[str, tuple[Shell, Any]] = {}
        self.sourced: set[str] = set()
        self.called: set[str] = set()
        self.calls = 0
        self.calling: list[str] = []
        self.overrun: set[str] = set()
        #: Words of commands that stand behind their redirections.
        self.behind: dict[int, list[Any]] = {}
        self.aliases: dict[str, Source] = {}
        #: Files that the output of commands goes to.
        self.written: dict[int, str] = {}
        self.level = 0
        self.consumed: set[int] = set()

    # ------------------------------------------------------------------ places

    def offset(self, position: int) -> int:
        """Character offset of a byte offset."""
        if self._ascii:
            return position
        if not self._offsets:
            offsets = [0] * (len(self.bytes) + 1)
            place = 0
            for number, character in enumerate(self.source.text):
                width = len(character.encode("utf-8", "replace"))
                for step in range(width):
                    offsets[place + step] = number
                place += width
            offsets[place] = len(self.source.text)
            self._offsets = offsets
        return self._offsets[position]

    def piece(self, start: int, end: int) -> Source:
        """Text between two byte offsets."""
        return self.source.slice(self.offset(start), self.offset(end))

    def text(self, node: Any) -> str:
        """Text of a node."""
        return self.bytes[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # -------------------------------------------------------------- statements

    def run(self, states: list[State], *, leftovers: bool = True) -> None:
        """Walk the whole script; `leftovers` are looked for in whole files only."""
        root = parse(self.bytes)
        states = self.block(root.children, states)
        for name, body in list(self.functions.items()):
            if name not in self.called:
                self.called.add(name)
                self.walk(body, [state.copy() for state in states[:_MAX_UNCALLED]])
        if leftovers:
            self.leftovers(states)
            for name, text in self.aliases.items():
                if name not in self.called and states and _holds_command(text.text):
                    self.nested(text, {}, states[0])

    def leftovers(self, states: list[State]) -> None:
        """Flags of a trainer's wrapped engine that another script takes from here."""
        for state in states:
            for name, value in state.variables.items():
                words = list(value.words)
                if not value.array and words:
                    words = words[0].split()
                if (
                    not words
                    or name in self.sourced
                    or any(word.start in self.consumed for word in words)
                ):
                    continue
                if self.depth == 0 and not value.exported and (
                    any(word.text.startswith("--sglang-") for word in words)
                ):  # fmt: skip
                    self.commands.take(words, {}, self.out, self.kind, context=self._context())
                elif is_flag_variable(name) and words[0].text.startswith("--"):
                    self.commands.bare(
                        words, {}, self.out, self.kind, context=self._context(), wrapper=name
                    )

    def _context(self) -> Context:
        context = Context()
        context.fill(self.context)
        return context

    def block(self, nodes: Iterable[Any], states: list[State]) -> list[State]:
        """Walk statements one behind the other."""
        for node in nodes:
            if node.is_named:
                states = self.walk(node, states)
        return states

    def walk(self, node: Any, states: list[State]) -> list[State]:
        """Walk one statement from every state and return the states after it."""
        self.level += 1
        try:
            if self.level > _MAX_TREE:
                if self._may_launch(self.bytes[node.start_byte : node.end_byte]):
                    self.out.cut(self.piece(node.start_byte, node.end_byte).start)
                return states
            handler = getattr(self, f"_on_{node.type}", None)
            if handler is not None:
                return list(handler(node, states))
            if node.child_count and node.type not in _NO_STATEMENTS:
                return self.block(node.children, states)
            return states
        finally:
            self.level -= 1

    def _on_if_statement(self, node: Any, states: list[State]) -> list[State]:
        branches: list[list[Any]] = [[]]
        closed = False
        for child in node.named_children:
            if child.type == "elif_clause":
                branches.append(list(child.named_children))
            elif child.type == "else_clause":
                branches.append(list(child.named_children))
                closed = True
            else:
                branches[0].append(child)
        condition = node.child_by_field_name("condition")
        text = self.text(condition) if condition is not None else ""
        taken: dict[bool | None, list[State]] = {True: [], False: [], None: []}
        for state in states:
            known = _holds(text, state)
            if known is None and len(branches) == 1 and _holds(text, state, defaults=True):
                # The other way is for another value, and what was made of this one is not that's.
                known = True
            taken[known].append(state)
        after: list[State] = []
        if taken[True]:
            after += self.block(branches[0], taken[True])
        if taken[False]:
            rest = branches[1:]
            after += self.fork(rest, taken[False], closed) if rest else taken[False]
        if taken[None]:
            after += self.fork(branches, taken[None], closed)
        return _distinct(after)

    def _on_case_statement(self, node: Any, states: list[State]) -> list[State]:
        branches: list[list[Any]] = []
        closed = False
        for item in node.named_children:
            if item.type != "case_item":
                continue
            parts = item.children
            head = next((n for n, part in enumerate(parts) if part.type == ")"), 0)
            closed = closed or any(self.text(part) == "*" for part in parts[:head])
            branches.append([part for part in parts[head + 1 :] if part.is_named])
        return self.fork(branches, states, closed)

    def fork(self, branches: list[list[Any]], states: list[State], closed: bool) -> list[State]:
        """Walk each branch from each state, as far as that stays countable."""
        if not closed:
            branches = [*branches, []]
        plain = [branch for branch in branches if branch and self._matters(branch)]
        if not plain:
            return states
        if len(plain) < len(branches):
            plain.append([])
        after: list[State] = []
        full = len(states) * len(plain) <= MAX_STATES
        for number, branch in enumerate(plain):
            if full:
                begin = states
            else:
                # Every branch is walked and every state lives on, not every pair of them.
                begin = [
                    states[place] for place in range(len(states)) if place % len(plain) == number
                ] or [states[number % len(states)]]
            copies = [state.copy() for state in begin]
            after += self.block(branch, copies) if branch else copies
        return _distinct(after)

    def _matters(self, branch: list[Any]) -> bool:
        """Whether a branch could change what a launch says, or holds one."""
        start, end = branch[0].start_byte, branch[-1].end_byte
        text = self.bytes[start:end]
        return b"=" in text or b"set --" in text or self._may_launch(text)

    def _may_launch(self, text: bytes) -> bool:
        """Whether a text can hold a launch, or call a function that does."""
        return b"sglang" in text or any(name.encode() in text for name in self.functions)

    def _on_for_statement(self, node: Any, states: list[State]) -> list[State]:
        name = ""
        items: list[Any] = []
        body = None
        for child in node.named_children:
            if child.type == "variable_name" and not name:
                name = self.text(child)
            elif child.type in ("do_group", "compound_statement"):
                body = child
            elif child.type != "comment":
                items.append(child)
        if body is None:
            return states
        after: list[State] = []
        for state in states:
            values = [value for item in items for value in self.fields(item, state)]
            if not values:
                values = [made(f"${name}", self.piece(node.start_byte, node.end_byte).start,
                               known=False)]  # fmt: skip
            if len(values) > _MAX_LOOP and self._may_launch(
                self.bytes[body.start_byte : body.end_byte]
            ):
                reason = f"values of a loop beyond the first {_MAX_LOOP}"
                self.out.skip(values[_MAX_LOOP].start, f"${name}", reason)
            for value in values[:_MAX_LOOP]:
                own = state.copy()
                own.variables[name] = Value((value,))
                after += self.walk(body, [own])
                if len(after) > MAX_STATES * 4:
                    break
        return _distinct(after)[:MAX_STATES]

    def _on_while_statement(self, node: Any, states: list[State]) -> list[State]:
        if b"shift" in self.bytes[node.start_byte : node.end_byte]:
            for state in states:
                state.arguments = None  # how often they were shifted, only a run could tell
        return self.block(node.children, states)

    def _on_function_definition(self, node: Any, states: list[State]) -> list[State]:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[self.text(name)] = body
        return states

    def _on_subshell(self, node: Any, states: list[State]) -> list[State]:
        self.block(node.children, [state.copy() for state in states])
        return states

    def _on_redirected_statement(self, node: Any, states: list[State]) -> list[State]:
        body = node.child_by_field_name("body")
        last = body
        while last is not None and last.type in ("pipeline", "list"):
            last = last.named_children[-1]
        if last is not None and last.type == "command":
            self.behind[last.id] = _behind_redirections(node)
            self.written[last.id] = self.target(node)
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "heredoc_redirect":
                for state in states[:1]:
                    self.heredoc(redirect, body, state)
                # `cat <<EOF | bash`: the command behind the bar stands inside the redirect.
                states = self.block(
                    [c for c in redirect.named_children if c.type in ("pipeline", "list")], states
                )
        return self.walk(body, states) if body is not None else states

    def _on_variable_assignment(self, node: Any, states: list[State]) -> list[State]:
        for state in states:
            self.assign(node, state)
        return states

    def _on_variable_assignments(self, node: Any, states: list[State]) -> list[State]:
        return self.block(node.children, states)

    def _on_declaration_command(self, node: Any, states: list[State]) -> list[State]:
        exported = self.bytes[node.start_byte : node.end_byte].startswith(
            (b"export", b"declare -x")
        )
        for child in node.named_children:
            for state in states:
                if child.type == "variable_assignment":
                    self.assign(child, state, exported=exported)
                elif child.type == "variable_name" and exported:
                    value = state.variables.get(self.text(child))
                    if value is not None:
                        state.variables[self.text(child)] = replace(value, exported=True)
        return states

    def _on_unset_command(self, node: Any, states: list[State]) -> list[State]:
        for child in node.named_children:
            if child.type == "variable_name":
                nothing = Value((made("", self.piece(child.start_byte, child.end_byte).start),))
                for state in states:
                    state.variables[self.text(child)] = nothing
        return states

    def assign(self, node: Any, state: State, *, exported: bool = False) -> None:
        """Give a variable its value."""
        name_node = node.child_by_field_name("name")
        value_node = node.child_by_field_name("value")
        if name_node is None or name_node.type not in ("variable_name", "subscript"):
            return
        name = self.text(name_node)
        if name_node.type == "subscript":
            array_name, _, key = name.rstrip("]").partition("[")
            name = _element(array_name, key, state)
        adds = any(child.type == "+=" for child in node.children)
        place = self.piece(node.end_byte, node.end_byte).start
        if value_node is None:
            words: tuple[Source, ...] = (made("", place),)
            array = False
        elif value_node.type == "array":
            self.elements(name, value_node, state)
            words = tuple(
                word for child in value_node.named_children if child.type != "comment"
                for word in self.fields(child, state)
            )  # fmt: skip
            array = True
        else:
            words = (self.single(value_node, state),)
            array = False
            if b"sglang" in self.bytes[value_node.start_byte : value_node.end_byte]:
                self.substitutions(value_node, state)
        old = state.variables.get(name)
        if adds and old is not None:
            if array or old.array:
                words = (*old.words, *words)
                array = True
            else:
                words = (join([*old.words, *words]),)
        elif adds and not array:
            words = (join([made(f"${name}", place, known=False), *words]),)
        raw = self.text(value_node) if value_node is not None else ""
        soft = _DEFAULT.search(raw) is not None or any(
            other.soft and f"${spelled}" in raw.replace("{", "")
            for spelled, other in state.variables.items()
        )  # fmt: skip
        words = tuple(capped(word) for word in words[:MOST_WORDS])
        state.variables[name] = Value(words, array, exported or bool(old and old.exported), soft)

    def elements(self, name: str, array: Any, state: State) -> None:
        """Elements of an associative array, `([key]=value …)`, each under a name of its own."""
        if b"]=" not in self.bytes[array.start_byte : array.end_byte]:
            return
        for child in array.named_children:
            for word in self.fields(child, state):
                match = _KEYED.match(word.text)
                if match is not None:
                    value = word.slice(match.end(), len(word.text))
                    state.variables[_element(name, match.group(1), state)] = Value((value,))

    # ---------------------------------------------------------------- commands

    def _on_command(self, node: Any, states: list[State]) -> list[State]:
        after: list[State] = []
        for state in states:
            after += self.command(node, state)
        return _distinct(after) if len(after) > len(states) else after

    def command(self, node: Any, state: State) -> list[State]:
        """One simple command from one state."""
        environment: dict[str, Source] = {}
        words: list[Source] = []
        behind = self.behind.get(node.id, [])
        for child in [*node.children, *behind]:
            if child.type == "variable_assignment":
                scratch = State(dict(state.variables), state.arguments)
                self.assign(child, scratch)
                name = self.text(child.child_by_field_name("name"))
                value = scratch.variables.get(name)
                if value is not None and value.words:
                    environment[name] = join(value.words, " ")
            elif child.type == "command_name":
                for part in child.children:
                    words += self.fields(part, state)
            elif child.type in ("heredoc_redirect", "herestring_redirect", "file_redirect"):
                if child.type == "heredoc_redirect":
                    self.heredoc(child, node, state)
                elif child.type == "herestring_redirect":
                    self.herestring(child, node, state)
            elif child.type == "comment" or (not child.is_named and not self.text(child).strip()):
                continue
            else:
                words += self.fields(child, state)
                if (
                    child.type in _SUBSTITUTING
                    and b"sglang" in (self.bytes[child.start_byte : child.end_byte])
                ):
                    self.substitutions(child, state)
        if not words:
            for key, text in environment.items():
                state.variables[key] = Value((text,))
            return [state]
        last = behind[-1] if behind else node
        words += self.slip(last.end_byte)
        if words[0].text in self.aliases:
            self.called.add(words[0].text)
            words = [*self.aliases[words[0].text].split(), *words[1:]]
        name = words[0].text
        span = (self.piece(node.start_byte, node.start_byte).start,
                self.piece(node.start_byte, max(node.end_byte, last.end_byte)).end)  # fmt: skip
        if name in self.functions:
            return self.call(name, words[1:], state, span[0])
        if name in _BUILTINS:
            return self.builtin(name, words[1:], state)
        if name in self.foreign:
            return self.call_foreign(name, words[1:], state, span)
        self.consumed.update(word.start for word in words)
        if not any(mark in word.text for word in words for mark in _MARKS):
            return [state]
        target = self.written.get(node.id, "")
        if name in ("echo", "printf") and self.script_written(words, target, state):
            return [state]
        exported = {
            key: join(value.words, " ")
            for key, value in state.variables.items()
            if value.exported and value.words
        }
        self.consider(words, {**exported, **environment}, state, span)
        return [state]

    def slip(self, end: int) -> list[Source]:
        """The blank behind a backslash at the end of a line, where flags stand in the next one.

        To a shell it is a word of the command, which ends there; the grammar passes over it.
        """
        match = _SLIP.match(self.bytes, end)
        return [self.piece(match.start(1), match.end(1))] if match is not None else []

    def builtin(self, name: str, words: list[Source], state: State) -> list[State]:
        """A command of the shell's own that changes what later ones see."""
        if name in ("source", "."):
            return self.follow(words[0], state) if words else [state]
        if name == "set" and words and words[0].text == "--":
            state.arguments = tuple(words[1:])
        elif name == "shift" and state.arguments is not None:
            count = _position(words[0].text) if words else 1
            if count is None:
                state.arguments = None
            elif count <= len(state.arguments):
                state.arguments = state.arguments[count:]
        elif name == "alias":
            for word in words:
                key, equals, _ = word.text.partition("=")
                if equals:
                    self.aliases[key] = word.slice(len(key) + 1, len(word.text))
        return [state]

    def consider(
        self,
        words: list[Source],
        environment: dict[str, Source],
        state: State,
        span: tuple[int, int],
    ) -> None:
        """Take words as a launch, or look into those that hold a command themselves."""
        name = PurePosixPath(words[0].text).name
        if name in ("source", ".") or talks([word.text for word in words[:2]]):
            return
        if name == "eval":
            self.nested(join(words[1:], " "), environment, state)
            return
        context = self._context()
        if self.commands.take(words, environment, self.out, self.kind, span=span, context=context):
            return
        taken = False
        for place, word in enumerate(words[1:], 1):
            if not _holds_command(word.text):
                continue
            before = words[place - 1].text
            if before in ("-m", "--message", "-n", "--name", "--comment", "--title"):
                continue
            variables = _container_environment(words[:place])
            given = words[place + 2 :] if before.startswith("-") and before.endswith("c") else []
            self.nested(word, {**environment, **variables}, state, context, given)
            taken = True
        # ssh joins its words to one line.
        if not taken and name == "ssh" and len(words) > 3:
            self.nested(join(words[2:], " "), environment, state, context)

    def nested(
        self,
        source: Source,
        environment: dict[str, Source],
        state: State,
        context: Context | None = None,
        arguments: Sequence[Source] = (),
    ) -> None:
        """A script inside a word, with the arguments that are given to it, if there are any."""
        shell = Shell(
            source, self.commands, self.out, self.kind, context or self._context(),
            self.embedded, self.depth + 1,
        )  # fmt: skip
        if shell.depth > _MAX_DEPTH:
            self.out.cut(source.start)
            return
        shell.consumed = self.consumed
        inner = State(dict(state.variables), tuple(arguments) or None)
        for name, value in environment.items():
            inner.variables[name] = Value((value,), exported=True)
        shell.run([inner], leftovers=False)

    def call(self, name: str, arguments: list[Source], state: State, place: int) -> list[State]:
        """A function of the script's own."""
        if not self._may_call(name, place):
            return [state]
        self.called.add(name)
        return self._call(self, name, self.functions[name], arguments, state)

    def _may_call(self, name: str, place: int) -> bool:
        """Whether one more call is followed; where that could hide a launch, it is told."""
        self.calls += 1
        if self.calling.count(name) >= _MAX_RECURSION:
            return False
        if self.calls > _MAX_CALLS or len(self.calling) >= _MAX_CALLING:
            if name not in self.overrun:
                self.overrun.add(name)
                self.out.skip(place, name, "further calls of a function that is called very often")
            return False
        return True

    def _call(
        self, shell: Shell, name: str, body: Any, arguments: list[Source], state: State
    ) -> list[State]:
        """The states after the body of a function that stands in this script or another one."""
        outer = state.arguments
        state.arguments = tuple(arguments)
        self.calling.append(name)
        after = shell.walk(body, [state])
        self.calling.pop()
        for one in after:
            one.arguments = outer
        return after

    def follow(self, word: Source, state: State) -> list[State]:
        """`source FILE`: what the file sets, where it is kept near this one.

        What it sets stands where it is sourced; the launches in it are its own.
        """
        path = _kept_near(word)
        text = self.out.beside(path) if path is not None and self.depth < _MAX_DEPTH else None
        if text is None:
            return [state]
        scratch = Extraction()
        scratch.beside = self.out.beside
        other = Shell(Source(text), self.commands, scratch, self.kind, None, None, self.depth + 1)
        before = dict(state.variables)
        after = other.block(parse(other.bytes).children, [state])
        for one in after:
            for name, value in one.variables.items():
                if before.get(name) is not value:
                    moved = tuple(_moved(part, word.start) for part in value.words)
                    one.variables[name] = replace(value, words=moved)
                    self.sourced.add(name)
        self.foreign.update(other.foreign)
        self.foreign.update((name, (other, body)) for name, body in other.functions.items())
        return after

    def call_foreign(
        self, name: str, arguments: list[Source], state: State, span: tuple[int, int]
    ) -> list[State]:
        """A function of a sourced file: what it starts is started here."""
        other, body = self.foreign[name]
        if not self._may_call(name, span[0]):
            return [state]
        self.consumed.update(word.start for word in arguments)
        other.out = Extraction()
        other.out.beside = self.out.beside
        other.kind = self.kind
        after = self._call(other, name, body, arguments, state)
        for found in other.out.launches:
            found.start, found.end = span
            found.variants = [
                replace(one, words=tuple(_moved(word, span[0]) for word in one.words))
                for one in found.variants
            ]
            self.out.add(found)
        return after

    def substitutions(self, node: Any, state: State) -> None:
        """Commands inside `$( … )`."""
        if node.type in ("command_substitution", "process_substitution"):
            self.block(node.children, [state.copy()])
            return
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution"):
                self.block(child.children, [state.copy()])
            elif child.named_child_count:
                self.substitutions(child, state)

    def heredoc(self, redirect: Any, consumer: Any, state: State) -> None:
        """A document that the script holds: another script, a manifest, a program."""
        body = next((c for c in redirect.named_children if c.type == "heredoc_body"), None)
        start = next((c for c in redirect.named_children if c.type == "heredoc_start"), None)
        if body is None or start is None:
            return
        raw = self.bytes[body.start_byte : body.end_byte]
        if b"sglang" not in raw and b"attention" not in raw:
            return
        quoted = any(mark in self.text(start) for mark in "'\"\\")
        source = (
            self.piece(body.start_byte, body.end_byte)
            if quoted
            else self.expanded(body, body.start_byte, body.end_byte, state, "heredoc")
        )
        words = self.text(consumer).split() if consumer is not None else []
        if words[:1] == [":"]:
            return  # how scripts comment blocks out
        target = self.target(redirect) or (
            self.target(redirect.parent) if redirect.parent is not None else ""
        )
        if words and PurePosixPath(words[0]).name == "tee":
            target = words[-1].strip("\"'")
        if target:
            self.out.documents[PurePosixPath(target).name] = source
        self.document(source, _document_kind(target, words, source.text), state)

    def target(self, node: Any) -> str:
        """The file that a statement's output goes to, as it is written."""
        for child in reversed(node.named_children):
            if (
                child.type == "file_redirect"
                and b">" in self.bytes[child.start_byte : child.end_byte]
            ):
                file = child.child_by_field_name("destination")
                return self.text(file).strip("\"'") if file is not None else ""
        return ""

    def script_written(self, words: list[Source], target: str, state: State) -> bool:
        """`echo … > run.sh`: a script that is written word by word; returns whether it is one."""
        words = [word for word in words[1:] if word.text not in ("-e", "-n", "-en", "-ne")]
        if words and set(words[0].text) <= set("%sb\\n\n"):
            words = words[1:]  # the format of printf
        text = join(words, " ")
        if "\\" in text.text and not text.open:
            text = unescaped(text) or text
        if text.text.rstrip().endswith("\\") or not (
            PurePosixPath(target).suffix or text.text.startswith("#!")
        ):  # fmt: skip
            return False
        kind = _document_kind(target, [], text.text)
        if kind != "shell" or PurePosixPath(target).suffix in ("", ".sh", ".bash"):
            self.document(text, kind, state)
        return True

    def herestring(self, redirect: Any, consumer: Any, state: State) -> None:
        """A text that is handed to a program which runs it."""
        words = [PurePosixPath(word).name for word in self.text(consumer).split()]
        text = self.single(redirect.named_children[0], state) if redirect.named_children else None
        if text is not None and "sglang" in text.text and {*_SHELLS, *_READERS} & {*words}:
            self.document(text, _document_kind("", words, text.text), state)

    def document(self, source: Source, kind: str, state: State) -> None:
        """A text of some format inside the script."""
        if kind == "shell":
            find(
                source, self.commands, self.out, self.kind, context=self._context(),
                environment={
                    key: join(value.words, " ") for key, value in state.variables.items()
                    if value.exported and value.words
                },
                embedded=self.embedded, depth=self.depth + 1,
            )  # fmt: skip
        elif self.embedded is not None:
            self.embedded(source, kind)

    # ------------------------------------------------------------------- words

    def single(self, node: Any, state: State) -> Source:
        """The one text that a node stands for, as in an assignment."""
        fields = self.fields(node, state, split=False)
        return (
            join(fields, " ")
            if fields
            else made("", self.piece(node.end_byte, node.end_byte).start)
        )

    def fields(self, node: Any, state: State, *, split: bool = True) -> list[Source]:
        """The words that a node becomes."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "test_operator", "extglob_pattern", "regex"):
            return [self.unescaped(node.start_byte, node.end_byte)]
        if kind == "string":
            return self.string(node, state)
        if kind == "raw_string":
            return [self.piece(node.start_byte + 1, node.end_byte - 1)]
        if kind == "ansi_c_string":
            raw = self.piece(node.start_byte + 2, node.end_byte - 1)
            return [unescaped(raw) or raw.opened() if "\\" in raw.text else raw]
        if kind == "translated_string":
            return self.string(node.named_children[0], state) if node.named_children else []
        if kind == "simple_expansion" or kind == "expansion":
            return self.variable(node, state, quoted=not split)
        if kind == "concatenation":
            return self.concatenation(node, state, split)
        if kind in ("command_substitution", "process_substitution", "arithmetic_expansion"):
            return [self.piece(node.start_byte, node.end_byte).opened()]
        if kind in ("comment", "file_redirect", "heredoc_redirect"):
            return []
        return [self.unescaped(node.start_byte, node.end_byte)]

    def concatenation(self, node: Any, state: State, split: bool) -> list[Source]:
        """Parts without a blank between them."""
        fields: list[Source] = []
        end = node.start_byte
        for child in node.children:
            parts = self.fields(child, state, split=split)
            glue = child.start_byte == end and fields
            end = child.end_byte
            if not parts:
                continue
            if glue:
                fields[-1] = join([fields[-1], parts[0]])
                fields += parts[1:]
            else:
                fields += parts
        return fields

    def string(self, node: Any, state: State) -> list[Source]:
        """A double-quoted string; `"${A[@]}"` is as many words as A has."""
        inner = [child for child in node.named_children if child.type != "string_content"]
        if len(inner) == 1 and inner[0].start_byte == node.start_byte + 1 and (
            inner[0].end_byte == node.end_byte - 1
        ):  # fmt: skip
            return self.variable(inner[0], state, quoted=True) if inner[0].type in (
                "simple_expansion", "expansion"
            ) else self.fields(inner[0], state)  # fmt: skip
        closed = 1 if self.bytes[node.end_byte - 1 : node.end_byte] == b'"' else 0
        return [self.expanded(node, node.start_byte + 1, node.end_byte - closed, state, "string")]

    def expanded(self, node: Any, start: int, end: int, state: State, how: str) -> Source:
        """Text with its variables filled in."""
        parts: list[Source] = []
        position = start
        for child in _expansions(node):
            if child.start_byte < position or child.end_byte > end:
                continue
            # The grammar counts blanks before an expansion as part of it.
            begin = child.start_byte
            while self.bytes[begin : begin + 1].isspace():
                begin += 1
            parts.append(self._plain(position, begin, how))
            if child.type in ("simple_expansion", "expansion"):
                values = self.variable(child, state, quoted=True)
                if values and begin > child.start_byte and values[0].text[:1].isspace():
                    values = [values[0].slice(begin - child.start_byte, len(values[0].text))]
                if values:
                    parts.append(join(values, " "))
            else:
                parts.append(self.piece(begin, child.end_byte).opened())
            position = child.end_byte
        parts.append(self._plain(position, end, how))
        return join(parts)

    def _plain(self, start: int, end: int, how: str) -> Source:
        if b"\\" not in self.bytes[start:end]:
            return self.masked(self.piece(start, end))
        return self.unescaped(start, end, only=b'$`"\\\n' if how == "string" else b"$`\\")

    def unescaped(self, start: int, end: int, only: bytes | None = None) -> Source:
        """Text without the backslashes that a shell would take away."""
        raw = self.bytes[start:end]
        if b"\\" not in raw:
            return self.masked(self.piece(start, end))
        parts: list[Source] = []
        position = start
        place = start
        while place < end - 1:
            if self.bytes[place] != 0x5C:
                place += 1
                continue
            following = self.bytes[place + 1 : place + 2]
            if only is not None and following not in [only[i : i + 1] for i in range(len(only))]:
                place += 2
                continue
            parts.append(self.piece(position, place))
            position = place + 1
            if following == b"\n":
                position = place + 2
            place += 2
        parts.append(self.piece(position, end))
        return self.masked(join(parts))

    def masked(self, source: Source) -> Source:
        """Open what was masked before the script was parsed."""
        if MASK not in source.text:
            return source
        holes = [
            (number, number + 1)
            for number, character in enumerate(source.text)
            if character == MASK and not source.in_hole(number)
        ]
        return replace(source, holes=tuple(sorted((*source.holes, *holes))))

    def variable(self, node: Any, state: State, *, quoted: bool) -> list[Source]:
        """What `$X`, `${X}`, `${X:-default}` or `${X[@]}` stands for here."""
        whole = self.piece(node.start_byte, node.end_byte)
        hole = [whole.opened()]
        if node.type == "simple_expansion":
            name = self.text(node)[1:]
            return self.value(name, state, hole, quoted, every=name == "@")
        text = self.text(node)
        match = _EXPANSION.match(text)
        if match is None:
            return hole
        name, subscript, operator = match.group("name"), match.group("sub"), match.group("op")
        every = subscript == "@"
        joined = subscript == "*"
        known = state.variables.get(name)
        empty = known is not None and not any(word.text for word in known.words)
        if subscript not in (None, "@", "*"):
            index = _position(subscript)
            if index is not None and known and known.array and index < len(known.words):
                return _fielded([known.words[index]], quoted)
            keyed = state.variables.get(_element(name, subscript, state))
            return _fielded(list(keyed.words), quoted) if keyed is not None else hole
        if not operator:
            return self.value(name, state, hole, quoted, every=every, joined=joined)
        rest = node.start_byte + len(text[: match.end()].encode("utf-8", "replace"))
        if operator in (":-", "-", ":=", "="):
            index = _position(name)
            given = len(state.arguments) if state.arguments is not None else -1
            if index is not None and index <= given:
                return self.value(name, state, hole, quoted)
            if known is not None and not (operator[0] == ":" and empty):
                return self.value(name, state, hole, quoted, every=every, joined=joined)
            found = self.default(node, rest, state, quoted)
            if operator.endswith("=") and found:
                state.variables[name] = Value((join(found, " "),))
            return found
        if operator in (":+", "+"):
            if known is None:
                return [] if self.default(node, rest, state, quoted) else hole
            if empty:
                return []
            return self.default(node, rest, state, quoted)
        if operator in (":?", "?"):
            return self.value(name, state, hole, quoted, every=every, joined=joined)
        if known is not None and len(known.words) == 1 and not known.words[0].open:
            return [made(text, whole.start, known=False)]
        return hole

    def default(self, node: Any, start: int, state: State, quoted: bool) -> list[Source]:
        """The text behind `:-` and its kin."""
        end = node.end_byte - 1
        source = self.expanded(node, start, end, state, "string")
        text = source.text
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            return [source.slice(1, len(text) - 1)]
        if not text and quoted:
            # An empty default stands for what the caller's environment may bring.
            return [self.piece(node.start_byte, node.end_byte).opened()]
        return _fielded([source], quoted) if text else []

    def value(
        self,
        name: str,
        state: State,
        hole: list[Source],
        quoted: bool,
        *,
        every: bool = False,
        joined: bool = False,
    ) -> list[Source]:
        """The words of a variable or of a positional argument."""
        if name in ("@", "*"):
            if state.arguments is None:
                return hole
            words = list(state.arguments)
            every, joined = name == "@", name == "*"
        elif name.isdecimal():
            index = _position(name)
            if state.arguments is None or not index or index > len(state.arguments):
                return hole
            words = [state.arguments[index - 1]]
        else:
            known = state.variables.get(name)
            if known is None:
                return hole
            words = list(known.words)
            self.consumed.update(word.start for word in words)
            if known.array and not (every or joined):
                words = words[:1]
            elif not known.array and not quoted:
                self.consumed.update(part.start for word in words for part in word.split())
        if quoted and joined:
            return [join(words, " ")] if words else []
        if quoted and every:
            return words
        if quoted:
            return words or hole[:0]
        return _fielded(words, quoted)


_EXPANSION = re.compile(
    r"\$\{(?P<name>[A-Za-z_]\w*|\d+|[@*])(?:\[(?P<sub>[^\]]*)\])?"
    r"(?P<op>:[-=+?]|[-=+?]|[%#/^,:@].*)?",
    re.DOTALL,
)
_KEYED = re.compile(r"\[[\"']?([^\]\"']+)[\"']?\]=")
#: Text that a command must hold to be of interest; variables are filled in by then.
_MARKS = ("sglang", "attention-backend")
_SUBSTITUTING = frozenset({"command_substitution", "string", "concatenation"})
#: Nodes that hold no statements.
_NO_STATEMENTS = frozenset(
    {"test_command", "comment", "string", "raw_string", "concatenation", "heredoc_body",
     "arithmetic_expansion", "expansion", "simple_expansion", "word", "array", "file_redirect",
     "binary_expression", "unary_expression"}
)  # fmt: skip


_EMPTY_TEST = re.compile(r"""^\[\[?\s+(-n|-z)\s+"?\$\{?(\w+)(?::-)?\}?"?\s+\]\]?$""")
_EQUAL_TEST = re.compile(
    r"""^\[\[?\s+"?\$\{?([A-Za-z_]\w*)\}?"?\s+(==?|!=)\s+["']?([\w./:-]*)["']?\s+\]\]?$"""
)


_DEFAULT = re.compile(r"\$\{\w+:?[-=]")


def _holds(test: str, state: State, *, defaults: bool = False) -> bool | None:
    """Whether a simple test of one variable holds; None where that is not known.

    A default that the environment may replace is known only with `defaults`.
    """
    match = _EMPTY_TEST.match(test)
    if match is not None:
        value = state.variables.get(match.group(2))
        if value is None or (value.soft and not defaults) or any(word.open for word in value.words):
            return None
        filled = any(word.text for word in value.words[:1])
        return filled == (match.group(1) == "-n")
    match = _EQUAL_TEST.match(test)
    if match is not None:
        value = state.variables.get(match.group(1))
        if value is None or (value.soft and not defaults):
            return None
        if len(value.words) != 1 or value.words[0].open:
            return None
        return (value.words[0].text == match.group(3)) == (match.group(2) != "!=")
    return None


def _behind_redirections(node: Any) -> list[Any]:
    """Words behind a redirection, which the grammar takes for further names of its file."""
    found: list[Any] = []
    for redirect in node.children_by_field_name("redirect"):
        if redirect.type == "heredoc_redirect":
            found += redirect.children_by_field_name("argument")
            found += _behind_redirections(redirect)
        elif redirect.type == "file_redirect":
            found += redirect.children_by_field_name("destination")[1:]
    return found


def _without_quoted_comments(source: Source) -> Source:
    """A script with blanks for substitutions of nothing but a comment, as stand between flags."""
    if "`#" not in source.text:
        return source
    text = _QUOTED_COMMENT.sub(lambda match: " " * len(match.group()), source.text)
    return replace(source, text=text)


def _expansions(node: Any) -> list[Any]:
    """Expansions directly inside a text, in order."""
    found: list[Any] = []
    for child in node.named_children:
        if child.type in (
            "simple_expansion", "expansion", "command_substitution", "arithmetic_expansion",
        ):  # fmt: skip
            found.append(child)
        elif child.named_child_count and child.type != "heredoc_start":
            found += _expansions(child)
    return sorted(found, key=lambda item: item.start_byte)


def _fielded(words: list[Source], quoted: bool) -> list[Source]:
    if quoted:
        return words
    return [part for word in words for part in word.split()]


def _distinct(states: list[State]) -> list[State]:
    """Each set of variables once."""
    unique: dict[Any, State] = {}
    for state in states:
        key = tuple(
            sorted(
                (name, tuple((word.text, word.start) for word in value.words))
                for name, value in state.variables.items()
            )
        )
        unique.setdefault((key, state.arguments), state)
    found = list(unique.values())
    if len(found) <= MAX_STATES:
        return found
    # Those that are spread widest keep most branches in sight.
    step = len(found) / MAX_STATES
    return [found[int(number * step)] for number in range(MAX_STATES - 1)] + [found[-1]]


def is_flag_variable(name: str) -> bool:
    """Whether a variable's name says that it holds flags of SGLang's."""
    upper = name.upper()
    return ("SGLANG" in upper or "SGL_" in upper) and any(
        mark in upper for mark in ("ARGS", "FLAGS", "OPTS", "OPTIONS", "CMD", "COMMAND", "PARAM")
    )


def _kept_near(word: Source) -> str | None:
    """A path relative to the script; what stands before its first known part is its folder."""
    end = max((right for _, right in word.holes), default=0)
    path = word.text[end:]
    if end:
        if not path.startswith("/"):
            return None
        path = path.lstrip("/")
    return path.removeprefix("./") or None


def _moved(word: Source, place: int) -> Source:
    """A word of another file, standing at a place in this one."""
    return Source(word.text, (0,), (place,), word.holes)


def _element(array: str, key: str, state: State) -> str:
    """The name that an element of an associative array is kept under."""
    key = key.strip("\"'")
    if key.startswith("$"):
        known = state.variables.get(key.strip("${}"))
        if known is not None and known.words and not known.words[0].open:
            key = known.words[0].text
    return f"{array}[{key}]"


def _holds_command(text: str) -> bool:
    return "sglang" in text and any(blank in text for blank in " \n\t")


def _container_environment(words: list[Source]) -> dict[str, Source]:
    """Variables that a container tool is told to set."""
    found: dict[str, Source] = {}
    for place, word in enumerate(words):
        text = word.text
        for option in ("--env=", "-e="):
            if text.startswith(option):
                word = word.slice(len(option), len(text))
                text = word.text
        if (place and words[place - 1].text in ("-e", "--env")) or text is not words[place].text:
            name, equals, _ = text.partition("=")
            if equals and name.isidentifier():
                found[name] = word.slice(len(name) + 1, len(text))
    return found


def _document_kind(target: str, words: list[str], text: str) -> str:
    """Format of a document inside a script."""
    suffix = PurePosixPath(target).suffix.lower()
    by_suffix = {
        ".sh": "shell", ".bash": "shell", ".sbatch": "shell", ".slurm": "shell", ".yaml": "yaml",
        ".yml": "yaml", ".py": "python", ".service": "systemd", ".env": "env", ".json": "json",
        ".toml": "toml", ".md": "markdown",
    }  # fmt: skip
    if suffix in by_suffix:
        return by_suffix[suffix]
    for word in words:
        reader = _READERS.get(PurePosixPath(word).name)
        if reader is not None:
            return reader
    head = text.lstrip()[:400]
    if head.startswith("#!"):
        return "python" if "python" in head.splitlines()[0] else "shell"
    if "apiVersion:" in head or head.startswith("---"):
        return "yaml"
    if head.startswith(("[Unit]", "[Service]")):
        return "systemd"
    if head.startswith("FROM "):
        return "dockerfile"
    return "shell"
