"""Work plans of a forward pass, made on the device without reading any length back."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .loading import Kernels

#: Columns of a work item, as in `kernels.plan`.
ITEM_WIDTH = 8
_BLOCK_I = 32


@dataclass(slots=True)
class WorkPlan:
    """Who computes what. Sizes come from the host; the contents are written by the plan kernel."""

    items: torch.Tensor  # int32 [max_items, ITEM_WIDTH]
    item_indptr: torch.Tensor  # int32 [batch + 1]
    align: int
    target: int

    @property
    def max_items(self) -> int:
        return int(self.items.shape[0])


def allocate(batch: int, max_items: int, align: int, target: int, device: torch.device) -> WorkPlan:
    """Buffers of a plan."""
    return WorkPlan(
        torch.empty(max_items, ITEM_WIDTH, dtype=torch.int32, device=device),
        torch.empty(batch + 1, dtype=torch.int32, device=device),
        align,
        target,
    )


def fill(
    plan: WorkPlan,
    kernels: Kernels,
    seq_lens: torch.Tensor,
    pool_rows: torch.Tensor,
    *,
    extra: int = 0,
    reach: int | None = None,
    query_counts: torch.Tensor | None = None,
) -> None:
    """Write a plan: pieces of keys, or with `query_counts` pieces of queries.

    `extra` keys follow those that `seq_lens` counts. With `reach`, only the last `reach` keys of a
    request are seen by any of its queries.
    """
    batch = seq_lens.shape[0]
    grid = (-(-plan.max_items // _BLOCK_I),)
    kernels.plan[grid](
        seq_lens,
        seq_lens if query_counts is None else query_counts,
        pool_rows,
        plan.items,
        plan.item_indptr,
        batch,
        plan.max_items,
        plan.target,
        extra,
        reach or 0,
        ALIGN=plan.align,
        QUERIES=query_counts is not None,
        WINDOWED=reach is not None,
        BLOCK_B=min(128, max(16, 1 << (batch - 1).bit_length())),
        BLOCK_I=_BLOCK_I,
        num_warps=4,
    )
