"""Makes fixes, and proves each of them by reading the file again.

A fix is kept where the file then yields the same launches with only the words changed that were to
change, and where the finding is gone. What cannot be written that way is left to a person.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..launches import Found, Source
from .changes import Change
from .edits import apply, ways
from .result import Edit, FileReport, Located

#: Texts read again for one file at most, however many of its fixes fail, and characters of them.
_ATTEMPTS = 400
_CHARACTERS = 50_000_000
#: The same where fixes are only counted, and the launches that are read again for that.
_TRIALS = 64
_TRIED = 4000
#: Ways of writing one fix that are tried.
_WAYS = 6
#: The statement that a variable, an array or a key of that name is set by.
_ASSIGNED = re.compile(
    r"^[ \t]*(?:-[ \t]+)?"
    r"(?:(?:export|local|readonly|typeset|declare|ENV|ARG|env)\b[ \t]+(?:-\w+[ \t]+)*)?"
    r"([A-Za-z_]\w*)[ \t]*(?:[:?+]?=|:[ \t])"
)

#: Formats in which a variable is read by its bare name.
_BARE_NAMES = frozenset({"python", "notebook"})

#: Formats whose commands are lines.
_LINES = frozenset({"makefile", "justfile", "systemd"})

#: Verdicts on a launch, the better ones first.
_LESS_SURE = {"starts": 0, "unchecked": 0, "depends": 1, "refuses": 2}

#: Reads a file's text again and reports on it.
Check = Callable[[str, str], FileReport]
#: A word, told by its place: what stands twice in a launch may come from one variable.
_Key = tuple[int, int, str]
_Signature = list[tuple[object, ...]]
_Name = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Changes that together cure one finding, and the ways to write each of them."""

    located: Located
    changes: tuple[Change, ...]
    name: tuple[object, ...]


