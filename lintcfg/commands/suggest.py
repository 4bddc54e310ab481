"""`attn-lint suggest`: backends that carry everything a launch asks for."""

from __future__ import annotations

from collections.abc import Sequence

from ...matrix.record import record, replaced
from .. import options as o
from ..errors import UsageError
from ..findings import Finding
from ..json_text import dumps
from ..judge import Context, Judge, Judgement, Launch
from ..statements import shown
from .common import Request, assumptions, read_request

#: Codes that say a typed value gives way to another.
REPLACED = frozenset({"ATT301", "ATT302", "ATT303", "ATT304"})
FIELDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


@record
class Candidate:
    """A backend tried on the launch."""

    backend: str
    judgement: Judgement
    findings: list[Finding]
    default: bool

    @property
    def kept(self) -> bool:
        """Whether it starts and serves all that was asked, with this very backend."""
        return self.judgement.startup == "starts" and not self.misses and self.serves

    @property
    def serves(self) -> bool:
        """Whether both phases end up on the backend itself."""
        return any(
            self.judgement.read(f"fact.{phase}_backend") == self.backend
            for phase in ("prefill", "decode")
        )

    @property
    def misses(self) -> list[Finding]:
        """Findings that mean something asked for is not had: errors, and typed values replaced."""
        return [
            finding
            for finding in self.findings
            if finding.certain
            and (finding.severity == "error" or (finding.typed and finding.code in REPLACED))
        ]

    @property
    def weight(self) -> tuple[int, int]:
        """How much there is to remark: warnings before advice."""
        warnings = sum(finding.severity == "warning" for finding in self.findings)
        return warnings, len(self.findings)


def run(arguments: Sequence[str]) -> int:
    """Try every backend on the launch and list those that carry all of it, best first."""
    request = read_request(arguments, o.LAUNCH_OPTIONS)
    gpu = request.basis.gpu
    if gpu is None:
        raise UsageError("suggest needs one machine: --gpu h100 (see `attn-lint matrix show`)")
    judge = request.judge()
    launch, added = complete(without_backends(request.launch(gpu), judge), judge)
    plain = judge.judge(launch)
    as_text = request.option(o.FORMAT, "text") != "json"
    if as_text and plain.startup == "refuses" and plain.stage == "parse":
        return _refused_anyway(plain, request)
    if plain.model is None and plain.model_problem is None:
        return by_family(launch, added, plain, judge, request)
    good, bad = candidates(launch, judge, request)
    if request.option(o.FORMAT, "text") == "json":
        print(
            dumps(
                {
                    "suggestions": [_entry(one) for one in good],
                    "rejected": [_entry(one) for one in bad],
                    "added": added,
                    "assumptions": assumptions((good or bad)[0].judgement, request),
                }
            )
        )
        return 0 if good else 1
    style = request.style
    for one in good:
        mark = style("good", " (default)") if one.default else ""
        state = one.judgement.outcome.state
        values = f"page {shown(state['page_size'])}, KV {shown(state['kv_cache_dtype'])}"
        print(f"--attention-backend {style('bold', one.backend)}{mark}  {values}")
        for finding in one.findings:
            print(f"    {finding.severity} {finding.code} {finding.message}")
    if not good:
        print("no backend carries all of it; nearest misses:")
    shown_bad = bad if request.given.has(o.VERBOSE) or not good else []
    alike: dict[str, list[str]] = {}
    for one in shown_bad:
        reason = next(iter(one.misses or one.findings), None)
        text = f"{reason.code} {reason.message}" if reason else "is replaced by another backend"
        alike.setdefault(text, []).append(one.backend)
    for text, backends in alike.items():
        print(style("dim", f"  not {', '.join(backends)}: {text}"))
    if added:
        print(style("dim", f"  judged with {' '.join(added)}"))
    for text in assumptions((good or bad)[0].judgement, request):
        print(style("dim", f"  {text}"))
    return 0 if good else 1


