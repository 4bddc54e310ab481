"""Turns parse problems and the resolver's events into findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..matrix.conditions import names_in
from ..matrix.loader import Release
from ..matrix.record import replaced
from .findings import SEVERITIES, Finding, Fix, Severity, Span
from .flags import FlagTable, ParsedLaunch, ParseProblem
from .model import ModelProblem
from .resolver.engine import Event, Outcome, Rule, Step
from .resolver.values import Unknown
from .terminal import plain

if TYPE_CHECKING:
    from .judge import Context


#: How many problems of one command line get near names; looking for them costs milliseconds each,
#: and a line with more of them is none that somebody mistyped.
HINTED = 20

#: Names that still work; the parser and a rule may both say so of one flag.
_DEPRECATED = "ATT106"

#: What the names that are no flags of a launch are about.
_GIVEN = {
    "gpu": "the machine", "platform": "the machine", "model": "the model", "worker": "the model",
    "draft": "the draft model",
}  # fmt: skip

#: The one trait of a model that no other model of its family shares.
_ARCHITECTURE = "model.arch"


def describe_source(source: Mapping[str, Any] | None) -> str | None:
    """A source as one line: `file symbol`, or a page."""
    if not source:
        return None
    if source.get("url"):
        return str(source["url"])
    symbol = source.get("symbol")
    return f"{source['file']} {symbol}" if symbol else str(source["file"])


def shown(value: Any) -> str:
    """A value as a user would type it."""
    if type(value) is Unknown:
        if value.candidates is None:
            return "unknown"
        return " or ".join(shown(candidate) for candidate in value.candidates)
    if value is None:
        return "unset"
    if value is True:
        return "on"
    if value is False:
        return "off"
    try:
        text = str(value)
    except ValueError:  # a number of more digits than Python writes out
        return "a huge number"
    return plain(text)


class Statements:
    """Words and codes for what a release's rules decide."""

    def __init__(self, release: Release, flags: FlagTable) -> None:
        self.flags = flags
        self.release = release.name
        data = release["codes"]
        self.codes: dict[str, Mapping[str, Any]] = data["codes"]
        self.changes: dict[str, str] = data.get("changed_fields", {})
        self.open_values: list[str] = data.get("open_values", [])
        self.same: dict[str, list[list[str]]] = data.get("same_values", {})
        self.renamed: list[Mapping[str, Any]] = data.get("renamed_values", [])
        self.kinds: dict[str, str] = data.get("parse_problems", {})
        self.inert: list[Mapping[str, Any]] = data.get("inert_flags", [])

    def findings(
        self,
        parsed: ParsedLaunch,
        outcome: Outcome,
        platform: Mapping[str, Any] | None,
        model_problems: Iterable[ModelProblem],
    ) -> list[Finding]:
        """All findings of one resolution, the gravest first, each once."""
        found = [
            self._parse_problem(problem, hinted=number < HINTED)
            for number, problem in enumerate(parsed.problems)
        ]
        found += [self._model_problem(problem) for problem in model_problems]
        told = {(one.code, one.flags[:1]) for one in found if one.code == _DEPRECATED}
        events = (self._event(event, parsed, outcome, platform) for event in outcome.events)
        found += [one for one in events if (one.code, one.flags[:1]) not in told]
        found = self._with_changes(found, self._changes(parsed, outcome))
        found += self._renamed_values(parsed)
        return self.ordered(found)

    @staticmethod
    def _with_changes(found: list[Finding], changes: Iterable[Finding]) -> list[Finding]:
        """A replaced value is told once: by its rule's own words, with what writes it out."""
        found = list(found)
        for change in changes:
            own = next(
                (
                    number
                    for number, one in enumerate(found)
                    if (one.code, one.certain, one.flags[:1]) == (change.code, True, change.flags)
                ),
                None,
            )
            if own is None or not change.certain:
                found.append(change)
            elif not found[own].fixes:
                found[own] = replaced(found[own], fixes=change.fixes)
        return found

    @staticmethod
    def ordered(findings: Iterable[Finding]) -> list[Finding]:
        """Each finding once, the gravest first."""
        unique: dict[tuple[Any, ...], Finding] = {}
        for finding in findings:
            unique.setdefault((finding.code, finding.message, finding.phase), finding)
        return sorted(unique.values(), key=lambda finding: SEVERITIES.index(finding.severity))

    def inert_findings(
        self,
        parsed: ParsedLaunch,
        entry: Mapping[str, Any],
        typed: list[str],
        outcome: Outcome,
        platform: Mapping[str, Any] | None,
    ) -> list[Finding]:
        """Findings about flags without effect, and about what `entry["assume"]` would meet."""
        missing = self._flag(entry["without"])
        found = [
            self.finding(
                "ATT307",
                f"{self._flag(name)} has no effect without {missing}",
                stage="advice",
                label="advice",
                flags=(self._flag(name), missing),
                typed=True,
                span=self._span(parsed, name),
            )
            for name in typed
        ]
        for event in outcome.events:
            if event.kind != "refuse" or not event.certain:
                continue
            fields = [*(event.rule.refuse or {}).get("about", ()), *self._fields_of(event.rule)]
            concerned = next((name for name in typed if name in fields), None)
            if concerned is None:
                continue
            finding = self._event(event, parsed, outcome, platform)
            found.append(
                replaced(
                    finding,
                    severity="warning",
                    message=f"With {missing} {entry['assume']} this would be refused: "
                    f"{finding.message}",
                    span=self._span(parsed, concerned),
                )
            )
        return found

    def finding(self, code: str, message: str, **more: Any) -> Finding:
        """A finding with the name and severity of its code."""
        entry = self.codes[code]
        severity: Severity = more.pop("severity", None) or entry["severity"]
        return Finding(code, entry["name"], severity, message, release=self.release, **more)

    def _parse_problem(self, problem: ParseProblem, *, hinted: bool) -> Finding:
        fixes: tuple[Fix, ...] = ()
        if problem.kind == "removed" and problem.field and problem.replacement:
            fixes = (Fix(problem.field, problem.flag or "", problem.replacement),)
        config = problem.config
        return self.finding(
            self.kinds[problem.kind],
            problem.message,
            severity="error" if problem.refuses else None,
            label="parse",
            stage="parse",
            flags=(problem.flag,) if problem.flag else (),
            typed=True if problem.flag else None,
            span=Span(
                argument=problem.index,
                file=config.path if config else None,
                line=config.line if config else None,
            ),
            certain=problem.refuses is not None,
            hint=problem.hint if hinted else None,
            fixes=fixes,
            source=problem.source,
        )

    def _model_problem(self, problem: ModelProblem) -> Finding:
        return self.finding(
            "ATT219", problem.message, label="resolve", stage="model-config", hint=problem.hint,
            flags=("--model-path",),
        )  # fmt: skip

    def _event(
        self,
        event: Event,
        parsed: ParsedLaunch,
        outcome: Outcome,
        platform: Mapping[str, Any] | None,
    ) -> Finding:
        rule = event.rule
        if event.kind == "unchecked":
            return self.finding(
                "ATT902", event.text, stage=event.stage, label=event.label, rule=rule.id,
                certain=event.certain, source=describe_source(rule.source),
            )  # fmt: skip
        message = getattr(rule, event.kind)
        fields = message.get("about") or self._fields_of(rule)
        fields = sorted(fields, key=lambda name: _of_other_phase(name, event.phase))
        typed = [name for name in fields if name in parsed.typed]
        # What the user typed comes first: that is what can be pointed at.
        fields = [*typed, *(name for name in fields if name not in parsed.typed)]
        span = None
        if typed:
            span = self._span(parsed, typed[0])
        severity = message.get("severity")
        if severity is None and event.kind == "refuse":
            severity = "error"
        has = None
        if platform is not None and self._reads_platform(rule):
            has = f"{platform['platform.architecture']} ({platform['platform.name']})"
        return self.finding(
            message["code"],
            event.text,
            severity=severity,
            stage=event.stage,
            label=event.label,
            phase=event.phase,
            flags=tuple(self._flag(name) for name in fields if name in self.flags.by_field),
            typed=bool(typed) if fields else None,
            span=span,
            certain=event.certain,
            depends_on=event.depends_on,
            needs=message.get("needs"),
            has=has,
            hint=message.get("hint"),
            fixes=tuple(
                Fix(name, self._flag(name), value)
                for name, value in (message.get("fix") or {}).items()
                if value is not None or name in parsed.typed  # nothing else can be removed
            ),
            source=describe_source(message.get("source") or rule.source),
            rule=rule.id,
        )

    def _changes(self, parsed: ParsedLaunch, outcome: Outcome) -> list[Finding]:
        """Values that the user typed and that SGLang replaces without being asked."""
        last: dict[str, Step] = {step.field: step for step in outcome.trace}
        found = []
        for name in parsed.typed:
            given = parsed.values.get(name)
            if name not in last or name not in self.changes:
                continue
            step = last[name]
            after = outcome.state[name]
            if given in self.open_values or self._is_same(name, given, after):
                continue
            if type(given) is Unknown:
                continue
            certain = type(after) is not Unknown
            code = self.changes[name]
            flag = self._flag(name)
            found.append(
                self.finding(
                    code,
                    f"{flag} {shown(given)} becomes {shown(after)}"
                    if certain
                    else f"{flag} {shown(given)} may become another value: {shown(after)}",
                    stage=step.stage,
                    flags=(flag,),
                    typed=True,
                    span=self._span(parsed, name),
                    certain=certain,
                    fixes=(Fix(name, flag, after, safe=True),) if certain else (),
                    source=describe_source(step.rule.source),
                    rule=step.rule.id,
                )
            )
        return found

    def _renamed_values(self, parsed: ParsedLaunch) -> list[Finding]:
        """Typed values that have a newer name."""
        found = []
        for entry in self.renamed:
            for name in entry["flags"]:
                if name not in parsed.typed or parsed.values.get(name) != entry["value"]:
                    continue
                flag = self._flag(name)
                found.append(
                    self.finding(
                        "ATT106",
                        f"{flag} {entry['value']} still works but is a deprecated name of "
                        f"{entry['name']}",
                        label="advice",
                        stage="advice",
                        flags=(flag,),
                        typed=True,
                        span=self._span(parsed, name),
                        fixes=(Fix(name, flag, entry["name"], safe=True),),
                        source=describe_source(entry["source"]),
                    )
                )
        return found

    def _is_same(self, name: str, given: Any, after: Any) -> bool:
        """Whether a typed value is still what it was, under whatever name."""
        if type(after) is Unknown:
            return False
        if isinstance(given, str) and isinstance(after, str):
            given, after = given.lower(), after.lower()
            for names in self.same.get(name, ()):
                if {given, after} <= {one.lower() for one in names}:
                    return True
        return bool(given == after)

    def _span(self, parsed: ParsedLaunch, name: str) -> Span:
        place = parsed.typed[name]
        return Span(argument=place.index, file=place.file, line=place.line)

    def _flag(self, name: str) -> str:
        return self.flags.spelling(name)

    def _fields_of(self, rule: Rule) -> list[str]:
        """Flags that a rule's own condition reads, facts taken apart."""
        from ..matrix.facts import FACTS

        fields: list[str] = []

        def add(name: str) -> None:
            if name.startswith("fact."):
                for argument in FACTS[name[5:]].arguments:
                    add(argument)
                return
            name = name.removeprefix("raw.").removeprefix("typed.")
            if name in self.flags.by_field and name not in fields:
                fields.append(name)

        for name in names_in(rule.node or []):
            add(name)
        return fields

    def spoiling_fields(self, outcome: Outcome) -> set[str]:
        """Flags whose values stop this launch, or spoil it later on: these do have an effect."""
        found: set[str] = set()
        for event in outcome.events:
            if not event.certain or event.kind not in ("refuse", "advise"):
                continue
            message = getattr(event.rule, event.kind)
            if event.kind == "refuse" or self.codes[message["code"]].get("then"):
                found.update(message.get("about") or self._fields_of(event.rule))
        return found

    @staticmethod
    def _reads_platform(rule: Rule) -> bool:
        return any(name.startswith("platform.") for name in names_in(rule.node or []))

    @staticmethod
    def asks_for_architecture(event: Event) -> bool:
        """Whether a rule itself tells architectures apart.

        The models that stand for a family have its traits, but an architecture of their own: such
        a rule says nothing about another model.
        """
        return _ARCHITECTURE in names_in(event.rule.node or [])

    def _is_bound(self, finding: Finding, context: Context) -> bool:
        """Whether a finding holds for the architecture of the context's model only."""
        return any(
            event.rule.id == finding.rule and self.asks_for_architecture(event)
            for event in context.judgement.outcome.events
        )

    @staticmethod
    def standing(findings: Iterable[Finding], apart: Iterable[Finding]) -> list[Finding]:
        """Findings that do not hang on values which are refused: what is certain whatever they
        were meant to be, and what is open without them as well.
        """
        open_apart = {
            (finding.code, finding.rule, finding.phase) for finding in apart if not finding.certain
        }
        return [
            finding
            for finding in findings
            if finding.certain or (finding.code, finding.rule, finding.phase) in open_apart
        ]

    def worded(
        self, findings: Iterable[Finding], parsed: ParsedLaunch, outcome: Outcome
    ) -> list[Finding]:
        """The findings; those that are not certain say what they hang on in the user's words."""
        return [
            finding
            if finding.certain
            else replaced(finding, hangs_on=self._hangs_on(finding, parsed, outcome))
            for finding in findings
        ]

    def _hangs_on(
        self, finding: Finding, parsed: ParsedLaunch, outcome: Outcome
    ) -> tuple[str, ...]:
        """Flags, machine and models which the names that a finding depends on come down to.

        A value that SGLang works out may come from anything that the launch leaves open.
        """
        if not finding.depends_on and finding.label == "parse":
            return ()  # what a plugin might add is nothing that the launch could tell
        words: dict[str, None] = {}
        worked_out = not finding.depends_on
        waiting = list(reversed(finding.depends_on))
        while waiting:
            name = waiting.pop()
            space, _, rest = name.partition(".")
            field = rest if space in ("raw", "typed") else name
            if space in _GIVEN:
                words[_GIVEN[space]] = None
            elif type(parsed.values.get(field)) is Unknown:
                words[self._flag(field)] = None
            else:
                within = self._read_by(name, outcome)
                waiting += within
                worked_out = worked_out or not within
        if worked_out:
            words.update(self._left_open(parsed, outcome))
        return tuple(words)

    @staticmethod
    def _read_by(name: str, outcome: Outcome) -> list[str]:
        """Names that a fact is made of; none of what is no fact."""
        from ..matrix.facts import FACTS

        fact = FACTS.get(name[5:]) if name.startswith("fact.") else None
        if fact is None:
            return []
        state = outcome.program.evaluator
        return [
            one
            for one in reversed(fact.arguments)
            if type(state.reader(one)(outcome.state)) is Unknown
        ]

    def _left_open(self, parsed: ParsedLaunch, outcome: Outcome) -> dict[str, None]:
        """All that a launch leaves open, in words."""
        words = {
            self._flag(name): None
            for name, value in parsed.values.items()
            if type(value) is Unknown
        }
        for name, word in (("platform.kind", "platform"), ("model.arch", "model")):
            if type(outcome.state[name]) is Unknown:
                words[_GIVEN[word]] = None
        return words

    def merge(self, base: list[Finding], contexts: list[Context], *, exact: bool) -> list[Finding]:
        """Findings of a launch that leaves GPU or model open; `exact` where the model is known.

        What the open run proves is certain. The rest comes from the contexts that were tried and
        says for which it holds; what they all share is certain too, unless it hangs on the
        architecture of a model that is not known.
        """
        kept = [finding for finding in base if finding.certain]
        known = {(finding.code, finding.rule, finding.phase) for finding in kept}
        found: dict[tuple[Any, ...], tuple[Finding, list[Context]]] = {}
        for context in contexts:
            for finding in context.judgement.findings:
                key = (finding.code, finding.rule, finding.phase)
                if finding.certain and key not in known:
                    entry = found.setdefault(key, (finding, []))
                    if context not in entry[1]:
                        entry[1].append(context)
        for first, where in found.values():
            finding = replaced(first, message=_for_models(first.message, where))
            if len(where) == len(contexts) and (exact or not self._is_bound(finding, where[0])):
                kept.append(replaced(finding, has=None))
            else:
                kept.append(_conditional(finding, where, contexts))
        return sorted(
            kept, key=lambda finding: (not finding.certain, SEVERITIES.index(finding.severity))
        )


