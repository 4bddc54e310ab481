"""Attention through FlashInfer's paged wrappers."""

from __future__ import annotations

import torch

from ..interface.base import AttentionBackend, capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import latent, modules, paged
from ..library.limits import too_many_mask_bits
from ..library.warm import warm_up
from .capabilities import CAPABILITIES


class FlashInferAttnBackend(AttentionBackend):
    """Plans FlashInfer's wrappers once a pass and runs them for each layer."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._is_mla = self.token_to_kv_pool.family == "mla"
        self._mla_kernel = latent.mla_backend(capability_of(self.device))
        self._engine: paged.PagedWrappers | latent.LatentWrappers | None = None

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        reasons = super().refusals(batch, layer, graph=graph)
        if reasons or batch.forward_mode.is_idle():
            return reasons
        request = self.request(batch, layer, graph=graph)
        if self._is_mla:
            return modules.missing(latent.module_names(self._mla_kernel, request))
        return too_many_mask_bits(batch, layer) + modules.missing(
            paged.module_names("fa2", request)
        )

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._made().allocate(max_bs)

    def _made(self) -> paged.PagedWrappers | latent.LatentWrappers:
        """What runs the kernels, made on first use: a refused batch allocates nothing."""
        if self._engine is None:
            workspace = paged.new_workspace(self.device)
            if self._is_mla:
                self._engine = latent.LatentWrappers(self.runner, self._mla_kernel, workspace)
            else:
                self._engine = paged.PagedWrappers(self.runner, "fa2", workspace)
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
        assert self._engine is not None, "planned by init_forward_metadata"
        return self._engine.run(q, layer, sinks)

    _decode = _extend = _verify = _attend
