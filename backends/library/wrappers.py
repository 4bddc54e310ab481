"""FlashInfer's wrappers as they are kept from pass to pass, in graphs with their buffers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from typing import Any

import torch

from ..interface.batch import ForwardBatch
from ..interface.runner import ModelRunner
from .graphs import GraphBuffers, GraphPages, Shape
from .kinds import kinds_of
from .paging import most_columns
from .planning import Planner


class Wrappers:
    """The wrappers of a runner: for each kind of layer, and for each shape of captured batch."""

    def __init__(
        self, runner: ModelRunner, backend: str, workspace: torch.Tensor, library: Any = None
    ) -> None:
        self.library = library or importlib.import_module("flashinfer")
        self.runner = runner
        self.backend = backend
        self.workspace = workspace
        self.kinds = kinds_of(runner.layers)
        self.pool = runner.token_to_kv_pool
        self._planner = Planner(runner.device)
        self._pages = GraphPages()
        self._eager: dict[Hashable, Any] = {}
        self._captured: dict[tuple[Hashable, Shape], Any] = {}
        self._buffers: dict[Shape, GraphBuffers] = {}

    def allocate(self, max_bs: int) -> None:
        """Make room for captured batches of up to `max_bs` requests."""
        columns = most_columns(self.runner.req_to_token_pool)
        self._pages.allocate(max_bs, columns, self.runner.device)

    def _wrapper(
        self,
        key: Hashable,
        batch: ForwardBatch,
        shape: Shape | None,
        new: Callable[[GraphBuffers | None], Any],
    ) -> Any:
        """The wrapper of a key, for eager passes or for graphs of a shape; made by `new` once."""
        if shape is None:
            if key not in self._eager:
                self._eager[key] = new(None)
            return self._eager[key]
        if (key, shape) not in self._captured:
            if shape not in self._buffers:
                self._buffers[shape] = GraphBuffers.new(batch, self._pages.of(batch))
            self._captured[key, shape] = new(self._buffers[shape])
        return self._captured[key, shape]
