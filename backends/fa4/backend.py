"""Attention through FlashAttention-4's `flash_attn_varlen_func`."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.graphs import GraphTable, Shape
from ..library.kinds import kv_buffers
from ..library.paging import (
    columns_of,
    kv_lens_on_device,
    most_columns,
    page_table,
    query_bounds,
)
from ..library.tails import TailCleaner
from ..library.warm import warm_up
from .capabilities import CAPABILITIES

#: Pages of at least this many tokens may be loaded whole.
_WHOLE_PAGE = 64


@dataclass(slots=True)
class Metadata:
    """What a pass reads; static tensors where it is captured."""

    table: torch.Tensor
    kv_lens: torch.Tensor
    query_bounds: torch.Tensor
    max_q_len: int
    max_kv_len: int


class FlashAttention4Backend(AttentionBackend):
    """One variable-length kernel for extend, decode and verify."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self._library = library or importlib.import_module("flash_attn.cute.interface")
        self._table = GraphTable()
        self._captured: dict[Shape, Metadata] = {}
        self._metadata: Metadata | None = None
        layers = [layer.layer_id for layer in runner.layers]
        self._tails = (
            TailCleaner(self.token_to_kv_pool, layers) if self.page_size >= _WHOLE_PAGE else None
        )

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._table.allocate(max_bs, most_columns(self.req_to_token_pool), self.device)

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        if self._tails is not None:
            self._tails.clean(batch)
        captured = in_capture or batch.captured
        self._metadata = self._static(batch) if captured else self._eager(batch)
        if in_capture:
            warm_up(self, batch)

    def _eager(self, batch: ForwardBatch) -> Metadata:
        return Metadata(
            table=page_table(batch, columns_of(batch)),
            kv_lens=kv_lens_on_device(batch),
            query_bounds=query_bounds(batch),
            max_q_len=max(batch.query_lens_cpu),
            max_kv_len=batch.max_kv_len,
        )

    def _static(self, batch: ForwardBatch) -> Metadata:
        shape = Shape.of(batch)
        if shape not in self._captured:
            self._captured[shape] = Metadata(
                table=self._table.of(batch),
                kv_lens=torch.zeros(batch.batch_size, dtype=torch.int32, device=self.device),
                query_bounds=query_bounds(batch),
                max_q_len=max(batch.query_lens_cpu),
                # Bounds are constants of a graph: they have to hold for every replay.
                max_kv_len=self.req_to_token_pool.max_context_len,
            )
        metadata = self._captured[shape]
        page_table(batch, columns_of(batch), out=metadata.table)
        metadata.kv_lens.copy_(kv_lens_on_device(batch))
        metadata.query_bounds.copy_(query_bounds(batch))
        return metadata

    def _attend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        metadata = self._metadata
        assert metadata is not None, "planned by init_forward_metadata"
        k, v = kv_buffers(self.token_to_kv_pool, layer.layer_id)
        window = layer.sliding_window_size
        right = 0 if layer.is_causal else None
        out = self._library.flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=metadata.query_bounds,
            seqused_k=metadata.kv_lens,
            max_seqlen_q=metadata.max_q_len,
            max_seqlen_k=metadata.max_kv_len,
            page_table=metadata.table,
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
