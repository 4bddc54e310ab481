"""The base of all backends: public methods by SGLang's names, admission before any kernel.

A subclass declares `capabilities` and implements `_plan`, `_decode`, `_extend` and, where it is
not an extend, `_verify`. The public methods here check first: what is refused or invalid never
reaches a subclass, so that no backend can forget to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import ClassVar

import torch

from .batch import ForwardBatch, Stamp
from .capabilities import Capabilities, Refusal, Request
from .checks import whole
from .dtypes import name_of
from .errors import BrokenBackend, InvalidInput, Refused
from .layer import AttentionLayer
from .modes import ForwardMode
from .runner import ModelRunner


class AttentionBackend(ABC):
    """One way to compute attention over the paged pool of a `ModelRunner`.

    Order of calls, as in SGLang: `init_forward_metadata(batch)` once for a pass, then `forward`
    for each layer. With CUDA graphs: `init_cuda_graph_state` once; to capture,
    `init_forward_metadata_out_graph(batch, in_capture=True)`, then inside the capture
    `init_forward_metadata_in_graph(batch)` and `forward`; to replay, refill the static batch with
    `ForwardBatch.load_`, `init_forward_metadata_out_graph(batch)`, then replay.
    """

    capabilities: ClassVar[Capabilities]

    def __init__(self, runner: ModelRunner) -> None:
        if not isinstance(runner, ModelRunner):
            raise InvalidInput([f"the runner is {runner!r}; it is a ModelRunner"])
        self.runner = runner
        self.req_to_token_pool = runner.req_to_token_pool
        self.token_to_kv_pool = runner.token_to_kv_pool
        self.page_size = runner.page_size
        self.device = runner.device
        self._admitted: tuple[ForwardBatch, Stamp] | None = None
        self._graph_room: tuple[int, int] | None = None  # requests, tokens
        self._layers: dict[int, list[AttentionLayer]] = {}
        for layer in runner.layers:
            self._layers.setdefault(layer.layer_id, []).append(layer)
        self._spans = {i: self.token_to_kv_pool.spans(i) for i in self._layers}
        self._unlike = list({_kind_of(layer): layer for layer in runner.layers}.values())

    # What it carries

    def request(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> Request:
        """The traits of a call that support hangs on."""
        spec = batch.spec_info
        return Request(
            device=self.device.type,
            capability=capability_of(self.device),
            mode=batch.forward_mode.value,
            family="mla" if layer.is_mla else "mha",
            dtype=name_of(self.runner.dtype),
            kv_dtype=self.token_to_kv_pool.kv_cache_dtype,
            page_size=self.page_size,
            q_heads=layer.tp_q_head_num,
            kv_heads=layer.tp_k_head_num,
            qk_head_dim=layer.head_dim,
            v_head_dim=layer.v_head_dim,
            window=layer.sliding_window_size >= 0,
            sinks=layer.uses_sinks,
            logit_cap=layer.logit_cap > 0,
            causal=layer.is_causal,
            multimodal=batch.kv_limit is not None,
            tree=spec is not None and spec.tree_mask is not None,
            draft_tokens=spec.draft_token_num if spec else 0,
            graph=graph,
        )

    def refusals(
        self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False
    ) -> list[Refusal]:
        """Every reason why this call is not carried.

        A pass asks once for all layers that differ in their ids and scales only.
        """
        return self.capabilities.refusals(self.request(batch, layer, graph=graph))

    def validate(self, batch: ForwardBatch, layer: AttentionLayer, *, graph: bool = False) -> None:
        """Raise Refused with every reason, or InvalidInput, before any kernel runs."""
        if batch.token_to_kv_pool is not self.token_to_kv_pool:
            raise InvalidInput(["the batch belongs to another pool than the backend"])
        if batch.req_to_token_pool is not self.req_to_token_pool:
            raise InvalidInput(["the batch belongs to another table than the backend"])
        reasons = self.refusals(batch, layer, graph=graph)
        if reasons:
            raise Refused(self.capabilities.name, reasons)
        batch.recheck()

    # Metadata

    def init_forward_metadata(self, batch: ForwardBatch) -> None:
        """Prepare an eager pass."""
        self.init_forward_metadata_out_graph(batch)
        self.init_forward_metadata_in_graph(batch)

    def init_forward_metadata_out_graph(
        self, batch: ForwardBatch, in_capture: bool = False
    ) -> None:
        """Prepare what can't be recorded; runs before a capture and before each replay."""
        mode_of(batch)
        self._admitted = None
        graph = batch.captured or in_capture
        for layer in self._unlike:
            self.validate(batch, layer, graph=graph)
        if graph:
            self._check_room(batch)
        if not batch.forward_mode.is_idle():
            self._plan(batch, in_capture=in_capture)
        batch.captured = graph
        if in_capture:
            batch.seq_len_fill_value = self.get_cuda_graph_seq_len_fill_value()
        self._admitted = (batch, Stamp(batch))

    def init_forward_metadata_in_graph(self, batch: ForwardBatch) -> None:
        """Prepare on the device, with static shapes; recorded in a capture, replayed with it."""
        if not mode_of(batch).is_idle():
            self._plan_in_graph(batch)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocate the buffers that captured kernels read; sizes in requests and tokens."""
        max_bs, max_num_tokens = whole("max_bs", max_bs), whole("max_num_tokens", max_num_tokens)
        if max_bs < 1 or max_num_tokens < max_bs:
            raise InvalidInput([f"a graph of {max_bs} requests and {max_num_tokens} tokens"])
        self._graph_room = (max_bs, max_num_tokens)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """Length of the rows that fill up a batch which this backend captured."""
        return 1

    # Attention

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
        """Attention of the batch's new tokens: [tokens, q_heads * v_head_dim].

        `q` is [tokens, q_heads * head_dim] or [tokens, q_heads, head_dim]; `k` and `v` are the
        new tokens' keys and values alike, stored first if `save_kv_cache` and not read otherwise;
        an MLA layer reads no `v`. `sinks` is float32 [q_heads]: a logit that takes part in the
        softmax and brings no value. Gradients are not followed, and `torch.compile` has nothing to
        gain from tracing this: keep it out with `torch.compiler.disable`.
        """
        mode = mode_of(forward_batch)
        if mode.is_idle():
            query = self._enter(q, k, v, layer, forward_batch, save_kv_cache, sinks)
            return query.new_zeros(query.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        if mode.is_decode():
            return self.forward_decode(q, k, v, layer, forward_batch, save_kv_cache, sinks=sinks)
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache, sinks=sinks)

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
        """As `forward`, for a DECODE batch."""
        if not mode_of(forward_batch).is_decode():
            raise InvalidInput([f"forward_decode was called for {_a(forward_batch)} batch"])
        query = self._enter(q, k, v, layer, forward_batch, save_kv_cache, sinks)
        with _own_dtype(self.device):
            out = self._decode(query, layer, forward_batch, _plain(sinks))
        return self._answer(out, query, layer)

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
        """As `forward`, for an EXTEND or TARGET_VERIFY batch."""
        mode = mode_of(forward_batch)
        if mode.is_decode_or_idle():
            raise InvalidInput([f"forward_extend was called for {_a(forward_batch)} batch"])
        query = self._enter(q, k, v, layer, forward_batch, save_kv_cache, sinks)
        attend = self._verify if mode.is_target_verify() else self._extend
        with _own_dtype(self.device):
            out = attend(query, layer, forward_batch, _plain(sinks))
        return self._answer(out, query, layer)

    # What a subclass provides; everything was checked by then

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:  # noqa: B027
        """Prepare outside of graphs; `batch` is admitted for every layer and not idle."""

    def _plan_in_graph(self, batch: ForwardBatch) -> None:  # noqa: B027
        """Prepare on the device; no read-back, no shapes that depend on values."""

    @abstractmethod
    def _decode(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of one query a request: [batch, q_heads, v_head_dim] from q of head_dim."""

    @abstractmethod
    def _extend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of ragged queries: [tokens, q_heads, v_head_dim]."""

    def _verify(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of draft tokens: [batch * draft_token_num, q_heads, v_head_dim]."""
        raise BrokenBackend(f"{self.capabilities.name} has no target verify: no _verify")

    def _enter(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: AttentionLayer,
        batch: ForwardBatch,
        save_kv_cache: bool,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Check tensors and admission, store keys and values.

        Gives the queries as [tokens, heads, dim], contiguous.
        """
        self._check_admitted(batch, layer)
        n = batch.num_tokens
        query = self._rows("q", q, n, layer.tp_q_head_num, layer.head_dim)
        if layer.uses_sinks:
            if sinks is None:
                raise InvalidInput(["the layer uses sinks; none were given"])
            _check_dense("sinks", sinks)
            if sinks.dtype is not torch.float32 or sinks.shape != (layer.tp_q_head_num,):
                raise InvalidInput(
                    [
                        f"sinks are {sinks.dtype} {list(sinks.shape)}; they are torch.float32 "
                        f"[{layer.tp_q_head_num}]"
                    ]
                )
            if sinks.device != self.device:
                raise InvalidInput([f"sinks are on {sinks.device}, the pool on {self.device}"])
        elif sinks is not None:
            raise InvalidInput(["sinks were given to a layer that uses none"])
        if save_kv_cache:
            query = self._apart(query, layer)
            keys = self._apart(self._rows("k", k, n, layer.tp_k_head_num, layer.head_dim), layer)
            if layer.is_mla:
                values = keys[..., : layer.v_head_dim]
            else:
                values = self._rows("v", v, n, layer.tp_k_head_num, layer.v_head_dim)
                values = self._apart(values, layer)
            if n:
                self.token_to_kv_pool.set_kv_buffer(layer, batch.out_cache_loc, keys, values)
        return query.contiguous()

    def _apart(self, x: torch.Tensor, layer: AttentionLayer) -> torch.Tensor:
        """`x`, as a copy where it is a part of what the layer has stored, before that changes."""
        at = x.data_ptr()
        for first, end in self._spans[layer.layer_id]:
            if first <= at < end:
                return x.clone()
        return x

    def _answer(
        self, out: torch.Tensor, query: torch.Tensor, layer: AttentionLayer
    ) -> torch.Tensor:
        """What a subclass gave as [tokens, q_heads * v_head_dim], or BrokenBackend.

        Looks at no value, which would wait for the device.
        """
        shape = (query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        if (
            isinstance(out, torch.Tensor)
            and out.shape == shape
            and out.dtype is query.dtype
            and out.device == query.device
        ):
            return out.flatten(1)
        what = type(out).__name__
        if isinstance(out, torch.Tensor):
            what = f"{out.dtype} {list(out.shape)} on {out.device}"
        raise BrokenBackend(
            f"{self.capabilities.name} gave {what}; it is to give "
            f"{query.dtype} {list(shape)} on {query.device}"
        )

    def _check_room(self, batch: ForwardBatch) -> None:
        """Raise InvalidInput for a captured batch beyond what `init_cuda_graph_state` was told.

        What needs no buffers is captured without that call.
        """
        if self._graph_room is None:
            return
        sizes = (("requests", batch.batch_size), ("tokens", batch.num_tokens))
        problems = [
            f"a captured batch of {size} {what}; graphs were set up for {most}"
            for (what, size), most in zip(sizes, self._graph_room, strict=True)
            if size > most
        ]
        if problems:
            raise InvalidInput(problems)

    def _check_admitted(self, batch: ForwardBatch, layer: AttentionLayer) -> None:
        if not isinstance(layer, AttentionLayer):
            raise InvalidInput([f"the layer is {layer!r}; it is an AttentionLayer"])
        if not any(
            layer is known or layer == known for known in self._layers.get(layer.layer_id, ())
        ):
            raise InvalidInput([f"layer {layer.layer_id} is not one the backend was created for"])
        admitted = self._admitted
        if admitted is None or admitted[0] is not batch or not admitted[1].still_of(batch):
            raise InvalidInput(
                ["init_forward_metadata was not called for this batch, or it was changed since"]
            )

    def _rows(
        self, name: str, x: torch.Tensor | None, n: int, heads: int, dim: int
    ) -> torch.Tensor:
        """`x` as [n, heads, dim] without its gradient, or InvalidInput."""
        if x is None:
            raise InvalidInput([f"{name} is missing"])
        _check_dense(name, x)
        if x.shape != (n, heads, dim) and x.shape != (n, heads * dim):
            raise InvalidInput(
                [f"{name} is {list(x.shape)}; it is [{n}, {heads}, {dim}] or [{n}, {heads * dim}]"]
            )
        if x.dtype is not self.runner.dtype:
            raise InvalidInput([f"{name} is {x.dtype}; the runner's dtype is {self.runner.dtype}"])
        if x.device != self.device:
            raise InvalidInput([f"{name} is on {x.device}, the pool on {self.device}"])
        return _written_out(x.detach()).reshape(n, heads, dim)


def _kind_of(layer: AttentionLayer) -> AttentionLayer:
    """What layers have in common that are carried or refused together."""
    return replace(layer, layer_id=0, scaling=1.0, k_scale=1.0, v_scale=1.0)


def _check_dense(name: str, x: object) -> None:
    """Raise InvalidInput for what is no tensor, and for one that kernels can't address."""
    kind = None if isinstance(x, torch.Tensor) else type(x).__name__
    if isinstance(x, torch.Tensor) and (x.is_nested or x.layout is not torch.strided):
        kind = f"{'nested' if x.is_nested else x.layout} tensor"
    if kind is not None:
        raise InvalidInput([f"{name} is a {kind}; it is a dense tensor"])


def _own_dtype(device: torch.device) -> AbstractContextManager[object]:
    """Out of autocast, which would compute in another dtype than the runner's."""
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def _plain(sinks: torch.Tensor | None) -> torch.Tensor | None:
    """Sinks as a kernel takes them: contiguous and, where they are a parameter, its values."""
    return None if sinks is None else _written_out(sinks.detach()).contiguous()


def _written_out(x: torch.Tensor) -> torch.Tensor:
    """The tensor with its values in memory, where kernels read them.

    A part of a complex tensor's conjugate holds their negatives, and a bit that says so.
    """
    return x.resolve_neg() if x.is_neg() else x


def mode_of(batch: ForwardBatch) -> ForwardMode:
    """The mode of a batch, or InvalidInput for what is none."""
    if not isinstance(batch, ForwardBatch):
        raise InvalidInput([f"the batch is a {type(batch).__name__}; it is a ForwardBatch"])
    return batch.forward_mode


def _a(batch: ForwardBatch) -> str:
    mode = batch.forward_mode.value
    return f"an {mode}" if mode[0] in "aeiou" else f"a {mode}"


def capability_of(device: torch.device) -> tuple[int, int] | None:
    """Compute capability of a CUDA device, None elsewhere (ROCm included)."""
    if device.type != "cuda" or torch.version.hip is not None:
        return None
    return torch.cuda.get_device_capability(device)
