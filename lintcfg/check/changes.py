"""What would cure a finding: other words in the place of some of the launch's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..basis import Basis, numbers
from ..findings import Finding
from ..flags import FlagTable, ParseProblem
from ..judge import Judgement
from ..launches import Source, Variant

#: Problems of a name or a value that something else does the work of today.
_RENAMED = frozenset({"removed", "deprecated", "ambiguous"})
_BRACES = re.compile(r"\{([^{}]*)\}")
_OLD_PARSE = "parse"
_DEPRECATED = "deprecated-name"


@dataclass(frozen=True, slots=True)
class Change:
    """New words for words of a launch that follow one another.

    Attributes:
        words: the words as they stand in the file.
        new: what stands there afterwards; words kept at the front are left untouched.
        safe: whether the launch does the same as before.
        renames: whether only names change, so that what the launch then meets is no harm of ours.
    """

    words: tuple[Source, ...]
    new: tuple[str, ...]
    safe: bool
    renames: bool = False

    @property
    def kept(self) -> int:
        """How many words at the front stay as they are."""
        number = 0
        for word, new in zip(self.words, self.new, strict=False):
            if word.text != new:
                break
            number += 1
        return number

    @property
    def touched(self) -> tuple[Source, ...]:
        """The words that do not stay; where others are put behind them, the last one."""
        return self.words[min(self.kept, len(self.words) - 1) :]

    @property
    def replacement(self) -> tuple[str, ...]:
        """What stands in the place of `touched`."""
        return self.new[min(self.kept, len(self.words) - 1) :]


def changes_for(
    finding: Finding, judgement: Judgement, variant: Variant, flags: FlagTable, basis: Basis
) -> tuple[Change, ...]:
    """Changes that together cure a finding; none where nothing is known to.

    Where the launch is judged by another release than the one it runs on, a person has to decide;
    and what an older release still takes stays as it is, for the newer name may not be there yet.
    """
    problems = _problems(finding, judgement)
    if basis.older and _is_of_its_time(finding, problems, basis):
        return ()
    if problems and len(problems[0].replacements) > 1:
        return ()  # which of them is meant is for a person to say
    if problems and problems[0].kind in _RENAMED and problems[0].replacements:
        if problems[0].replacements[0].startswith("-"):
            found = [_renamed(problem, variant, flags) for problem in problems]
            renamed = tuple(change for change in found if change is not None)
            if len(renamed) < len(found):
                return ()
            return renamed if basis.exact else tuple(_unsafe(change) for change in renamed)
        valued = [_valued(p.index, p.end, p.replacements[0], variant) for p in problems]
        # What a value is called now may do something else: the release only knows what is near.
        return tuple(_unsafe(change) for change in valued if change is not None)
    changes = []
    for fix in finding.fixes:
        change = _fixed(fix.field, fix.value, finding, judgement, variant, flags)
        if change is not None:
            changes.append(change if fix.safe and basis.exact else _unsafe(change))
    return tuple(changes)


def _is_of_its_time(finding: Finding, problems: Sequence[ParseProblem], basis: Basis) -> bool:
    """Whether a finding is about a name that the launch's own, older release has, or lacks yet."""
    history = problems[0].history if problems else None
    if history is None:
        return finding.name == _DEPRECATED
    return numbers(basis.asked) < numbers(history["removed_in"])


def _unsafe(change: Change) -> Change:
    return Change(change.words, change.new, False, change.renames)


def _problems(finding: Finding, judgement: Judgement) -> list[ParseProblem]:
    """The problems of the command line that a finding tells of: one for each time it is met."""
    if finding.label != _OLD_PARSE or finding.span is None or finding.span.argument is None:
        return []
    return [
        problem
        for problem in judgement.parsed.problems
        if problem.index is not None and finding.message.startswith(problem.message)
    ]


