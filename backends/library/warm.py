"""A first call before a capture: libraries load and allocate in it, which no graph allows."""

from __future__ import annotations

import torch

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from .kinds import Kind


def warm_up(backend: AttentionBackend, batch: ForwardBatch) -> None:
    """Run every kind of layer once on zeros, for a batch whose metadata is ready."""
    runner = backend.runner
    backend._plan_in_graph(batch)
    mode = batch.forward_mode
    attend = backend._decode if mode.is_decode() else backend._extend
    if mode.is_target_verify():
        attend = backend._verify
    for layer in {Kind.of(layer): layer for layer in runner.layers}.values():
        shape = (batch.num_tokens, layer.tp_q_head_num, layer.head_dim)
        q = torch.zeros(shape, dtype=runner.dtype, device=runner.device)
        sinks = None
        if layer.uses_sinks:
            sinks = torch.zeros(layer.tp_q_head_num, dtype=torch.float32, device=runner.device)
        attend(q, layer, batch, sinks)
