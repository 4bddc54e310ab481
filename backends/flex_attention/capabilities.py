"""What `flex_attention` carries."""

from __future__ import annotations

from ..interface.capabilities import ENCODER_LIMIT, NO, TORCH, Capabilities, Limit, Range, one_of

_FP8 = one_of("fp8_e4m3", "fp8_e5m2")

CAPABILITIES = Capabilities(
    name="flex_attention",
    title="FlexAttention",
    runs="torch's flex_attention over the whole pool, by a block mask of physical pages; "
    "compiled on CUDA, eager (scores written out) on CPU",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "device": one_of("cpu", "cuda"),
        "dtype": one_of("float32", "float16", "bfloat16"),
        # FP4 is no dtype that its kernels load, and to dequantize the pool is to copy it.
        "kv_dtype": one_of("float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"),
        # The lists of blocks are made anew for each pass, from lengths on the host.
        "graph": NO,
    },
    limits=(
        ENCODER_LIMIT,
        Limit(
            {"device": one_of("cuda"), "qk_head_dim": Range(1, 15)},
            "the compiled kernel takes head dims of 16 and more",
            "torch's lowering of flex_attention",
        ),
        Limit(
            {"device": one_of("cuda"), "v_head_dim": Range(1, 15)},
            "the compiled kernel takes value dims of 16 and more",
            "torch's lowering of flex_attention",
        ),
        Limit(
            {"device": one_of("cuda"), "dtype": one_of("float32"), "qk_head_dim": Range(257)},
            "in float32 the smallest tile of a head dim above 256 is too large for shared memory",
        ),
        Limit(
            {"device": one_of("cuda"), "qk_head_dim": Range(1025)},
            "the smallest tile of a head dim above 1024 is too large for shared memory",
        ),
    ),
    packages=(TORCH,),
    engine_row="flex_attention",
)
