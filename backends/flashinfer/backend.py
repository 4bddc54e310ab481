"""Attention through FlashInfer's paged wrappers."""

from __future__ import annotations

from ..interface.base import capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import latent, modules, paged
from ..library.engine import Engine, EngineBackend
from ..library.limits import too_many_mask_bits
from .capabilities import CAPABILITIES


class FlashInferAttnBackend(EngineBackend):
    """Plans FlashInfer's wrappers once a pass and runs them for each layer."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._is_mla = self.token_to_kv_pool.family == "mla"
        self._mla_kernel = latent.mla_backend(capability_of(self.device))

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

    def _new_engine(self) -> Engine:
        workspace = paged.new_workspace(self.device)
        if self._is_mla:
            return latent.LatentWrappers(self.runner, self._mla_kernel, workspace)
        return paged.PagedWrappers(self.runner, "fa2", workspace)
