"""Runs the stages of a release over one launch, in the release's own order.

The last writer wins, as in SGLang: every rule sees what earlier rules decided. The first refusal
decides the verdict; later ones are collected too, so that a user can mend all at once. Where a
condition is unknown, its effects are kept as possibilities.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...matrix.conditions import names_in
from ...matrix.loader import Release
from .evaluate import Condition, Evaluator, Expression, NameState
from .values import UNKNOWN, Unknown, join

Kind = Literal["refuse", "warn", "advise", "unchecked"]
Startup = Literal["starts", "refuses", "depends", "unchecked"]

_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_.]*)\}")


@dataclass(frozen=True, slots=True)
class Step:
    """One write of the resolution: who set what, from what."""

    stage: str
    rule: Rule
    field: str
    before: Any
    after: Any
    certain: bool


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
class Outcome:
    """What became of a launch."""

    program: Program
    startup: Startup
    stage: str
    state: NameState
    events: list[Event]
    trace: list[Step]
    open_names: frozenset[str]

    def reads_unknown(self, prefix: str) -> bool:
        """Whether an unknown value below `prefix` left any condition open."""
        return any(name.startswith(prefix) for name in self.open_names)


@dataclass(slots=True, eq=False)
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


@dataclass(slots=True)
class _Binding:
    names: list[tuple[str, Expression]]
    worker: str | None
    when: Condition | None


@dataclass(slots=True)
class _Stage:
    name: str
    label: str
    rules: list[Rule]


class _Run:
    """The moving parts of one resolution."""

    __slots__ = (
        "because", "doubt", "events", "installed", "label", "maybe_refused", "maybe_unchecked",
        "open_names", "refused", "stage", "state", "stopped_at", "trace", "unchecked", "workers",
    )  # fmt: skip

    def __init__(self, state: NameState, workers: Mapping[str, Mapping[str, Any]]) -> None:
        self.state = state
        self.workers = workers
        self.installed: Mapping[str, Any] = {}  # the `worker.*` values in place
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
        nested = self._rules(data["rules"]) if "rules" in data else None
        if "use" in data:
            nested = [*self._library(data["use"]), *(nested or [])]
        each = None
        if "each" in data:
            each = [
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
            each=each,
            rules=nested,
            choose=self._rules(data["choose"]) if "choose" in data else None,
            stop=get("stop", False),
            plain=not (
                "warn" in data or "advise" in data or "unchecked" in data or "each" in data
                or "worker" in data or "choose" in data or "stop" in data or nested is not None
            ),
        )  # fmt: skip

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
        state = NameState(values)
        state.update(self.virtual_fields)
        if platform is not None:
            state.update(platform)
        workers: dict[str, Mapping[str, Any]] = {"model": model or {}, "draft": draft or {}}
        for prefix, traits in workers.items():
            for name, value in traits.items():
                state[f"{prefix}.{name}"] = value
        for name, variable in self.environment.items():
            text = None if environment is None else environment.get(name)
            state["env." + name] = (
                variable["default"] if text is None else _environment_value(text, variable)
            )
        run = _Run(_Raw(state, values, frozenset(typed)), workers)
        for stage in self.stages:
            run.stage, run.label = stage.name, stage.label
            self._run(stage.rules, run)
            if not run.refused and not run.unchecked:
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
        left: bool | None = False
        for position, rule in enumerate(rules):
            if rule.when is not None:
                truth = rule.when(state)
                if truth is False:
                    continue
                if truth is None:
                    if self._fork([rule], run) is not False:
                        # What follows happens only where the early return did not.
                        rest = rules[position + 1 :]
                        if rest:
                            self._maybe(rest, run)
                        return None
                    continue
            if rule.plain:
                if rule.writes is not None:
                    self._write(rule, run)
                if rule.refuse is not None:
                    self._speak("refuse", rule, rule.refuse, run)
                continue
            outcome = self._apply(rule, run)
            if outcome is True:
                return True
            if outcome is None:
                left = None
                rest = rules[position + 1 :]
                if rest:
                    self._maybe(rest, run)
                return None
        return left

    def _maybe(self, rules: list[Rule], run: _Run) -> None:
        """Run rules of which it is not known whether they are reached."""
        entry = dict(run.state)
        run.doubt += 1
        self._run(rules, run)
        run.doubt -= 1
        self._merge([entry], run)

    def _fork(self, branches: list[Rule], run: _Run) -> bool | None:
        """Run the first branch that holds; with unknown conditions, every branch that may.

        Branches exclude one another: each starts from the state at the fork, and what they leave
        is joined value by value.
        """
        outcome: bool | None = False
        entry: dict[str, Any] | None = None
        ends: list[dict[str, Any]] = []
        for branch in branches:
            truth = True if branch.when is None else branch.when(run.state)
            if truth is False:
                continue
            if entry is None:
                if truth is True:
                    return self._apply(branch, run)
                entry = dict(run.state)
            run.doubt += 1
            names = self._unknown_names(branch, run) if truth is None else []
            run.because.append(names)
            run.open_names.update(names)
            left = self._apply(branch, run)
            run.because.pop()
            run.doubt -= 1
            outcome = _or(outcome, None if left is not False else False)
            if truth is True:
                break
            ends.append(dict(run.state))
            self._restore(entry, run)
        if entry is not None:
            self._merge(ends, run)
        return outcome

    @staticmethod
    def _restore(entry: dict[str, Any], run: _Run) -> None:
        run.state.clear()
        run.state.update(entry)

    @staticmethod
    def _merge(ends: list[dict[str, Any]], run: _Run) -> None:
        state = run.state
        for end in ends:
            for name, value in end.items():
                current = state[name]
                if current is not value:
                    state[name] = join(current, value)

    def _apply(self, rule: Rule, run: _Run) -> bool | None:
        if rule.worker is not None:
            self._install(rule.worker, run)
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
            run.state[name] = value(run.state)
        if binding.worker is not None:
            self._install(binding.worker, run)
        if doubt:
            self._maybe(rule.rules or [], run)
            return None
        return self._run(rule.rules or [], run)

    @staticmethod
    def _install(worker: str, run: _Run) -> None:
        state = run.state
        # A fork may have put back values of a worker installed before it.
        stale = [n for n in state if n.startswith("worker.")] if run.doubt else run.installed
        for name in stale:
            state.pop(name, None)
        traits = {f"worker.{name}": value for name, value in run.workers[worker].items()}
        state.update(traits)
        run.installed = traits

    @staticmethod
    def _write(rule: Rule, run: _Run) -> None:
        state = run.state
        for name, value in [(name, write(state)) for name, write in rule.writes or ()]:
            before = state[name]
            if before is not value:
                state[name] = value
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
            if isinstance(found, (list, tuple)):
                return ", ".join(map(str, found))
            return str(found)

        return _PLACEHOLDER.sub(value, text)


class _Raw(NameState):
    """The state of a run: `raw.X` and `typed.X` answer from what was given."""

    __slots__ = ("_given", "_typed")

    def __init__(
        self, state: Mapping[str, Any], given: Mapping[str, Any], typed: frozenset[str]
    ) -> None:
        super().__init__(state)
        self._given = given
        self._typed = typed

    def __missing__(self, name: str) -> Any:
        if name.startswith("raw."):
            return self._given.get(name[4:], UNKNOWN)
        if name.startswith("typed."):
            return name[6:] in self._typed
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
