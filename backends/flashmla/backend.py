"""Attention through `flash_mla_with_kvcache`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from ..interface.base import capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import latent, modules, paged
from ..library.engine import StagedBackend
from ..library.graphs import Stage
from ..library.kinds import kv_buffers
from ..library.scales import ScaleTensors, to_e4m3
from ..library.tables import PassTables, TabledPass
from .capabilities import CAPABILITIES


class FlashMLABackend(StagedBackend):
    """Dense MLA decode on Hopper; the split of keys is planned on the device."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self._library = library or importlib.import_module("flash_mla")
        self._is_fp8 = self.token_to_kv_pool.kv_cache_dtype == "fp8_e4m3"
        self._extend_kernel = latent.mla_backend(capability_of(self.device))
        self._extend_wrappers: latent.LatentWrappers | None = None
        self._graph_bs = 0  # most requests of a graph, once that is said
        # Pages are loaded whole.
        self._tables = PassTables(runner, clean_tails=True)
        self._pass: TabledPass | None = None
        #: How keys are split, by number of query heads; made on the device, in graphs too.
        self._schedules: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._scales = ScaleTensors(runner)

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        reasons = super().refusals(batch, layer, graph=graph)
        if reasons or not batch.forward_mode.is_extend():
            return reasons
        if importlib.util.find_spec("flashinfer") is None:
            return [
                Refusal(
                    modules.NOT_BUILT,
                    "extend needs flashinfer: pip install 'attn-lint[gpu]'",
                )
            ]
        request = self.request(batch, layer, graph=graph)
        return modules.missing(latent.module_names(self._extend_kernel, request))

    # Metadata

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self._tables.allocate(max_bs)
        self._graph_bs = max_bs
        if self._extend_wrappers is not None:
            self._extend_wrappers.allocate(max_bs)

    def _extend_engine(self) -> latent.LatentWrappers:
        """What runs an extend; made when one is planned, as its workspace is large."""
        if self._extend_wrappers is None:
            self._extend_wrappers = latent.LatentWrappers(
                self.runner, self._extend_kernel, paged.new_workspace(self.device)
            )
            if self._graph_bs:
                self._extend_wrappers.allocate(self._graph_bs)
        return self._extend_wrappers

    def _prepare(self, batch: ForwardBatch, stage: Stage) -> None:
        if batch.forward_mode.is_extend():
            self._extend_engine().plan(batch, stage)
        else:
            self._pass = self._tables.prepare(batch, captured=stage.captured)

    def _plan_in_graph(self, batch: ForwardBatch) -> None:
        """Plan the split of keys from the lengths on the device; a replay plans it anew."""
        now = self._pass
        if batch.forward_mode.is_extend() or now is None:
            return
        for heads in {layer.tp_q_head_num for layer in self.runner.layers}:
            self._schedules[heads] = self._library.get_mla_decoding_metadata(
                now.kv_lens,
                now.max_q_len * heads,
                1,
                heads,
                self._is_fp8,
                None,
                use_legacy=True,
            )

    # Attention

    def _decode(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        now = self._pass
        assert now is not None, "planned by init_forward_metadata"
        heads = layer.tp_q_head_num
        schedule, _ = self._library.get_mla_metadata()
        schedule.tile_scheduler_metadata, schedule.num_splits = self._schedules[heads]
        options: dict[str, Any] = {}
        if self._is_fp8:
            q = to_e4m3(q)
            options["is_fp8_kvcache"] = True
            # One number each: the latent is one key head, and a query's scale is that of all.
            q_scales, k_scales, _ = self._scales.of(layer)
            options["descale_q"], options["descale_k"] = q_scales[:1], k_scales
        out, _ = self._library.flash_mla_with_kvcache(
            q.view(-1, now.max_q_len, heads, layer.head_dim),
            kv_buffers(self.token_to_kv_pool, layer.layer_id)[0],
            now.table,
            now.kv_lens,
            layer.v_head_dim,
            schedule,
            softmax_scale=layer.scaling,
            causal=now.max_q_len > 1,
            use_legacy=True,
            **options,
        )
        flat: torch.Tensor = out.view(-1, heads, layer.v_head_dim)
        return flat

    _verify = _decode

    def _extend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        return self._extend_engine().run(q, layer)
