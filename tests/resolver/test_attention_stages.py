"""Attention backends, caches and parallel layouts, against what SGLang itself made of launches.

`fixtures/stages/attention.jsonl` holds a judged launch for every rule of these stages that one can
reach: the fields as SGLang resolved them, or the function in which it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.judge import Judge, Judgement, Launch
from attn_lint.matrix.loader import load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "stages" / "attention.jsonl"
STAGES = (
    "deterministic", "nvfp4-prefill", "attention-backend", "mamba", "linear-attention", "kv4",
    "mxfp8", "page-size-default", "multi-item-scoring", "prefill-only-backend", "hicache",
    "data-parallelism", "context-parallelism", "kv-sharding", "moe", "expert-parallelism",
    "pipeline-parallelism", "after-speculative", "cache-compatibility", "page-major",
    "unified-memory", "dllm", "other-validations", "check-server-args",
)  # fmt: skip
Case = dict[str, Any]


def _read() -> tuple[dict[str, Any], list[Case]]:
    configs: dict[str, Any] = {}
    cases: list[Case] = []
    for line in FIXTURE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "config_of" in row:
            configs[row["config_of"]] = row["config"]
        else:
            cases.append(row)
    return configs, cases


CONFIGS, CASES = _read()


class Judged:
    """Judges the cases, with their models in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.judge = Judge(load())
        self.folder = folder
        for name, config in CONFIGS.items():
            (folder / name).mkdir()
            (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")

    def run(self, case: Case) -> Judgement:
        """Our answer to a case."""
        draft = case.get("draft")
        launch = Launch(
            case["argv"],
            environment=case.get("environment") or {},
            gpu=case["platform"],
            model=str(self.folder / case["model"]),
            draft=str(self.folder / draft) if draft else None,
        )
        return self.judge.judge(launch)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return Judged(tmp_path_factory.mktemp("models"))


def _name(case: Case) -> str:
    return f"{case['platform']} {case['model']} {' '.join(case['argv'])[:60]}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_agrees_with_the_release(judged: Judged, case: Case) -> None:
    judgement = judged.run(case)
    if "refused" in case:
        assert judgement.startup == "refuses"
        event = next(event for event in judgement.outcome.events if event.first)
        assert event.rule.source is not None
        assert event.rule.source["symbol"].rpartition(".")[2] == case["refused"]
        return
    assert judgement.startup == "starts", [finding.message for finding in judgement.findings]
    resolved = judgement.resolved()
    assert {name: resolved.get(name) for name in case["resolved"]} == case["resolved"]


def test_messages_are_filled_in(judged: Judged) -> None:
    for case in CASES:
        for finding in judged.run(case).findings:
            assert "{" not in finding.message
            assert "fact." not in finding.message


def test_every_rule_was_met(judged: Judged) -> None:
    met = set()
    for case in CASES:
        outcome = judged.run(case).outcome
        met |= {event.rule.id for event in outcome.events if event.kind != "refuse" or event.first}
        met |= {step.rule.id for step in outcome.trace}
    program = judged.judge.release["program"]
    wanted = {
        rule_id
        for stage in program["stages"]
        if stage["name"] in STAGES
        for rule_id in _ids(stage["rules"], program["libraries"])
    }
    assert wanted - met == UNMET


#: Rules that no judged launch meets, each for a reason.
UNMET = {
    # No judged machine is a MUSA card, or an Intel GPU without matrix engines.
    "page-size-default-musa",
    "prefill-cp-musa",
    "intel-xpu-without-xmx",
    # On MPS the earlier stages leave no backend open, on NPU no other than its own.
    "default-mla-mps",
    "diffusion-backend-npu",
    # SGLang asks again what an earlier step of its own has seen to.
    "hicache-without-size",
    "mixed-chunk-speculation",
    "pipeline-dspark",
    "pipeline-overlap-schedule",
    "prefill-complete-without-optimism",
    "shared-cp-group-spans-tp",
    "unified-memory-eagle-host-backup",
    "unified-memory-eagle-mla-backends",
    # The watermark configuration is not read, so the launch is left unchecked before.
    "watermark-config-alone",
}


def _ids(rules: list[Any], libraries: dict[str, Any]) -> Iterator[str]:
    for rule in rules:
        if "id" in rule:
            yield rule["id"]
        for part in ("rules", "choose"):
            yield from _ids(rule.get(part) or [], libraries)
        if "use" in rule:
            yield from _ids(libraries[rule["use"]], libraries)
