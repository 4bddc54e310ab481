"""Names of dtypes, as `--kv-cache-dtype` and people write them, and torch's own."""

from __future__ import annotations

import torch

TORCH = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
#: Two e2m1 numbers in a byte, one e4m3 scale for each block of sixteen.
FP4 = "fp4_e2m1"
FP4_BLOCK = 16
NAMES = {dtype: name for name, dtype in TORCH.items()}


def name_of(dtype: torch.dtype) -> str:
    """Our name of a torch dtype; its own name where we have none."""
    return NAMES.get(dtype, str(dtype).removeprefix("torch."))
