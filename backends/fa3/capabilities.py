"""What `fa3` carries."""

from __future__ import annotations

from ..flashinfer.capabilities import FLASHINFER, MLA_LIMITS
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

_MHA = one_of("mha")
_FP8 = one_of("fp8_e4m3")
_HOPPER = "flashinfer 0.6.13: utils.py, is_fa3_backend_supported"

CAPABILITIES = Capabilities(
    name="fa3",
    title="FlashAttention 3",
    runs="sgl_kernel's FlashAttention-3 where it is installed, else FlashInfer's fa3 kernels, "
    "which split no keys and are slow in decode; FlashInfer's MLA kernels for Hopper",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "device": one_of("cuda"),
        "capability": one_of((9, 0)),
        "dtype": one_of("float16", "bfloat16"),
        "kv_dtype": one_of("float16", "bfloat16", "fp8_e4m3"),
        "page_size": Range(1),
        "qk_head_dim": one_of(64, 128, 256, 576),
        "v_head_dim": one_of(64, 128, 256, 512),
        "tree": NO,
        "multimodal": NO,
    },
    # One row for both kernels, so what FlashInfer's can't do is refused of `sgl_kernel`'s too.
    limits=(
        Limit(
            {"family": _MHA, "same_dtype": NO, "kv_dtype": one_of("float16", "bfloat16")},
            "a 16-bit KV cache has to be of the queries' dtype",
            _HOPPER,
        ),
        Limit(
            {"unequal_kv_dims": YES},
            "FlashInfer's paged kernels read keys and values with the same strides: one head dim",
            "flashinfer 0.6.13: csrc/batch_prefill_sm90.cu",
        ),
        Limit(
            {"logit_cap": YES, "kv_dtype": _FP8},
            "FlashInfer's kernel for e4m3 has no logit cap",
            "flashinfer 0.6.13: attention/hopper/variants.cuh, DefaultFP8Attention",
        ),
        Limit(
            {"window": YES, "kv_dtype": _FP8},
            "FlashInfer's kernel for e4m3 with a sliding window does not return",
            "measured on an H200 with flashinfer 0.6.13: no answer after 240 s",
        ),
        Limit(
            {"sinks": YES, "kv_dtype": _FP8},
            "FlashInfer's kernel with sinks takes no e4m3 queries",
            "flashinfer 0.6.13: jit/attention/variants.py, AttentionSink",
        ),
        Limit(
            {"sinks": YES, "logit_cap": YES},
            "FlashInfer's kernel with sinks has no logit cap",
            "flashinfer 0.6.13: jit/attention/variants.py, AttentionSink",
        ),
        *(limit for limit in MLA_LIMITS if not {"tree", "multimodal"} & set(limit.when)),
        ENCODER_LIMIT,
    ),
    packages=(TORCH, FLASHINFER),
    engine_row="fa3",
    # e4m3 queries and probabilities against an e4m3 cache.
    tolerances={("bfloat16", "fp8_e4m3"): 6e-2, ("float16", "fp8_e4m3"): 6e-2},
)
