"""Attention through FlashAttention-4's `flash_attn_varlen_func`."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.kinds import kv_buffers
from ..library.paging import query_bounds
from ..library.tables import PassTables, TabledPass
from ..library.warm import warm_up
from .capabilities import CAPABILITIES

#: Pages of at least this many tokens may be loaded whole.
_WHOLE_PAGE = 64


class FlashAttention4Backend(AttentionBackend):
    """One variable-length kernel for extend, decode and verify."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self._library = library or importlib.import_module("flash_attn.cute.interface")
        self._tables = PassTables(
            runner,
            lambda batch: {"query_bounds": query_bounds(batch)},
            clean_tails=self.page_size >= _WHOLE_PAGE,
        )
        self._pass: TabledPass | None = None

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._tables.allocate(max_bs)

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        self._pass = self._tables.prepare(batch, captured=in_capture or batch.captured)
        if in_capture:
            warm_up(self, batch)

    def _attend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        now = self._pass
        assert now is not None, "planned by init_forward_metadata"
        k, v = kv_buffers(self.token_to_kv_pool, layer.layer_id)
        window = layer.sliding_window_size
        right = 0 if layer.is_causal else None
        out = self._library.flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=now.more["query_bounds"],
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

    _decode = _extend = _verify = _attend
