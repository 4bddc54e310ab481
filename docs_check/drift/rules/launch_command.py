"""A command on the page would not start.

What it does: checks the flags and values of commands in code fences against the release, and has
the resolver judge them where it knows the release. In the text, checks the value that an attention
backend's flag is given with.
Why: readers copy commands.
Example: `--attention-backend cutlass_mla` after its removal.
"""

from __future__ import annotations

import difflib
import re

from ...facts.model import Flag
from ...launches import Command, Word, commands, is_placeholder
from ...source.modules import Place
from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC112", "launch-command", "launch-command-would-fail", "error")

#: A flag of an attention backend with its value, as code in a text.
_INLINE = re.compile(r"`(--[a-z-]*attention-backend)(?:=|\s+)([A-Za-z0-9][\w.-]*)`")


def check(context: Context) -> None:
    """Check every command of every fence."""
    for fence in context.page.fences():
        for command in commands(fence):
            if command.kind() != "server" or _of_other_runtime(context, command):
                continue
            if not _arguments(context, command):
                _judge(context, command)
    for block in context.page.prose():
        for line in block.lines:
            for match in _INLINE.finditer(line.text):
                given = Word(match[2], line.number, line.column + match.start(2))
                _in_text(context, match[1], given)


def _of_other_runtime(context: Context, command: Command) -> bool:
    """Whether `sglang serve` gets flags that only another runtime of it has."""
    facts = context.facts
    return command.through_cli and any(
        word.text.startswith("--")
        and not facts.flags.exists(spelling := word.text.partition("=")[0])
        and facts.other_flag(spelling)
        for word in command.arguments()
    )


def _arguments(context: Context, command: Command) -> bool:
    """Flags and values; returns whether one was wrong."""
    facts = context.facts
    if facts.backend_flag is None:
        return False
    wrong = False
    words = command.arguments()
    for position, word in enumerate(words):
        if not word.text.startswith("--"):
            continue
        spelling, equals, value = word.text.partition("=")
        flag = facts.flags.get(spelling)
        if flag is None:
            if not facts.flags.exists(spelling) and not facts.other_flag(spelling):
                wrong = _unknown(context, word, spelling) or wrong
            continue
        given = Word(value, word.line, word.column + len(spelling) + 1) if equals else (
            words[position + 1] if position + 1 < len(words) else None
        )  # fmt: skip
        if given is not None and flag.choices and not given.text.startswith("--"):
            wrong = _value(context, flag, spelling, given) or wrong
    return wrong


def _unknown(context: Context, word: Word, spelling: str) -> bool:
    known = ["--" + name.replace("_", "-") for name in context.facts.flags.fields()]
    if any(name.startswith(spelling) for name in known):
        return False
    close = difflib.get_close_matches(spelling, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    context.report(
        INFO, Spot(word.line, word.column, word.column + len(spelling)),
        message=f"`{spelling}` is not a flag of this release{hint}",
        claim=f"the command launches with {spelling}", actual=f"no such flag{hint}",
        certainty="review", subject=spelling,
    )  # fmt: skip
    return True


def _value(context: Context, flag: Flag, spelling: str, given: Word) -> bool:
    values = [str(value) for value in flag.values()]
    if given.text in values or is_placeholder(given.text):
        return False
    former = context.facts.former.get(given.text)
    told = f" ({former})" if former is not None else ""
    places: list[Place] = [flag.place]
    if flag.choices:
        places.append(flag.choices[0].place)
    context.report(
        INFO, Spot(given.line, given.column, given.column + len(given.text)),
        message=f"the command fails: `{given.text}` is not a value of {spelling}{told}",
        claim=f"the command launches with {given.text}",
        actual=f"{spelling} takes {', '.join(values)}", places=places, subject=given.text,
    )  # fmt: skip
    return True


def _in_text(context: Context, spelling: str, given: Word) -> None:
    """A value that a text tells the reader to give; names of the past are DOC101's."""
    flag = context.facts.flags.get(spelling)
    if flag is None or not flag.choices or is_placeholder(given.text):
        return
    values = [str(value) for value in flag.values()]
    if given.text in values or given.text in context.facts.former:
        return
    close = difflib.get_close_matches(given.text, values, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    context.report(
        INFO, Spot(given.line, given.column, given.column + len(given.text)),
        message=f"`{given.text}` is not a value of {spelling}{hint}",
        claim=f"{spelling} takes {given.text}", actual=f"{spelling} takes {', '.join(values)}",
        places=[flag.place, flag.choices[0].place], subject=given.text,
        # A page on something else may speak of another program's flag of that name.
        certainty="proved" if context.is_overview else "review",
    )  # fmt: skip


def _judge(context: Context, command: Command) -> None:
    judge = context.judge
    if judge is None or judge.release != context.facts.version:
        return
    argv = command.launch()
    if argv is None:
        return
    verdict = judge.judge(argv)
    if not verdict.refuses:
        return
    at = next(
        (word for word in command.arguments()
         if any(word.text.partition("=")[0] == flag for flag in verdict.flags)),
        command.words[0],
    )  # fmt: skip
    reasons = "; ".join(reason.rstrip(".") for reason in verdict.reasons)
    context.report(
        INFO, Spot(at.line, at.column),
        message=f"the command fails on every GPU: {reasons}",
        claim="the command launches", actual=reasons, subject="resolver",
    )  # fmt: skip
