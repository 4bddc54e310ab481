"""Backends of which one object plans and runs all the kernels."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import torch

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from .graphs import Stage
from .warm import warm_up


class Engine(Protocol):
    """Plans a pass once and runs it for each layer."""

    def allocate(self, max_bs: int) -> None:
        """Make room for captured batches of up to `max_bs` requests."""

    def plan(self, batch: ForwardBatch, stage: Stage) -> None:
        """Prepare a pass, in static tensors where it is captured."""

    def run(
        self, q: torch.Tensor, layer: AttentionLayer, sinks: torch.Tensor | None
    ) -> torch.Tensor:
        """Attention of the planned pass: [tokens, q_heads, v_head_dim]."""


class StagedBackend(AttentionBackend):
    """A backend that warms its kernels up before a capture."""

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        stage = Stage.of(batch, in_capture=in_capture)
        self._prepare(batch, stage)
        if stage is Stage.CAPTURE:
            warm_up(self, batch)

    @abstractmethod
    def _prepare(self, batch: ForwardBatch, stage: Stage) -> None:
        """Prepare a pass outside of graphs, in static tensors where it is captured."""


class EngineBackend(StagedBackend):
    """A backend whose passes, of whatever mode, all go to one engine."""

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._engine: Engine | None = None

    @abstractmethod
    def _new_engine(self) -> Engine:
        """What runs the kernels; asked for once, by the first call that isn't refused."""

    def _made(self) -> Engine:
        if self._engine is None:
            self._engine = self._new_engine()
        return self._engine

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._made().allocate(max_bs)

    def _prepare(self, batch: ForwardBatch, stage: Stage) -> None:
        self._made().plan(batch, stage)

    def _attend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        assert self._engine is not None, "planned by init_forward_metadata"
        return self._engine.run(q, layer, sinks)

    _decode = _extend = _verify = _attend
