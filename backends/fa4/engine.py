"""`flash_attn.cute`: FlashAttention-4 as its wheel builds it, compiled when first called."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.kinds import kv_buffers
from ..library.tables import TabledPass
from ..library.varlen import QUERY_BOUNDS, VarlenEngine


class CuteKernel(VarlenEngine):
    """Plans and runs `flash_attn_varlen_func`."""

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self.library = library or importlib.import_module("flash_attn.cute.interface")

    def _call(
        self,
        now: TabledPass,
        q: torch.Tensor,
        layer: AttentionLayer,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        k, v = kv_buffers(self.pool, layer.layer_id)
        window = layer.sliding_window_size
        right = 0 if layer.is_causal else None
        out = self.library.flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=now.more[QUERY_BOUNDS],
            seqused_k=now.kv_lens,
            max_seqlen_q=now.max_q_len,
            max_seqlen_k=now.max_kv_len,
            page_table=now.table,
            softmax_scale=layer.scaling,
            causal=layer.is_causal,
            window_size=(window, right) if window >= 0 else (None, None),
            learnable_sink=sinks,
            softcap=layer.logit_cap,
        )
        # Some versions return the log-sum-exp as well.
        result: torch.Tensor = out[0] if isinstance(out, tuple) else out
        return result