def _for_models(message: str, where: list[Context]) -> str:
    """A message that names the model of its first context, in words that suit all of them."""
    models = [context.judgement.model for context in where]
    names = [model.traits["arch"] for model in models if model is not None]
    if len(set(names)) < 2:
        return message
    if message.startswith(names[0]):
        return f"The model{message.removeprefix(names[0])}"
    return message.replace(names[0], "the model")


def _of_other_phase(field: str, phase: str | None) -> bool:
    """Whether a flag is, by its name, of decode where a finding is of prefill, or the reverse."""
    other = {"prefill": "decode", "decode": "prefill"}.get(phase or "")
    return other in field.split("_")


def _conditional(finding: Finding, where: list[Context], contexts: list[Context]) -> Finding:
    """A finding of some contexts only, with the machines and families that it holds for.

    Machines are told apart for the first family alone, the one that was tried on all of them.
    """
    families = tuple(dict.fromkeys(context.family for context in where if context.family))
    tried = {context.family for context in contexts}
    first = contexts[0].family
    gpus = tuple(context.gpu for context in where if context.family == first)
    everywhere = len(gpus) == sum(context.family == first for context in contexts)
    depends = []
    if gpus and not everywhere:
        depends.append("gpu")
    if len(families) < len(tried - {None}):
        depends.append("model")
    return replaced(
        finding,
        certain=False,
        has=None,
        platforms=gpus if "gpu" in depends else (),
        families=families if "model" in depends else (),
        depends_on=tuple(depends) or ("model",),
    )
