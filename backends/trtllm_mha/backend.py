"""Attention through FlashInfer's `trtllm_batch_decode_with_kv_cache` and what goes with it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from ..interface.base import AttentionBackend, capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal, Request
from ..interface.dtypes import TORCH
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import modules, paged
from ..library.driver import share_driver
from ..library.graphs import GraphTable, Shape
from ..library.kinds import kv_buffers, scales_of
from ..library.masks import tree_words
from ..library.paging import (
    columns_of,
    key_bounds,
    kv_lens_on_device,
    most_columns,
    page_table,
    query_bounds,
)
from ..library.tails import TailCleaner
from ..library.warm import warm_up
from .capabilities import CAPABILITIES

#: Semaphores and scratch of XQA; the counters of the generated kernels. Zeroed before first use.
WORKSPACE_BYTES = 128 << 20
_E4M3_LARGEST = 448.0


@dataclass(slots=True)
class Metadata:
    """What a pass of decode, verify or generated extend reads."""

    table: torch.Tensor  # int32 [batch, columns]
    kv_lens: torch.Tensor  # int32 [batch]
    max_kv_len: int
    queries: int  # of each row
    words: torch.Tensor | None = None  # uint16 [batch, queries, words]
    q_bounds: torch.Tensor | None = None  # int32 [batch + 1], of a generated extend
    kv_bounds: torch.Tensor | None = None


class TRTLLMHAAttnBackend(AttentionBackend):
    """XQA on Hopper and consumer Blackwell, generated kernels on data-centre Blackwell."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self._library = library
        capability = capability_of(self.device)
        self.kernel = "trtllm-gen" if capability is not None and capability[0] == 10 else "xqa"
        self._workspace: torch.Tensor | None = None
        self._extend_wrappers: paged.PagedWrappers | None = None
        self._table = GraphTable()
        self._captured: dict[Shape, Metadata] = {}
        self._metadata: Metadata | None = None
        # XQA on e4m3 loads whole pages; all else leaves unused slots alone.
        self._tails = (
            TailCleaner(self.token_to_kv_pool, [layer.layer_id for layer in runner.layers])
            if self.token_to_kv_pool.kv_cache_dtype == "fp8_e4m3"
            else None
        )

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
        self._table.allocate(max_bs, most_columns(self.req_to_token_pool), self.device)
        if self.kernel == "xqa":
            self._fa2().allocate(max_bs)

    def _fa2(self) -> paged.PagedWrappers:
        if self._extend_wrappers is None:
            self._extend_wrappers = paged.PagedWrappers(
                self.runner, "fa2", paged.new_workspace(self.device), self._library
            )
        return self._extend_wrappers

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        captured = in_capture or batch.captured
        if batch.forward_mode.is_extend() and self.kernel == "xqa":
            self._fa2().plan(batch, captured=captured)
        else:
            if self._tails is not None:
                self._tails.clean(batch)
            self._metadata = self._static(batch) if captured else self._eager(batch)
        if in_capture:
            warm_up(self, batch)

    def _eager(self, batch: ForwardBatch) -> Metadata:
        metadata = Metadata(
            table=page_table(batch, columns_of(batch)),
            kv_lens=kv_lens_on_device(batch),
            max_kv_len=batch.max_kv_len,
            queries=batch.query_lens_cpu[0],
            words=tree_words(batch) if self._takes_words(batch) else None,
        )
        if batch.forward_mode.is_extend():
            metadata.q_bounds, metadata.kv_bounds = query_bounds(batch), key_bounds(batch)
        return metadata

    def _static(self, batch: ForwardBatch) -> Metadata:
        """The static metadata of a graph, filled for this batch."""
        shape = Shape.of(batch)
        if shape not in self._captured:
            self._captured[shape] = Metadata(
                table=self._table.of(batch),
                kv_lens=torch.zeros(batch.batch_size, dtype=torch.int32, device=self.device),
                max_kv_len=self.req_to_token_pool.max_context_len,
                queries=batch.query_lens_cpu[0],
                words=tree_words(batch) if self._takes_words(batch) else None,
            )
            if batch.forward_mode.is_extend():
                bounds = self._captured[shape]
                bounds.q_bounds, bounds.kv_bounds = query_bounds(batch), key_bounds(batch)
        metadata = self._captured[shape]
        page_table(batch, columns_of(batch), out=metadata.table)
        metadata.kv_lens.copy_(kv_lens_on_device(batch))
        if metadata.words is not None:
            # Bits are moved as int16: not every torch copies uint16 everywhere.
            metadata.words.view(torch.int16).copy_(tree_words(batch).view(torch.int16))
        if metadata.q_bounds is not None and metadata.kv_bounds is not None:
            metadata.q_bounds.copy_(query_bounds(batch))
            metadata.kv_bounds.copy_(key_bounds(batch))
        return metadata

    def _takes_words(self, batch: ForwardBatch) -> bool:
        """XQA takes every verify of more than one token as a tree."""
        spec = batch.spec_info
        return self.kernel == "xqa" and spec is not None and spec.draft_token_num > 1

    # Attention

    def _decode(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        metadata = self._metadata
        assert metadata is not None, "planned by init_forward_metadata"
        k_scale, v_scale = scales_of(layer, self.token_to_kv_pool)
        out = q.new_empty(q.shape)
        self._fi.decode.trtllm_batch_decode_with_kv_cache(
            query=self._query(q),
            kv_cache=kv_buffers(self.token_to_kv_pool, layer.layer_id),
            workspace_buffer=self._space(),
            block_tables=metadata.table,
            seq_lens=metadata.kv_lens.view(torch.uint32)
            if self.kernel == "xqa"
            else metadata.kv_lens,
            max_seq_len=metadata.max_kv_len,
            bmm1_scale=layer.scaling * k_scale,
            bmm2_scale=v_scale,
            window_left=layer.sliding_window_size,
            out=self._shaped(out, metadata),
            sinks=sinks,
            kv_layout="NHD",
            backend=self.kernel,
            q_len_per_req=metadata.queries,
            mask=metadata.words,
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
        metadata = self._metadata
        assert metadata is not None, "planned by init_forward_metadata"
        k_scale, v_scale = scales_of(layer, self.token_to_kv_pool)
        out = q.new_empty(q.shape)
        self._fi.prefill.trtllm_batch_context_with_kv_cache(
            query=self._query(q),
            kv_cache=kv_buffers(self.token_to_kv_pool, layer.layer_id),
            workspace_buffer=self._space(),
            block_tables=metadata.table,
            seq_lens=metadata.kv_lens,
            max_q_len=max(batch.query_lens_cpu),
            max_kv_len=metadata.max_kv_len,
            bmm1_scale=layer.scaling * k_scale,
            bmm2_scale=v_scale,
            batch_size=batch.batch_size,
            cum_seq_lens_q=metadata.q_bounds,
            cum_seq_lens_kv=metadata.kv_bounds,
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
        if self.kernel == "trtllm-gen" and self._tails is not None:
            return q.clamp(-_E4M3_LARGEST, _E4M3_LARGEST).to(torch.float8_e4m3fn)
        return q

    def _shaped(self, out: torch.Tensor, metadata: Metadata) -> torch.Tensor:
        """The output as XQA takes it: [batch, queries, heads, dim] where a row has several."""
        if self.kernel == "xqa" and metadata.queries > 1:
            return out.view(-1, metadata.queries, *out.shape[1:])
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
