"""Buffers that captured kernels read, one set for each shape of captured batch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import torch

from ..interface.batch import ForwardBatch
from ..interface.errors import InvalidInput


class Stage(Enum):
    """What a pass is prepared for."""

    EAGER = auto()
    CAPTURE = auto()
    REPLAY = auto()

    @classmethod
    def of(cls, batch: ForwardBatch, *, in_capture: bool) -> Stage:
        if in_capture:
            return cls.CAPTURE
        return cls.REPLAY if batch.captured else cls.EAGER

    @property
    def captured(self) -> bool:
        """Kernels are those of a graph, so that they read the same tensors each time."""
        return self is not Stage.EAGER


@dataclass(frozen=True, slots=True)
class Shape:
    """What batches that replay one graph have in common."""

    mode: str
    batch_size: int
    tokens: int
    max_q_len: int
    drafts: int
    tree: bool

    @classmethod
    def of(cls, batch: ForwardBatch) -> Shape:
        spec = batch.spec_info
        return cls(
            mode=batch.forward_mode.value,
            batch_size=batch.batch_size,
            tokens=batch.num_tokens,
            max_q_len=max(batch.query_lens_cpu),
            drafts=spec.draft_token_num if spec else 0,
            tree=spec is not None and spec.tree_mask is not None,
        )


@dataclass(slots=True)
class GraphBuffers:
    """Bounds and pages of a captured batch, as FlashInfer's wrappers keep them."""

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_lens: torch.Tensor  # [batch]: last page lengths (MHA) or lengths (MLA)
    pages: torch.Tensor  # shared by all shapes: one graph at a time is prepared and replayed

    @classmethod
    def new(cls, batch: ForwardBatch, pages: torch.Tensor) -> GraphBuffers:
        n, device = batch.batch_size, batch.device
        return cls(
            qo_indptr=torch.zeros(n + 1, dtype=torch.int32, device=device),
            kv_indptr=torch.zeros(n + 1, dtype=torch.int32, device=device),
            kv_lens=torch.ones(n, dtype=torch.int32, device=device),
            pages=pages,
        )


class GraphPages:
    """The page list of captured batches, as large as the largest needs."""

    def __init__(self) -> None:
        self._pages: torch.Tensor | None = None
        self._max_bs = 0

    def allocate(self, max_bs: int, columns: int, device: torch.device) -> None:
        self._max_bs = max_bs
        self._pages = torch.zeros(max_bs * columns, dtype=torch.int32, device=device)

    def of(self, batch: ForwardBatch) -> torch.Tensor:
        """The buffer for a batch; raises InvalidInput where it is missing or too small."""
        check_allocated(batch, self._max_bs if self._pages is not None else None)
        assert self._pages is not None
        return self._pages


class GraphTable:
    """The page table of captured batches; its width is that of the longest context."""

    def __init__(self) -> None:
        self._table: torch.Tensor | None = None

    def allocate(self, max_bs: int, columns: int, device: torch.device) -> None:
        self._table = torch.zeros((max_bs, columns), dtype=torch.int32, device=device)

    def of(self, batch: ForwardBatch) -> torch.Tensor:
        """The rows for a batch; raises InvalidInput where they are missing or too few."""
        check_allocated(batch, None if self._table is None else len(self._table))
        assert self._table is not None
        return self._table[: batch.batch_size]


def check_allocated(batch: ForwardBatch, max_bs: int | None) -> None:
    """Raise InvalidInput unless buffers for `max_bs` requests serve a captured batch."""
    if max_bs is None:
        raise InvalidInput(["init_cuda_graph_state was not called before a capture"])
    if batch.batch_size > max_bs:
        raise InvalidInput(
            [f"a captured batch of {batch.batch_size} requests; graphs were set up for {max_bs}"]
        )
