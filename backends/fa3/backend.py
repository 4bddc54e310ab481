"""FlashAttention-3 over the paged pool."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import latent, modules, paged
from ..library.warm import warm_up
from .capabilities import CAPABILITIES
from .sgl import SglKernel


class FlashAttentionBackend(AttentionBackend):
    """`sgl_kernel`'s kernel for heads where it is installed, FlashInfer's for the rest."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._is_mla = self.token_to_kv_pool.family == "mla"
        self._uses_sgl = not self._is_mla and importlib.util.find_spec("sgl_kernel") is not None
        self._engine: Any = None

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        reasons = super().refusals(batch, layer, graph=graph)
        if reasons or batch.forward_mode.is_idle() or self._uses_sgl:
            return reasons
        request = self.request(batch, layer, graph=graph)
        names = latent.module_names if self._is_mla else paged.module_names
        return modules.missing(names("fa3", request))

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._made().allocate(max_bs)

    def _made(self) -> Any:
        """What runs the kernels, made on first use: a refused batch allocates nothing."""
        if self._engine is None:
            if self._uses_sgl:
                self._engine = SglKernel(self.runner)
            else:
                kind = latent.LatentWrappers if self._is_mla else paged.PagedWrappers
                self._engine = kind(self.runner, "fa3", paged.new_workspace(self.device))
        return self._engine

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        self._made().plan(batch, captured=in_capture or batch.captured)
        if in_capture:
            warm_up(self, batch)

    def _attend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        out: torch.Tensor = self._engine.run(q, layer, sinks)
        return out

    _decode = _extend = _verify = _attend
