"""Findings as text, JSON, workflow commands and SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from .drift.findings import DriftFinding, Report

HOME = "https://pypi.org/project/attn-lint/"
_GITHUB_LEVEL = {"error": "error", "warning": "warning", "info": "notice"}
_SARIF_LEVEL = {"error": "error", "warning": "warning", "info": "note"}

#: Wraps a text in the look of a kind: error, warning, info, bold, dim, good.
Painter = Callable[[str, str], str]


def plain(kind: str, text: str) -> str:
    """No look at all."""
    return text


def place(finding: DriftFinding) -> str:
    """`path:line:column`; the path alone where the page as a whole is meant."""
    return f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path


def as_text(report: Report, paint: Painter = plain, *, verbose: bool = False) -> str:
    """Each finding with what the code says and where, then the sums."""
    parts = []
    for finding in report.findings:
        code = paint(finding.severity, finding.code)
        lines = [f"{paint('bold', place(finding))}: {code} {finding.message}"]
        if finding.claim:
            lines.append(f"  {paint('dim', 'page')}  {finding.claim}")
        lines.append(f"  {paint('dim', 'code')}  {finding.actual}")
        evidence = finding.evidence if verbose else finding.evidence[:2]
        lines += [f"        {paint('dim', str(one))}" for one in evidence]
        if finding.certainty == "partial":
            condition = finding.condition or "under a condition"
            lines.append(f"  {paint('dim', 'true')}  {condition}")
        elif finding.certainty == "review":
            lines.append(f"  {paint('dim', 'sure')}  no: a person should look")
        if finding.fix is not None:
            lines.append(f"  {paint('good', 'fix')}   {finding.fix.old} -> {finding.fix.new}")
        parts.append("\n".join(lines))
    if verbose:
        parts += [f"{place(one)}: {one.code} accepted: {why}" for one, why in report.accepted]
    parts.append(summary(report))
    return "\n\n".join(parts)


def as_concise(report: Report, paint: Painter = plain) -> str:
    """One line a finding."""
    return "\n".join(
        f"{place(one)}: {paint(one.severity, one.code)} {one.message}"
        + ("" if one.certainty == "proved" else f" [{one.certainty}]")
        for one in report.findings
    )


def summary(report: Report) -> str:
    """What was found, in one line."""
    if not report.findings:
        text = "no drift found" + _on_pages(report)
    else:
        sums = {
            certainty: sum(one.certainty == certainty for one in report.findings)
            for certainty in ("proved", "partial", "review")
        }
        told = ", ".join(f"{count} {name}" for name, count in sums.items() if count)
        count = len(report.findings)
        text = f"{count} finding{'s' if count != 1 else ''} ({told})"
        fixable = sum(one.fix is not None for one in report.findings)
        if fixable:
            text += f", {fixable} can be fixed with --fix"
    if report.accepted:
        text += f"; {len(report.accepted)} accepted by the configuration"
    return text


def _on_pages(report: Report) -> str:
    """How much it was that nothing was found on."""
    if report.pages is None:
        return ""
    pages, them = ("page", "it") if report.pages == 1 else ("pages", "them")
    silent = "" if report.on_topic else f"; nothing on {them} speaks of attention backends"
    return f" on {report.pages} {pages}{silent}"


def as_json(report: Report) -> str:
    """A list of objects."""
    return json.dumps([one.to_json() for one in report.findings], indent=1, ensure_ascii=False)


def as_github(report: Report) -> str:
    """Workflow commands, one a line."""
    lines = []
    for one in report.findings:
        where = f"file={_property(one.path)}"
        if one.line:
            where += f",line={one.line},col={one.column}"
            if one.end_column > one.column:
                where += f",endLine={one.line},endColumn={one.end_column}"
        message = f"{place(one)}: {one.code} {one.message}"
        if one.evidence:
            message += f"\n  code: {one.evidence[0]}"
        lines.append(
            f"::{_GITHUB_LEVEL[one.severity]} title={_property(f'attn-lint ({one.code})')},"
            f"{where}::{_data(message)}"
        )
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def fingerprint(finding: DriftFinding, seen: dict[str, int]) -> str:
    """A mark of a finding that survives a move to another line."""
    import hashlib

    base = "\0".join((finding.path, finding.code, finding.subject, finding.claim))
    number = seen.get(base, 0)
    seen[base] = number + 1
    return hashlib.sha256(f"{base}\0{number}".encode("utf-8", "replace")).hexdigest()


def as_sarif(report: Report, version: str, describe: Callable[[str], tuple[str, str]]) -> str:
    """SARIF 2.1.0; `describe` gives a code's summary and severity."""
    findings = report.findings
    used = sorted({one.code for one in findings})
    names = {one.code: one.name for one in findings}
    seen: dict[str, int] = {}
    rules = []
    for code in used:
        text, severity = describe(code)
        rules.append(
            {
                "id": code,
                "name": "".join(part.capitalize() for part in names[code].split("-")),
                "shortDescription": {"text": _sentence(text)},
                "helpUri": f"{HOME}#{code.lower()}",
                "defaultConfiguration": {"level": _SARIF_LEVEL.get(severity, "warning")},
            }
        )
    results = []
    for one in findings:
        physical: dict[str, Any] = {"artifactLocation": _location(one.path)}
        if one.line:
            physical["region"] = {"startLine": one.line, "startColumn": max(one.column, 1)}
            if one.end_column > one.column:
                physical["region"]["endColumn"] = one.end_column
        result: dict[str, Any] = {
            "ruleId": one.code,
            "ruleIndex": used.index(one.code),
            "level": _SARIF_LEVEL[one.severity],
            "message": {"text": _sentence(one.message)},
            "locations": [{"physicalLocation": physical}],
            "partialFingerprints": {"attnLint/v1": fingerprint(one, seen)},
            "properties": {
                "certainty": one.certainty,
                "claim": one.claim,
                "actual": one.actual,
                "evidence": [str(item) for item in one.evidence],
            },
        }
        if one.fix is not None:
            result["fixes"] = [_sarif_fix(one)]
        results.append(result)
    driver = {"name": "attn-lint", "version": version, "informationUri": HOME, "rules": rules}
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {"driver": driver},
                    "columnKind": "unicodeCodePoints",
                    "originalUriBaseIds": {
                        "SRCROOT": {"description": {"text": "The folder that was checked."}}
                    },
                    "results": results,
                }
            ],
        },
        indent=1,
        ensure_ascii=False,
    )


def _location(path: str) -> dict[str, str]:
    if path.startswith("/"):
        return {"uri": "file://" + quote(path)}
    return {"uri": quote(path), "uriBaseId": "SRCROOT"}


def _sarif_fix(finding: DriftFinding) -> dict[str, Any]:
    fix = finding.fix
    assert fix is not None
    region = {
        "startLine": fix.line,
        "startColumn": fix.column,
        "endColumn": fix.column + len(fix.old),
    }
    change = {
        "artifactLocation": _location(finding.path),
        "replacements": [{"deletedRegion": region, "insertedContent": {"text": fix.new}}],
    }
    return {"description": {"text": f"Write {fix.new}."}, "artifactChanges": [change]}


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
