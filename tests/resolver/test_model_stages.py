"""The rules that hang on the model, against what SGLang's own resolution did at the same point.

`fixtures/stages/model.jsonl` holds, for every rule that could be reached, the state in which the
release's own function was called and what it wrote, or the function in which it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.platforms import Platforms
from attn_lint.lintcfg.resolver.engine import Outcome, Program
from attn_lint.matrix.loader import Release, load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "stages" / "model.jsonl"
Case = dict[str, Any]


def _read() -> tuple[dict[str, Any], list[Case]]:
    """The models of the fixture, each with all its traits, and its cases."""
    plain: dict[str, Any] = {}
    models: dict[str, Any] = {}
    cases: list[Case] = []
    for line in FIXTURE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "plain_model" in row:
            plain = row["plain_model"]
        elif "traits" in row:
            models[row["model"]] = {**plain, **row["traits"]}
        else:
            cases.append(row)
    return models, cases


MODELS, CASES = _read()
#: Fields that any case saw written: no rule may write them where the release did not.
WRITTEN = sorted({name for case in CASES for name in case.get("written", ())})


def _name(case: Case) -> str:
    return f"{case['stage']}-{case['platform']}-{case['model']}"


class Stages:
    """Runs one stage of a release on a given state."""

    def __init__(self, release: Release) -> None:
        self.program = Program(release)
        self.stages = {stage.name: stage for stage in self.program.stages}
        self.platforms = Platforms(release["platforms"])
        self.virtual_fields = self.program.virtual_fields
        self.defaults = {flag["field"]: _default(flag) for flag in release["flags"]["flags"]}

    def run(self, case: Case) -> Outcome:
        values = {**self.defaults, **self.virtual_fields, **case["values"]}
        self.program.stages = [self.stages[case["stage"]]]
        # They are part of the state that the fixture gives.
        self.program.virtual_fields = {}
        platform = self.platforms.values(self.platforms.find(case["platform"]))
        return self.program.run(
            values,
            platform=platform,
            model=MODELS[case["model"]],
            draft={},
            environment=case.get("environment") or {},
        )


def _default(flag: dict[str, Any]) -> Any:
    return flag.get("default", False if flag.get("action") == "store_true" else None)


@pytest.fixture(scope="module")
def stages() -> Stages:
    return Stages(load())


@pytest.mark.parametrize("case", CASES, ids=map(_name, CASES))
def test_agrees_with_the_release(stages: Stages, case: Case) -> None:
    outcome = stages.run(case)
    if "refused" in case:
        assert outcome.startup == "refuses"
        refusal = next(event for event in outcome.events if event.first)
        assert refusal.rule.source is not None
        assert "{" not in refusal.text
        return
    assert outcome.startup == "starts", [event.text for event in outcome.events]
    before = {**stages.defaults, **stages.virtual_fields, **case["values"]}
    written = {name: outcome.state[name] for name in WRITTEN if outcome.state[name] != before[name]}
    assert written == case["written"]


def test_every_refusal_of_the_stages_was_met(stages: Stages) -> None:
    met = set()
    for case in CASES:
        met |= {event.rule.id for event in stages.run(case).events if event.kind == "refuse"}
    wanted = {
        rule_id
        for name in ("model-config", "model-adjustments", "model-capability")
        for rule_id in _refusals(stages.program, stages.stages[name].rules)
    }
    # These need a configuration, or an installed package, that no judged launch had.
    assert wanted - met == {
        "embedding-gemma-kv-pool-options",
        "mimo-v2-fused-qkv-size",
    }


def _refusals(program: Program, rules: list[Any]) -> Iterator[str]:
    for rule in rules:
        if rule.refuse is not None:
            yield rule.id
        yield from _refusals(program, program.nested(rule))
