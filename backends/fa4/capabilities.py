"""What `fa4` carries."""

from __future__ import annotations

from ..interface.capabilities import ENCODER_LIMIT, NO, TORCH, Capabilities, Limit, Package, one_of

FLASH_ATTN_4 = Package("flash_attn.cute", "pip install --pre flash-attn-4")
_SOURCE = "flash-attn-4 4.0.0b36: cute/interface.py"

CAPABILITIES = Capabilities(
    name="fa4",
    title="FlashAttention 4",
    runs="FlashAttention-4's variable-length kernel over a page table",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "family": one_of("mha"),
        "device": one_of("cuda"),
        # Page tables are refused on 8.0 and 12.0.
        "capability": one_of((9, 0), (10, 0), (10, 3)),
        "dtype": one_of("float16", "bfloat16"),
        "kv_dtype": one_of("float16", "bfloat16"),
        "page_size": one_of(16, 32, 64, 128),
        "qk_head_dim": one_of(64, 96, 128, 192, 256),
        "v_head_dim": one_of(64, 96, 128, 192, 256),
        "tree": NO,
        "multimodal": NO,
    },
    limits=(
        ENCODER_LIMIT,
        Limit({"same_dtype": NO}, "keys have to be of the queries' dtype", _SOURCE),
        Limit(
            {"capability": one_of((10, 0), (10, 3)), "qk_head_dim": one_of(192),
             "v_head_dim": one_of(64, 96, 192, 256)},
            "beyond 128, Blackwell's kernels take head dims of 192 and 128 or 256 and 256",
            _SOURCE,
        ),
        Limit(
            {"capability": one_of((10, 0), (10, 3)), "qk_head_dim": one_of(256),
             "v_head_dim": one_of(64, 96, 128, 192)},
            "beyond 128, Blackwell's kernels take head dims of 192 and 128 or 256 and 256",
            _SOURCE,
        ),
    ),
    packages=(TORCH, FLASH_ATTN_4),
    engine_row="fa4",
)  # fmt: skip
