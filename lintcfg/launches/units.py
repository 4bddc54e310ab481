"""Launches of systemd units, environment files, makefiles and justfiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from . import python, shell
from .command import Commands
from .model import Extraction
from .text import MASK, Source, capped, join

_MAKE_SET = re.compile(
    r"^[ ]*(?:export\s+|override\s+)*([A-Za-z_.][\w.-]*)\s*(\+=|\?=|::?:?=|=)\s?"
)
_MAKE_DEFINE = re.compile(r"^(?:export\s+|override\s+)*define\s+([\w.-]+)\s*[:?+]?=?\s*$")
#: A rule whose recipe begins in the same line.
_MAKE_RULE = re.compile(r"^[^\s#:=][^#:=]*::?(?!=)[^#=;]*;")
_MAKE_CONDITIONAL = re.compile(r"^[ ]*(ifn?eq|ifn?def|else|endif)\b")
#: Variables of variables are followed this far.
_MAKE_DEPTH = 8
#: References that are followed for one line.
_MAKE_MOST = 5000
_LONE_VARIABLE = re.compile(r"\$[({]([\w.-]+)[)}]")
_JUST_SET = re.compile(r"^(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*")
_JUST_VARIABLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
#: A quote that is open for longer than this was not meant to be one.
_MOST_LINES = 50
_PERCENT = re.compile(r"%[A-Za-z]")


def find_systemd(source: Source, commands: Commands, out: Extraction) -> None:
    """`ExecStart=` lines, with the unit's `Environment=`."""
    environment: dict[str, Source] = {}
    for line in _joined(source):
        name, equals, _ = line.text.partition("=")
        if not equals or name.lstrip().startswith(("#", ";")):
            continue
        value = line.slice(len(name) + 1, len(line.text))
        name = name.strip()
        if name == "Environment":
            for word in _split(value, commands):
                variable, has_value, _ = word.text.partition("=")
                if has_value:
                    environment[variable] = word.slice(len(variable) + 1, len(word.text))
        elif name.startswith("Exec"):
            text = value.text
            lead = len(text) - len(text.lstrip(" @-:+!"))
            value = value.slice(lead, len(text))
            masked = _PERCENT.sub(lambda match: MASK * 2, value.text)
            shell.find(
                replace(value, text=masked), commands, out, "systemd", environment=environment
            )


def _joined(source: Source) -> Iterator[Source]:
    """Logical lines: a backslash at the end joins the next one, comments between are dropped."""
    parts: list[Source] = []
    for line in source.lines():
        if parts and line.text.lstrip().startswith(("#", ";")):
            continue
        ends = line.text.rstrip().endswith("\\")
        if ends:
            parts.append(line.slice(0, len(line.text.rstrip()) - 1))
            parts.append(Source(" ", (0,), (line.end,)))
            continue
        parts.append(line)
        yield join(parts)
        parts = []
    if parts:
        yield join(parts)


def _split(source: Source, commands: Commands) -> list[Source]:
    from .structured import _Words

    text = join([Source("x ", (0,), (source.start,)), source])
    return _Words(commands).split(text)[1:] or source.split()


def find_env(source: Source, commands: Commands, out: Extraction) -> None:
    """Variables of an environment file whose names say that they hold SGLang's flags."""
    for line in _quoted_lines(source):
        text = line.text
        name, equals, _ = text.partition("=")
        bare = name.strip().removeprefix("export ").strip()
        if not equals or bare.startswith("#") or not bare.isidentifier():
            continue
        value = line.slice(len(name) + 1, len(text))
        stripped = value.text.strip()
        lead = len(value.text) - len(value.text.lstrip())
        value = value.slice(lead, lead + len(stripped))
        if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
            value = value.slice(1, len(stripped) - 1)
        if "sglang.launch_server" in value.text or "sglang serve" in value.text:
            shell.find(value, commands, out, "env")
        elif value.text.startswith("--"):
            words = _split(value, commands)
            if any(word.text.startswith("--sglang-") for word in words):
                commands.take(words, {}, out, "env")
            elif shell.is_flag_variable(bare):
                commands.bare(words, {}, out, "env", wrapper=bare)


