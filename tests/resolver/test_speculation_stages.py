"""The rules of speculative decoding, against what SGLang's own resolution and factories did.

`fixtures/stages/speculation.jsonl` holds the state in which the release's hook was called and what
it wrote, or the function in which it stopped; likewise for the construction of draft backends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.judge import Judge, Judgement, Launch
from attn_lint.lintcfg.platforms import Platforms
from attn_lint.lintcfg.resolver.engine import Outcome, Program
from attn_lint.matrix.loader import load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "stages" / "speculation.jsonl"
Case = dict[str, Any]


def _read() -> tuple[dict[str, Any], list[Case]]:
    """Traits by "model:NAME" or "draft:NAME", and the cases."""
    plain: dict[str, Any] = {}
    traits: dict[str, Any] = {}
    cases: list[Case] = []
    for line in FIXTURE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "plain" in row:
            plain = row["plain"]
        elif "traits" in row:
            traits[row["traits_of"]] = {**plain, **row["traits"]}
        else:
            cases.append(row)
    return traits, cases


TRAITS, CASES = _read()
#: Fields that any case saw written: no rule may write them where the release did not.
WRITTEN = sorted({name for case in CASES for name in case.get("written", ())})


class Stages:
    """Runs one stage of a release on a given state."""

    def __init__(self) -> None:
        release = load()
        self.program = Program(release)
        self.stages = {stage.name: stage for stage in self.program.stages}
        self.platforms = Platforms(release["platforms"])
        self.virtual_fields = self.program.virtual_fields
        self.defaults = {flag["field"]: _default(flag) for flag in release["flags"]["flags"]}

    def before(self, case: Case) -> dict[str, Any]:
        return {**self.defaults, **self.virtual_fields, **case["values"]}

    def run(self, case: Case) -> Outcome:
        self.program.stages = [self.stages[case["stage"]]]
        # They are part of the state that the fixture gives.
        self.program.virtual_fields = {}
        return self.program.run(
            self.before(case),
            platform=self.platforms.values(self.platforms.find(case["platform"])),
            model=TRAITS["model:" + case["model"]],
            draft=TRAITS["draft:" + case["draft"]],
            environment=case.get("environment") or {},
        )


def _default(flag: dict[str, Any]) -> Any:
    return flag.get("default", False if flag.get("action") == "store_true" else None)


@pytest.fixture(scope="module")
def stages() -> Stages:
    return Stages()


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['stage']}-{case['platform']}-{case['model']}"
)
def test_agrees_with_the_release(stages: Stages, case: Case) -> None:
    outcome = stages.run(case)
    if "refused" in case:
        assert outcome.startup == "refuses"
        refusal = next(event for event in outcome.events if event.first)
        assert refusal.rule.source is not None
        assert "{" not in refusal.text
        return
    assert outcome.startup == "starts", [event.text for event in outcome.events]
    if case["stage"] == "speculative":
        before = stages.before(case)
        written = {
            name: outcome.state[name] for name in WRITTEN if outcome.state[name] != before[name]
        }
        assert written == case["written"]


def test_every_rule_of_the_hook_was_met(stages: Stages) -> None:
    met = set()
    for case in CASES:
        outcome = stages.run(case)
        met |= {event.rule.id for event in outcome.events}
        met |= {step.rule.id for step in outcome.trace}
    wanted = set(_ids(stages.program, stages.stages["speculative"].rules))
    # What a user typed is not part of the fixture's state; the others are refused earlier, but for
    # launches that no judged one was like.
    assert wanted - met == {"ngram-topk-ignored", "iquest-topk", "uno-attention-parallelism"}


def _ids(program: Program, rules: list[Any]) -> Iterator[str]:
    for rule in rules:
        if rule.id:
            yield rule.id
        yield from _ids(program, program.nested(rule))


# --- drafts of which nothing is known, and of another shape than the target ----------------------


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(load())


def _speculating(
    judge: Judge, gpu: str, model: str, *argv: str, environment: Mapping[str, str] | None = None
) -> Judgement:
    launch = Launch(["--model-path", model, *argv], gpu=gpu, environment=environment or {})
    return judge.judge(launch)


def _rules(judgement: Judgement) -> set[str | None]:
    return {finding.rule for finding in judgement.findings if finding.certain}


UNKNOWN_DRAFT = ("--speculative-draft-model-path", "someone/a-draft-of-their-own")
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize("algorithm", ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE"])
def test_an_unknown_draft_raises_no_doubt_beside_a_plain_target(
    judge: Judge, algorithm: str
) -> None:
    judgement = _speculating(
        judge, "h100", LLAMA, "--speculative-algorithm", algorithm, *UNKNOWN_DRAFT
    )
    assert judgement.startup == "starts"
    assert all(finding.certain for finding in judgement.findings)


def test_an_unknown_draft_cannot_run_what_the_gpu_cannot(judge: Judge) -> None:
    judgement = _speculating(
        judge, "b200", LLAMA, "--speculative-algorithm", "EAGLE3", *UNKNOWN_DRAFT,
        "--speculative-draft-attention-backend", "fa3",
    )  # fmt: skip
    assert judgement.startup == "refuses"
    assert judgement.stage == "factory"
    assert "fa3-unsupported-gpu" in _rules(judgement)


def test_an_unknown_draft_of_an_mla_target_leaves_the_backend_open(judge: Judge) -> None:
    argv = ("--tp", "8", "--speculative-algorithm", "EAGLE3", *UNKNOWN_DRAFT)
    judgement = _speculating(judge, "b200", "deepseek-ai/DeepSeek-V3", *argv)
    assert judgement.startup == "depends"
    # With its own layers as draft there is nothing to doubt.
    judgement = _speculating(
        judge, "b200", "deepseek-ai/DeepSeek-V3", "--tp", "8", "--speculative-algorithm", "EAGLE"
    )
    assert judgement.startup == "starts"


def test_a_draft_with_less_context_than_its_target(judge: Judge) -> None:
    argv = (
        "--speculative-algorithm", "EAGLE3",
        "--speculative-draft-model-path", "lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B",
    )  # fmt: skip
    judgement = _speculating(judge, "h100", LLAMA, *argv)
    assert judgement.startup == "starts"
    assert "target-context-beyond-draft" in _rules(judgement)
    allowed = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    judgement = _speculating(judge, "h100", LLAMA, *argv, environment=allowed)
    assert "target-context-beyond-draft" not in _rules(judgement)
    judgement = _speculating(judge, "h100", LLAMA, *argv, "--context-length", "2048")
    assert "target-context-beyond-draft" not in _rules(judgement)
    judgement = _speculating(judge, "h100", LLAMA, *argv, "--context-length", "4096")
    assert "context-length-beyond-draft" in _rules(judgement)
    assert judgement.startup == "refuses"


def test_eagle3_with_an_ordinary_target_as_its_own_draft(judge: Judge) -> None:
    judgement = _speculating(judge, "h100", LLAMA, "--speculative-algorithm", "EAGLE3")
    assert "target-is-no-draft" in _rules(judgement)
    own_layers = _speculating(
        judge, "h100", "deepseek-ai/DeepSeek-V3", "--tp", "8", "--speculative-algorithm", "EAGLE3"
    )
    assert "target-is-no-draft" not in _rules(own_layers)


def test_ngram_says_that_topk_is_ignored(judge: Judge) -> None:
    argv = ("--speculative-algorithm", "NGRAM", "--speculative-eagle-topk", "2")
    judgement = _speculating(judge, "h100", LLAMA, *argv, "--page-size", "1")
    assert "ngram-topk-ignored" in _rules(judgement)
