"""Findings in files for other programs: JSON, GitHub, GitLab, SARIF and JUnit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..check.result import Located, Told
from ..findings import Finding
from ..json_text import dumps

HOME = "https://pypi.org/project/attn-lint/"
_GITHUB_LEVEL = {"error": "error", "warning": "warning", "info": "notice"}
_GITLAB_LEVEL = {"error": "major", "warning": "minor", "info": "info"}
_SARIF_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def _severity(finding: Finding) -> str:
    """What holds on some machines only, none of which was named, is no error of the file."""
    return finding.severity if finding.certain else "info"


def _message(finding: Finding) -> str:
    """The statement, and what it holds for where that is not every machine."""
    return f"{finding.message} ({finding.condition})" if finding.condition else finding.message


def _all(reports: Sequence[Told]) -> list[tuple[Told, Located]]:
    return [(report, located) for report in reports for located in report.located]


def as_json(reports: Sequence[Told], version: str, codes: Mapping[str, Any]) -> str:
    """A list of findings."""
    return dumps([located.to_json() for _, located in _all(reports)], indent=1)


def as_github(reports: Sequence[Told], version: str, codes: Mapping[str, Any]) -> str:
    """Workflow commands, one a line."""
    lines = []
    for report, located in _all(reports):
        finding, place = located.finding, located.place
        message = f"{report.path}:{place.line}:{place.column}: {finding.code} {_message(finding)}"
        for fix in finding.fixes:
            message += f"\n  fix: {fix}"
        if located.basis:
            message += f"\n  {located.basis}"
        lines.append(
            f"::{_GITHUB_LEVEL[_severity(finding)]} "
            f"title={_property(f'attn-lint ({finding.code})')},file={_property(report.path)},"
            f"line={place.line},col={place.column},endLine={place.end_line},"
            f"endColumn={place.end_column}::{_data(message)}"
        )
    return "\n".join(lines)


def _data(text: str) -> str:
    text = "".join(one if one in "\r\n\t" or one >= " " else repr(one)[1:-1] for one in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def fingerprint(report: Told, located: Located, seen: dict[str, int]) -> str:
    """A mark of a finding that survives a move to another line."""
    import hashlib

    finding, place = located.finding, located.place
    text = report.line(place.line).strip()
    base = "\0".join((report.path, finding.code, finding.message, text))
    number = seen.get(base, 0)
    seen[base] = number + 1
    return hashlib.sha256(f"{base}\0{number}".encode("utf-8", "replace")).hexdigest()


def as_gitlab(reports: Sequence[Told], version: str, codes: Mapping[str, Any]) -> str:
    """A code quality report."""
    seen: dict[str, int] = {}
    return json.dumps(
        [
            {
                "check_name": located.finding.code,
                "description": f"{located.finding.code}: {_message(located.finding)}",
                "severity": _GITLAB_LEVEL[_severity(located.finding)],
                "fingerprint": fingerprint(report, located, seen),
                "location": {
                    "path": report.path,
                    "positions": {
                        "begin": {"line": located.place.line, "column": located.place.column},
                        "end": {
                            "line": located.place.end_line,
                            "column": located.place.end_column,
                        },
                    },
                },
            }
            for report, located in _all(reports)
        ],
        indent=1,
    )


def as_sarif(reports: Sequence[Told], version: str, codes: Mapping[str, Any]) -> str:
    """SARIF 2.1.0."""
    found = _all(reports)
    used = sorted({located.finding.code for _, located in found})
    names = {located.finding.code: located.finding.name for _, located in found}
    seen: dict[str, int] = {}
    results = []
    for report, located in found:
        finding, place = located.finding, located.place
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": used.index(finding.code),
            "level": _SARIF_LEVEL[_severity(finding)],
            "message": {"text": _sentence(_message(finding))},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": _uri(report.path),
                        "region": {
                            "startLine": place.line,
                            "startColumn": place.column,
                            "endLine": place.end_line,
                            "endColumn": max(
                                place.end_column,
                                place.column + 1 if place.line == place.end_line else 1,
                            ),
                        },
                        **_excerpt(report, place.line),
                    }
                }
            ],
            "partialFingerprints": {"attnLint/v1": fingerprint(report, located, seen)},
        }
        if located.basis:
            result["properties"] = {"basis": located.basis}
        results.append(result)
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "attn-lint",
                            "version": version,
                            "informationUri": HOME,
                            "rules": [
                                {
                                    "id": code,
                                    "name": _pascal(names[code]),
                                    "shortDescription": {"text": _sentence(_words(names[code]))},
                                    **_help(code),
                                    "helpUri": f"{HOME}#{code.lower()}",
                                    "defaultConfiguration": {
                                        "level": _SARIF_LEVEL[
                                            codes.get(code, {}).get("severity", "warning")
                                        ]
                                    },
                                }
                                for code in used
                            ],
                        }
                    },
                    "columnKind": "unicodeCodePoints",
                    "originalUriBaseIds": {
                        "SRCROOT": {"description": {"text": "The folder that was checked."}}
                    },
                    "results": results,
                }
            ],
        },
        indent=1,
    )


def _excerpt(report: Told, line: int) -> dict[str, Any]:
    """The line around a region, for those who do not have the file."""
    text = report.line(line)
    if not text:
        return {}
    return {"contextRegion": {"startLine": line, "snippet": {"text": _clean(text)}}}


def _help(code: str) -> dict[str, Any]:
    """What a code's page says."""
    from ..rules import page

    found = page(code)
    if not found.text:
        return {}
    return {
        "fullDescription": {"text": _sentence(found.summary)},
        "help": {"text": found.text, "markdown": found.text},
    }


