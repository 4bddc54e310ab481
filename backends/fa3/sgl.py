"""`sgl_kernel.flash_attn`: FlashAttention-3 with page tables, split keys and sinks."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.kinds import kv_buffers, scales_of
from ..library.paging import query_bounds
from ..library.tables import PassTables, TabledPass

_E4M3_LARGEST = 448.0
#: Pages of at least this many tokens are loaded whole.
_WHOLE_PAGE = 64


class SglKernel:
    """Plans and runs `flash_attn_with_kvcache`; nothing is read back."""

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        self.library = library or importlib.import_module("sgl_kernel.flash_attn")
        self.runner = runner
        self.pool = runner.token_to_kv_pool
        self._tables = PassTables(
            runner,
            lambda batch: {"query_bounds": query_bounds(batch)},
            clean_tails=self.pool.page_size >= _WHOLE_PAGE,
        )
        self._pass: TabledPass | None = None
        self._descales: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def allocate(self, max_bs: int) -> None:
        """Make room for captured batches of up to `max_bs` requests."""
        self._tables.allocate(max_bs)

    def plan(self, batch: ForwardBatch, *, captured: bool) -> None:
        """Prepare page table and bounds of a pass; static ones where it is captured."""
        self._pass = self._tables.prepare(batch, captured=captured)

    def run(
        self, q: torch.Tensor, layer: AttentionLayer, sinks: torch.Tensor | None
    ) -> torch.Tensor:
        """Attention of the planned pass: [tokens, q_heads, v_head_dim]."""
        now = self._pass
        assert now is not None, "planned by init_forward_metadata"
        k, v = kv_buffers(self.pool, layer.layer_id)
        options: dict[str, Any] = {}
        if self.pool.kv_cache_dtype == "fp8_e4m3":
            q = q.clamp(-_E4M3_LARGEST, _E4M3_LARGEST).to(torch.float8_e4m3fn)
            options["k_descale"], options["v_descale"] = self._descale(layer, now.kv_lens.shape[0])
        window = layer.sliding_window_size
        right = 0 if layer.is_causal else -1
        out: torch.Tensor = self.library.flash_attn_with_kvcache(
            q=q,
            k_cache=k,
            v_cache=v,
            page_table=now.table,
            cache_seqlens=now.kv_lens,
            cu_seqlens_q=now.more["query_bounds"],
            max_seqlen_q=now.max_q_len,
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