class Fixer:
    """Fixes the findings of files that `check` reads."""

    def __init__(self, check: Check, *, unsafe: bool, most: int = _ATTEMPTS) -> None:
        self.check = check
        self.unsafe = unsafe
        self.most = most
        self.attempts = 0

    def fixed(self, report: FileReport) -> tuple[str, FileReport]:
        """The text of a file with its fixes made, and the report on it."""
        length = max(1, len(report.lines.text))
        self.attempts = max(8, min(self.most, _CHARACTERS // length))
        refused: set[tuple[object, ...]] = set()
        seen = {report.lines.text}
        # A fix may lay bare another one, so this goes on until nothing is left to do.
        while self.attempts > 0:
            plans = [plan for plan in self._plans(report) if plan.name not in refused]
            if not plans:
                break
            after = self._made(report, plans, refused)
            if after.lines.text in seen:
                break
            seen.add(after.lines.text)
            report = after
        return report.lines.text, report

    # ------------------------------------------------------------------- plans

    def _plans(self, report: FileReport) -> Iterable[_Plan]:
        proposed: dict[tuple[_Key, tuple[str, ...]], set[tuple[int, int]]] = {}
        several = [one for one in report.located if one.changes and one.finding.certain]
        if not several:
            return []
        for located in several:
            for change in located.changes:
                where = proposed.setdefault((_key(change.touched[0]), change.replacement), set())
                where.update((located.launch or 0, variant) for variant in located.variants)
        holders = _holders(report)
        plans = []
        count: Counter[_Name] = Counter()
        for located in several:
            # Offsets do not survive a change before them; which of its kind it is does.
            base = _name(located)
            count[base] += 1
            if all(
                self._holds(report, change, proposed, holders)
                and any(True for _ in ways(change, report.lines.text))
                for change in located.changes
            ):
                plans.append(_Plan(located, located.changes, (base, count[base])))
        return plans

    def _holds(
        self,
        report: FileReport,
        change: Change,
        proposed: dict[tuple[_Key, tuple[str, ...]], set[tuple[int, int]]],
        holders: dict[_Key, set[tuple[int, int]]],
    ) -> bool:
        """Whether a change is wanted, and everything that reads its words asks for it."""
        safe = change.safe and not _read_elsewhere(report, change)
        if not (safe or self.unsafe):
            return False
        keys = [_key(word) for word in change.touched]
        needed = holders.get(keys[0], set())
        if any(holders.get(key, set()) != needed for key in keys):
            return False
        return needed <= proposed[(keys[0], change.replacement)]

    # ------------------------------------------------------------------ making

    def _made(
        self, report: FileReport, plans: Sequence[_Plan], refused: set[tuple[object, ...]]
    ) -> FileReport:
        """The report after as many of the plans as hold; several are tried at once."""
        after = self._attempt(report, plans, (0,) * len(plans))
        if after is not None:
            return after
        if len(plans) == 1:
            for way in range(1, _WAYS):
                after = self._attempt(report, plans, (way,))
                if after is not None:
                    return after
            refused.add(plans[0].name)
            return report
        middle = len(plans) // 2
        for part in (plans[:middle], plans[middle:]):
            if self.attempts <= 0:
                break
            after = self._made(report, part, refused)
            if after is not report:
                # Offsets of the other plans are those of the old text: they are made anew.
                return after
        return report

    def _attempt(
        self, report: FileReport, plans: Sequence[_Plan], which: Sequence[int]
    ) -> FileReport | None:
        """The report on the text with the plans made, or None where one does not hold."""
        text = report.lines.text
        edits: list[Edit] = []
        substituted: dict[_Key, tuple[str, ...]] = {}
        for plan, way in zip(plans, which, strict=True):
            for change in plan.changes:
                possible = list(ways(change, text))[:_WAYS]
                if way >= len(possible):
                    return None
                edits += possible[way]
                pairs = _pairs([_key(word) for word in change.touched], change.replacement)
                if any(substituted.get(key, new) != new for key, new in pairs):
                    return None
                substituted.update(pairs)
        distinct = sorted(set(edits), key=lambda edit: (edit.start, edit.end))
        if any(left.end > right.start for left, right in pairwise(distinct)):
            return None
        self.attempts -= 1
        fixed = apply(text, distinct)
        if fixed == text:
            return None
        after = self.check(report.path, fixed)
        if _signature(after, {}) != _signature(report, substituted):
            return None
        return after if _cured(report, after, plans) else None


def mark_fixable(report: FileReport, check: Check) -> None:
    """Tell of each finding whether fixes that would be kept cure it, and of which kind they are."""
    open_ones = [one for one in report.located if one.changes and one.finding.certain]
    for kind, unsafe in (("safe", False), ("unsafe", True)):
        if not open_ones or not (unsafe or any(one.is_safe for one in open_ones)):
            continue
        most = min(_TRIALS, _TRIED // max(1, len(report.launches)))
        _, after = Fixer(check, unsafe=unsafe, most=most).fixed(report)
        gone = {id(one) for one in _gone(report, after)}
        for one in open_ones:
            if id(one) in gone:
                one.fixable = kind
        open_ones = [one for one in open_ones if not one.fixable]


def _gone(before: FileReport, after: FileReport) -> Iterable[Located]:
    """Findings of a file that its fixed text no longer has."""
    there = [one for one in after.located if one.finding.certain]
    left = Counter(_name(one) for one in there)
    missing = [
        one for one in before.located if one.finding.certain and not _taken(left, _name(one))
    ]
    # A finding that says the same of another value is there still.
    reworded = Counter(_kind(one) for one in there if _taken(left, _name(one)))
    return [one for one in missing if not _taken(reworded, _kind(one))]


def _taken(counts: Counter[_Name], name: _Name) -> bool:
    """Whether one of a kind was left, which now is not."""
    if not counts[name]:
        return False
    counts[name] -= 1
    return True


def _cured(before: FileReport, after: FileReport, plans: Sequence[_Plan]) -> bool:
    """Whether the findings are gone, and nothing worse has taken their place."""
    there, left = (
        Counter(_name(one) for one in report.located if one.finding.certain)
        for report in (before, after)
    )
    for name, number in Counter(_name(plan.located) for plan in plans).items():
        if left[name] > there[name] - number:
            return False
    return not _is_worse(before, after, plans)


def _is_worse(before: FileReport, after: FileReport, plans: Sequence[_Plan]) -> bool:
    """Whether a launch starts less surely than it did, or meets something grave that it did not."""
    for old, new in zip(before.startups, after.startups, strict=True):
        if any(_LESS_SURE[now] > _LESS_SURE[then] for then, now in zip(old, new, strict=True)):
            return True
    renamed = {
        plan.located.launch for plan in plans if any(change.renames for change in plan.changes)
    }
    # A fix that is not safe changes what the launch does, so SGLang may have more to say of it.
    grave: tuple[str, ...] = ("error", "warning")
    if not all(change.safe for plan in plans for change in plan.changes):
        grave = ("error",)
    had = Counter(kind for one in before.located if one.finding.certain for kind in _kinds(one))
    had.subtract(kind for plan in plans for kind in _kinds(plan.located))
    for one in after.located:
        finding = one.finding
        if finding.severity not in grave or not finding.certain or one.launch is None:
            continue
        # What a flag means for the launch shows only once it has a name that is known.
        if one.launch in renamed and finding.label != "parse":
            continue
        for kind in _kinds(one):
            had[kind] -= 1
            if had[kind] < 0:
                return True
    return False


def _kind(located: Located) -> _Name:
    finding = located.finding
    return located.launch, finding.code, finding.rule, finding.phase


def _kinds(located: Located) -> list[_Name]:
    """What a finding says, for each way through the file on which it holds."""
    return [(*_kind(located), variant) for variant in located.variants or (None,)]


def _name(located: Located) -> _Name:
    finding = located.finding
    return located.launch, finding.code, finding.rule, finding.flags[:1], finding.message


def _key(word: Source) -> _Key:
    return word.start, word.end, word.text


def _pairs(keys: Sequence[_Key], new: tuple[str, ...]) -> list[tuple[_Key, tuple[str, ...]]]:
    """What each word becomes: all new ones in the place of the first, none in that of others."""
    return [(key, new if number == 0 else ()) for number, key in enumerate(keys)]


def _holders(report: FileReport) -> dict[_Key, set[tuple[int, int]]]:
    """The launches, and the ways through the file, that a word is part of."""
    found: dict[_Key, set[tuple[int, int]]] = {}
    for number, launch in enumerate(report.launches):
        if launch.engine != "sglang":
            continue
        for position, variant in enumerate(launch.variants):
            for word in variant.words:
                found.setdefault(_key(word), set()).add((number, position))
    return found


def _signature(report: FileReport, substituted: dict[_Key, tuple[str, ...]]) -> _Signature:
    """Everything a file's launches consist of, with some words put in the place of others."""
    return [_launch(launch, substituted) for launch in report.launches]


def _launch(launch: Found, substituted: dict[_Key, tuple[str, ...]]) -> tuple[object, ...]:
    variants = []
    for variant in launch.variants:
        words: list[tuple[str, bool]] = []
        for word in variant.words:
            new = substituted.get(_key(word))
            if new is None:
                words += _parts(word.text, word.open)
            else:
                for one in new:
                    words += _parts(one, False)
        variants.append((tuple(words), variant.environment, variant.open_environment))
    return launch.kind, launch.wrapper, launch.engine, launch.command, tuple(variants)


def _parts(text: str, is_open: bool) -> list[tuple[str, bool]]:
    """A word, with the value behind an equals sign as a word of its own."""
    name, equals, value = text.partition("=")
    if equals and name.startswith("--") and not is_open:
        return [(name, False), (value, False)]
    # What is not known may be text that runs into other commands, which change on their own.
    return [("" if is_open else text, is_open)]


def _read_elsewhere(report: FileReport, change: Change) -> bool:
    """Whether a variable that holds the words is read by something that is no such launch."""
    if change.renames:
        return False
    text = report.lines.text
    word = change.words[-1]
    holding = [
        launch
        for launch in report.launches
        if any(_key(word) == _key(one) for variant in launch.variants for one in variant.words)
    ]
    if any(launch.start <= word.start < launch.end for launch in holding):
        return False
    line = report.lines.line(report.lines.place(word.start)[0])
    assigned = _ASSIGNED.match(line)
    if assigned is None:
        return False
    name = re.escape(assigned.group(1))
    bare = any(launch.kind in _BARE_NAMES for launch in holding)
    uses = re.compile(rf"\b{name}\b" if bare else rf"\$[({{]*{name}\b|\b{name}\b[ \t]*\}}\}}")
    # Words of an array stand outside of the command; what shares their line is part of them.
    beside = {
        report.lines.place(one.start)[0]
        for launch in holding
        for variant in launch.variants
        for one in variant.words
        if not launch.start <= one.start < launch.end
    } - {report.lines.place(word.start)[0]}
    # A command that ends in such a variable ends, as far as is known, before it.
    beside |= {report.lines.place(launch.end)[0] for launch in holding if launch.kind in _LINES}
    return any(
        not any(launch.start <= use.start() < launch.end for launch in holding)
        and report.lines.place(use.start())[0] not in beside
        for use in uses.finditer(text)
        if use.start() != text.rfind("\n", 0, word.start) + 1 + assigned.start(1)
    )
