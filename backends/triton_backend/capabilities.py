"""What `triton` carries."""

from __future__ import annotations

from ..interface.capabilities import (
    ENCODER_LIMIT,
    TORCH,
    YES,
    Capabilities,
    Limit,
    Package,
    Range,
    one_of,
)

CAPABILITIES = Capabilities(
    name="triton",
    title="Triton",
    runs="own Triton kernels: split-KV decode and verify, paged extend",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "device": one_of("cpu", "cuda"),
        "dtype": one_of("float32", "float16", "bfloat16"),
        # Block-scaled FP4 would be unpacked row by row in every tile: no gain over FP8 here.
        "kv_dtype": one_of("float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"),
        "qk_head_dim": Range(16, 576, 8),
        "v_head_dim": Range(16, 512, 8),
    },
    limits=(
        Limit(
            {"family": one_of("mha"), "qk_head_dim": Range(257)},
            "MHA head dims beyond 256 don't fit the tiles",
        ),
        Limit(
            {"family": one_of("mha"), "v_head_dim": Range(257)},
            "MHA head dims beyond 256 don't fit the tiles",
        ),
        ENCODER_LIMIT,
        Limit(
            {"graph": YES, "device": one_of("cpu")},
            "CUDA graphs need a GPU",
        ),
    ),
    packages=(
        TORCH,
        Package("triton", "pip install 'attn-lint[run]'"),
    ),
    engine_row="triton",
)