def _quoted_lines(source: Source) -> Iterator[Source]:
    """Lines, joined where a value in quotes goes on in the next ones."""
    begun: list[Source] = []
    for line in source.lines(breaks=True):
        begun.append(line)
        value = join(begun).text.partition("=")[2].strip()
        quote = value[:1]
        goes_on = quote in ("'", '"') and value.count(quote) - value.count(f"\\{quote}") == 1
        if goes_on and len(begun) < _MOST_LINES:
            continue
        yield from [join(begun)] if not goes_on else begun
        begun = []
    yield from begun


def find_make(source: Source, commands: Commands, out: Extraction) -> None:
    """Recipes of a makefile, with its variables on each way through its conditionals."""
    makefile = _Makefile(source)
    for recipe in makefile.recipes:
        if not (makefile.mentions or any("sglang" in line.text for line in recipe)):
            continue
        for variables in makefile.ways:
            script = join([variables.expand(line) for line in recipe])
            if "sglang" in script.text:
                shell.find(script, commands, out, "makefile", depth=1)


class _Makefile:
    """Recipes as they stand, and what variables hold in the end: recipes are expanded last."""

    def __init__(self, source: Source) -> None:
        self.ways = [_Variables()]
        self.recipes: list[list[Source]] = []
        #: A variable was set to something that could be part of a launch.
        self.mentions = False
        self._open: list[_Conditional] = []
        self._prefix = "\t"
        self._defined: tuple[str, list[Source]] | None = None
        self._in_recipe = False
        for line in _physical(source):
            self._line(line)

    def _line(self, line: Source) -> None:
        text = line.text
        if self._defined is not None:
            self._define(line)
        elif text.startswith(self._prefix):
            self._step(line.slice(1, len(text)))
        elif self._conditional(text):
            pass
        elif text.strip():
            self._in_recipe = False
            self._statement(line)

    def _statement(self, line: Source) -> None:
        """An assignment, the beginning of one over several lines, or a rule."""
        text = line.text
        begun = _MAKE_DEFINE.match(text)
        if begun is not None:
            self._defined = begun.group(1), []
            return
        match = _MAKE_SET.match(text)
        if match is not None:
            value = _unjoined(line.slice(match.end(), len(text)))
            self._set(match.group(1), match.group(2), value)
            return
        rule = _MAKE_RULE.match(text)
        if rule is not None and text[rule.end() :].strip():
            self._step(line.slice(rule.end(), len(text)))

    def _step(self, line: Source) -> None:
        """One line of a recipe."""
        body = line.text.lstrip("\t @-+")
        if not self._in_recipe:
            self.recipes.append([])
        self._in_recipe = True
        self.recipes[-1].append(line.slice(len(line.text) - len(body), len(line.text)))

    def _set(self, name: str, operator: str, value: Source) -> None:
        if name == ".RECIPEPREFIX":
            self._prefix = value.text.strip()[:1] or "\t"
            return
        self.mentions |= "sglang" in value.text
        for variables in self.ways:
            variables.set(name, operator, value)

    def _define(self, line: Source) -> None:
        """A line of a variable that holds several."""
        assert self._defined is not None
        name, lines = self._defined
        if line.text.strip() == "endef":
            self._defined = None
            self._set(name, "=", join(lines))
        else:
            lines.append(line)

    def _conditional(self, text: str) -> bool:
        """Go both ways at a conditional; returns whether the line is part of one."""
        word = _MAKE_CONDITIONAL.match(text)
        if word is None:
            return False
        if word.group(1).startswith("if"):
            self._open.append(_Conditional(self.ways))
            self.ways = [one.copy() for one in self.ways]
        elif self._open and word.group(1) == "else":
            self._open[-1].after += self.ways
            self._open[-1].closed |= not text[word.end() :].strip()
            self.ways = [one.copy() for one in self._open[-1].before]
        elif self._open:
            ended = self._open.pop()
            ways = ended.after + self.ways + ([] if ended.closed else ended.before)
            self.ways = list({one.key: one for one in ways}.values())[: shell.MAX_STATES]
        return True


