"""Attention through FlashInfer's `trtllm_batch_decode_with_kv_cache` and what goes with it."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from ..interface.base import capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal, Request
from ..interface.dtypes import TORCH
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import modules, paged
from ..library.driver import share_driver
from ..library.engine import StagedBackend
from ..library.graphs import Stage
from ..library.kinds import kv_buffers, scales_of
from ..library.masks import tree_words
from ..library.paging import key_bounds, query_bounds
from ..library.scales import to_e4m3
from ..library.tables import PassTables, TabledPass
from .capabilities import CAPABILITIES

#: Semaphores and scratch of XQA; the counters of the generated kernels. Zeroed before first use.
WORKSPACE_BYTES = 128 << 20


class TRTLLMHAAttnBackend(StagedBackend):
    """XQA on Hopper and consumer Blackwell, generated kernels on data-centre Blackwell."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self._library = library
        capability = capability_of(self.device)
        self.kernel = "trtllm-gen" if capability is not None and capability[0] == 10 else "xqa"
        self._workspace: torch.Tensor | None = None
        self._extend_wrappers: paged.PagedWrappers | None = None
        self._is_e4m3 = self.token_to_kv_pool.kv_cache_dtype == "fp8_e4m3"
        # XQA on e4m3 loads whole pages; all else leaves unused slots alone.
        self._tables = PassTables(runner, self._more, clean_tails=self._is_e4m3)
        self._pass: TabledPass | None = None

    # What it carries

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        reasons = super().refusals(batch, layer, graph=graph)
        if reasons or batch.forward_mode.is_idle() or self.kernel != "xqa":
            return reasons
        return modules.missing(module_names(self.request(batch, layer, graph=graph)))

    # Metadata

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._tables.allocate(max_bs)

    def _fa2(self) -> paged.PagedWrappers:
        """What runs an extend beside XQA; made when one is planned, as its workspace is large.

        A captured extend is planned for itself alone, out of the capture: nothing is allocated
        for it ahead.
        """
        if self._extend_wrappers is None:
            self._extend_wrappers = paged.PagedWrappers(
                self.runner, "fa2", paged.new_workspace(self.device), self._library
            )
        return self._extend_wrappers

    def _prepare(self, batch: ForwardBatch, stage: Stage) -> None:
        if batch.forward_mode.is_extend() and self.kernel == "xqa":
            self._fa2().plan(batch, stage)
        else:
            self._pass = self._tables.prepare(batch, captured=stage.captured)

    def _more(self, batch: ForwardBatch) -> dict[str, torch.Tensor]:
        """Bounds of a generated extend; which drafts see which, for XQA.

        XQA takes every verify of more than one token as a tree.
        """
        if batch.forward_mode.is_extend():
            return {"query_bounds": query_bounds(batch), "key_bounds": key_bounds(batch)}
        spec = batch.spec_info
        if self.kernel == "xqa" and spec is not None and spec.draft_token_num > 1:
            # Bits are moved as int16: not every torch copies uint16 everywhere.
            return {"words": tree_words(batch).view(torch.int16)}
        return {}

    # Attention

    def _decode(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        now = self._pass
        assert now is not None, "planned by init_forward_metadata"
        k_scale, v_scale = scales_of(layer, self.token_to_kv_pool)
        out = q.new_empty(q.shape)
        words = now.more.get("words")
        self._fi.decode.trtllm_batch_decode_with_kv_cache(
            query=self._query(q),
            kv_cache=kv_buffers(self.token_to_kv_pool, layer.layer_id),
            workspace_buffer=self._space(),
            block_tables=now.table,
            seq_lens=now.kv_lens.view(torch.uint32) if self.kernel == "xqa" else now.kv_lens,
            max_seq_len=now.max_kv_len,
            bmm1_scale=layer.scaling * k_scale,
            bmm2_scale=v_scale,
            window_left=layer.sliding_window_size,
            out=self._shaped(out, now.max_q_len),
            sinks=sinks,
            kv_layout="NHD",
            backend=self.kernel,
            q_len_per_req=now.max_q_len,
            mask=None if words is None else words.view(torch.uint16),
        )
        return out

    _verify = _decode

    def _extend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        if self.kernel == "xqa":
            return self._fa2().run(q, layer, sinks)
        now = self._pass
        assert now is not None, "planned by init_forward_metadata"
        k_scale, v_scale = scales_of(layer, self.token_to_kv_pool)
        out = q.new_empty(q.shape)
        self._fi.prefill.trtllm_batch_context_with_kv_cache(
            query=self._query(q),
            kv_cache=kv_buffers(self.token_to_kv_pool, layer.layer_id),
            workspace_buffer=self._space(),
            block_tables=now.table,
            seq_lens=now.kv_lens,
            max_q_len=now.max_q_len,
            max_kv_len=now.max_kv_len,
            bmm1_scale=layer.scaling * k_scale,
            bmm2_scale=v_scale,
            batch_size=batch.batch_size,
            cum_seq_lens_q=now.more["query_bounds"],
            cum_seq_lens_kv=now.more["key_bounds"],
            window_left=layer.sliding_window_size,
            out=out,
            kv_layout="NHD",
            sinks=sinks,
        )
        return out

    @property
    def _fi(self) -> Any:
        if self._library is None:
            share_driver()  # XQA's modules call it
            self._library = importlib.import_module("flashinfer")
        return self._library

    def _space(self) -> torch.Tensor:
        if self._workspace is None:
            self._workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=self.device)
        return self._workspace

    def _query(self, q: torch.Tensor) -> torch.Tensor:
        """Queries as the kernel wants them: the generated ones pair an e4m3 cache with e4m3."""
        if self.kernel == "trtllm-gen" and self._is_e4m3:
            return to_e4m3(q)
        return q

    def _shaped(self, out: torch.Tensor, queries: int) -> torch.Tensor:
        """The output as XQA takes it: [batch, queries, heads, dim] where a row has several."""
        if self.kernel == "xqa" and queries > 1:
            return out.view(-1, queries, *out.shape[1:])
        return out


def module_names(request: Request) -> list[str]:
    """FlashInfer's modules that a request needs where XQA runs."""
    if request.mode == "extend":
        return paged.module_names("fa2", request)
    return [
        modules.xqa(
            dtype=TORCH[request.dtype],
            kv=TORCH[request.kv_dtype],
            page_size=request.page_size,
            head_dim=request.qk_head_dim,
            group=request.group,
            window=request.window,
            queries=max(request.draft_tokens, 1),
        )
    ]
