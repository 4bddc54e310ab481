"""Attention through `flash_mla_with_kvcache`."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import Any

import torch

from ..interface.base import AttentionBackend, capability_of
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library import latent, modules, paged
from ..library.graphs import GraphTable, Shape
from ..library.kinds import kv_buffers, scales_of
from ..library.paging import columns_of, kv_lens_on_device, most_columns, page_table
from ..library.tails import TailCleaner
from ..library.warm import warm_up
from .capabilities import CAPABILITIES

_E4M3_LARGEST = 448.0


@dataclass(slots=True)
class Metadata:
    """What a pass of decode or verify reads; static tensors where it is captured."""

    table: torch.Tensor
    kv_lens: torch.Tensor
    queries: int  # of each row
    #: How keys are split, by number of query heads; made on the device, in graphs too.
    schedule: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)


class FlashMLABackend(AttentionBackend):
    """Dense MLA decode on Hopper; the split of keys is planned on the device."""

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self._library = library or importlib.import_module("flash_mla")
        self._is_fp8 = self.token_to_kv_pool.kv_cache_dtype == "fp8_e4m3"
        self._extend_kernel = latent.mla_backend(capability_of(self.device))
        self._extend_wrappers: latent.LatentWrappers | None = None
        self._table = GraphTable()
        self._captured: dict[Shape, Metadata] = {}
        self._metadata: Metadata | None = None
        # Pages are loaded whole.
        self._tails = TailCleaner(
            self.token_to_kv_pool, [layer.layer_id for layer in runner.layers]
        )
        self._descales: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

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
        self._table.allocate(max_bs, most_columns(self.req_to_token_pool), self.device)
        if importlib.util.find_spec("flashinfer") is not None:
            self._extend_engine().allocate(max_bs)

    def _extend_engine(self) -> latent.LatentWrappers:
        if self._extend_wrappers is None:
            self._extend_wrappers = latent.LatentWrappers(
                self.runner, self._extend_kernel, paged.new_workspace(self.device)
            )
        return self._extend_wrappers

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        captured = in_capture or batch.captured
        if batch.forward_mode.is_extend():
            self._extend_engine().plan(batch, captured=captured)
        else:
            self._tails.clean(batch)
            self._metadata = self._static(batch) if captured else self._eager(batch)
        if in_capture:
            warm_up(self, batch)

    def _eager(self, batch: ForwardBatch) -> Metadata:
        return Metadata(
            table=page_table(batch, columns_of(batch)),
            kv_lens=kv_lens_on_device(batch),
            queries=batch.query_lens_cpu[0],
        )

    def _static(self, batch: ForwardBatch) -> Metadata:
        shape = Shape.of(batch)
        if shape not in self._captured:
            self._captured[shape] = Metadata(
                table=self._table.of(batch),
                kv_lens=torch.zeros(batch.batch_size, dtype=torch.int32, device=self.device),
                queries=batch.query_lens_cpu[0],
            )
        metadata = self._captured[shape]
        page_table(batch, columns_of(batch), out=metadata.table)
        metadata.kv_lens.copy_(kv_lens_on_device(batch))
        return metadata

    def _plan_in_graph(self, batch: ForwardBatch) -> None:
        """Plan the split of keys from the lengths on the device; a replay plans it anew."""
        metadata = self._metadata
        if batch.forward_mode.is_extend() or metadata is None:
            return
        for heads in {layer.tp_q_head_num for layer in self.runner.layers}:
            metadata.schedule[heads] = self._library.get_mla_decoding_metadata(
                metadata.kv_lens,
                metadata.queries * heads,
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
        metadata = self._metadata
        assert metadata is not None, "planned by init_forward_metadata"
        heads = layer.tp_q_head_num
        schedule, _ = self._library.get_mla_metadata()
        schedule.tile_scheduler_metadata, schedule.num_splits = metadata.schedule[heads]
        options: dict[str, Any] = {}
        if self._is_fp8:
            q = q.clamp(-_E4M3_LARGEST, _E4M3_LARGEST).to(torch.float8_e4m3fn)
            options["is_fp8_kvcache"] = True
            options["descale_q"], options["descale_k"] = self._descale(layer)
        out, _ = self._library.flash_mla_with_kvcache(
            q.view(-1, metadata.queries, heads, layer.head_dim),
            kv_buffers(self.token_to_kv_pool, layer.layer_id)[0],
            metadata.table,
            metadata.kv_lens,
            layer.v_head_dim,
            schedule,
            softmax_scale=layer.scaling,
            causal=metadata.queries > 1,
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

    def _descale(self, layer: AttentionLayer) -> tuple[torch.Tensor, torch.Tensor]:
        """Scales of queries and latents as the kernel reads them: [1] each."""
        if layer.layer_id not in self._descales:
            k_scale, _ = scales_of(layer, self.token_to_kv_pool)
            one, key = (
                torch.full((1,), scale, dtype=torch.float32, device=self.device)
                for scale in (1.0, k_scale)
            )
            self._descales[layer.layer_id] = (one, key)
        return self._descales[layer.layer_id]
