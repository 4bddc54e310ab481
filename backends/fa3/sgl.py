"""`sgl_kernel.flash_attn`: FlashAttention-3 with page tables, split keys and sinks."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.graphs import GraphTable, Shape
from ..library.kinds import kv_buffers, scales_of
from ..library.paging import (
    columns_of,
    kv_lens_on_device,
    most_columns,
    page_table,
    query_bounds,
)
from ..library.tails import TailCleaner

_E4M3_LARGEST = 448.0
#: Pages of at least this many tokens are loaded whole.
_WHOLE_PAGE = 64


@dataclass(slots=True)
class Metadata:
    """What a pass reads; static tensors where it is captured."""

    table: torch.Tensor
    kv_lens: torch.Tensor
    query_bounds: torch.Tensor
    max_q_len: int


class SglKernel:
    """Plans and runs `flash_attn_with_kvcache`; nothing is read back."""

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        self.library = library or importlib.import_module("sgl_kernel.flash_attn")
        self.runner = runner
        self.pool = runner.token_to_kv_pool
        self._table = GraphTable()
        self._captured: dict[Shape, Metadata] = {}
        self._metadata: Metadata | None = None
        self._descales: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        layers = [layer.layer_id for layer in runner.layers]
        self._tails = TailCleaner(self.pool, layers) if self.pool.page_size >= _WHOLE_PAGE else None

    def allocate(self, max_bs: int) -> None:
        """Make room for captured batches of up to `max_bs` requests."""
        columns = most_columns(self.runner.req_to_token_pool)
        self._table.allocate(max_bs, columns, self.runner.device)

    def plan(self, batch: ForwardBatch, *, captured: bool) -> None:
        """Prepare page table and bounds of a pass; static ones where it is captured."""
        if self._tails is not None:
            self._tails.clean(batch)
        if not captured:
            self._metadata = Metadata(
                table=page_table(batch, columns_of(batch)),
                kv_lens=kv_lens_on_device(batch),
                query_bounds=query_bounds(batch),
                max_q_len=max(batch.query_lens_cpu),
            )
            return
        shape = Shape.of(batch)
        if shape not in self._captured:
            self._captured[shape] = Metadata(
                table=self._table.of(batch),
                kv_lens=torch.zeros(batch.batch_size, dtype=torch.int32, device=batch.device),
                query_bounds=query_bounds(batch),
                max_q_len=max(batch.query_lens_cpu),
            )
        metadata = self._metadata = self._captured[shape]
        page_table(batch, columns_of(batch), out=metadata.table)
        metadata.kv_lens.copy_(kv_lens_on_device(batch))
        metadata.query_bounds.copy_(query_bounds(batch))

    def run(
        self, q: torch.Tensor, layer: AttentionLayer, sinks: torch.Tensor | None
    ) -> torch.Tensor:
        """Attention of the planned pass: [tokens, q_heads, v_head_dim]."""
        metadata = self._metadata
        assert metadata is not None, "planned by init_forward_metadata"
        k, v = kv_buffers(self.pool, layer.layer_id)
        options: dict[str, Any] = {}
        if self.pool.kv_cache_dtype == "fp8_e4m3":
            q = q.clamp(-_E4M3_LARGEST, _E4M3_LARGEST).to(torch.float8_e4m3fn)
            options["k_descale"], options["v_descale"] = self._descale(
                layer, metadata.kv_lens.shape[0]
            )
        window = layer.sliding_window_size
        right = 0 if layer.is_causal else -1
        out: torch.Tensor = self.library.flash_attn_with_kvcache(
            q=q,
            k_cache=k,
            v_cache=v,
            page_table=metadata.table,
            cache_seqlens=metadata.kv_lens,
            cu_seqlens_q=metadata.query_bounds,
            max_seqlen_q=metadata.max_q_len,
            softmax_scale=layer.scaling,
            causal=layer.is_causal,
            window_size=(window, right) if window >= 0 else (-1, -1),
            softcap=layer.logit_cap,
            sinks=None if sinks is None else sinks.to(self.runner.dtype),
            **options,
        )
        return out.to(self.runner.dtype)

    def _descale(self, layer: AttentionLayer, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Scales as the kernel reads them: [batch, key heads], here one number."""
        key = (layer.layer_id, batch)
        if key not in self._descales:
            shape = (batch, layer.tp_k_head_num)
            k, v = (
                torch.full(shape, scale, dtype=torch.float32, device=self.runner.device)
                for scale in scales_of(layer, self.pool)
            )
            self._descales[key] = (k, v)
        return self._descales[key]
