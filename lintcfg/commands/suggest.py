"""`attn-lint suggest`: backends that carry everything a launch asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import options as o
from ..errors import UsageError
from ..findings import Finding
from ..judge import Judge, Judgement, Launch
from ..statements import shown
from .common import Request, assumptions, read_request

FIELDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend tried on the launch."""

    backend: str
    judgement: Judgement
    findings: list[Finding]
    default: bool

    @property
    def kept(self) -> bool:
        """Whether it starts and serves what was asked, with this very backend."""
        return self.judgement.startup == "starts" and not self.changes and self.serves

    @property
    def serves(self) -> bool:
        """Whether both phases end up on the backend itself."""
        return any(
            self.judgement.read(f"fact.{phase}_backend") == self.backend
            for phase in ("prefill", "decode")
        )

    @property
    def changes(self) -> list[Finding]:
        """Findings about values that the user typed and that would be replaced."""
        return [
            finding
            for finding in self.findings
            if finding.severity in ("error", "warning") and finding.certain
        ]


def run(arguments: Sequence[str]) -> int:
    """Try every backend on the launch and list those that carry all of it, best first."""
    request = read_request(arguments, o.LAUNCH_OPTIONS)
    gpu = request.option(o.GPU)
    if gpu is None or gpu == "all":
        raise UsageError("suggest needs one machine: --gpu h100 (see `attn-lint matrix show`)")
    judge = request.judge()
    launch = without_backends(request.launch(gpu), judge)
    good, bad = candidates(launch, judge, request)
    if request.option(o.FORMAT, "text") == "json":
        print(
            json.dumps(
                {
                    "suggestions": [_entry(one) for one in good],
                    "rejected": [_entry(one) for one in bad],
                    "assumptions": assumptions((good or bad)[0].judgement, request),
                },
                default=str,
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
    for one in shown_bad:
        reason = next(iter(one.changes or one.findings), None)
        text = f"{reason.code} {reason.message}" if reason else "is replaced by another backend"
        print(style("dim", f"  not {one.backend}: {text}"))
    for text in assumptions((good or bad)[0].judgement, request):
        print(style("dim", f"  {text}"))
    return 0 if good else 1


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
    return replace(launch, argv=argv)


def candidates(
    launch: Launch, judge: Judge, request: Request
) -> tuple[list[Candidate], list[Candidate]]:
    """Backends that carry the whole launch, best first, and the others."""
    plain = judge.judge(launch)
    default = plain.read("fact.decode_backend") if plain.startup == "starts" else None
    flag = judge.flags.by_field["attention_backend"]
    aliases = judge.release["codes"].get("alias_values", {}).get("attention_backend", {})
    good: list[Candidate] = []
    bad: list[Candidate] = []
    for backend in flag.choices or ():
        if backend in aliases:
            continue
        tried = judge.judge(replace(launch, argv=[*launch.argv, flag.names[0], backend]))
        findings = request.filtered(tried.findings)
        one = Candidate(backend, tried, findings, backend == default)
        (good if one.kept else bad).append(one)
    # The default first, then the fewest remarks, then the order of the release's own list.
    good.sort(key=lambda one: (not one.default, len(one.findings)))
    bad.sort(key=lambda one: len(one.changes))
    return good, bad


def _entry(one: Candidate) -> dict[str, object]:
    return {
        "backend": one.backend,
        "default": one.default,
        "startup": one.judgement.startup,
        "findings": [finding.to_json() for finding in one.findings],
        "resolved": one.judgement.resolved(),
    }
