"""Every code has a page, and what the page shows is what attn-lint says."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from attn_lint.lintcfg import options as o
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.commands.common import read_request
from attn_lint.lintcfg.flags import load_flags
from attn_lint.lintcfg.judge import Judge, Judgement
from attn_lint.lintcfg.rules import PAGES, page
from attn_lint.matrix.loader import load
from attn_lint.matrix.validate import rules_of

from .rule_pages import HEADINGS, Shown, sections, shown

DATA = load()["codes"]
CODES = DATA["codes"]
SOURCES = Path(__file__).parents[1] / "lintcfg"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the checkout, no model of the user's, no variable counts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@cache
def judge() -> Judge:
    return Judge(load())


def judged(shown: Shown) -> Judgement:
    request = read_request(shown.words, o.LAUNCH_OPTIONS)
    return judge().judge(request.launch(request.option(o.GPU)))


def reported(shown: Shown, capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """Severities of what is certain about a launch or about files, by code."""
    found: dict[str, list[str]] = {}
    if shown.is_launch:
        for finding in judged(shown).findings:
            if finding.certain:
                found.setdefault(finding.code, []).append(finding.severity)
        return found
    for name, content in shown.files.items():
        Path(name).write_text(content, encoding="utf-8")
    code = guarded(dispatch, [*shown.words, "--isolated", "--output-format", "json"])
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    for entry in json.loads(out):
        if entry["certain"]:
            found.setdefault(entry["code"], []).append(entry["severity"])
    return found


@pytest.mark.parametrize("code", CODES)
def test_a_page_has_its_form(code: str) -> None:
    text = page(code).text
    summary = text.splitlines()[0]
    assert re.fullmatch(r"[A-Z].*[^.]\.", summary), "the first line is one sentence"
    assert page(code).summary == summary.removesuffix(".")
    assert list(sections(code)) == HEADINGS
    for heading in HEADINGS[:2]:
        assert sections(code)[heading].strip().endswith(".")
    assert max(map(len, text.splitlines())) <= 100


def test_no_page_is_an_orphan() -> None:
    assert {path.name for path in PAGES.iterdir()} == {f"{code}.md" for code in CODES}


def test_every_code_is_spoken_under() -> None:
    spoken = {
        rule[effect]["code"]
        for _, rule in rules_of({"program": load()["program"]})
        for effect in ("refuse", "warn", "advise")
        if effect in rule
    }
    spoken |= {*DATA["parse_problems"].values(), *DATA["changed_fields"].values()}
    for path in SOURCES.rglob("*.py"):
        spoken |= set(re.findall(r'"(ATT\d{3})"', path.read_text(encoding="utf-8")))
    assert set(CODES) == spoken


def test_names_of_the_data_are_flags() -> None:
    fields = load_flags(load()).by_field
    named = {*DATA["changed_fields"], *DATA["same_values"]}
    for entry in DATA["inert_flags"]:
        named |= {entry["without"], *entry["companions"], *entry["flags"]}
    for entry in DATA["renamed_values"]:
        named |= set(entry["flags"])
    assert named <= set(fields)


@pytest.mark.parametrize("code", CODES)
def test_an_example_is_reported(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code in reported(shown(code, "Example"), capsys)


@pytest.mark.parametrize("code", CODES)
def test_what_to_use_instead_is_fine(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = reported(shown(code, "Use instead"), capsys)
    assert code not in found
    assert not any("error" in severities for severities in found.values()), found


@pytest.mark.parametrize("code", [code for code in CODES if code < "ATT3"])
def test_a_refusal_is_one(code: str) -> None:
    expected = {"ATT106": "starts"}.get(code, "refuses")
    assert judged(shown(code, "Example")).startup == expected
    instead = judged(shown(code, "Use instead"))
    # Where the page is about the words of the command line, the machine may be left open.
    assert instead.startup in ({"starts"} if instead.gpu else {"starts", "depends"})
    assert instead.parsed.refusal is None


@pytest.mark.parametrize("code", CODES)
def test_the_command_explains_a_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (code, code.lower(), CODES[code]["name"]):
        assert guarded(dispatch, ["rule", name]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"# {code} {CODES[code]['name']} ({CODES[code]['severity']})\n\n")
        assert page(code).text in out