@dataclass(slots=True)
class _Conditional:
    """A conditional that is open: what variables held before it, and behind its branches."""

    before: list[_Variables]
    after: list[_Variables] = field(default_factory=list)
    closed: bool = False


class _Variables:
    """Variables of a makefile on one way through it."""

    def __init__(self) -> None:
        self.values: dict[str, Source] = {}
        #: Those whose values are put in only where they are used.
        self.lazy: set[str] = set()
        self._left = 0

    def copy(self) -> _Variables:
        """What goes on another way."""
        copied = _Variables()
        copied.values, copied.lazy = dict(self.values), set(self.lazy)
        return copied

    @property
    def key(self) -> tuple[object, ...]:
        """What tells this way from others."""
        return tuple((name, value.text, value.start) for name, value in self.values.items())

    def set(self, name: str, operator: str, value: Source) -> None:
        """Do what an assignment says."""
        known = self.values.get(name)
        if operator == "?=" and known is not None:
            return
        if operator == "+=" and known is not None:
            value = value if name in self.lazy else self.expand(value)
            self.values[name] = join([known, value], " ")
        elif operator.startswith(":"):
            self.values[name] = self.expand(value)
            self.lazy.discard(name)
        else:
            self.values[name] = value
            self.lazy.add(name)

    def expand(self, source: Source, depth: int = 0) -> Source:
        """Put variables in; `$$` is the shell's dollar."""
        if not depth:
            self._left = _MAKE_MOST
        text = source.text
        parts: list[Source] = []
        position = 0
        while (place := text.find("$", position)) >= 0:
            parts.append(source.slice(position, place))
            following = text[place + 1 : place + 2]
            if following == "$":
                parts.append(source.slice(place + 1, place + 2))
                position = place + 2
                continue
            end = _closing(text, place + 1) if following in ("(", "{") and following else -1
            if end < 0:
                parts.append(source.slice(place, place + 1))
                position = place + 1
                continue
            inner = source.slice(place + 2, end)
            self._left -= 1
            known = self.reference(inner, depth) if depth < _MAKE_DEPTH and self._left > 0 else None
            if known is not None:
                parts.append(known)
            else:
                raw = source.slice(place, end + 1)
                parts.append(replace(raw, text=MASK * len(raw.text)))
            position = end + 1
        parts.append(source.slice(position, len(text)))
        return capped(join([part for part in parts if part.text] or [source.slice(0, 0)]))

    def reference(self, inner: Source, depth: int) -> Source | None:
        """What a variable, `$(or …)`, `$(if …)` or `$(call …)` stands for; None if not known."""
        name, blank, _ = inner.text.partition(" ")
        if not blank:
            return self.value(name, depth)
        if name not in ("or", "if", "call"):
            return None
        options = _arguments(inner.slice(len(name) + 1, len(inner.text)))
        if name == "call":
            return self.call(options, depth)
        values: list[Source | None] = []
        for number, option in enumerate(options):
            lone = _LONE_VARIABLE.fullmatch(option.text.strip())
            if lone is not None and (name == "or" or number == 0):
                # Unset unless the caller sets it.
                values.append(self.value(lone.group(1), depth))
            else:
                values.append(self.expand(option, depth + 1))
        if name == "or":
            return next((one for one in values if one is not None and one.text.strip()), None)
        condition = values[0]
        chosen = 1 if condition is not None and condition.text.strip() else 2
        return values[chosen] if chosen < len(values) else inner.slice(0, 0)

    def value(self, name: str, depth: int) -> Source | None:
        """The value of a variable, with what it takes from others."""
        known = self.values.get(name)
        if known is None or name not in self.lazy:
            return known
        return self.expand(known, depth + 1)

    def call(self, options: list[Source], depth: int) -> Source | None:
        """A variable with the arguments that are put in for `$(1)` and so on."""
        body = self.values.get(options[0].text.strip())
        if body is None:
            return None
        inner = self.copy()
        inner._left = self._left
        for number, option in enumerate(options[1:], 1):
            inner.values[str(number)] = self.expand(option, depth + 1)
            inner.lazy.discard(str(number))
        return inner.expand(body, depth + 1)


