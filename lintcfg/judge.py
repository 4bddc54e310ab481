"""Judges one launch: parses it, reads the model, runs the resolver, states what it found.

A `Judge` holds everything that launches share and is built once per release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..matrix.loader import Release
from ..matrix.record import field, mutable_record, record, replaced
from .findings import Finding
from .flags import FlagTable, ParsedLaunch, ParseProblem, load_flags, parse
from .model import ModelProblem, ModelTraits
from .platforms import Platforms
from .resolver.engine import Outcome, Program, Startup
from .resolver.values import Unknown
from .statements import Statements

#: Fields of a verdict under the names that SGLang's own resolution gives them; `prefill_effective`
#: and `decode_effective` are the backends that serve each phase.
RESOLVED_FIELDS = (
    "attention_backend", "prefill_attention_backend", "decode_attention_backend", "page_size",
    "kv_cache_dtype", "speculative_algorithm", "speculative_eagle_topk", "speculative_num_steps",
    "speculative_num_draft_tokens", "speculative_attention_mode",
    "speculative_draft_attention_backend", "dsa_prefill_backend", "dsa_decode_backend",
    "linear_attn_backend", "linear_attn_decode_backend", "linear_attn_prefill_backend",
    "linear_attn_verify_backend", "mm_attention_backend", "disable_radix_cache",
    "cuda_graph_decode_backend", "cuda_graph_prefill_backend",
)  # fmt: skip


@record
class Launch:
    """One engine start: what follows the launch command, and what is known about where it runs.

    Attributes:
        argv: arguments of SGLang, without the command itself.
        environment: SGLang's variables as set for this launch.
        gpu: name of the machine, or None where it is not known.
        kind: kind of the machine, where no more is known of it.
        cuda: CUDA version where it differs from the machine's usual one.
        model: stands for the value of `--model-path`; draft: for that of the draft path.
        before: what the command word itself got wrong.
        unknown: positions in argv of words that only a shell could fill in.
        partial: argv is only part of a command line, so no flag is missed in it.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    gpu: str | None = None
    kind: str | None = None
    cuda: str | None = None
    model: str | None = None
    draft: str | None = None
    before: tuple[ParseProblem, ...] = ()
    unknown: frozenset[int] = frozenset()
    partial: bool = False


@record
class Context:
    """A machine, and a family of models where the model is not known, with its judgement."""

    gpu: str
    family: str | None
    judgement: Judgement


@mutable_record
class Judgement:
    """The verdict on a launch and everything that led to it.

    `contexts` are the machines and families of models that were tried where the launch leaves
    them open; `model_problem` is why its model cannot be read; `apart` is the judgement without
    the values that the parser refuses.
    """

    launch: Launch
    parsed: ParsedLaunch
    startup: Startup
    stage: str
    findings: list[Finding]
    outcome: Outcome
    gpu: str | None
    model: ModelTraits | None
    contexts: list[Context] = field(default_factory=list)
    model_problem: ModelProblem | None = None
    apart: Judgement | None = None

    def resolved(self) -> dict[str, Any]:
        """Resolved values under SGLang's names; a value that is not known is a list of options."""
        state = self.outcome.state
        out = {}
        for name in RESOLVED_FIELDS:
            if name in state:
                out[name] = _plain(state[name])
        out["prefill_effective"] = _plain(self.read("fact.prefill_backend"))
        out["decode_effective"] = _plain(self.read("fact.decode_backend"))
        return out

    def then(self, findings: Sequence[Finding]) -> str | None:
        """What a launch that SGLang lets start is known to do, by these findings: `fails`,
        `answers wrongly`, or None where nothing is known against it.
        """
        if self.startup != "starts":
            return None
        codes = self.outcome.program.release["codes"]["codes"]
        known = {codes[finding.code].get("then") for finding in findings if finding.certain}
        return next((one for one in ("fails", "answers wrongly") if one in known), None)

    def read(self, name: str) -> Any:
        """The final value of any name that rules can read."""
        return self.outcome.program.evaluator.reader(name)(self.outcome.state)


def _plain(value: Any) -> Any:
    if type(value) is Unknown:
        return {"unknown": list(value.candidates) if value.candidates is not None else None}
    return value


