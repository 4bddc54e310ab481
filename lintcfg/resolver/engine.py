"""Runs the stages of a release over one launch, in the release's own order.

The last writer wins, as in SGLang: every rule sees what earlier rules decided. The first refusal
decides the verdict; later ones are collected too, so that a user can mend all at once. Where a
condition is unknown, its effects are kept as possibilities.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ...matrix.conditions import names_in
from ...matrix.loader import Release
from ...matrix.record import mutable_record, record
from ..terminal import plain
from .evaluate import Condition, Evaluator, Expression, NameState
from .values import UNKNOWN, Unknown, join

Kind = Literal["refuse", "warn", "advise", "unchecked"]
Startup = Literal["starts", "refuses", "depends", "unchecked"]

_NESTED = frozenset({"rules", "use", "choose", "each"})
_SPECIAL = frozenset({"warn", "advise", "unchecked", "worker", "stop"})
#: The label of stages that are ours and not SGLang's.
ADVICE = "advice"
#: Models whose traits are kept under their full names.
RENAMED = 512

_PLACEHOLDER = re.compile(r"\{([a-z_][A-Za-z0-9_.]*)\}")
#: How much of a value a message repeats; lists of names are the longest that make sense.
_LONGEST_VALUE = 300


@record
class Step:
    """One write of the resolution: who set what, from what."""

    stage: str
    rule: Rule
    field: str
    before: Any
    after: Any
    certain: bool


@record
class Event:
    """A rule that spoke: a refusal, a warning, advice, or a limit of the model.

    `first` marks the refusal that SGLang itself would stop at.
    """

    kind: Kind
    stage: str
    label: str
    rule: Rule
    text: str
    certain: bool
    first: bool
    depends_on: tuple[str, ...]
    phase: str | None


@mutable_record
class Outcome:
    """What became of a launch."""

    program: Program
    startup: Startup
    stage: str
    state: RunState
    events: list[Event]
    trace: list[Step]
    open_names: frozenset[str]

    def reads_unknown(self, prefix: str) -> bool:
        """Whether an unknown value below `prefix` left any condition open."""
        return any(name.startswith(prefix) for name in self.open_names)


@mutable_record
class Rule:
    """A compiled rule; effects run in the order of the fields."""

    id: str | None
    source: Mapping[str, Any] | None
    doc: str | None
    when: Condition | None
    node: Any
    worker: str | None
    warn: Mapping[str, Any] | None
    advise: Mapping[str, Any] | None
    writes: list[tuple[str, Expression]] | None
    refuse: Mapping[str, Any] | None
    unchecked: str | None
    each: list[_Binding] | None
    rules: list[Rule] | None
    choose: list[Rule] | None
    stop: bool
    plain: bool  # only a write or a refusal: the common case
    pending: Any  # nested rules that are not compiled yet


@mutable_record
class _Binding:
    names: list[tuple[str, Expression]]
    worker: str | None
    when: Condition | None


@mutable_record
class _Stage:
    name: str
    label: str
    rules: list[Rule]


class _Run:
    """The moving parts of one resolution."""

    __slots__ = (
        "because", "doubt", "events", "journal", "label", "maybe_refused", "maybe_unchecked",
        "open_names", "refused", "stage", "state", "stopped_at", "trace", "unchecked", "workers",
    )  # fmt: skip

    def __init__(self, state: RunState, workers: Mapping[str, Mapping[str, Any]]) -> None:
        self.state = state
        self.workers = workers
        self.journal: dict[str, Any] | None = None  # inside a fork: values before its writes
        self.events: list[Event] = []
        self.trace: list[Step] = []
        self.because: list[list[str]] = []
        self.doubt = 0  # how many unknown conditions lie on the way here
        self.refused = False
        self.maybe_refused = False
        self.open_names: set[str] = set()
        self.unchecked = False
        self.maybe_unchecked = False
        self.stopped_at = ""
        self.stage = ""
        self.label = ""


class Program:
    """A release's rules, compiled to closures; build it once and run it many times."""

    def __init__(self, release: Release) -> None:
        data = release["program"]
        self.release = release
        self.evaluator = Evaluator(data["definitions"])
        self.virtual_fields: dict[str, Any] = data["virtual_fields"]
        self.environment: dict[str, Any] = data["environment"]
        self.archetypes: dict[str, str] = data["archetypes"]
        self.typical_machines: list[str] = data["typical_machines"]
        self._defaults = {
            f"env.{name}": variable["default"] for name, variable in self.environment.items()
        }
        self._renamed: dict[tuple[str, int], tuple[Mapping[str, Any], dict[str, Any]]] = {}
        self.recorded: set[str] = set()
        self._watched: frozenset[str] = frozenset()
        self._without: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
        self._library_data = data["libraries"]
        self._libraries: dict[str, list[Rule]] = {}
        self.stages = [
            _Stage(stage["name"], stage["label"], self._rules(stage["rules"]))
            for stage in data["stages"]
        ]

    def _rules(self, rules: Iterable[Any]) -> list[Rule]:
        return [self._rule(rule) for rule in rules]

    def _library(self, name: str) -> list[Rule]:
        if name not in self._libraries:
            self._libraries[name] = []  # a library that uses itself finds it empty
            self._libraries[name] += self._rules(self._library_data[name])
        return self._libraries[name]

    def _rule(self, data: Any) -> Rule:
        get = data.get
        node = get("when")
        nested = not _NESTED.isdisjoint(data)
        writes = None
        if "set" in data:
            writes = [(name, self.evaluator.expression(value)) for name, value in data["set"]]
        return Rule(
            id=get("id"),
            source=get("source"),
            doc=get("doc"),
            when=None if node is None or node == ["true"] else self.evaluator.condition(node),
            node=node,
            worker=get("worker"),
            warn=get("warn"),
            advise=get("advise"),
            writes=writes,
            refuse=get("refuse"),
            unchecked=get("unchecked"),
            each=None,
            rules=None,
            choose=None,
            stop=get("stop", False),
            plain=not nested and _SPECIAL.isdisjoint(data),
            pending=data if nested else None,
        )

    def nested(self, rule: Rule) -> list[Rule]:
        """The rules and branches inside a rule, whether a run has entered them or not."""
        if rule.pending is not None:
            self._expand(rule)
        return [*(rule.rules or ()), *(rule.choose or ())]

    def _expand(self, rule: Rule) -> None:
        """Compile what is nested in a rule; most rules of most runs are never entered."""
        data, rule.pending = rule.pending, None
        if "rules" in data:
            rule.rules = self._rules(data["rules"])
        if "use" in data:
            rule.rules = [*self._library(data["use"]), *(rule.rules or [])]
        if "choose" in data:
            rule.choose = self._rules(data["choose"])
        if "each" in data:
            rule.each = [
                _Binding(
                    [
                        (name, self.evaluator.expression(value))
                        for name, value in binding.get("names", ())
                    ],
                    binding.get("worker"),
                    self.evaluator.condition(binding["when"]) if "when" in binding else None,
                )
                for binding in data["each"]
            ]

    def run(
        self,
        values: Mapping[str, Any],
        *,
        typed: Iterable[str] = (),
        platform: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        draft: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Resolve one launch.

        Args:
            values: value of every flag of the release, defaults filled in.
            typed: the flags that the user gave.
            platform: `platform.*` values (full names); None: unknown.
            model: `model.*` traits without their prefix; None: unknown.
            draft: likewise for the draft model; None: unknown, {} where there is none.
            environment: SGLang's variables as they are set.
        """
        typed = frozenset(typed)
        state = RunState(self._eager(values), values, typed, self.recorded)
        state.update(self.virtual_fields)
        if platform is not None:
            state.update(platform)
        workers: dict[str, Mapping[str, Any]] = {"model": model or {}, "draft": draft or {}}
        for prefix, traits in workers.items():
            state.update(self._prefixed(prefix, traits))
        state.update(self._environment(environment))
        run = _Run(state, workers)
        for stage in self.stages:
            run.stage, run.label = stage.name, stage.label
            self._run(stage.rules, run)
            if not run.refused and not run.unchecked and stage.label != ADVICE:
                run.stopped_at = stage.label
        startup: Startup = "starts"
        if run.refused:
            startup = "refuses"
        elif run.unchecked:
            startup = "unchecked"
        elif run.maybe_refused or run.maybe_unchecked:
            startup = "depends"
        return Outcome(
            self, startup, run.stopped_at, run.state, run.events, run.trace,
            frozenset(run.open_names),
        )  # fmt: skip

    def record(self, names: frozenset[str] = frozenset()) -> set[str]:
        """Note from now on which of the flags are read at all; returns what gathers them."""
        self._watched = names
        self.recorded = set()
        self._without = None
        return self.recorded

    def _eager(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values without those that are watched: these enter the state when they are read."""
        if not self._watched:
            return values
        if self._without is None or self._without[0] is not values:
            watched = self._watched
            rest = {name: value for name, value in values.items() if name not in watched}
            self._without = (values, rest)
        return self._without[1]

    def _prefixed(self, prefix: str, traits: Mapping[str, Any]) -> dict[str, Any]:
        """Traits under their full names; the same mapping is renamed once."""
        key = (prefix, id(traits))
        found = self._renamed.get(key)
        if found is None or found[0] is not traits:
            if len(self._renamed) >= RENAMED:
                self._renamed.clear()
            found = (traits, {f"{prefix}.{name}": value for name, value in traits.items()})
            self._renamed[key] = found
        return found[1]

    def _environment(self, environment: Mapping[str, str] | None) -> dict[str, Any]:
        """`env.*` values: those that are set, and the defaults."""
        if not environment:
            return self._defaults
        values = dict(self._defaults)
        for name, text in environment.items():
            variable = self.environment.get(name)
            if variable is not None:
                values[f"env.{name}"] = _environment_value(text, variable)
        return values

    def platform_definitions(self, platform: Mapping[str, Any]) -> dict[str, Any]:
        """Named conditions below `platform.`, decided for one machine."""
        state = NameState(platform)
        return {
            name: self.evaluator.reader(name)(state)
            for name in self.evaluator.definitions
            if name.startswith("platform.")
        }

    def _run(self, rules: list[Rule], run: _Run) -> bool | None:
        """Run rules in order; True: an early return was reached, None: it may have been."""
        state = run.state
        for position, rule in enumerate(rules):
            outcome: bool | None = False
            truth = True if rule.when is None else rule.when(state)
            if truth is False:
                continue
            if truth is None:
                outcome = self._fork([rule], run)
            elif rule.plain:
                if rule.writes is not None:
                    self._write(rule, run)
                if rule.refuse is not None:
                    self._speak("refuse", rule, rule.refuse, run)
            else:
                outcome = self._apply(rule, run)
            if outcome is True:
                return True
            if outcome is None:
                # What follows happens only where the early return did not.
                self._maybe(rules[position + 1 :], run)
                return None
        return False

    def _maybe(self, rules: list[Rule], run: _Run) -> None:
        """Run rules of which it is not known whether they are reached."""
        if not rules:
            return
        outer, run.journal = run.journal, {}
        run.doubt += 1
        self._run(rules, run)
        run.doubt -= 1
        entry, run.journal = run.journal, outer
        for name, before in entry.items():
            self._put(run, name, join(before, run.state[name]), before)

    def _fork(self, branches: list[Rule], run: _Run) -> bool | None:
        """Run the first branch that holds; with unknown conditions, every branch that may.

        Branches exclude one another: each starts from the state at the fork, and what they leave
        is joined value by value.
        """
        outcome: bool | None = False
        forked = exhaustive = False
        state, outer, worker = run.state, run.journal, run.state.worker
        entry: dict[str, Any] = {}  # values at the fork of all that any branch writes
        ends: list[dict[str, Any]] = []
        for branch in branches:
            truth = True if branch.when is None else branch.when(state)
            if truth is False:
                continue
            if truth is True and not forked:
                return self._apply(branch, run)
            forked = True
            names = self._unknown_names(branch, run) if truth is None else []
            run.open_names.update(names)
            run.because.append(names)
            run.doubt += 1
            run.journal = {}
            left = self._apply(branch, run)
            run.doubt -= 1
            run.because.pop()
            outcome = _or(outcome, None if left is not False else False)
            ends.append({name: state[name] for name in run.journal})
            entry = run.journal | entry
            state.update(run.journal)
            state.worker = worker
            if truth is True:
                exhaustive = True
                break
        run.journal = outer
        for name, before in entry.items():
            values = [] if exhaustive else [before]
            values += [end.get(name, before) for end in ends]
            value = values[0]
            for other in values[1:]:
                value = join(value, other)
            self._put(run, name, value, before)
        return outcome

    @staticmethod
    def _put(run: _Run, name: str, value: Any, before: Any) -> None:
        """Write a value; inside a fork, remember what it was."""
        if run.journal is not None:
            run.journal.setdefault(name, before)
        run.state[name] = value

    def _apply(self, rule: Rule, run: _Run) -> bool | None:
        if rule.worker is not None:
            run.state.worker = run.workers[rule.worker]
        if rule.warn is not None:
            self._speak("warn", rule, rule.warn, run)
        if rule.advise is not None:
            self._speak("advise", rule, rule.advise, run)
        if rule.writes is not None:
            self._write(rule, run)
        if rule.refuse is not None:
            self._speak("refuse", rule, rule.refuse, run)
        if rule.unchecked is not None:
            self._unchecked(rule, run)
        if rule.pending is not None:
            self._expand(rule)
        outcome: bool | None = False
        if rule.each is not None:
            for binding in rule.each:
                outcome = _or(outcome, self._bound(rule, binding, run))
        elif rule.rules is not None:
            outcome = self._run(rule.rules, run)
        if rule.choose is not None:
            outcome = _or(outcome, self._fork(rule.choose, run))
        return True if rule.stop else outcome

    def _bound(self, rule: Rule, binding: _Binding, run: _Run) -> bool | None:
        doubt = False
        if binding.when is not None:
            truth = binding.when(run.state)
            if truth is False:
                return False
            doubt = truth is None
        for name, value in binding.names:
            self._put(run, name, value(run.state), run.state[name])
        if binding.worker is not None:
            run.state.worker = run.workers[binding.worker]
        if doubt:
            self._maybe(rule.rules or [], run)
            return None
        return self._run(rule.rules or [], run)

    def _write(self, rule: Rule, run: _Run) -> None:
        state = run.state
        for name, value in [(name, write(state)) for name, write in rule.writes or ()]:
            before = state[name]
            if before is not value:
                self._put(run, name, value, before)
                if type(value) is Unknown or before != value or type(before) is not type(value):
                    run.trace.append(Step(run.stage, rule, name, before, value, run.doubt == 0))

    def _unchecked(self, rule: Rule, run: _Run) -> None:
        sure = run.doubt == 0
        if not run.refused:
            run.unchecked = run.unchecked or sure
            run.maybe_unchecked = True
        text = rule.unchecked or ""
        causes = tuple(dict.fromkeys(name for names in run.because for name in names))
        run.events.append(
            Event("unchecked", run.stage, run.label, rule, text, sure, False, causes, None)
        )

    def _speak(self, kind: Kind, rule: Rule, message: Mapping[str, Any], run: _Run) -> None:
        first = False
        sure = run.doubt == 0
        if kind == "refuse":
            if sure and not run.refused and not run.unchecked:
                run.refused = first = True
                run.stopped_at = run.label
            elif not sure:
                run.maybe_refused = True
        phase = message.get("phase")
        if phase and "{" in phase:
            phase = self.fill(phase, run.state)
        text = self.fill(message["message"], run.state)
        causes = tuple(dict.fromkeys(name for names in run.because for name in names))
        run.events.append(Event(kind, run.stage, run.label, rule, text, sure, first, causes, phase))

    def _unknown_names(self, rule: Rule, run: _Run) -> list[str]:
        """Names whose unknown value keeps the rule's own condition open."""
        if rule.node is None:
            return []
        return [
            name
            for name in names_in(rule.node)
            if type(self.evaluator.reader(name)(run.state)) is Unknown
        ]

    def fill(self, text: str, state: NameState) -> str:
        """Put the values of `{name}` into a message."""
        if "{" not in text:
            return text

        def value(match: re.Match[str]) -> str:
            found = self.evaluator.reader(match[1])(state)
            if found is None:
                return "unset"
            if isinstance(found, (list, tuple)):
                found = ", ".join(map(str, found))
            try:
                return plain(str(found), _LONGEST_VALUE)
            except ValueError:  # a number of more digits than Python writes out
                return "a huge number"

        return _PLACEHOLDER.sub(value, text)


class RunState(NameState):
    """The state of a run: `raw.X` and `typed.X` answer from what was given, `worker.X` from the
    model that is in turn.
    """

    __slots__ = ("given", "recorded", "typed", "worker")

    def __init__(
        self,
        state: Mapping[str, Any],
        given: Mapping[str, Any],
        typed: frozenset[str],
        recorded: set[str],
    ) -> None:
        super().__init__(state)
        self.given = given
        self.typed = typed
        self.recorded = recorded
        self.worker: Mapping[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        if name in self.given:  # a flag that is watched
            self.recorded.add(name)
            value = self[name] = self.given[name]
            return value
        space, _, rest = name.partition(".")
        if space == "worker":
            return self.worker.get(rest, UNKNOWN)
        if space == "raw":
            self.recorded.add(rest)
            return self.given.get(rest, UNKNOWN)
        if space == "typed":
            return rest in self.typed
        return UNKNOWN


def _or(first: bool | None, second: bool | None) -> bool | None:
    if first is True or second is True:
        return True
    return None if first is None or second is None else False


def _environment_value(text: str, variable: Mapping[str, Any]) -> Any:
    kind = variable["type"]
    if kind == "bool":
        return text.strip().lower() in {"1", "true", "yes", "y", "on"}
    if kind in {"int", "float"}:
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            return variable["default"]
    return text
