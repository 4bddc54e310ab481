"""Launches of systemd units, environment files, makefiles and justfiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from . import shell
from .command import Commands
from .model import Extraction
from .text import MASK, Source, join

_MAKE_SET = re.compile(r"^(?:export\s+|override\s+)*([A-Za-z_][\w.-]*)\s*(\+=|\?=|::?:?=|=)\s?")
_LONE_VARIABLE = re.compile(r"\$[({]([\w.-]+)[)}]")
_JUST_SET = re.compile(r"^(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*")
_JUST_VARIABLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
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
    for line in source.lines():
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


def find_make(source: Source, commands: Commands, out: Extraction) -> None:
    """Recipes of a makefile, with its variables."""
    variables: dict[str, Source] = {}
    recipe: list[Source] = []
    for line in _physical(source):
        text = line.text
        if text.startswith("\t"):
            body = text[1:].lstrip("\t @-+")
            recipe.append(line.slice(len(text) - len(body), len(text)))
            continue
        if text.strip() and recipe:
            _recipe(recipe, variables, commands, out)
            recipe = []
        match = _MAKE_SET.match(text)
        if match is None:
            continue
        name, operator = match.group(1), match.group(2)
        value = _expand_make(_unjoined(line.slice(match.end(), len(text))), variables)
        if operator == "+=" and name in variables:
            value = join([variables[name], value], " ")
        variables[name] = value
    if recipe:
        _recipe(recipe, variables, commands, out)


def _physical(source: Source) -> Iterator[Source]:
    """Lines with those joined that a backslash continues, breaks kept."""
    start: int | None = None
    position = 0
    for line in source.text.splitlines(keepends=True):
        if start is None:
            start = position
        position += len(line)
        if not line.rstrip("\r\n").endswith("\\"):
            yield source.slice(start, position)
            start = None
    if start is not None:
        yield source.slice(start, position)


def _unjoined(source: Source) -> Source:
    """A value without its continuations and its comment."""
    text = source.text.rstrip("\n")
    text = text.replace("\\\n", "  ")
    comment = re.search(r"(?<!\\)\s#.*$", text)
    text = text[: comment.start()] if comment else text
    return replace(source.slice(0, len(text)), text=text)


def _recipe(
    lines: list[Source], variables: dict[str, Source], commands: Commands, out: Extraction
) -> None:
    script = join([_expand_make(line, variables) for line in lines])
    if "sglang" in script.text:
        shell.find(script, commands, out, "makefile", depth=1)


def _expand_make(source: Source, variables: dict[str, Source], depth: int = 0) -> Source:
    """Put make's variables in; `$$` is the shell's dollar."""
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
        known = _make_value(inner, variables, depth) if depth < 8 else None
        if known is not None:
            parts.append(known)
        else:
            raw = source.slice(place, end + 1)
            parts.append(replace(raw, text=MASK * len(raw.text)))
        position = end + 1
    parts.append(source.slice(position, len(text)))
    return join([part for part in parts if part.text] or [source.slice(0, 0)])


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


def _make_value(inner: Source, variables: dict[str, Source], depth: int) -> Source | None:
    """What a reference to a variable, `$(or …)` or `$(if …)` stands for; None if not known."""
    name, blank, _ = inner.text.partition(" ")
    if not blank:
        return variables.get(name)
    if name not in ("or", "if"):
        return None
    options = _arguments(inner.slice(len(name) + 1, len(inner.text)))
    values: list[Source | None] = []
    for number, option in enumerate(options):
        lone = _LONE_VARIABLE.fullmatch(option.text.strip())
        if lone is not None and (name == "or" or number == 0):
            values.append(variables.get(lone.group(1)))  # unset unless the caller sets it
        else:
            values.append(_expand_make(option, variables, depth + 1))
    if name == "or":
        return next((one for one in values if one is not None and one.text.strip()), None)
    condition = values[0]
    chosen = 1 if condition is not None and condition.text.strip() else 2
    return values[chosen] if chosen < len(values) else inner.slice(0, 0)


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
            shell.find(script, commands, out, "justfile", depth=1)
        recipe.clear()

    position = 0
    for text in source.text.splitlines(keepends=True):
        line = source.slice(position, position + len(text))
        position += len(text)
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
