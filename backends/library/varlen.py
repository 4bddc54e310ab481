"""Kernels for batches of any lengths that read a page table, lengths and bounds of queries."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from .graphs import Stage
from .paging import query_bounds
from .tables import PassTables, TabledPass

#: Pages of at least this many tokens may be loaded whole.
_WHOLE_PAGE = 64
#: The name of int32 [batch + 1] in `TabledPass.more`: where each request's queries start.
QUERY_BOUNDS = "query_bounds"


class VarlenEngine(ABC):
    """An engine whose one kernel serves every mode; nothing is read back from the device."""

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner
        self.pool = runner.token_to_kv_pool
        self._tables = PassTables(
            runner,
            lambda batch: {QUERY_BOUNDS: query_bounds(batch)},
            clean_tails=self.pool.page_size >= _WHOLE_PAGE,
        )
        self._pass: TabledPass | None = None

    def allocate(self, max_bs: int) -> None:
        """Make room for captured batches of up to `max_bs` requests."""
        self._tables.allocate(max_bs)

    def plan(self, batch: ForwardBatch, stage: Stage) -> None:
        """Prepare page table and bounds of a pass; static ones where it is captured."""
        self._pass = self._tables.prepare(batch, captured=stage.captured)

    def run(
        self, q: torch.Tensor, layer: AttentionLayer, sinks: torch.Tensor | None
    ) -> torch.Tensor:
        """Attention of the planned pass: [tokens, q_heads, v_head_dim]."""
        assert self._pass is not None, "planned by init_forward_metadata"
        return self._call(self._pass, q, layer, sinks)

    @abstractmethod
    def _call(
        self,
        now: TabledPass,
        q: torch.Tensor,
        layer: AttentionLayer,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Call the kernel for `q` [tokens, q_heads, head_dim]."""