def _refused_anyway(plain: Judgement, request: Request) -> int:
    """Tell what the command line alone is refused for: no backend mends that."""
    from ..reporters.text import print_finding

    for finding in request.filtered(plain.findings):
        if finding.certain and finding.stage == "parse":
            print_finding(finding, plain, request)
    print("refused with any backend: mend that first")
    return 1


def by_family(
    launch: Launch, added: list[str], plain: Judgement, judge: Judge, request: Request
) -> int:
    """What carries the launch for a model of each family, where the model is not known."""
    found = {
        family: candidates(replaced(launch, model=ident), judge, request)
        for family, ident in judge.program.archetypes.items()
    }
    told = assumptions(plain, request)
    code = 0 if any(good for good, _ in found.values()) else 1
    if request.option(o.FORMAT, "text") == "json":
        both = {
            key: [
                {"family": family, **_entry(one)}
                for family, lists in found.items()
                for one in lists[number]
            ]
            for number, key in enumerate(("suggestions", "rejected"))
        }
        print(dumps({**both, "added": added, "assumptions": told}))
        return code
    style = request.style
    for family, (good, _) in found.items():
        names = [
            style("bold", one.backend) + (style("good", " (default)") if one.default else "")
            for one in good
        ]
        print(f"{family} models: {', '.join(names) or 'no backend carries all of it'}")
    if added:
        print(style("dim", f"  judged with {' '.join(added)}"))
    for text in told:
        print(style("dim", f"  {text}"))
    return code


def without_backends(launch: Launch, judge: Judge) -> Launch:
    """The launch with the choice of backends taken out: that is what is asked for."""
    from ..flags import parse

    parsed = parse(list(launch.argv), judge.flags, launch.environment)
    argv = list(launch.argv)
    places = sorted(
        (
            place.index
            for name in FIELDS
            if (place := parsed.typed.get(name)) and place.index is not None
        ),
        reverse=True,
    )
    for index in places:
        width = 1 if "=" in argv[index] else 2
        del argv[index : index + width]
    return replaced(launch, argv=argv)


def _model_only(launch: Launch, judge: Judge) -> list[str]:
    """The launch with nothing but its model."""
    from ..flags import parse

    path = parse(list(launch.argv), judge.flags, launch.environment).values.get("model_path")
    return [judge.flags.spelling("model_path"), path] if path else []


def complete(launch: Launch, judge: Judge) -> tuple[Launch, list[str]]:
    """The launch with what makes its wishes take effect, and what was added."""
    from ..flags import parse

    parsed = parse(list(launch.argv), judge.flags, launch.environment)
    added: list[str] = []
    for entry in judge.statements.inert:
        wished = any(name in parsed.typed for name in entry["flags"])
        if not wished or parsed.values.get(entry["without"]) is not None:
            continue
        companions = {entry["without"]: entry["assume"], **entry.get("companions", {})}
        for name, value in companions.items():
            if name not in parsed.typed:
                added += [judge.flags.spelling(name), str(value)]
    return replaced(launch, argv=[*launch.argv, *added]), added


def candidates(
    launch: Launch, judge: Judge, request: Request
) -> tuple[list[Candidate], list[Candidate]]:
    """Backends that carry the whole launch, best first, and the others."""
    plain = judge.judge(launch)
    default = plain.read("fact.decode_backend") if plain.startup == "starts" else None
    bare = judge.judge(replaced(launch, argv=_model_only(launch, judge)))
    usual = bare.read("fact.decode_backend")
    flag = judge.flags.by_field["attention_backend"]
    aliases = {row["name"] for row in judge.release["backends"] if row.get("alias_of")}
    good: list[Candidate] = []
    bad: list[Candidate] = []
    for backend in flag.choices or ():
        if backend in aliases:
            continue
        tried = judge.judge(replaced(launch, argv=[*launch.argv, flag.names[0], backend]))
        findings = request.filtered(tried.findings)
        one = Candidate(backend, tried, findings, backend == default)
        fits = runs_on(judge, backend, tried)
        (good if one.kept and fits else bad).append(one)
    liked = preferences(launch, judge)
    breadth = {one.backend: _breadth(judge, one.backend) for one in good}
    good.sort(key=lambda one: _rank(one, usual, liked, breadth))
    bad.sort(key=lambda one: (one.judgement.startup != "starts", len(one.misses)))
    return good, bad


