"""Launches that people really wrote, each with a verdict found by hand and by the real SGLang.

The cases live outside the project: in $ATTN_LINT_CASES, or beside a checkout. Without them the
tests are skipped.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.flags import strip_command
from attn_lint.lintcfg.judge import Judge, Judgement, Launch
from attn_lint.matrix.loader import load

ROOT = Path(__file__).parent.parent
CASES = Path(os.environ.get("ATTN_LINT_CASES") or ROOT.parent / "shared" / "cases" / "cases.jsonl")
MODELS = CASES.parent.parent / "oracle" / "models.json"


def read_cases() -> list[dict[str, Any]]:
    if not CASES.exists():
        return []
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@cache
def judge() -> Judge:
    return Judge(load())


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in models as folders."""
    root = tmp_path_factory.mktemp("models")
    for name, config in json.loads(MODELS.read_text(encoding="utf-8")).items():
        (root / name).mkdir()
        (root / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return root


def verdict(case: dict[str, Any], folders: Path) -> Judgement:
    model = case["hf_model"] or (str(folders / case["model"]) if case["model"] else None)
    return judge().judge(
        Launch(
            case["argv"],
            environment=case["env"] or {},
            gpu=case["platform"],
            model=model,
            draft=str(folders / case["draft"]) if case["draft"] else None,
        )
    )


LAUNCHES = [case for case in read_cases() if case["platform"] and case["argv"]]
OTHERS = [case for case in read_cases() if not case["platform"]]


@pytest.mark.skipif(not LAUNCHES, reason="no cases here")
@pytest.mark.parametrize("case", LAUNCHES, ids=lambda case: case["id"])
def test_the_verdict_is_the_one_found_by_hand(case: dict[str, Any], model_folders: Path) -> None:
    judgement = verdict(case, model_folders)
    said = [(finding.code, finding.message) for finding in judgement.findings]
    if case["verdict"] == "reject":
        assert judgement.startup == "refuses", said
        assert any(f.severity == "error" and f.certain for f in judgement.findings), said
        return
    assert judgement.startup == "starts", said
    codes = {finding.code for finding in judgement.findings if finding.certain}
    if case["verdict"] == "advice":
        assert any(code.startswith("ATT4") for code in codes), said
    elif case["verdict"] == "ok":
        assert not any(f.severity == "error" for f in judgement.findings), said
    elif case["adjust_kind"] == "typed-changed":
        assert any(code.startswith(("ATT3", "ATT106")) for code in codes), said


@pytest.mark.skipif(not OTHERS, reason="no cases here")
@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case["id"])
def test_other_programs_are_not_judged(case: dict[str, Any]) -> None:
    assert strip_command([case["launch"]]).other_program
