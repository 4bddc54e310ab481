"""`attn-lint rule`: every code, or one explained with the rules that speak under it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...matrix.loader import Release, load
from ..errors import EXIT_CLEAN, UsageError
from ..rules import PAGES, page
from ..statements import describe_source

if TYPE_CHECKING:
    from ...docs_check.catalogue import Entry

EFFECTS = ("refuse", "warn", "advise")


def run(
    code: str | None, sglang: str, output_format: str, folder: os.PathLike[str] | None = None
) -> int:
    """Print the list or one page."""
    release = load(release=sglang, folder=folder)
    if code is None:
        return _list(release, output_format)
    codes: dict[str, Any] = release["codes"]["codes"]
    wanted = code.upper()
    if wanted not in codes:
        wanted = next((key for key, entry in codes.items() if entry["name"] == code.lower()), "")
    if wanted:
        return _explain(wanted, release, output_format)
    entry = next((one for one in _docs_entries() if code.upper() == one.code or code == one.name),
                 None)  # fmt: skip
    if entry is not None:
        return _explain_docs(entry, output_format)
    return _one_rule(code, release, output_format)


def _docs_entries() -> Iterable[Entry]:
    """Codes of the docs checker and the audit; their rules are modules of their own."""
    from ...docs_check.catalogue import entries

    return entries().values()


def _explain_docs(entry: Entry, output_format: str) -> int:
    if output_format == "json":
        out = {"code": entry.code, "name": entry.name, "severity": entry.severity}
        print(json.dumps({**out, "page": entry.text, "rules": []}, indent=1))
    else:
        print(f"# {entry.code} {entry.name} ({entry.severity})\n\n{entry.text}")
    return EXIT_CLEAN


def speaking_rules(release: Release) -> Iterator[tuple[str, str, Any]]:
    """Yield (stage, effect, rule) for every rule that says something."""
    from ...matrix.validate import rules_of

    for place, rule in rules_of({"program": release["program"]}):
        for effect in EFFECTS:
            if effect in rule:
                yield place.split(":")[0], effect, rule


def _list(release: Release, output_format: str) -> int:
    counts: dict[str, int] = {}
    for _, effect, rule in speaking_rules(release):
        code = rule[effect]["code"]
        counts[code] = counts.get(code, 0) + 1
    codes = release["codes"]["codes"]
    rows = [
        {
            "code": code,
            "name": entry["name"],
            "severity": entry["severity"],
            "rules": counts.get(code, 0),
            "summary": page(code).summary,
        }
        for code, entry in codes.items()
    ]
    rows += [
        {
            "code": entry.code,
            "name": entry.name,
            "severity": entry.severity,
            "rules": 0,
            "summary": entry.summary,
        }
        for entry in _docs_entries()
    ]
    if output_format == "json":
        print(json.dumps(rows, indent=1))
    elif output_format == "markdown":
        print("| code | name | severity | rules | what it means |\n|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row['code']} | {row['name']} | {row['severity']} | {row['rules']} "
                f"| {row['summary']} |"
            )
    else:
        width = max(len(row["name"]) for row in rows)
        for row in rows:
            print(f"{row['code']}  {row['severity']:7}  {row['name']:{width}}  {row['summary']}")
    return EXIT_CLEAN


def _explain(code: str, release: Release, output_format: str) -> int:
    entry = release["codes"]["codes"][code]
    rules = [
        {
            "id": rule.get("id"),
            "stage": stage,
            "effect": effect,
            "message": rule[effect]["message"],
            "source": describe_source(rule[effect].get("source") or rule.get("source")),
        }
        for stage, effect, rule in speaking_rules(release)
        if rule[effect]["code"] == code
    ]
    text = page(code).text
    if output_format == "json":
        print(json.dumps({"code": code, **entry, "page": text, "rules": rules}, indent=1))
        return EXIT_CLEAN
    print(f"# {code} {entry['name']} ({entry['severity']})\n\n{text}")
    if rules:
        print(f"\n## Rules of SGLang {release.name}\n")
    for rule in rules:
        print(f"- {rule['id'] or rule['stage']}: {rule['message']}")
        print(f"  {rule['stage']}; {rule['source']}")
    return EXIT_CLEAN


def _one_rule(ident: str, release: Release, output_format: str) -> int:
    from ...matrix.validate import rules_of

    rules = {
        rule["id"]: (place.split(":")[0], rule)
        for place, rule in rules_of({"program": release["program"]})
        if "id" in rule
    }
    if ident not in rules:
        import difflib

        names = [
            *release["codes"]["codes"],
            *(e["name"] for e in release["codes"]["codes"].values()),
        ]
        close = difflib.get_close_matches(ident, [*names, *rules], 3)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise UsageError(f"no rule {ident!r}{hint} (`attn-lint rule` lists all)")
    stage, rule = rules[ident]
    if output_format == "json":
        print(json.dumps({"stage": stage, **rule}, indent=1))
        return EXIT_CLEAN
    print(f"# {ident} (stage {stage}, SGLang {release.name})\n")
    if rule.get("doc"):
        print(f"{rule['doc']}\n")
    for effect in EFFECTS:
        if effect in rule:
            print(f"{effect}: {rule[effect]['code']} {rule[effect]['message']}")
            if rule[effect].get("hint"):
                print(f"way out: {rule[effect]['hint']}")
    for field, expression in rule.get("set", ()):
        value = expression[1] if expression[0] == "lit" else json.dumps(expression)
        print(f"set: {field} = {value}")
    if "when" in rule:
        print(f"when: {json.dumps(rule['when'])}")
    print(f"source: {describe_source(rule.get('source'))}")
    return EXIT_CLEAN


__all__ = ["PAGES", "run", "speaking_rules"]
