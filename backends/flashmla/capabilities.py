"""What `flashmla` carries."""

from __future__ import annotations

from ..interface.capabilities import ENCODER_LIMIT, NO, TORCH, Capabilities, Limit, Package, one_of

FLASH_MLA = Package("flash_mla", "pip install sgl-flash-mla")

CAPABILITIES = Capabilities(
    name="flashmla",
    title="FlashMLA",
    runs="FlashMLA's dense kernels for Hopper in decode and verify; FlashInfer's MLA kernels in "
    "extend",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "family": one_of("mla"),
        "device": one_of("cuda"),
        "capability": one_of((9, 0)),
        "dtype": one_of("bfloat16"),
        "kv_dtype": one_of("bfloat16", "fp8_e4m3"),
        "page_size": one_of(64),
        "qk_head_dim": one_of(576),
        "v_head_dim": one_of(512),
        "window": NO,
        "sinks": NO,
        "logit_cap": NO,
        "tree": NO,
        "multimodal": NO,
    },
    limits=(
        ENCODER_LIMIT,
        Limit(
            {"mode": one_of("extend"), "kv_dtype": one_of("fp8_e4m3")},
            "extend goes through FlashInfer's MLA kernels, which read no e4m3 cache",
        ),
    ),
    packages=(TORCH, FLASH_MLA),
    engine_row="flashmla",
    # e4m3 queries and probabilities against an e4m3 cache.
    tolerances={("bfloat16", "fp8_e4m3"): 6e-2},
)