def _uri(path: str) -> dict[str, str]:
    """A file's place; a name may hold bytes that are no text."""
    import os
    from urllib.parse import quote

    quoted = quote(os.fsencode(path))
    if path.startswith("/"):
        return {"uri": f"file://{quoted}"}
    return {"uri": quoted, "uriBaseId": "SRCROOT"}


def _words(name: str) -> str:
    text = name.replace("-", " ")
    return text[:1].upper() + text[1:]


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def as_junit(reports: Sequence[Told], version: str, codes: Mapping[str, Any]) -> str:
    """A JUnit report: a suite for each file with launches, a case for each finding."""
    from xml.sax.saxutils import escape, quoteattr

    total = failures = 0
    suites = []
    for report in reports:
        cases = []
        failed = 0
        for located in report.located:
            finding, place = located.finding, located.place
            total += 1
            failed += finding.certain
            message = _message(finding)
            text = f"{report.path}:{place.line}:{place.column}: {message}"
            outcome = (
                f"<failure type={quoteattr(finding.severity)} "
                f"message={quoteattr(_clean(message))}>{escape(_clean(text))}</failure>"
                if finding.certain
                else f"<skipped message={quoteattr(_clean(message))}/>"
            )
            cases.append(
                f"    <testcase name={quoteattr(f'{finding.code} {place.line}:{place.column}')} "
                f'classname={quoteattr(_clean(report.path))} time="0">\n'
                f"      {outcome}\n"
                "    </testcase>"
            )
        if not cases and report.launches:
            total += 1
            cases.append(
                f'    <testcase name="launches" classname={quoteattr(_clean(report.path))} '
                'time="0"/>'
            )
        if cases:
            failures += failed
            skipped = len(report.located) - failed
            suites.append(
                f'  <testsuite name={quoteattr(_clean(report.path))} tests="{len(cases)}" '
                f'failures="{failed}" errors="0" skipped="{skipped}" time="0">\n'
                + "\n".join(cases)
                + "\n  </testsuite>"
            )
    body = "\n".join(suites)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites name="attn-lint" tests="{total}" failures="{failures}" errors="0">\n'
        + (body + "\n" if body else "")
        + "</testsuites>"
    )


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return "".join(
        character
        if character in "\t\n\r" or " " <= character <= "\ud7ff" or character >= "\ue000"
        else "\ufffd"
        for character in text
    )


Reporter = Callable[[Sequence[Told], str, Mapping[str, Any]], str]

#: Formats that print one document, also when nothing was found.
BY_NAME: dict[str, Reporter] = {
    "json": as_json,
    "github": as_github,
    "gitlab": as_gitlab,
    "sarif": as_sarif,
    "junit": as_junit,
}
