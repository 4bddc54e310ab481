"""Two backends in one: prefill by the one, decode by the other (SGLang: `HybridAttnBackend`)."""

from __future__ import annotations

import torch

from .interface.base import AttentionBackend, mode_of
from .interface.batch import ForwardBatch
from .interface.capabilities import Capabilities, Refusal
from .interface.errors import InvalidInput
from .interface.layer import AttentionLayer
from .interface.modes import ForwardMode


class HybridAttnBackend(AttentionBackend):
    """Dispatches by `ForwardMode`; target verify goes by `speculative_attention_mode`."""

    def __init__(self, prefill_backend: AttentionBackend, decode_backend: AttentionBackend) -> None:
        for given in (prefill_backend, decode_backend):
            if not isinstance(given, AttentionBackend):
                raise InvalidInput([f"a hybrid is made of two backends; {given!r} is none"])
        if prefill_backend.runner is not decode_backend.runner:
            raise InvalidInput(["both backends of a hybrid serve the same runner"])
        super().__init__(prefill_backend.runner)
        self.prefill_backend = prefill_backend
        self.decode_backend = decode_backend
        prefill, decode = prefill_backend.capabilities, decode_backend.capabilities
        self.capabilities = Capabilities(  # type: ignore[misc]  # of this pair, not of the class
            name=f"{prefill.name}+{decode.name}",
            title=f"{prefill.title} for prefill, {decode.title} for decode",
            runs=f"prefill: {prefill.runs}; decode: {decode.runs}",
            allows={},
        )

    def select(self, mode: ForwardMode) -> AttentionBackend:
        """The backend that serves a mode."""
        if mode.is_decode_or_idle():
            return self.decode_backend
        if mode.is_target_verify() and self.runner.speculative_attention_mode == "decode":
            return self.decode_backend
        return self.prefill_backend

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        return self.select(mode_of(batch)).refusals(batch, layer, graph=graph)

    def validate(self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False) -> None:
        self.select(mode_of(batch)).validate(batch, layer, graph=graph)

    def init_forward_metadata_out_graph(
        self, batch: ForwardBatch, in_capture: bool = False
    ) -> None:
        self.select(mode_of(batch)).init_forward_metadata_out_graph(batch, in_capture)

    def init_forward_metadata_in_graph(self, batch: ForwardBatch) -> None:
        self.select(mode_of(batch)).init_forward_metadata_in_graph(batch)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        # SGLang's leaves the prefill side out where no verify goes to it, since its graphs of
        # extends have buffers of their own. Here extends are captured with the same ones.
        self.decode_backend.init_cuda_graph_state(max_bs, max_num_tokens)
        self.prefill_backend.init_cuda_graph_state(max_bs, max_num_tokens)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return self.decode_backend.get_cuda_graph_seq_len_fill_value()

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: AttentionLayer,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        *,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.select(mode_of(forward_batch)).forward(
            q, k, v, layer, forward_batch, save_kv_cache, sinks=sinks
        )

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: AttentionLayer,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        *,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.decode_backend.forward_decode(
            q, k, v, layer, forward_batch, save_kv_cache, sinks=sinks
        )

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: AttentionLayer,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        *,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.select(mode_of(forward_batch)).forward_extend(
            q, k, v, layer, forward_batch, save_kv_cache, sinks=sinks
        )

    def _decode(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        raise AssertionError("a hybrid's calls go to one of its backends")

    _extend = _decode
