"""Block-16 FP4: e2m1 numbers in pairs, low nibble first, with an e4m3 scale for each block.

The layout is NVFP4's linear one. A stored number means
`e2m1 * block_scale * global_scale`; the global scale is the layer's `k_scale` or `v_scale`.
"""

from __future__ import annotations

import torch

from .dtypes import FP4_BLOCK

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: Half-way points between magnitudes.
_BOUNDS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_LARGEST = 6.0
_E4M3_LARGEST = 448.0


def quantize(x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Values [..., D] as (packed uint8 [..., D/2], e4m3 scales [..., D/16]); D is 16, 32, …"""
    blocks = (x.float() / scale).unflatten(-1, (-1, FP4_BLOCK))
    block_scale = (blocks.abs().amax(-1, keepdim=True) / _LARGEST).clamp(max=_E4M3_LARGEST)
    stored = block_scale.to(torch.float8_e4m3fn)
    # A block of zeros has scale 0; dividing by the smallest scale keeps its zeros.
    scaled = blocks / stored.float().clamp(min=2.0**-9)
    bounds = torch.tensor(_BOUNDS, device=x.device)
    code = torch.bucketize(scaled.abs(), bounds).to(torch.uint8)
    code = (code | ((scaled < 0).to(torch.uint8) << 3)).flatten(-2)
    packed = code[..., 0::2] | (code[..., 1::2] << 4)
    return packed, stored.squeeze(-1)


def dequantize(
    packed: torch.Tensor, block_scale: torch.Tensor, scale: float, dtype: torch.dtype
) -> torch.Tensor:
    """The values [..., D] that packed numbers [..., D/2] and scales [..., D/16] mean."""
    code = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
    table = torch.tensor(_MAGNITUDES, dtype=dtype, device=packed.device)
    value = table[(code & 7).long()]
    value = torch.where(code >= 8, -value, value)
    blocks = value.unflatten(-1, (-1, FP4_BLOCK))
    return (blocks * block_scale.to(dtype).unsqueeze(-1) * scale).flatten(-2)