def _renamed(problem: ParseProblem, variant: Variant, flags: FlagTable) -> Change | None:
    """Another name for a flag that is gone or going, and its value where that is part of it."""
    index, replacement = problem.index, problem.replacements[0]
    if index is None or index >= len(variant.words) or not replacement.startswith("--"):
        return None
    if "<" in replacement:
        return None  # the value is for a person to say
    word = variant.words[index]
    typed_name, equals, typed_value = word.text.partition("=")
    history = problem.history or {}
    alike = bool(history.get("alike", True))
    former = flags.by_name.get(typed_name)
    takes = former.takes_value if former is not None else bool(history.get("values", True))
    name, blank, value = replacement.partition(" ")
    if not blank:
        name, blank, value = replacement.partition("=")
    names = _expanded(name)
    known = [flags.by_name.get(one) for one in names]
    if any(flag is None for flag in known):
        return None
    if _typed_besides(names, word, variant, flags):
        return None  # of two values the last one counts: which, is for a person to say
    if value:
        if takes or equals:
            return None
        # One word can stand wherever the old one stood.
        return Change((word,), tuple(f"{one}={value}" for one in names), alike, renames=True)
    if len(names) != 1 or known[0] is None or known[0].takes_value != takes:
        return None
    if takes and not equals and (
        index + 1 >= len(variant.words) or variant.words[index + 1].text.startswith("--")
    ):  # fmt: skip
        return None
    new = f"{names[0]}={typed_value}" if equals else names[0]
    return Change((word,), (new,), alike, renames=True)


def _typed_besides(names: Sequence[str], word: Source, variant: Variant, flags: FlagTable) -> bool:
    """Another word of the launch is one of these flags already, by whatever name."""
    mine = [flags.by_name[name] for name in names]
    return any(
        flags.by_name.get(other.text.partition("=")[0]) in mine
        for other in variant.words
        if other is not word and other.text.startswith("-")
    )


def _expanded(name: str) -> list[str]:
    """The names that braces stand for."""
    match = _BRACES.search(name)
    if match is None:
        return [name]
    return [
        rest
        for part in match.group(1).split(",")
        for rest in _expanded(name[: match.start()] + part + name[match.end() :])
    ]


def _fixed(
    field: str,
    value: object,
    finding: Finding,
    judgement: Judgement,
    variant: Variant,
    flags: FlagTable,
) -> Change | None:
    """The change that gives a flag another value, takes it away, or adds it."""
    typed = judgement.parsed.typed.get(field)
    flag = flags.by_field.get(field)
    if flag is None:
        return None
    if typed is None:
        return _added(field, value, finding, variant, flags)
    if typed.index is None or typed.end is None or typed.end > len(variant.words):
        return None
    if value is None:
        return Change(variant.words[typed.index : typed.end], (), False)
    if not flag.takes_value or isinstance(value, (bool, list, dict)):
        return None
    return _valued(typed.index, typed.end, str(value), variant)


def _valued(first: int | None, last: int | None, value: str, variant: Variant) -> Change | None:
    """Another value for the flag at a place."""
    if first is None or last is None or last > len(variant.words):
        return None
    words = variant.words[first:last]
    name, equals, _ = words[0].text.partition("=")
    if equals and len(words) == 1:
        return Change(words, (f"{name}={value}",), True)
    if not equals and len(words) == 2:
        return Change(words, (name, value), True)
    return None


def _added(
    field: str, value: object, finding: Finding, variant: Variant, flags: FlagTable
) -> Change | None:
    """A flag put behind the argument that the finding points at."""
    index = finding.span.argument if finding.span is not None else None
    if value is None or index is None or index >= len(variant.words):
        return None
    last = index
    while last + 1 < len(variant.words) and not variant.words[last + 1].text.startswith("--"):
        last += 1
    if variant.words[last].open:
        return None
    flag = flags.by_field[field]
    name = flag.names[0]
    if value is True and not flag.takes_value:
        new: tuple[str, ...] = (name,)
    elif flag.takes_value and not isinstance(value, (bool, list, dict)):
        new = (f"{name}={value}",)
    else:
        return None
    return Change((variant.words[last],), (variant.words[last].text, *new), False)
