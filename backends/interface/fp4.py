"""Block-16 FP4: e2m1 numbers in pairs, low nibble first, with an e4m3 scale for each block.

The layout is NVFP4's linear one. A stored number means
`e2m1 * block_scale * global_scale`; the global scale is the layer's `k_scale` or `v_scale`.
"""

from __future__ import annotations

import torch

from .dtypes import FP4_BLOCK

#: Half-way points between the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6; a number on one goes to the
#: even code, as IEEE 754 and the hardware round: up where True.
_HALF_WAY = (
    (0.25, False),
    (0.75, True),
    (1.25, False),
    (1.75, True),
    (2.5, False),
    (3.5, True),
    (5.0, False),
)
_LARGEST = 6.0
_E4M3_LARGEST = 448.0


def quantize(x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Values [..., D] as (packed uint8 [..., D/2], e4m3 scales [..., D/16]); D is 16, 32, …"""
    blocks = (x.float() / scale).unflatten(-1, (-1, FP4_BLOCK))
    block_scale = (blocks.abs().amax(-1, keepdim=True) / _LARGEST).clamp(max=_E4M3_LARGEST)
    stored = block_scale.to(torch.float8_e4m3fn)
    # A block of zeros has scale 0; dividing by the smallest scale keeps its zeros.
    scaled = blocks / stored.float().clamp(min=2.0**-9)
    # Comparisons with plain numbers: a table would have to be copied to the device each time.
    size = scaled.abs()
    above = [(size >= b if up else size > b).to(torch.uint8) for b, up in _HALF_WAY]
    code = torch.stack(above).sum(0, dtype=torch.uint8)
    code = (code | ((scaled < 0).to(torch.uint8) << 3)).flatten(-2)
    packed = code[..., 0::2] | (code[..., 1::2] << 4)
    return packed, stored.squeeze(-1)


def dequantize(
    packed: torch.Tensor, block_scale: torch.Tensor, scale: float, dtype: torch.dtype
) -> torch.Tensor:
    """The values [..., D] that packed numbers [..., D/2] and scales [..., D/16] mean."""
    code = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
    exponent, mantissa = (code >> 1) & 3, code & 1
    # Twice the magnitude is a whole number: the mantissa alone where the exponent is 0.
    twice = torch.where(exponent == 0, mantissa, (2 + mantissa) << (exponent.clamp(min=1) - 1))
    value = twice.to(dtype) * 0.5
    value = torch.where(code >= 8, -value, value)
    blocks = value.unflatten(-1, (-1, FP4_BLOCK))
    return (blocks * block_scale.to(dtype).unsqueeze(-1) * scale).flatten(-2)