def _rank(
    one: Candidate, usual: str, liked: Preferences, breadth: dict[str, int]
) -> tuple[int, ...]:
    """The order of suggestions: what SGLang would take here, or without the wishes; what costs
    least; what SGLang takes for this model on other machines, and for other models on this one;
    what carries most.

    Backends that it never takes by itself come last where they are made for little: where they
    carry less than half of what another one does.
    """
    warnings, remarks = one.weight
    here = liked.families.get(one.backend, 0)
    elsewhere = liked.machines.get(one.backend, 0)
    carries = breadth[one.backend]
    narrow = not here and not elsewhere and 2 * carries < max(breadth.values())
    return (
        not one.default, one.backend != usual, narrow, warnings, -elsewhere, -here, -carries,
        remarks,
    )  # fmt: skip


@record
class Preferences:
    """How often SGLang takes each backend by itself.

    `families` counts the families of models for which it does on this machine, `machines` the
    classes of machine on which it does for this model.
    """

    families: dict[str, int]
    machines: dict[str, int]


def preferences(launch: Launch, judge: Judge) -> Preferences:
    """What SGLang takes where nobody asks for a backend."""
    bare = replaced(
        launch,
        argv=_model_only(launch, judge),
        partial=True,
        kind=None,
        cuda=None,
    )
    anybody = judge.judge(replaced(bare, argv=[], model=None))
    anywhere = judge.judge(replaced(bare, gpu=None))
    return Preferences(_taken(anybody.contexts), _taken(anywhere.contexts))


def _taken(contexts: list[Context]) -> dict[str, int]:
    """In how many of the contexts a backend serves a phase."""
    counts: dict[str, int] = {}
    for context in contexts:
        phases = ("prefill", "decode")
        for name in {context.judgement.read(f"fact.{phase}_backend") for phase in phases}:
            if isinstance(name, str):
                counts[name] = counts.get(name, 0) + 1
    return counts


def _breadth(judge: Judge, backend: str) -> int:
    """How many features of the matrix a backend carries, for any family."""
    return sum(
        cell["support"] in ("yes", "partial")
        for row in judge.release["backends"] or ()
        if row["name"] == backend
        for family in row.get("families", ())
        for cell in family["cells"].values()
    )


def runs_on(judge: Judge, backend: str, judgement: Judgement) -> bool:
    """Whether the matrix has the backend on this architecture, in the phases that it serves.

    SGLang lets some backends start where their kernels do not exist; those are no suggestion.
    """
    architecture = judge.platforms.by_name[judgement.gpu or ""]["architecture"]
    groups = {name: entry["group"] for name, entry in judge.release["features"]["families"].items()}
    group = "mla" if judgement.read("model.mla") else "mha"
    served = [
        family
        for row in judge.release["backends"] or ()
        if row["name"] == backend
        for family in row.get("families", ())
        if groups[family["family"]] == group or groups[family["family"]] not in {"mla", "mha"}
    ]
    phases = [
        phase
        for phase in ("prefill", "decode")
        if judgement.read(f"fact.{phase}_backend") == backend
    ]
    return all(
        any(architecture in family[f"{phase}_gpus"].get("runs", ()) for family in served)
        for phase in phases
    )


def _entry(one: Candidate) -> dict[str, object]:
    return {
        "backend": one.backend,
        "default": one.default,
        "startup": one.judgement.startup,
        "findings": [finding.to_json() for finding in one.findings],
        "resolved": one.judgement.resolved(),
    }
