"""Attention through `torch.nn.attention.flex_attention`, over the pool where it lies."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo
import torch.nn.attention.flex_attention as flex_module
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.finite import finite, raw
from ..library.kinds import scales_of
from .capabilities import CAPABILITIES
from .mask import QUERY_BLOCK, Kind, PagedMask, Pages, PoolGeometry, Shape, paged_mask

#: Variants of the compiled function that torch keeps before it gives up, loudly.
_VARIANTS = 1024
#: Bytes of shared memory that a tile may take.
_TILE_BYTES = 96 * 1024


class FlexAttnBackend(AttentionBackend):
    """A block mask over the whole pool; keys and values are neither gathered nor copied.

    Compiled on CUDA. On CPU it runs eagerly, which writes out the scores of every query with every
    slot: compiling takes ten seconds to a minute and a C++ compiler there, and what torch 2.13
    compiles for these masks fails to build or is wrong.

    A masked key has the weight 0, and 0 times a NaN is a NaN: values of slots in the same block
    that are no request's must be finite. Where they aren't they are set to 0 for the call and put
    back after it; nothing that is finite changes at any time. For the same reason a NaN or an
    infinity among the values of one request reaches the others of its batch, as NaN.
    """

    capabilities = CAPABILITIES

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self.compiled = self.device.type == "cuda"
        self._geometry = PoolGeometry(self.token_to_kv_pool)
        self._masks: dict[Kind, PagedMask] = {}
        self._numbers: dict[float, torch.Tensor] = {}

    def _number(self, value: float) -> torch.Tensor:
        """A number of a layer as a tensor, so that one compiled function serves all layers."""
        if value not in self._numbers:
            with torch.inference_mode(False):
                self._numbers[value] = torch.full(
                    (), float(value), dtype=torch.float32, device=self.device
                )
        return self._numbers[value]

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        self._masks = {}
        if not batch.num_tokens:
            return
        # Tensors made in inference mode may not meet compiled code outside of it.
        with torch.inference_mode(False):
            pages = Pages(batch, self._geometry)
            for kind in {Kind.of(layer) for layer in self.runner.layers}:
                self._masks[kind] = paged_mask(pages, kind, all_blocks=not self.compiled)

    def _attend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        if not batch.num_tokens:
            return q.new_empty(0, layer.tp_q_head_num, layer.v_head_dim)
        mask = self._masks[Kind.of(layer)]
        shape, heads = Shape.of(batch), layer.tp_k_head_num
        # Heads of a group become queries of their key head: its keys are read once for all.
        query = q.view(shape.rows, shape.tokens, heads, -1, layer.head_dim).transpose(1, 2)
        keys, values = self.token_to_kv_pool.get_kv_buffer(layer.layer_id)
        k_scale, v_scale = scales_of(layer, self.token_to_kv_pool)
        with _finite(values, mask.strangers):
            out, lse = _flex(self.compiled)(
                query.reshape(shape.rows, heads, -1, layer.head_dim),
                keys.transpose(0, 1)[None],
                values.transpose(0, 1)[None],
                mask.block_mask,
                self._number(layer.scaling * k_scale),
                self._number(layer.logit_cap) if layer.logit_cap > 0 else None,
                with_lse=sinks is not None,
                options=_options(query.shape, layer, q.element_size(), mask),
            )
        if sinks is not None and lse is not None:
            # The sink is one more term of the softmax's sum: exp(lse) of exp(lse) + exp(sink).
            sink = sinks.view(heads, 1, -1).expand(-1, shape.tokens, -1).reshape(heads, -1)
            out = (out.float() * torch.sigmoid(lse.float() - sink)[..., None]).to(q.dtype)
        if v_scale != 1.0:
            out = out * v_scale
        out = out.view(shape.rows, heads, shape.tokens, -1, layer.v_head_dim).transpose(1, 2)
        return out.reshape(batch.num_tokens, layer.tp_q_head_num, layer.v_head_dim)

    _decode = _extend = _verify = _attend


@contextmanager
def _finite(values: torch.Tensor, slots: torch.Tensor) -> Iterator[None]:
    """Make the values of some slots finite for a while; a slot may be listed twice."""
    stored = raw(values)
    kept = stored[slots]
    stored[slots] = finite(kept, values.dtype)
    try:
        yield
    finally:
        stored[slots] = kept


def _options(
    query: torch.Size, layer: AttentionLayer, element_size: int, mask: PagedMask
) -> dict[str, Any]:
    """Tiles of the compiled kernel: as large as the blocks, the queries and shared memory allow."""
    queries = query[2] * query[3]
    m = min(64, max(16, _power_of_two(queries)))
    n, stages = min(64, int(mask.block_mask.BLOCK_SIZE[1])), 2
    key, value = _power_of_two(layer.head_dim), _power_of_two(layer.v_head_dim)

    def size() -> int:
        return element_size * (m * key + stages * n * (key + value))

    while size() > _TILE_BYTES and (n > 16 or m > 16):
        n, m = (n // 2, m) if n > 16 else (n, m // 2)
    if size() > _TILE_BYTES:
        stages = 1
    assert QUERY_BLOCK % m == 0
    # One template for all lengths: the one for short queries refuses some shapes.
    return {"FORCE_USE_FLEX_ATTENTION": True, "BLOCK_M": m, "BLOCK_N": n, "num_stages": stages}


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


class _Untraced:
    """Lets flex_attention run as it is.

    Left to itself it traces each new shape even where nothing is compiled, which takes some thirty
    times as long as a small call. A torch that has no such switch traces, and is as right. The
    switch is one for all threads: the first to come turns it, the last to go turns it back.
    """

    _NAME = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = getattr(flex_module, self._NAME, False)
                setattr(flex_module, self._NAME, True)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                setattr(flex_module, self._NAME, self._before)


_UNTRACED = _Untraced()


@functools.cache
def _flex(compiled: bool) -> Callable[..., tuple[torch.Tensor, torch.Tensor | None]]:
    """flex_attention with or without a cap and sums, compiled or as torch has it.

    Scale and cap are tensors: each number would be compiled into a function of its own.
    """

    def attend(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        block_mask: Any,
        scale: torch.Tensor,
        cap: torch.Tensor | None,
        *,
        with_lse: bool,
        options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        def score_mod(
            score: torch.Tensor,
            b: torch.Tensor,
            h: torch.Tensor,
            m: torch.Tensor,
            n: torch.Tensor,
        ) -> torch.Tensor:
            score = score * scale
            return score if cap is None else cap * torch.tanh(score / cap)

        call = functools.partial(
            flex_attention,
            q,
            k,
            v,
            score_mod=score_mod,
            block_mask=block_mask,
            scale=1.0,
            kernel_options=options,
        )
        if not with_lse:
            return call(), None
        out, aux = call(return_aux=AuxRequest(lse=True))
        return out, aux.lse

    def eager(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        with _UNTRACED:
            return attend(*args, **kwargs)

    if not compiled:
        return eager
    traced = torch.compile(attend, dynamic=True, fullgraph=True)

    def call(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        # Past the limit torch would fall back to the eager form without a word; with fullgraph it
        # raises.
        with torch._dynamo.config.patch(
            recompile_limit=_VARIANTS, accumulated_recompile_limit=_VARIANTS
        ):
            return traced(*args, **kwargs)

    return call
