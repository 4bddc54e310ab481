"""Single launches whose verdict, stage and place are what the real SGLang 0.5.22 answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attn_lint.lintcfg.judge import Judge, Judgement, Launch
from attn_lint.matrix.loader import load

V4 = "deepseek-ai/DeepSeek-V4-Flash"
TREE = (
    "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 4"
    " --speculative-num-draft-tokens 8"
)
JUDGE = Judge(load())

#: What was launched where, and the stage and the function in which SGLang stopped.
REFUSED = [
    ("h200", V4, TREE, "resolve", "srt/arg_groups/deepseek_v4_hook.py apply_deepseek_v4_defaults"),
    ("h200", V4, "--speculative-algorithm EAGLE", "resolve",
     "srt/arg_groups/deepseek_v4_hook.py apply_deepseek_v4_defaults"),
    ("h200", V4, "--speculative-algorithm EAGLE3", "resolve",
     "srt/arg_groups/deepseek_v4_hook.py apply_deepseek_v4_defaults"),
    ("b200", V4, f"--attention-backend dsv4 {TREE}", "resolve",
     "srt/arg_groups/deepseek_v4_hook.py apply_deepseek_v4_defaults"),
    ("b200", "meta-llama/Llama-3.1-8B-Instruct", "--attention-backend dsv4", "factory",
     "srt/layers/attention/deepseek_v4_backend.py DeepseekV4AttnBackend.__init__"),
    ("mi300x", "Qwen/Qwen3-8B", f"--attention-backend aiter --page-size 16 {TREE}", "resolve",
     "srt/arg_groups/speculative_hook.py _handle_eagle_family"),
]  # fmt: skip
STARTS = [
    ("h200", V4, "--speculative-eagle-topk 1"),
    ("h200", V4, TREE.replace("topk 4", "topk 1")),
    ("mi300x", "Qwen/Qwen3-8B", f"--attention-backend aiter {TREE}"),
    ("mi300x", "deepseek-ai/DeepSeek-V3", f"--attention-backend aiter {TREE}"),
]


def judged(gpu: str, model: str, flags: str) -> Judgement:
    return JUDGE.judge(Launch(flags.split(), gpu=gpu, model=model))


@pytest.mark.parametrize(("gpu", "model", "flags", "stage", "source"), REFUSED)
def test_a_refusal_names_the_stage_and_the_function(
    gpu: str, model: str, flags: str, stage: str, source: str
) -> None:
    judgement = judged(gpu, model, flags)
    assert (judgement.startup, judgement.stage) == ("refuses", stage)
    first = next(event.rule for event in judgement.outcome.events if event.first)
    assert first.source == dict(zip(("file", "symbol"), source.split(), strict=True))


@pytest.mark.parametrize(("gpu", "model", "flags"), STARTS)
def test_launches_that_start(gpu: str, model: str, flags: str) -> None:
    assert judged(gpu, model, flags).startup == "starts"


@pytest.mark.parametrize("gpu", ["h200", "mi300x"])
def test_what_a_backend_checks_after_its_cache_is_no_refusal(gpu: str) -> None:
    """No judge here has a cache to build it on: SGLang's flags pass, and the backend then stops.

    The topk is read with and without speculation.
    """
    judgement = judged(gpu, V4, "--speculative-eagle-topk 4")
    assert (judgement.startup, judgement.then(judgement.findings)) == ("starts", "fails")
    (finding,) = [finding for finding in judgement.findings if finding.code == "ATT401"]
    assert finding.message.endswith("SGLang stops when it builds the backend.")


def test_a_flag_that_is_refused_is_not_said_to_have_no_effect() -> None:
    for gpu in ("h200", "mi300x"):
        findings = judged(gpu, V4, "--speculative-eagle-topk 4").findings
        assert "ATT307" not in {finding.code for finding in findings}
    findings = judged("h200", "Qwen/Qwen3-8B", "--speculative-eagle-topk 4").findings
    assert "ATT307" in {finding.code for finding in findings}


def test_a_value_that_was_never_given_is_called_unset() -> None:
    finding = judged("h200", V4, "--speculative-algorithm EAGLE").findings[0]
    assert finding.message.endswith("it is unset here.")


#: Launches with a value or a name that SGLang refuses, and what they are without it.
MISTYPED = [
    ("b200", "deepseek-ai/DeepSeek-V3", "--attention-backend trtlm_mla", ""),
    ("h100", "Qwen/Qwen3-8B", "--decode-attention-backend flashinfr --page-size 16",
     "--page-size 16"),
    ("h100", "Qwen/Qwen3-8B", "--kv-cache-dtype fp8 --attention-backend fa3",
     "--attention-backend fa3"),
    ("h100", "Qwen/Qwen3-8B", "--enable-ep-moe", ""),
    (None, None, "--attention-backend trtlm_mla", ""),
]  # fmt: skip


@pytest.mark.parametrize(("gpu", "model", "flags", "rest"), MISTYPED)
def test_nothing_is_said_that_hangs_on_a_value_which_is_refused(
    gpu: str | None, model: str | None, flags: str, rest: str
) -> None:
    def perhaps(words: str) -> set[tuple[str, str | None]]:
        launch = Launch(words.split(), gpu=gpu, model=model, partial=True)
        findings = JUDGE.judge(launch).findings
        return {(one.code, one.rule) for one in findings if not one.certain}

    assert perhaps(flags) <= perhaps(rest)
    judgement = JUDGE.judge(Launch(flags.split(), gpu=gpu, model=model, partial=True))
    errors = [one for one in judgement.findings if one.severity == "error" and one.certain]
    assert [one.label for one in errors] == ["parse"]
    assert (judgement.startup, judgement.stage) == ("refuses", "parse")


def test_what_holds_for_every_value_is_said_beside_a_mistyped_one() -> None:
    flags = f"--attention-backend dsv44 {TREE}"
    codes = [one.code for one in judged("h200", V4, flags).findings if one.certain]
    assert codes[:2] == ["ATT103", "ATT205"]


#: Query heads, KV heads and ranks of models that people know, and whether SGLang's own
#: `QKVParallelLinear`, which divides by `assert a % b == 0`, can be built.
SHARED = [
    ("Qwen/Qwen3-8B", "--tp 4", True),  # 32, 8
    ("Qwen/Qwen3-8B", "--tp 16 --nnodes 2", True),  # KV heads are repeated
    ("Qwen/Qwen3-8B", "--tp 3", False),
    ("Qwen/Qwen2.5-7B-Instruct", "--tp 4", True),  # 28, 4
    ("Qwen/Qwen2.5-7B-Instruct", "--tp 8", False),
    ("Qwen/Qwen2.5-7B-Instruct", "--tp 8 --dp 2 --enable-dp-attention", True),
    ("microsoft/phi-4", "--tp 2", True),  # 40, 10
    ("microsoft/phi-4", "--tp 4", False),
    ("deepseek-ai/DeepSeek-V3", "--tp 8 --dp 8 --enable-dp-attention", True),
]


@pytest.mark.parametrize(("model", "flags", "works"), SHARED)
def test_heads_that_ranks_cannot_share_are_told(model: str, flags: str, works: bool) -> None:
    judgement = judged("h200", model, flags)
    assert judgement.startup == "starts"
    assert judgement.then(judgement.findings) == (None if works else "fails")


V2, V32 = "deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V3.2"
#: What no argument check sees, and the function or kernel that then stops.
FAILS = [
    ("v100", "Qwen/Qwen3-8B", "", "maybe_downgrade_dtype_for_legacy_gpu"),
    ("t4", "Qwen/Qwen3-8B-FP8", "", "Fp8Config.get_min_capability"),
    ("t4", "Qwen/Qwen3-8B", "--quantization fp8", "Fp8Config.get_min_capability"),
    ("a100", "Qwen/Qwen3-8B", "--quantization w8a8_fp8", "W8A8Fp8Config.get_min_capability"),
    ("a100", V2, "--attention-backend flashmla", "FlashMLABackend.forward_decode"),
    ("b200", V2, "--attention-backend flashmla", "FlashMLABackend.forward_decode"),
    # What the dsa_impl_capability of SGLang's tests skips, and kernels that one platform imports.
    ("h100", V32, "--dsa-decode-backend trtllm", "_forward_trtllm"),
    ("h100", V32, "--dsa-decode-backend aiter", "_forward_aiter"),
    ("h100", V32, "--dsa-decode-backend intel_xpu", "_forward_intel_xpu_sparse_decode"),
    ("h100-cu121", V32, "", "_is_fa3_supported"),
    ("b200", V32, "--dsa-decode-backend fa3", "_is_fa3_supported"),
    ("rtx5090", V32, "--tp 8 --dsa-prefill-backend triton_sparse_mla", "_forward_trtllm"),
    ("mi300x", V32, "--dsa-decode-backend trtllm", "_forward_trtllm"),
    ("mi300x", V32, "--dsa-decode-backend fa3", "_is_fa3_supported"),
    ("mi300x", V32, "--dsa-decode-backend flashmla_kv", "_forward_flashmla_sparse"),
    ("xpu", V32, "--dsa-decode-backend triton", "_forward_triton_decode"),
    ("xpu", V32, "--dsa-prefill-backend flashmla_kv", "_forward_flashmla_kv"),
    ("h100", V32, "--dsa-decode-backend flashmla_auto", "forward_decode"),
]
RUNS = [
    ("t4", "Qwen/Qwen3-8B", ""),
    ("a100", "Qwen/Qwen3-8B", "--quantization fp8"),
    ("h100", V2, "--attention-backend flashmla"),
    ("b200", V2, "--prefill-attention-backend flashmla --decode-attention-backend triton"),
    ("h100", V32, ""),
    ("h100", V32, "--dsa-prefill-backend flashmla_auto --dsa-decode-backend flashmla_kv"),
    ("b200", V32, "--dsa-prefill-backend flashmla_sparse --dsa-decode-backend trtllm"),
    ("mi300x", V32, "--dsa-prefill-backend aiter --dsa-decode-backend aiter"),
    ("mi355x", V32, "--dsa-prefill-backend tilelang --dsa-decode-backend triton"),
    ("xpu", V32, ""),
    ("s5000", V32, ""),
]


@pytest.mark.parametrize(("gpu", "model", "flags", "symbol"), FAILS)
def test_what_fails_once_it_has_started(gpu: str, model: str, flags: str, symbol: str) -> None:
    judgement = judged(gpu, model, flags)
    assert judgement.startup == "starts"
    (finding,) = [finding for finding in judgement.findings if finding.code == "ATT401"]
    assert finding.source is not None and finding.source.endswith(symbol)


@pytest.mark.parametrize(("gpu", "model", "flags"), RUNS)
def test_what_runs_beside_it(gpu: str, model: str, flags: str) -> None:
    assert not [f for f in judged(gpu, model, flags).findings if f.code == "ATT401"]


#: DeepSeek-V3.2 as published, in what tells, but with an index that pools keys.
POOLED_CONFIG = {
    "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32",
    "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128,
    "num_hidden_layers": 61, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 163840,
    "vocab_size": 129280, "torch_dtype": "bfloat16", "index_head_dim": 128, "index_n_heads": 64,
    "index_topk": 2048, "index_kpool": 4,
}  # fmt: skip
#: Backends that SGLang's `_check_kpool_tail_backend` lets through, with the indices pooled.
POOLED = [
    ("h100", "bfloat16", "", set()),  # flashmla_sparse becomes fa3 there
    ("h100", "fp8_e4m3", "", {"prefill", "decode"}),  # flashmla_kv, SGLang's own choice
    ("h100", "bfloat16", "--dsa-prefill-backend triton_sparse_mla", {"prefill"}),
    ("b200", "fp8_e4m3", "", set()),
    ("b200", "fp8_e4m3", "--dsa-decode-backend flashmla_kv", {"decode"}),
]


@pytest.mark.parametrize(("gpu", "dtype", "flags", "phases"), POOLED)
def test_pooled_indices_want_a_kernel_that_takes_them(
    tmp_path: Path, gpu: str, dtype: str, flags: str, phases: set[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(POOLED_CONFIG), encoding="utf-8")
    found = judged(gpu, str(tmp_path), f"--tp 8 --kv-cache-dtype {dtype} {flags}").findings
    assert {one.phase for one in found if one.code == "ATT401"} == phases


#: One backend for each phase, of which only the one of decode fails.
SPLIT = [
    ("b200", "Qwen/Qwen3-8B", "--prefill-attention-backend triton --decode-attention-backend fa3"),
    ("h100", V32, "--dsa-prefill-backend flashmla_sparse --dsa-decode-backend aiter"),
]


@pytest.mark.parametrize(("gpu", "model", "flags"), SPLIT)
def test_a_finding_of_one_phase_points_at_the_flag_of_that_phase(
    gpu: str, model: str, flags: str
) -> None:
    words = flags.split()
    finding = judged(gpu, model, flags).findings[0]
    assert (finding.phase, finding.severity) == ("decode", "error")
    assert finding.flags[0] == words[2]
    assert finding.span is not None and finding.span.argument == 2


@pytest.mark.parametrize(("gpu", "flags", "builds"), [
    ("h100", "", True), ("h100", "--dsa-decode-backend trtllm", False), ("b200", "", False),
    ("b200", "--dsa-prefill-backend tilelang --dsa-decode-backend tilelang", False),
])  # fmt: skip
def test_sparse_attention_counts_with_flashinfer_on_blackwell(
    gpu: str, flags: str, builds: bool
) -> None:
    """Its `__init__` asks the module, which is not imported, for the size of a buffer."""
    environment = {"SGLANG_IS_FLASHINFER_AVAILABLE": "false"}
    words = f"--tp 8 {flags}".split()
    found = JUDGE.judge(Launch(words, gpu=gpu, model=V32, environment=environment)).findings
    missing = [one for one in found if one.rule == "flashinfer-package-missing"]
    assert bool(missing) != builds
