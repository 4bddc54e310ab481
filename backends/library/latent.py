"""FlashInfer's wrapper for MLA: absorbed queries against latents, planned on the host."""

from __future__ import annotations

from typing import Any

import torch

from ..interface.batch import ForwardBatch
from ..interface.capabilities import Request
from ..interface.dtypes import TORCH
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from . import modules
from .graphs import GraphBuffers, Shape, Stage
from .kinds import Kind, kv_buffers, stored_dtype
from .paging import host_lengths, page_list
from .wrappers import Wrappers


class LatentWrappers(Wrappers):
    """Plans and runs FlashInfer for every kind of MLA layer of a runner."""

    def __init__(
        self, runner: ModelRunner, backend: str, workspace: torch.Tensor, library: Any = None
    ) -> None:
        super().__init__(runner, backend, workspace, library)
        self._planned: dict[Kind, Any] = {}

    def plan(self, batch: ForwardBatch, stage: Stage) -> None:
        """Plan every kind of layer for a pass, in the buffers of a graph where it is captured."""
        lengths = host_lengths(batch)
        shape = Shape.of(batch) if stage.captured else None
        pages = page_list(batch, lengths, self._pages.of(batch) if shape else None)
        for kind in self.kinds:
            wrapper = self._wrapper(kind, batch, shape, self._new)
            self._planned[kind] = wrapper
            self._planner.plan(
                wrapper,
                lengths.qo_indptr,
                lengths.kv_indptr,
                pages,
                lengths.kv_lens,
                kind.q_heads,
                kind.v_head_dim,
                kind.qk_head_dim - kind.v_head_dim,
                self.pool.page_size,
                kind.causal and not batch.forward_mode.is_decode(),
                kind.scaling,
                self.runner.dtype,
                stored_dtype(self.pool),
            )

    def _new(self, buffers: GraphBuffers | None) -> Any:
        graph: dict[str, Any] = {}
        if buffers is not None:
            graph = {
                "use_cuda_graph": True,
                "qo_indptr": buffers.qo_indptr,
                "kv_indptr": buffers.kv_indptr,
                "kv_indices": buffers.pages,
                "kv_len_arr": buffers.kv_lens,
            }
        new = self.library.mla.BatchMLAPagedAttentionWrapper
        return new(self.workspace, backend=self.backend, **graph)

    def run(
        self, q: torch.Tensor, layer: AttentionLayer, sinks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attention of the planned pass: [tokens, q_heads, rank]."""
        rank = layer.v_head_dim
        cache = kv_buffers(self.pool, layer.layer_id)[0].squeeze(2)
        out = q.new_empty(q.shape[0], layer.tp_q_head_num, rank)
        self._planned[Kind.of(layer)].run(
            q[..., :rank], q[..., rank:], cache[..., :rank], cache[..., rank:], out=out
        )
        return out


def mla_backend(capability: tuple[int, int] | None) -> str:
    """The kernel that FlashInfer's `auto` picks: Hopper's own on compute capability 9.0."""
    return "fa3" if capability == (9, 0) else "fa2"


def module_names(backend: str, request: Request) -> list[str]:
    """FlashInfer's modules that a request needs; `request` is one that capabilities allow."""
    rope = request.qk_head_dim - request.v_head_dim
    return [modules.mla(backend, TORCH[request.dtype], request.v_head_dim, rope)]
