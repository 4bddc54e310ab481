"""What `torch_native` carries."""

from __future__ import annotations

from ..interface.capabilities import ENCODER_LIMIT, NO, TORCH, Capabilities, one_of

CAPABILITIES = Capabilities(
    name="torch_native",
    title="Torch native",
    runs="torch's scaled_dot_product_attention on keys gathered for each request",
    allows={
        "mode": one_of("extend", "decode", "target_verify"),
        "device": one_of("cpu", "cuda"),
        "dtype": one_of("float32", "float16", "bfloat16"),
        "kv_dtype": one_of("float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"),
        "logit_cap": NO,
        "graph": NO,
    },
    limits=(ENCODER_LIMIT,),
    packages=(TORCH,),
    engine_row="torch_native",
)
