"""What `flashinfer` carries."""

from __future__ import annotations

from ..interface.capabilities import (
    ENCODER_LIMIT,
    NO,
    TORCH,
    YES,
    Capabilities,
    Limit,
    Package,
    Range,
    one_of,
)

FLASHINFER = Package("flashinfer", "pip install 'attn-lint[gpu]'")

_MHA = one_of("mha")
_MLA = one_of("mla")

#: Limits of the paged wrappers with fa2, which other backends fall back on for extend.
FA2_LIMITS = (
    Limit(
        {"family": _MHA, "same_dtype": NO, "kv_dtype": one_of("float16", "bfloat16")},
        "a 16-bit KV cache has to be of the queries' dtype",
    ),
    Limit(
        {"unequal_kv_dims": YES},
        "the paged kernels read keys and values with the same strides, so of one head dim",
        "flashinfer 0.6.13: csrc/batch_prefill.cu, csrc/batch_prefill_sm90.cu",
    ),
    Limit(
        {"sinks": YES, "tree": YES},
        "the kernel with sinks ignores a custom mask",
        "flashinfer 0.6.13: jit/attention/variants.py, AttentionSink",
    ),
    Limit(
        {"sinks": YES, "multimodal": YES},
        "the kernel with sinks ignores a custom mask",
        "flashinfer 0.6.13: jit/attention/variants.py, AttentionSink",
    ),
    Limit(
        {"sinks": YES, "logit_cap": YES},
        "the kernel with sinks has no logit cap",
        "flashinfer 0.6.13: jit/attention/variants.py, AttentionSink",
    ),
    Limit(
        {"sinks": YES, "kv_dtype": one_of("fp4_e2m1")},
        "the kernel with sinks reads no FP4 block scales",
        "flashinfer 0.6.13: jit/attention/variants.py, AttentionSink",
    ),
)

#: Room for a mask is made by drafts, whose number is fixed.
GRAPH_LIMIT = Limit(
    {"graph": YES, "multimodal": YES}, "a mask for multimodal blocks is not captured in a graph"
)

#: Limits of FlashInfer's MLA wrapper.
MLA_LIMITS = (
    Limit(
        {"family": _MLA, "qk_head_dim": one_of(64, 128, 256)},
        "the MLA kernels take latents of 512 with a rope part of 64",
        "flashinfer 0.6.13: csrc/batch_mla_config.jinja",
    ),
    Limit(
        {"family": _MLA, "v_head_dim": one_of(64, 128, 256)},
        "the MLA kernels take latents of 512 with a rope part of 64",
        "flashinfer 0.6.13: csrc/batch_mla_config.jinja",
    ),
    Limit({"family": _MHA, "qk_head_dim": one_of(576)}, "a head dim of 576 is for MLA"),
    Limit({"family": _MHA, "v_head_dim": one_of(512)}, "a head dim of 512 is for MLA"),
    Limit({"family": _MLA, "same_dtype": NO}, "the MLA kernels read a cache of the queries' dtype"),
    Limit({"family": _MLA, "window": YES}, "the MLA kernels have no sliding window"),
    Limit({"family": _MLA, "sinks": YES}, "the MLA kernels have no attention sinks"),
    Limit({"family": _MLA, "logit_cap": YES}, "the MLA kernels have no logit cap"),
    Limit({"family": _MLA, "tree": YES}, "the MLA kernels take no custom mask"),
    Limit({"family": _MLA, "multimodal": YES}, "the MLA kernels take no custom mask"),
)

CAPABILITIES = Capabilities(
    name="flashinfer",
    title="FlashInfer",
    runs="FlashInfer's fa2 kernels: tensor cores in extend, verify and decode, CUDA cores in "
    "decode with few query heads a key head; its MLA kernels",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "device": one_of("cuda"),
        "capability": one_of((8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)),
        "dtype": one_of("float16", "bfloat16"),
        "kv_dtype": one_of("float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"),
        "page_size": Range(1),
        "qk_head_dim": one_of(64, 128, 256, 576),
        "v_head_dim": one_of(64, 128, 256, 512),
    },
    limits=(*FA2_LIMITS, *MLA_LIMITS, ENCODER_LIMIT, GRAPH_LIMIT),
    packages=(TORCH, FLASHINFER),
    engine_row="flashinfer",
)
