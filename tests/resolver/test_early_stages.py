"""The early stages, against what SGLang's own resolution made of the same launches.

`fixtures/stages/early.jsonl` holds at least one judged launch for every rule that a launch can
reach: the fields as the release left them, where no later step wrote them again, or the function
in which it stopped. The stages that come late are tried on states of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.flags import FlagTable, load_flags, parse
from attn_lint.lintcfg.platforms import Platforms
from attn_lint.lintcfg.resolver.engine import Outcome, Program
from attn_lint.matrix.loader import Release, load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "stages" / "early.jsonl"
#: The last stage of the part of the pipeline that the fixture covers.
LAST = "memory-settings"
#: Refusals that come out of a function which the rule does not name, being one of several.
ELSEWHERE = {"device-missing", "decode-graph-sizes-not-numbers"}
Case = dict[str, Any]


def _read() -> tuple[dict[str, Any], list[Case]]:
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


def _name(case: Case) -> str:
    return f"{case['platform']} {' '.join(case['argv'])[:60]}"


class Early:
    """Runs a part of the pipeline."""

    def __init__(self, release: Release) -> None:
        self.program = Program(release)
        self.every_stage = self.program.stages
        self.flags: FlagTable = load_flags(release)
        self.platforms = Platforms(release["platforms"])
        names = [stage.name for stage in self.every_stage]
        self.early = self.every_stage[: names.index(LAST) + 1]

    def run(self, case: Case) -> Outcome:
        environment = case.get("environment") or {}
        argv = ["--model-path", case["model"], *case["argv"]]
        parsed = parse(argv, self.flags, environment)
        assert parsed.refusal is None
        self.program.stages = self.early
        return self.program.run(
            parsed.values,
            typed=parsed.typed,
            platform=self.platforms.values(self.platforms.find(case["platform"])),
            model=MODELS[case["model"]],
            draft={},
            environment=environment,
        )

    def stage(self, name: str, gpu: str, state: dict[str, Any]) -> Outcome:
        """One stage on a state: flags as by default, but for those given."""
        parsed = parse(["--model-path", "m"], self.flags, {})
        self.program.stages = [stage for stage in self.every_stage if stage.name == name]
        fields, traits = {}, {}
        for key, value in state.items():
            where, key = (traits, key[6:]) if key.startswith("model.") else (fields, key)
            where[key] = value
        virtual = self.program.virtual_fields
        self.program.virtual_fields = {**virtual, **fields}
        try:
            return self.program.run(
                {**parsed.values, **fields},
                platform=self.platforms.values(self.platforms.find(gpu)),
                model=traits,
                draft={},
            )
        finally:
            self.program.virtual_fields = virtual


@pytest.fixture(scope="module")
def early() -> Early:
    return Early(load())


@pytest.mark.parametrize("case", CASES, ids=map(_name, CASES))
def test_agrees_with_the_release(early: Early, case: Case) -> None:
    outcome = early.run(case)
    if "refused" in case:
        assert outcome.startup == "refuses"
        refusal = next(event for event in outcome.events if event.first)
        assert "{" not in refusal.text
        source = refusal.rule.source
        assert source is not None
        if refusal.rule.id not in ELSEWHERE:
            file, function = case["refused"].split()
            assert (source["file"], source["symbol"].split(".")[-1]) == (file, function)
        return
    assert outcome.startup == "starts", [event.text for event in outcome.events]
    resolved = {name: outcome.state[name] for name in case["resolved"]}
    assert resolved == case["resolved"]


def test_every_refusal_was_met(early: Early) -> None:
    met = set()
    for case in CASES:
        met |= {event.rule.id for event in early.run(case).events if event.kind == "refuse"}
    wanted = {
        rule_id
        for stage in early.early
        if stage.name != "model-config"
        for rule_id in _refusals(early.program, stage.rules)
    }
    assert wanted - met == {
        "prefill-cp-on-musa",  # no judged machine is a MUSA card
        "mlx-needs-mps",  # the variable is read once per process
        "placeholder-model-path",  # has no model to give traits for
        "http2-without-ssl-refresh",  # comes after the check for a package that was not there
    }


def _refusals(program: Program, rules: list[Any]) -> Iterator[str]:
    for rule in rules:
        if rule.refuse is not None:
            yield rule.id
        yield from _refusals(program, program.nested(rule))


def _refusal(outcome: Outcome) -> str | None:
    return next((event.rule.id for event in outcome.events if event.first), None)


MPS = {
    "device": "mps", "attention_backend": "torch_native", "sampling_backend": "pytorch",
    "model_quantization": None, "model.language_model_only": False, "model.multimodal": False,
    "model.multimodal_lacks_towers": False, "model.multimodal_off_by_default": False,
    "model.has_media_config": False, "model.has_experts": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({}, None),
        ({"prefill_attention_backend": "torch_native"}, None),
        ({"decode_attention_backend": "triton"}, "mps-attention-backend"),
        ({"attention_backend": "fa3"}, "mps-attention-backend"),
        ({"sampling_backend": "flashinfer"}, "mps-sampling-backend"),
        ({"tp_size": 2}, "mps-one-rank"),
        ({"dp_size": 2}, "mps-one-rank"),
        ({"model_quantization": "fp8"}, "mps-quantized-model"),
        ({"model.multimodal": True}, "mps-multimodal-model"),
        ({"model.multimodal": True, "model.multimodal_off_by_default": True}, None),
        ({"enable_lora": True}, None),
        ({"enable_lora": True, "model.has_experts": True}, "mps-lora-experts"),
        ({"device": "cpu", "attention_backend": "intel_amx"}, None),
    ],
)
def test_mps_serves_what_the_release_says(
    early: Early, change: dict[str, Any], refusal: str | None
) -> None:
    assert _refusal(early.stage("mps-validation", "mps", {**MPS, **change})) == refusal


@pytest.mark.parametrize(
    ("tokens", "page_size", "context", "result"),
    [
        (None, 1, 4096, None),
        (5000, 64, 131072, 5056),
        (4000, 128, 4096, 4096),
        (4090, 128, 4095, "prefill-graph-context-beyond-model"),
        (1_000_000, 1, 131072, "prefill-graph-context-beyond-model"),
        (0, 1, 131072, "prefill-graph-context-positive"),
        (-1, 1, 131072, "prefill-graph-context-positive"),
    ],
)
def test_prefill_graph_context_is_whole_pages_within_the_model(
    early: Early, tokens: int | None, page_size: int, context: int, result: int | str | None
) -> None:
    state = {
        "cuda_graph_prefill_max_context_size": tokens,
        "page_size": page_size,
        "model_context_length": context,
    }
    outcome = early.stage("final-validation", "h100", state)
    if isinstance(result, str):
        assert _refusal(outcome) == result
    else:
        assert outcome.startup == "starts"
        assert outcome.state["cuda_graph_prefill_max_context_size"] == result


@pytest.mark.parametrize(
    ("change", "backend"),
    [
        ({}, "disabled"),
        ({"cuda_graph_prefill_locked": True}, "breakable"),
        ({"attention_backend": "fa4"}, "breakable"),
        ({"prefill_attention_backend": "fa4"}, "breakable"),
        ({"attention_backend": "fa4", "prefill_attention_backend": "trtllm_mla"}, "disabled"),
        ({"model.arch": "DeepseekV32ForCausalLM"}, "breakable"),
    ],
)
def test_prefill_graph_of_deepseek_on_trtllm_mla(
    early: Early, change: dict[str, Any], backend: str
) -> None:
    state = {
        "cuda_graph_prefill_backend": "breakable",
        "attention_backend": "trtllm_mla",
        "model.arch": "DeepseekV3ForCausalLM",
    }
    outcome = early.stage("deepseek-trtllm-graph", "b200", {**state, **change})
    assert outcome.state["cuda_graph_prefill_backend"] == backend


@pytest.mark.parametrize(("gpu", "splits"), [("mi300x", 16), ("h100", 8)])
def test_kv_splits_on_rocm(early: Early, gpu: str, splits: int) -> None:
    assert early.stage("amd", gpu, {}).state["triton_attention_num_kv_splits"] == splits


@pytest.mark.parametrize("gpu", [None, "h100"])
def test_an_unknown_machine_or_model_is_no_error(early: Early, gpu: str | None) -> None:
    parsed = parse(["--model-path", "m"], early.flags, {})
    early.program.stages = early.early
    platform = early.platforms.values(gpu) if gpu else None
    outcome = early.program.run(parsed.values, platform=platform)
    assert outcome.startup in {"starts", "depends"}
    assert not [event for event in outcome.events if event.kind == "refuse" and event.certain]
