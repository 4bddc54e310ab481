"""Commands in code fences: finding them, and judging them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from .pages.page import Block

#: What ends a command for the shell, or sends its output elsewhere.
_OPERATOR = re.compile(r"&|&&|\||\|\||;|\d?>>?(?:&\d|\S+)?|&>>?\S*|<")
_SETS_VARIABLE = re.compile(r"SGLANG_\w+=")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, with its place on the page."""

    text: str
    line: int
    column: int


@dataclass(slots=True)
class Command:
    """A command of a fence: its words, and where it begins."""

    words: list[Word] = field(default_factory=list)

    @property
    def line(self) -> int:
        """First line."""
        return self.words[0].line if self.words else 0

    def argv(self) -> list[str]:
        """The words as text."""
        return [word.text for word in self.words]

    def kind(self) -> str | None:
        """`server` for the LLM server, `diffusion` for the diffusion runtime, or None."""
        texts = self.argv()
        if any("sglang.launch_server" in text for text in texts):
            return "server"
        for position, text in enumerate(texts):
            if text == "sglang" or text.endswith("/sglang"):
                command = texts[position + 1] if position + 1 < len(texts) else ""
                if command == "serve":
                    return "server"
                if command == "generate":
                    return "diffusion"
            if "multimodal_gen" in text:
                return "diffusion"
        return None

    @property
    def through_cli(self) -> bool:
        """Whether it is `sglang serve`, which starts whichever runtime serves the model."""
        return not any("sglang.launch_server" in word.text for word in self.words)

    def arguments(self) -> list[Word]:
        """What follows the launch command itself, as far as the shell passes it on."""
        for position, word in enumerate(self.words):
            if (
                "sglang.launch_server" in word.text
                or "multimodal_gen" in word.text
                or (word.text in {"serve", "generate"} and position)
            ):
                rest = self.words[position + 1 :]
                ends = (i for i, one in enumerate(rest) if _OPERATOR.fullmatch(one.text))
                return rest[: next(ends, len(rest))]
        return []

    def launch(self) -> list[str] | None:
        """The arguments of a server launch as text, or None where something is left open.

        Variables of the engine decide as flags do; a launch that sets some is left open.
        """
        if self.kind() != "server":
            return None
        if any(_SETS_VARIABLE.match(word.text) for word in self.words):
            return None
        argv = [word.text for word in self.arguments()]
        return None if any(is_placeholder(text) for text in argv) else argv


def is_placeholder(text: str) -> bool:
    """Whether a word only stands for what the reader puts in: `<path>`, `$MODEL`, `MODEL`."""
    return text.startswith(("<", "$", "{", "[")) or text.isupper()


@dataclass(frozen=True, slots=True)
class LaunchVerdict:
    """What a judge says of a launch: refused or not, and why."""

    refuses: bool
    reasons: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class LaunchJudge(Protocol):
    """Judges an LLM-server launch as its release would."""

    release: str

    def judge(self, argv: list[str]) -> LaunchVerdict:
        """The verdict on the arguments after the launch command."""
        ...


def commands(fence: Block) -> Iterator[Command]:
    """The commands of a fence; lines that end with a backslash go on."""
    if fence.language.lower() not in {"", "bash", "sh", "shell", "console", "zsh", "text"}:
        return
    command = Command()
    for line in fence.lines:
        text = line.text.rstrip()
        if not command.words and text.lstrip().startswith("#"):
            continue
        goes_on = text.endswith("\\")
        body = text[:-1] if goes_on else text
        command.words += _words(body, line.number, line.column)
        if not goes_on:
            if command.words:
                yield command
            command = Command()
    if command.words:
        yield command


def _words(text: str, line: int, column: int) -> list[Word]:
    try:
        parts = shlex.split(text, comments=True)
    except ValueError:
        parts = text.split()
    found = []
    position = 0
    for part in parts:
        at = text.find(part, position)
        if at < 0:
            at = text.find(part[:4], position)
        at = max(at, position)
        found.append(Word(part, line, column + at))
        position = at + 1
    return found
