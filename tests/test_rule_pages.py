"""Every code has a page, and what the page shows is what attn-lint says."""

from __future__ import annotations

import re
import shlex
from functools import cache

import pytest
from attn_lint.lintcfg import options as o
from attn_lint.lintcfg.commands.common import Request, read_request
from attn_lint.lintcfg.findings import Finding
from attn_lint.lintcfg.judge import Judge
from attn_lint.lintcfg.rules import PAGES, page
from attn_lint.matrix.loader import load
from attn_lint.matrix.validate import rules_of

CODES = load()["codes"]["codes"]
#: Codes that are given out by the program itself, not by a rule of the matrix.
FROM_CODE = {
    "ATT101", "ATT102", "ATT108", "ATT109", "ATT110", "ATT302", "ATT303", "ATT405", "ATT901",
    "ATT902", "ATT903",
}  # fmt: skip


@cache
def judge() -> Judge:
    return Judge(load())


def commands(code: str, heading: str) -> list[str]:
    section = re.search(rf"^## {heading}\n\n(.*?)(?=^## |\Z)", page(code).text, re.M | re.S)
    if section is None:
        return []
    return [line.strip() for line in section[1].splitlines() if line.strip()]


def findings(command: str) -> list[Finding]:
    words = shlex.split(command)
    assert words[0] == "attn-lint"
    request: Request = read_request(words[1:], o.LAUNCH_OPTIONS)
    return judge().judge(request.launch(request.option(o.GPU))).findings


@pytest.mark.parametrize("code", CODES)
def test_a_page_has_its_headings(code: str) -> None:
    text = page(code).text
    assert page(code).summary, "no page"
    assert re.findall(r"^## (.*)$", text, re.M)[:2] == ["What it does", "Why is this bad?"]
    assert page(code).summary == text.splitlines()[0].rstrip(".")


def test_no_page_is_an_orphan() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(CODES)


def test_every_code_is_spoken_under() -> None:
    program = {"program": load()["program"]}
    spoken = {
        rule[effect]["code"]
        for _, rule in rules_of(program)
        for effect in ("refuse", "warn", "advise")
        if effect in rule
    }
    assert set(CODES) == spoken | FROM_CODE


EXAMPLES = [(code, command) for code in CODES for command in commands(code, "Example")]
INSTEAD = [(code, command) for code in CODES for command in commands(code, "Use instead")]


@pytest.mark.parametrize(("code", "command"), EXAMPLES, ids=[code for code, _ in EXAMPLES])
def test_an_example_is_reported(code: str, command: str) -> None:
    said = [(finding.code, finding.message) for finding in findings(command) if finding.certain]
    assert code in {item[0] for item in said}, said


@pytest.mark.parametrize(("code", "command"), INSTEAD, ids=[code for code, _ in INSTEAD])
def test_what_to_use_instead_is_not_reported(code: str, command: str) -> None:
    said = [(finding.code, finding.message) for finding in findings(command)]
    assert code not in {item[0] for item in said}, said
    assert not any(finding.severity == "error" and finding.certain for finding in findings(command))
