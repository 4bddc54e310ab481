"""FlashAttention-3 over the paged pool."""

from __future__ import annotations

from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import latent, modules, paged
from ..library.engine import Engine, EngineBackend
from .capabilities import CAPABILITIES
from .sgl import SglKernel, is_built


class FlashAttentionBackend(EngineBackend):
    """`sgl_kernel`'s kernel for heads where it is installed, FlashInfer's for the rest."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._is_mla = self.token_to_kv_pool.family == "mla"
        self._uses_sgl = not self._is_mla and is_built()

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        reasons = super().refusals(batch, layer, graph=graph)
        if reasons or batch.forward_mode.is_idle() or self._uses_sgl:
            return reasons
        request = self.request(batch, layer, graph=graph)
        names = latent.module_names if self._is_mla else paged.module_names
        return modules.missing(names("fa3", request))

    def _new_engine(self) -> Engine:
        if self._uses_sgl:
            return SglKernel(self.runner)
        kind = latent.LatentWrappers if self._is_mla else paged.PagedWrappers
        return kind(self.runner, "fa3", paged.new_workspace(self.device))
