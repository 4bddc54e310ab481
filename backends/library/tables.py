"""What kernels with page tables read of a pass: the table, lengths, and what more one wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..interface.batch import ForwardBatch
from ..interface.runner import ModelRunner
from .graphs import GraphTable, Shape
from .paging import columns_of, kv_lens_on_device, most_columns, page_table
from .tails import TailCleaner

#: Further tensors of a batch by name; their shapes hang on the batch's `Shape` alone.
More = Callable[[ForwardBatch], dict[str, torch.Tensor]]


@dataclass(slots=True)
class TabledPass:
    """What a pass reads; static tensors where it is captured."""

    table: torch.Tensor  # int32 [batch, columns]
    kv_lens: torch.Tensor  # int32 [batch]
    max_q_len: int
    #: Of a captured pass that of the longest context: it is a constant of every replay.
    max_kv_len: int
    more: dict[str, torch.Tensor]


class PassTables:
    """Prepares passes: new tensors for an eager one, the same ones for each captured shape.

    `clean_tails`: the kernel loads whole pages, so that nothing behind a request's end may be NaN.
    """

    def __init__(
        self, runner: ModelRunner, more: More | None = None, *, clean_tails: bool = False
    ) -> None:
        self._runner = runner
        self._more = more
        self._table = GraphTable()
        self._captured: dict[Shape, TabledPass] = {}
        layers = [layer.layer_id for layer in runner.layers]
        self._tails = TailCleaner(runner.token_to_kv_pool, layers) if clean_tails else None

    def allocate(self, max_bs: int) -> None:
        """Make room for captured batches of up to `max_bs` requests."""
        columns = most_columns(self._runner.req_to_token_pool)
        self._table.allocate(max_bs, columns, self._runner.device)

    def prepare(self, batch: ForwardBatch, *, captured: bool) -> TabledPass:
        """The pass of a batch; raises InvalidInput where a captured one has no room."""
        if self._tails is not None:
            self._tails.clean(batch)
        lens = kv_lens_on_device(batch)
        more = {} if self._more is None else self._more(batch)
        queries = max(batch.query_lens_cpu)
        columns = columns_of(batch)
        if not captured:
            return TabledPass(page_table(batch, columns), lens, queries, batch.max_kv_len, more)
        shape = Shape.of(batch)
        if shape not in self._captured:
            self._captured[shape] = TabledPass(
                self._table.of(batch),
                torch.empty_like(lens),
                queries,
                self._runner.req_to_token_pool.max_context_len,
                {name: torch.empty_like(tensor) for name, tensor in more.items()},
            )
        kept = self._captured[shape]
        page_table(batch, columns, out=kept.table)
        kept.kv_lens.copy_(lens)
        for name, tensor in more.items():
            kept.more[name].copy_(tensor)
        return kept