def _physical(source: Source) -> Iterator[Source]:
    """Lines with those joined that a backslash continues, breaks kept."""
    begun: list[Source] = []
    for line in source.lines(breaks=True):
        begun.append(line)
        if not line.text.rstrip("\n").endswith("\\"):
            yield join(begun)
            begun = []
    if begun:
        yield join(begun)


def _unjoined(source: Source) -> Source:
    """A value without its continuations and its comment."""
    text = source.text.rstrip("\n")
    text = text.replace("\\\n", "  ")
    comment = re.search(r"(?<!\\)\s#.*$", text)
    text = text[: comment.start()] if comment else text
    return replace(source.slice(0, len(text)), text=text)


def _closing(text: str, start: int) -> int:
    """Where the bracket at `start` is closed; -1 where it is not."""
    opening = text[start]
    closing = ")" if opening == "(" else "}"
    depth = 0
    for place in range(start, len(text)):
        if text[place] == opening:
            depth += 1
        elif text[place] == closing:
            depth -= 1
            if depth == 0:
                return place
    return -1


def _arguments(source: Source) -> list[Source]:
    """Arguments of a function, between commas outside of brackets."""
    found = []
    depth = start = 0
    for place, character in enumerate(source.text):
        if character in "({":
            depth += 1
        elif character in ")}":
            depth -= 1
        elif character == "," and depth == 0:
            found.append(source.slice(start, place))
            start = place + 1
    found.append(source.slice(start, len(source.text)))
    return found


def find_just(source: Source, commands: Commands, out: Extraction) -> None:
    """Recipes of a justfile, with its variables."""
    variables: dict[str, Source] = {}
    recipe: list[Source] = []

    def done() -> None:
        if recipe and any("sglang" in line.text for line in recipe):
            script = join([_expand_just(line, variables) for line in recipe])
            head = script.text.lstrip().split("\n", 1)[0]
            if head.startswith("#!") and "python" in head:
                python.find(script, commands, out, "justfile")
            else:
                shell.find(script, commands, out, "justfile", depth=1)
        recipe.clear()

    for line in source.lines(breaks=True):
        text = line.text
        if text[:1] in (" ", "\t") or not text.strip():
            body = text.lstrip(" \t")
            if not (recipe and recipe[-1].text.rstrip().endswith("\\")):
                body = body.removeprefix("@").removeprefix("-")
            recipe.append(line.slice(len(text) - len(body), len(text)))
            continue
        done()
        match = _JUST_SET.match(text)
        if match is not None:
            end = len(text.rstrip())
            value = line.slice(match.end(), end)
            if len(value.text) > 1 and value.text[0] == value.text[-1] and value.text[0] in "'\"":
                variables[match.group(1)] = value.slice(1, len(value.text) - 1)
    done()


def _expand_just(source: Source, variables: dict[str, Source]) -> Source:
    parts: list[Source] = []
    position = 0
    for match in _JUST_VARIABLE.finditer(source.text):
        parts.append(source.slice(position, match.start()))
        known = variables.get(match.group(1))
        raw = source.slice(match.start(), match.end())
        parts.append(known if known is not None else replace(raw, text=MASK * len(raw.text)))
        position = match.end()
    parts.append(source.slice(position, len(source.text)))
    return join([part for part in parts if part.text] or [source])
