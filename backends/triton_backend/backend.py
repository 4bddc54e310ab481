"""The `triton` backend: plans on the device, then the kernels of this package."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..interface.base import capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.pool import MHATokenToKVPool, MLATokenToKVPool
from ..interface.runner import ModelRunner
from ..library.engine import StagedBackend
from ..library.graphs import Stage
from ..library.kinds import scales_of
from .attention import (
    Options,
    extend_attention,
    new_partials,
    rows_of,
    split_attention,
    split_target,
)
from .capabilities import CAPABILITIES
from .launch import (
    ExtendConfig,
    Shape,
    SplitConfig,
    extend_config,
    multiprocessors,
    split_config,
)
from .loading import load_kernels
from .metadata import WorkPlan, allocate, fill

#: Most rows of a CUDA grid.
_GRID_ROWS = 65535


@dataclass(frozen=True, slots=True)
class _Kind:
    """Layers that share a plan."""

    shape: Shape
    window: int


@dataclass(slots=True)
class _Split:
    config: SplitConfig
    plan: WorkPlan
    partials: tuple[torch.Tensor, torch.Tensor]


@dataclass(slots=True)
class _Extend:
    config: ExtendConfig
    plan: WorkPlan


class TritonAttnBackend(StagedBackend):
    """Own kernels; on a CPU Triton's interpreter runs them."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._kernels = load_kernels(self.device)
        self._multiprocessors = multiprocessors(self.device)
        self._capability = capability_of(self.device)
        self._kinds = {self._kind(layer) for layer in runner.layers}
        self._splits: dict[_Kind, _Split] = {}
        self._extends: dict[_Kind, _Extend] = {}
        # Captured kernels keep the addresses of these.
        self._graph_splits: dict[tuple[_Kind, int, int], _Split] = {}
        self._graph_extends: dict[tuple[_Kind, int, int], _Extend] = {}

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        reasons = super().refusals(batch, layer, graph=graph)
        if reasons or not batch.batch_size:
            return reasons
        kind = self._kind(layer)
        if batch.forward_mode.is_extend():
            rows = self._extend_launch(kind, batch)[2]
        else:
            queries = batch.num_tokens // batch.batch_size
            _, target = self._split_launch(kind, batch.batch_size, queries)
            rows = max(batch.num_tokens, target + batch.batch_size)
        if rows <= _GRID_ROWS:
            return []
        return [
            Refusal(
                ("mode",),
                f"a batch of {batch.batch_size} requests and {batch.num_tokens} tokens takes a "
                f"grid of {rows} rows, beyond the {_GRID_ROWS} that there are: split the batch",
                "CUDA's limit of gridDim.y",
            )
        ]

    def _kind(self, layer: AttentionLayer) -> _Kind:
        keys, _ = self._buffers(layer)
        shape = Shape(
            layer.tp_q_head_num,
            layer.tp_k_head_num,
            layer.head_dim,
            layer.v_head_dim,
            self.runner.dtype.itemsize,
            keys.element_size(),
            layer.is_mla,
        )
        return _Kind(shape, layer.sliding_window_size)

    def _prepare(self, batch: ForwardBatch, stage: Stage) -> None:
        if not batch.batch_size:
            return
        for kind in self._kinds:
            if batch.forward_mode.is_extend():
                self._plan_extend(kind, batch, stage.captured)
            else:
                self._plan_split(kind, batch, stage.captured)

    def _plan_split(self, kind: _Kind, batch: ForwardBatch, captured: bool) -> None:
        verify = batch.spec_info
        queries = verify.draft_token_num if verify else 1
        if captured:
            key = (kind, batch.batch_size, queries)
            split = self._graph_splits.get(key)
            if split is None:
                split = self._graph_splits[key] = self._new_split(kind, batch.batch_size, queries)
        else:
            split = self._new_split(kind, batch.batch_size, queries)
        fill(
            split.plan,
            self._kernels,
            batch.seq_lens,
            batch.req_pool_indices,
            extra=queries if verify else 0,
            reach=self._reach(kind, queries),
        )
        self._splits[kind] = split

    def _reach(self, kind: _Kind, queries: int) -> int | None:
        """How many of a request's last keys its queries see, None for all.

        No more than a request can have: a sum beyond int32 would be another type to the kernel.
        """
        if kind.window < 0:
            return None
        return min(queries + kind.window, self.req_to_token_pool.max_context_len)

    def _new_split(self, kind: _Kind, batch: int, queries: int) -> _Split:
        shape = kind.shape
        config, target = self._split_launch(kind, batch, queries)
        plan = allocate(batch, target + batch, config.block_n, target, self.device)
        partials = new_partials(plan, queries, shape.q_heads, shape.v_dim, self.device)
        return _Split(config, plan, partials)

    def _split_launch(self, kind: _Kind, batch: int, queries: int) -> tuple[SplitConfig, int]:
        """How the split kernel is launched, and at how many pieces a plan for it aims."""
        shape = kind.shape
        rows = rows_of(shape.q_heads, shape.kv_heads, queries)
        config = split_config(shape, rows, batch, self._capability)
        return config, split_target(config, rows, shape.kv_heads, self._multiprocessors)

    def _plan_extend(self, kind: _Kind, batch: ForwardBatch, captured: bool) -> None:
        if captured:
            key = (kind, batch.batch_size, batch.num_tokens)
            extend = self._graph_extends.get(key)
            if extend is None:
                extend = self._graph_extends[key] = self._new_extend(kind, batch)
        else:
            extend = self._new_extend(kind, batch)
        fill(
            extend.plan,
            self._kernels,
            batch.seq_lens,
            batch.req_pool_indices,
            query_counts=batch.extend_seq_lens,
        )
        self._extends[kind] = extend

    def _new_extend(self, kind: _Kind, batch: ForwardBatch) -> _Extend:
        config, align, items = self._extend_launch(kind, batch)
        return _Extend(config, allocate(batch.batch_size, items, align, items, self.device))

    def _extend_launch(self, kind: _Kind, batch: ForwardBatch) -> tuple[ExtendConfig, int, int]:
        """How the extend kernel is launched, with how many queries an item and how many items."""
        config = extend_config(kind.shape, batch.num_tokens, batch.batch_size, self._capability)
        align = config.block_m // config.pack
        return config, align, batch.num_tokens // align + batch.batch_size

    def _buffers(self, layer: AttentionLayer) -> tuple[torch.Tensor, torch.Tensor]:
        pool = self.token_to_kv_pool
        assert isinstance(pool, MHATokenToKVPool | MLATokenToKVPool)
        return pool.get_kv_buffer(layer.layer_id)

    def _decode(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        if not batch.batch_size:
            return q.new_empty(0, layer.tp_q_head_num, layer.v_head_dim)
        split = self._splits[self._kind(layer)]
        spec = batch.spec_info
        k, v = self._buffers(layer)
        return split_attention(
            self._kernels,
            split.config,
            split.plan,
            q,
            k,
            v,
            self.req_to_token_pool.req_to_token,
            self._options(layer),
            queries=spec.draft_token_num if spec else 1,
            tree=spec.tree_mask if spec else None,
            sinks=sinks,
            partials=split.partials,
        )

    _verify = _decode

    def _extend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        if not batch.batch_size:
            return q.new_empty(0, layer.tp_q_head_num, layer.v_head_dim)
        assert batch.extend_start_loc is not None
        assert batch.extend_seq_lens is not None
        extend = self._extends[self._kind(layer)]
        k, v = self._buffers(layer)
        return extend_attention(
            self._kernels,
            extend.config,
            extend.plan,
            q,
            k,
            v,
            self.req_to_token_pool.req_to_token,
            batch.extend_start_loc,
            batch.extend_seq_lens,
            self._options(layer),
            causal=layer.is_causal,
            # A bidirectional layer sees past its multimodal blocks.
            kv_limit=batch.kv_limit if layer.is_causal else None,
            sinks=sinks,
        )

    def _options(self, layer: AttentionLayer) -> Options:
        k_scale, v_scale = scales_of(layer, self.token_to_kv_pool)
        return Options(
            layer.scaling, layer.sliding_window_size, layer.logit_cap, k_scale, v_scale
        )  # fmt: skip