class Judge:
    """Judges launches of one release."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.flags: FlagTable = load_flags(release)
        self.program = Program(release)
        self.platforms = Platforms(release["platforms"])
        self.statements = Statements(release, self.flags)
        self._platform_states: dict[tuple[str, str, str | None], dict[str, Any]] = {}

    def platform_state(self, gpu: str, cuda: str | None) -> dict[str, Any]:
        """`platform.*` values of a machine, with the named conditions that hang on it alone."""
        return self._known_state(gpu, cuda, self.platforms.values)

    def _kind(self, launch: Launch) -> str | None:
        """The kind of machine that a launch without a GPU is for, where there are any of it."""
        return launch.kind if self.platforms.representatives(launch.kind) else None

    def _kind_state(self, kind: str, cuda: str | None) -> dict[str, Any]:
        """What `platform_state` gives, as far as all machines of a kind have it in common."""
        return self._known_state(kind, cuda, self.platforms.shared_values)

    def _known_state(
        self, name: str, cuda: str | None, values: Callable[[str, str | None], dict[str, Any]]
    ) -> dict[str, Any]:
        key = (values.__name__, name, cuda)
        found = self._platform_states.get(key)
        if found is None:
            found = values(name, cuda)
            found.update(self.program.platform_definitions(found))
            self._platform_states[key] = found
        return found

    def judge(self, launch: Launch) -> Judgement:
        """Judge one launch.

        An unknown GPU or model is first left open, which proves what holds for any; then every
        class of machine and a model of every family is put in its place, so that the answer can
        say where it starts and where it does not. Where the kind of machine is known, these are
        the machines of that kind.

        Raises:
            UsageError: the GPU or the CUDA version is not one.
            InputError: a model's configuration is there but cannot be read.
        """
        argv = _with_models(list(launch.argv), launch, self.flags)
        parsed = parse(
            argv,
            self.flags,
            launch.environment,
            before=launch.before,
            unknown=launch.unknown,
            partial=launch.partial,
        )
        meant = dict(parsed.values)
        opened = self._leave_open(parsed)
        judgement = self._judge_parsed(launch, parsed)
        if opened:
            apart = self._judge_parsed(launch, replaced(parsed, values=meant))
            judgement.apart = apart
            judgement.findings = self.statements.standing(judgement.findings, apart.findings)
        judgement.findings = self.statements.worded(judgement.findings, parsed, judgement.outcome)
        return judgement

    def _judge_parsed(self, launch: Launch, parsed: ParsedLaunch) -> Judgement:
        """Judge what the parser made of a launch, with its models and machines."""
        model, model_problem = self._model(parsed.values.get("model_path"), parsed, draft=False)
        draft, draft_problem = self._draft(parsed)
        problems = [problem for problem in (model_problem, draft_problem) if problem]
        gpu = self.platforms.find(launch.gpu) if launch.gpu is not None else None
        judgement = self._judge_on(launch, parsed, gpu, model, draft, problems)
        judgement.model_problem = model_problem
        self._add_inert(judgement)
        if model_problem is not None:
            # Nothing more can be told of a model whose configuration is refused.
            judgement.findings = [finding for finding in judgement.findings if finding.certain]
        elif gpu is None or model is None:
            self._explore(judgement, problems, draft)
        else:
            self._weigh_fixes(judgement, draft)
        return judgement

    def _weigh_fixes(self, judgement: Judgement, draft: Mapping[str, Any] | None) -> None:
        """Offer no fix that gives a flag a value which is refused here as well."""
        before = {(one.code, one.message) for one in judgement.findings if one.certain}
        weighed = []
        for finding in judgement.findings:
            if finding.certain and finding.severity == "error" and finding.fixes:
                flags = {fix.flag for fix in finding.fixes}
                after = self._after(finding, judgement, draft)
                met = [
                    one
                    for one in after
                    if one.certain and one.severity == "error" and flags.intersection(one.flags)
                    and (one.code, one.message) not in before
                ]  # fmt: skip
                if met:
                    why = f"{finding.fixes[0]} is no way out here: {met[0].code} {met[0].message}"
                    hint = f"{finding.hint}; {why}" if finding.hint else why
                    finding = replaced(finding, fixes=(), hint=hint)
            weighed.append(finding)
        judgement.findings = weighed

    def _after(
        self, finding: Finding, judgement: Judgement, draft: Mapping[str, Any] | None
    ) -> list[Finding]:
        """What the launch meets once a finding's fixes are made."""
        values = dict(judgement.parsed.values)
        for fix in finding.fixes:
            gone = fix.value is None
            values[fix.field] = self.flags.defaults[fix.field] if gone else fix.value
        parsed = replaced(judgement.parsed, values=values, problems=[])
        return self._judge_on(
            judgement.launch, parsed, judgement.gpu, judgement.model, draft, []
        ).findings

    def _leave_open(self, parsed: ParsedLaunch) -> bool:
        """Open what a refused value or a former flag was meant to set; whether there is any.

        The launch is refused already; what its defaults would have met is nobody's question.
        """
        opened = False
        for problem in parsed.problems:
            if not problem.refuses:
                continue
            named = [text.replace("=", " ").split(" ")[0] for text in problem.replacements]
            meant = [self.flags.by_name[name].field for name in named if name in self.flags.by_name]
            if problem.value is not None and problem.field is not None:
                meant.append(problem.field)
            for name in meant:
                if name not in parsed.typed:
                    parsed.values[name] = Unknown()
                    opened = True
        return opened

    def _explore(
        self,
        judgement: Judgement,
        problems: list[ModelProblem],
        draft: Mapping[str, Any] | None,
    ) -> None:
        """Put machines and models in place of what is not known, and add what they show."""
        launch, parsed = judgement.launch, judgement.parsed
        gpus = [judgement.gpu]
        if judgement.gpu is None:
            gpus = [*self.platforms.representatives(self._kind(launch))]
        exact = judgement.model is not None
        families: list[tuple[str | None, ModelTraits | None]] = [(None, judgement.model)]
        if not exact:
            families = [*self.archetypes()]
        typical = [gpu for gpu in gpus if gpu in self.program.typical_machines] or gpus
        for number, (family, model) in enumerate(families):
            own_draft = draft
            if family is not None and parsed.values.get("speculative_algorithm") is not None:
                own_draft = self._archetype_draft(family, parsed, draft)
            # The first family is tried on every machine, the others on those that people have.
            tried = gpus if number == 0 or len(gpus) == 1 else typical
            for gpu in tried:
                has_cuda = gpu is None or self.platforms.by_name[gpu]["kind"] == "cuda"
                there = launch if has_cuda else replaced(launch, cuda=None)
                one = self._judge_on(there, parsed, gpu, model, own_draft, problems)
                judgement.contexts.append(Context(gpu or "", family, one))
        self._explore_inert(judgement)
        verdicts = {one.judgement.startup for one in judgement.contexts}
        alike = judgement.startup == "depends" and len(verdicts) == 1
        if alike and (exact or self._speak_for_others(judgement.contexts)):
            judgement.startup = verdicts.pop()
            judgement.stage = judgement.contexts[0].judgement.stage
        elif judgement.startup == "starts" and verdicts - {"starts"}:
            judgement.startup = "depends"
        judgement.findings = self.statements.merge(
            judgement.findings, judgement.contexts, exact=exact
        )

    def _speak_for_others(self, contexts: list[Context]) -> bool:
        """Whether what the families' models meet would be met by any model of theirs."""
        return not any(
            event.first and self.statements.asks_for_architecture(event)
            for context in contexts
            for event in context.judgement.outcome.events
        )

    def archetypes(self) -> list[tuple[str, ModelTraits]]:
        """A model of every family, by the family's label."""

        def read() -> dict[str, Any]:
            found = {}
            for label, ident in self.program.archetypes.items():
                model, _ = self._model(ident, None, draft=False)
                if model is not None:
                    found[label] = [ident, model.traits]
            return found

        kept = self.release.derived("archetypes", read)
        return [
            (label, ModelTraits(traits, "catalogue", ident))
            for label, (ident, traits) in kept.items()
        ]

    def _archetype_draft(
        self, family: str, parsed: ParsedLaunch, draft: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """The family's own model as its draft, where the launch names no draft."""
        if parsed.values.get("speculative_draft_model_path"):
            return draft
        traits, _ = self._model(self.program.archetypes[family], parsed, draft=True)
        return traits.traits if traits is not None else None

    def _judge_on(
        self,
        launch: Launch,
        parsed: ParsedLaunch,
        gpu: str | None,
        model: ModelTraits | None,
        draft: Mapping[str, Any] | None,
        problems: list[ModelProblem],
    ) -> Judgement:
        platform = self.platform_state(gpu, launch.cuda) if gpu is not None else None
        kind = self._kind(launch) if gpu is None else None
        outcome = self.program.run(
            parsed.values,
            typed=parsed.typed,
            platform=platform if kind is None else self._kind_state(kind, launch.cuda),
            model=model.traits if model is not None else None,
            draft=draft,
            environment=launch.environment,
        )
        startup, stage = outcome.startup, outcome.stage
        if parsed.refusal is not None:
            startup, stage = "refuses", "parse"
        elif startup != "refuses" and any(problem.refuses for problem in problems):
            startup, stage = "refuses", "resolve"
        elif startup == "starts" and any(problem.refuses is None for problem in parsed.problems):
            startup = "depends"
        findings = self.statements.findings(parsed, outcome, platform, problems)
        return Judgement(launch, parsed, startup, stage, findings, outcome, gpu, model)

    def _add_inert(self, judgement: Judgement) -> None:
        """Add flags that do nothing as the launch stands, and what they would do to it one day."""
        inert = self._inert(judgement)
        if inert:
            judgement.findings = self.statements.ordered([*judgement.findings, *inert])

    def _inert(self, judgement: Judgement) -> list[Finding]:
        parsed, found = judgement.parsed, []
        for entry in self.statements.inert:
            missing = entry["without"]
            spoiling = self.statements.spoiling_fields(judgement.outcome)
            typed = [
                name for name in entry["flags"] if name in parsed.typed and name not in spoiling
            ]
            if not typed or parsed.values.get(missing) is not None:
                continue
            platform = None
            if judgement.gpu is not None:
                platform = self.platform_state(judgement.gpu, judgement.launch.cuda)
            outcome = self.program.run(
                {**parsed.values, missing: entry["assume"]},
                typed=parsed.typed,
                platform=platform,
                model=judgement.model.traits if judgement.model is not None else None,
                draft={"known": False},
                environment=judgement.launch.environment,
            )
            found += self.statements.inert_findings(parsed, entry, typed, outcome, platform)
        return found

    def _explore_inert(self, judgement: Judgement) -> None:
        """What inert flags would meet on every typical machine where the launch starts.

        The first family speaks for all: it has the fewest limits of its own.
        """
        shared: list[Finding] | None = None
        for context in judgement.contexts:
            if context.family != judgement.contexts[0].family:
                break
            starts = context.judgement.startup == "starts"
            typical = context.gpu in self.program.typical_machines
            if not starts or not (typical or judgement.gpu is not None):
                continue
            found = self._inert(context.judgement)
            rules = {(finding.rule, finding.code) for finding in found}
            shared = [
                finding
                for finding in (found if shared is None else shared)
                if (finding.rule, finding.code) in rules
            ]
        judgement.findings = self.statements.ordered([*judgement.findings, *(shared or ())])

    def _model(
        self, path: Any, parsed: ParsedLaunch | None, *, draft: bool
    ) -> tuple[ModelTraits | None, ModelProblem | None]:
        """Traits of a path or id, with what the launch says about reading it."""
        if not isinstance(path, str) or not path:
            return None, None
        from .models import resolve_model  # only launches that name a model pay for the reader

        algorithm = overrides = None
        if parsed is not None:
            algorithm = parsed.values.get("speculative_algorithm")
            overrides = _json_object(parsed.values.get("json_model_override_args"))
        found = resolve_model(
            path,
            self.release,
            is_draft=draft,
            algorithm=algorithm if isinstance(algorithm, str) else None,
            overrides=overrides,
        )
        if isinstance(found, ModelProblem):
            return None, found
        return found, None

    def _draft(self, parsed: ParsedLaunch) -> tuple[Mapping[str, Any] | None, ModelProblem | None]:
        """Traits of the draft model; the target doubles as its draft where no path is given."""
        if parsed.values.get("speculative_algorithm") is None:
            return {"known": False}, None
        path = parsed.values.get("speculative_draft_model_path") or parsed.values.get("model_path")
        traits, problem = self._model(path, parsed, draft=True)
        if traits is None and problem is None:
            return ({"known": False} if path else None), None
        return (traits.traits if traits is not None else None), problem


def _json_object(text: Any) -> dict[str, Any] | None:
    """The object that a flag's JSON text holds, or None; what is no JSON is refused elsewhere."""
    if not isinstance(text, str) or text.strip() in {"", "{}"}:
        return None
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _with_models(argv: list[str], launch: Launch, flags: FlagTable) -> list[str]:
    """Put the given model and draft in place of the paths in argv."""
    if launch.model is None and launch.draft is None:
        return argv
    targets = {"model_path": launch.model, "speculative_draft_model_path": launch.draft}
    seen: set[str] = set()
    position = 0
    while position < len(argv):
        spelling, equals, _ = argv[position].partition("=")
        flag = flags.by_name.get(spelling)
        value = targets.get(flag.field) if flag is not None else None
        if flag is not None and flag.field in targets:
            seen.add(flag.field)
        if flag is not None and value is not None:
            if equals:
                argv[position] = f"{spelling}={value}"
            elif position + 1 < len(argv):
                position += 1
                argv[position] = value
        position += 1
    for name, path in targets.items():
        if name not in seen and path is not None:
            argv = [*argv, flags.by_field[name].names[0], path]
    return argv
