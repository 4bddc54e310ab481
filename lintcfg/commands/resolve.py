"""`attn-lint resolve`: what SGLang makes of a launch, who decided it and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import options as o
from ..json_text import dumps
from ..judge import RESOLVED_FIELDS, Judgement
from ..reporters.text import VERDICTS, not_known, report
from ..resolver.engine import Step
from ..resolver.values import Unknown
from ..statements import describe_source, shown
from .common import Request, judged, read_request, to_json

#: Fields shown even where nothing ever set them.
ALWAYS = ("attention_backend", "page_size", "kv_cache_dtype", "disable_radix_cache")


def run(arguments: Sequence[str]) -> int:
    """Resolve the launch on the command line."""
    request = read_request(arguments, (*o.LAUNCH_OPTIONS, o.BATCH))
    if request.given.get(o.BATCH):
        from .batch import run as batch

        return batch(request)
    if request.option(o.GPU) == "all":
        return by_platform(request)
    judgement = request.judged(request.judge())
    findings = request.filtered(judgement.findings)
    if request.option(o.FORMAT, "text") == "json":
        print(dumps({**to_json(judgement, request, findings), "trace": trace_json(judgement)}))
        return request.exit_code(findings, judgement.startup)
    print_values(judgement, request)
    print()
    report(judgement, findings, request)
    return request.exit_code(findings, judgement.startup)


def print_values(judgement: Judgement, request: Request) -> None:
    """Print each resolved value with what decided it."""
    style = request.style
    steps: dict[str, list[Step]] = {}
    for step in judgement.outcome.trace:
        steps.setdefault(step.field, []).append(step)
    rows: list[tuple[str, str, str]] = []
    for name in ("prefill", "decode"):
        fact = f"fact.{name}_backend"
        value = shown(judgement.read(fact))
        rows.append((f"{name} backend", *(_seen(fact, judgement) or (value, ""))))
    for name in RESOLVED_FIELDS:
        given = judgement.outcome.state.get(name)
        if given is None and name not in steps and name not in judgement.parsed.typed:
            continue
        if given is False and name not in ALWAYS and name not in steps:
            continue
        origin = _origin(name, steps.get(name, []), judgement)
        rows.append((name, *(_seen(name, judgement) or (shown(given), origin))))
    width = max(len(name) for name, _, _ in rows)
    value_width = min(32, max(len(value) for _, value, _ in rows))
    for name, value, origin in rows:
        cell = style("bold", f"{value:{value_width}}")
        print(f"{name:{width}}  {cell}  {style('dim', origin)}".rstrip())
    if request.given.has(o.VERBOSE):
        print()
        print("trace:")
        for step in judgement.outcome.trace:
            mark = "" if step.certain else "  (perhaps)"
            change = f"{step.field} {shown(step.before)} -> {shown(step.after)}"
            origin = f"{step.rule.id or ''} [{describe_source(step.rule.source)}]"
            print(f"  {step.stage}: {change}  {origin}{mark}")


def _seen(name: str, judgement: Judgement) -> tuple[str, str] | None:
    """What a value that is not known comes to on the machines and models that were tried.

    What rules could make of it at most is more than any of them makes. None: there is nothing
    better to say than that.
    """
    if type(judgement.read(name)) is not Unknown:
        return None
    started = [one.judgement for one in judgement.contexts if one.judgement.startup == "starts"]
    values = [one.read(name) for one in started]
    if not values or any(type(value) is Unknown for value in values):
        return None
    texts = dict.fromkeys(map(shown, values))
    if len(texts) > 1:
        return " or ".join(texts), f"depends on {not_known(judgement)}"
    steps = [step for step in started[0].outcome.trace if step.field == name]
    return next(iter(texts)), _origin(name, steps, started[0]) if steps else ""


def _origin(name: str, steps: list[Step], judgement: Judgement) -> str:
    if not steps:
        return "typed" if name in judgement.parsed.typed else "default"
    last = steps[-1]
    origin = f"{last.rule.id or last.stage} [{describe_source(last.rule.source)}]"
    if name in judgement.parsed.typed:
        origin = f"typed {shown(judgement.parsed.values.get(name))}, then {origin}"
    return origin


def trace_json(judgement: Judgement) -> list[dict[str, Any]]:
    """The trace as plain JSON, in the order of the writes."""
    return [
        {
            "stage": step.stage,
            "rule": step.rule.id,
            "field": step.field,
            "before": shown(step.before) if not _is_plain(step.before) else step.before,
            "after": shown(step.after) if not _is_plain(step.after) else step.after,
            "certain": step.certain,
            "source": describe_source(step.rule.source),
        }
        for step in judgement.outcome.trace
    ]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, dict))


def by_platform(request: Request) -> int:
    """One line for every machine that the release's data knows."""
    judge = request.judge()
    cuda = request.basis.cuda
    rows = []
    code = 0
    for row in judge.platforms.rows:
        name = row["name"]
        if cuda is not None and "cuda" not in request.basis.own and row["kind"] != "cuda":
            continue
        judgement = judged(judge, request.launch(name), request.basis)
        findings = request.filtered(judgement.findings)
        code = max(code, request.exit_code(findings, judgement.startup))
        rows.append((row, judgement, findings))
    if request.option(o.FORMAT, "text") == "json":
        print(dumps({row["name"]: to_json(one, request, findings) for row, one, findings in rows}))
        return code
    style = request.style
    width = max(len(row["name"]) for row, _, _ in rows)
    texts = [_verdict(judgement, findings) for _, judgement, findings in rows]
    verdict_width = max(len(text) for _, text in texts)
    for (row, judgement, findings), (kind, text) in zip(rows, texts, strict=True):
        verdict = style(kind, f"{text:{verdict_width}}")
        gist = _gist(judgement, findings)
        print(f"{row['name']:{width}}  {row['architecture']:7}  {verdict}  {gist}".rstrip())
    return code


def _verdict(judgement: Judgement, findings: Sequence[Any]) -> tuple[str, str]:
    """The verdict with the style that it is shown in."""
    then = judgement.then(findings)
    if then is not None:
        return "error", f"starts, then {then}"
    kind = {"starts": "good", "refuses": "error"}.get(judgement.startup, "warning")
    return kind, VERDICTS[judgement.startup]


def _gist(judgement: Judgement, findings: Sequence[Any]) -> str:
    if judgement.startup == "refuses" or judgement.then(findings):
        first = next((f for f in findings if f.severity == "error" and f.certain), None)
        return f"{first.code} {first.message}" if first else ""
    if judgement.startup == "unchecked":
        return next((f.message for f in findings if f.code == "ATT902"), "")
    prefill, decode = (judgement.read(f"fact.{phase}_backend") for phase in ("prefill", "decode"))
    backend = shown(prefill) if prefill == decode else f"{shown(prefill)} / {shown(decode)}"
    page = shown(judgement.outcome.state.get("page_size"))
    return f"{backend}, page {page}, KV {shown(judgement.outcome.state.get('kv_cache_dtype'))}"
