"""Findings of one launch as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import options as o
from ..findings import SEVERITIES, Finding
from ..judge import Judgement
from ..terminal import cut, printable

if TYPE_CHECKING:
    from ..commands.common import Request

#: How much of an argument or a file's name is repeated.
_LONGEST_PLACE = 120

VERDICTS = {
    "starts": "starts",
    "refuses": "refuses to start",
    "depends": "depends",
    "unchecked": "not judged",
}
STAGES = {
    "parse": "while its command line is parsed",
    "resolve": "while its arguments are resolved",
    "check": "when its arguments are checked",
    "factory": "when its backends are built, after the weights have loaded",
}


def report(judgement: Judgement, findings: Sequence[Finding], request: Request) -> None:
    """Print the findings and the verdict."""
    from ..commands.common import assumptions

    style = request.style
    if request.option(o.FORMAT) == "concise":
        for finding in findings:
            print(concise(finding, judgement))
        return
    verbose = request.given.has(o.VERBOSE)
    certain = [finding for finding in findings if finding.certain]
    for finding in certain:
        print_finding(finding, judgement, request)
    release = judgement.outcome.program.release.name
    kind = {"starts": "good", "refuses": "error"}.get(judgement.startup, "warning")
    verdict = VERDICTS[judgement.startup]
    then = judgement.then(certain)
    if then is not None:
        kind, verdict = "error", f"starts, and then {then}"
    line = style(kind, f"SGLang {release} {verdict}")
    if judgement.startup == "refuses":
        line += f" {STAGES.get(judgement.stage, judgement.stage)}"
    if judgement.startup == "depends" and then is None:
        line = style(kind, f"SGLang {release} {verdict} on {not_known(judgement)}")
        print(f"{line}: {_counted(certain)} in any case" if certain else line)
    else:
        print(f"{line}: {_counted(certain)}")
    if judgement.contexts and judgement.startup == "depends":
        for text in by_verdict(judgement):
            print(f"  {text}")
    conditional = [
        finding
        for finding in findings
        if not finding.certain and (verbose or finding.severity != "info")
    ]
    if conditional:
        print("  reasons:" if judgement.startup == "depends" else "  perhaps:")
    # Two rules may say the same: those of one backend's classes for two platforms.
    told: dict[str, None] = {}
    for finding in conditional:
        head = style(finding.severity, f"{finding.severity}[{finding.code}]")
        told[f"    {head} {finding.message}{_where(finding, judgement)}"] = None
    for line in told:
        print(line)
    for text in assumptions(judgement, request):
        print(style("dim", f"  {text}"))


def not_known(judgement: Judgement) -> str:
    """What is not known of a launch whose start depends on it."""
    unknown = [("the machine", judgement.gpu), ("the model", judgement.model)]
    return " and ".join(name for name, value in unknown if value is None) or "what is not known"


def _counted(findings: Sequence[Finding]) -> str:
    """How many findings of each severity there are, in words."""
    counts = [
        f"{count} {severity}{'s' if count != 1 and severity != 'info' else ''}"
        for severity in SEVERITIES
        if (count := sum(finding.severity == severity for finding in findings))
    ]
    return ", ".join(counts) or "nothing to report"


def _where(finding: Finding, judgement: Judgement) -> str:
    """For which machines and models a finding holds, in brackets."""
    parts = []
    if finding.platforms:
        labels = _labels(judgement)
        parts.append(", ".join(dict.fromkeys(labels[name] for name in finding.platforms)))
    if finding.families:
        parts.append(f"{', '.join(finding.families)} models")
    if not parts:
        parts = [finding.condition] if finding.condition else []
    return f" ({'; '.join(parts)})" if parts else ""


def _labels(judgement: Judgement) -> dict[str, str]:
    """What to call each machine: its architecture where that says more than its name."""
    return {
        row["name"]: row["architecture"]
        if row["architecture"].startswith(("sm", "gfx"))
        else row["name"]
        for row in judgement.outcome.program.release["platforms"]
    }


def by_verdict(judgement: Judgement) -> list[str]:
    """Where the launch starts and where it does not, a line for each answer."""
    label = _labels(judgement)
    answers: dict[tuple[str | None, str], list[str]] = {}
    for context in judgement.contexts:
        one = context.judgement
        then = one.then(one.findings)
        text = f"starts, and then {then}" if then else VERDICTS[one.startup]
        answers.setdefault((context.family, text), []).append(label[context.gpu])
    gpus = {context.gpu for context in judgement.contexts}
    lines: dict[str, list[str]] = {}
    for (family, text), where in answers.items():
        alone = len({s for f, s in answers if f == family}) == 1
        if len(gpus) > 1 and not alone:
            text += ", on " if "," in text else " on "
            text += ", ".join(dict.fromkeys(where))
        lines.setdefault(text, []).append(family or "")
    return [
        f"{', '.join(families)} models: {text}" if families != [""] else text
        for text, families in lines.items()
    ]


def concise(finding: Finding, judgement: Judgement) -> str:
    """One line for one finding; one that holds in part only says where."""
    place = finding.flags[0] if finding.flags else "launch"
    text = f"{place}: {finding.severity} {finding.code} {finding.message}"
    return text if finding.certain else f"{text}{_where(finding, judgement) or ' (perhaps)'}"


def print_finding(finding: Finding, judgement: Judgement, request: Request) -> None:
    """Print one finding with its place, its reason and its cure."""
    style = request.style
    head = style(finding.severity, f"{finding.severity}[{finding.code}]")
    print(f"{head} {style('bold', finding.message)}")
    place = argument_text(finding, judgement)
    if place:
        print(f"  at {place}")
    details = []
    if finding.phase:
        details.append(f"phase {finding.phase}")
    if finding.typed is False and finding.flags:
        details.append("a value that SGLang picked")
    if finding.needs:
        details.append(f"needs {finding.needs}")
    if finding.has:
        details.append(f"this is {finding.has}")
    if details:
        print(f"  {'; '.join(details)}")
    if finding.hint:
        print(f"  {finding.hint}")
    for fix in finding.fixes:
        print(f"  fix: {fix}")
    if finding.source:
        print(style("dim", f"  {finding.source}"))


def argument_text(finding: Finding, judgement: Judgement) -> str | None:
    """The argument that a finding points at, as typed."""
    span = finding.span
    if span is None:
        return None
    if span.file is not None:
        file = cut(printable(span.file), _LONGEST_PLACE)
        return f"{file}:{span.line}" if span.line else file
    argv = judgement.parsed.argv
    if span.argument is None or span.argument >= len(argv):
        return None
    text = argv[span.argument]
    following = span.argument + 1
    if text.startswith("--") and "=" not in text and following < len(argv):
        value = argv[following]
        if not value.startswith("--"):
            text += f" {value}"
    text = printable(text)
    return text if len(text) <= _LONGEST_PLACE else text[: _LONGEST_PLACE - 3] + "…"
