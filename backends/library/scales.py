"""Numbers that kernels which multiply e4m3 by e4m3 take on the device, and queries for them."""

from __future__ import annotations

import torch

from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from .kinds import scales_of

_E4M3_LARGEST = 448.0


class ScaleTensors:
    """Scales of every layer's queries, keys and values, where the pool is e4m3.

    All are made at once, before any pass: what is made in a capture holds nothing until the graph
    is first replayed, and a pass before that would read it.
    """

    def __init__(self, runner: ModelRunner) -> None:
        pool = runner.token_to_kv_pool
        layers = runner.layers if pool.kv_cache_dtype == "fp8_e4m3" else ()
        self._of: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
        for layer in layers:
            k_scale, v_scale = scales_of(layer, pool)
            heads = layer.tp_k_head_num
            self._of[layer.layer_id] = (
                _full(layer.tp_q_head_num, 1.0, runner.device),
                _full(heads, k_scale, runner.device),
                _full(heads, v_scale, runner.device),
            )

    def of(self, layer: AttentionLayer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Scales of queries, keys and values: float32, one for each of their heads."""
        return self._of[layer.layer_id]


def to_e4m3(x: torch.Tensor) -> torch.Tensor:
    """`x` as e4m3; torch's cast alone makes NaN of what is too large."""
    return x.clamp(-_E4M3_LARGEST, _E4M3_LARGEST).to(torch.float8_e4m3fn)


def _full(count: int, scale: float, device: torch.device) -> torch.Tensor:
    return torch.full((count,), scale, dtype=torch.float32, device=device)
