"""What `trtllm_mha` carries."""

from __future__ import annotations

from ..flashinfer.capabilities import FA2_LIMITS, FLASHINFER
from ..interface.capabilities import (
    ENCODER_LIMIT,
    NO,
    TORCH,
    YES,
    Capabilities,
    Limit,
    Range,
    one_of,
)

_GENERATED = one_of((10, 0), (10, 3))
_XQA = "flashinfer 0.6.13: csrc/xqa"

CAPABILITIES = Capabilities(
    name="trtllm_mha",
    title="TensorRT-LLM MHA",
    runs="XQA through FlashInfer in decode and verify (compute capability 9.0 and 12.0), with "
    "FlashInfer's fa2 in extend; TensorRT-LLM's generated kernels on 10.0 and 10.3",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "family": one_of("mha"),
        "device": one_of("cuda"),
        "capability": one_of((9, 0), (10, 0), (10, 3), (12, 0)),
        "dtype": one_of("float16", "bfloat16"),
        # XQA reads an e5m2 cache as 16-bit numbers and says nothing.
        "kv_dtype": one_of("float16", "bfloat16", "fp8_e4m3"),
        "page_size": one_of(16, 32, 64, 128),
        "qk_head_dim": one_of(64, 128, 256),
        "v_head_dim": one_of(64, 128, 256),
        "group": Range(1, 32),
        "draft_tokens": Range(0, 32),
        "logit_cap": NO,
        "unequal_kv_dims": NO,
        "multimodal": NO,
    },
    limits=(
        *FA2_LIMITS,
        ENCODER_LIMIT,
        Limit(
            {"mode": one_of("target_verify"), "window": YES},
            "a verify pass places the window at the last draft token for all of them, so that "
            "earlier ones lose keys",
            f"{_XQA}/mha.cu, nbTotalSkipTokens; mha_sm90.cu, IS_SPEC_DEC_TREE",
        ),
        Limit(
            {"tree": YES, "kv_dtype": one_of("fp8_e4m3")},
            "a tree mask over an e4m3 cache gives wrong results",
            "measured on an H200 with flashinfer 0.6.13: off by 0.36 of the norm",
        ),
        Limit(
            {"capability": _GENERATED, "tree": YES},
            "the generated kernels take no mask among draft tokens",
            "flashinfer 0.6.13: decode.py, trtllm_paged_attention_decode",
        ),
        Limit(
            {"capability": _GENERATED, "causal": NO},
            "bidirectional attention is not run through the generated kernels",
        ),
        Limit(
            {"capability": _GENERATED, "dtype": one_of("float16"), "kv_dtype": one_of("fp8_e4m3")},
            "the generated kernels pair an e4m3 cache with bfloat16 output",
        ),
    ),
    packages=(TORCH, FLASHINFER),
    engine_row="trtllm_mha",
    # e4m3 queries and probabilities against an e4m3 cache.
    tolerances={("bfloat16", "fp8_e4m3"): 6e-2, ("float16", "fp8_e4m3"): 6e-2},
)
