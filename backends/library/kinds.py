"""Kinds of layers: what a planner has to know, and layers of a kind share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..interface.dtypes import FP4, TORCH
from ..interface.layer import AttentionLayer
from ..interface.pool import KVPool, MHATokenToKVPool, MLATokenToKVPool


@dataclass(frozen=True, slots=True)
class Kind:
    """Everything of a layer that a plan hangs on."""

    q_heads: int
    kv_heads: int
    qk_head_dim: int
    v_head_dim: int
    scaling: float
    window: int  # window_left; -1 is none
    logit_cap: float
    causal: bool
    sinks: bool

    @classmethod
    def of(cls, layer: AttentionLayer) -> Kind:
        return cls(
            q_heads=layer.tp_q_head_num,
            kv_heads=layer.tp_k_head_num,
            qk_head_dim=layer.head_dim,
            v_head_dim=layer.v_head_dim,
            scaling=layer.scaling,
            window=layer.sliding_window_size,
            logit_cap=layer.logit_cap,
            causal=layer.is_causal,
            sinks=layer.uses_sinks,
        )


def kinds_of(layers: Sequence[AttentionLayer]) -> list[Kind]:
    """The kinds among layers, each once."""
    return list(dict.fromkeys(Kind.of(layer) for layer in layers))


def kv_buffers(pool: KVPool, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of a layer as pages, [pages, page_size, heads, dim] each, as stored."""
    assert isinstance(pool, MHATokenToKVPool | MLATokenToKVPool)
    keys, values = pool.get_kv_buffer(layer_id)
    return paged(keys, pool.page_size), paged(values, pool.page_size)


def fp4_scales(pool: KVPool, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Block scales of a layer's FP4 keys and values as pages."""
    assert isinstance(pool, MHATokenToKVPool)
    keys, values = pool.get_kv_scale_buffer(layer_id)
    return paged(keys, pool.page_size), paged(values, pool.page_size)


def stored_dtype(pool: KVPool) -> torch.dtype:
    """The dtype of the pool's buffers as a kernel library names it (packed FP4: uint8)."""
    return torch.uint8 if pool.kv_cache_dtype == FP4 else TORCH[pool.kv_cache_dtype]


def scales_of(layer: AttentionLayer, pool: KVPool) -> tuple[float, float]:
    """What stored keys and values are multiplied by; 1 where the pool stores them as they are.

    The values of an MLA layer are a part of its keys, stored with their scale.
    """
    if not pool.kv_cache_dtype.startswith("fp"):
        return 1.0, 1.0
    return layer.k_scale, (layer.k_scale if layer.is_mla else layer.v_scale)


def paged(buffer: torch.Tensor, page_size: int) -> torch.Tensor:
    """[slots, heads, dim] as [pages, page_size, heads, dim]."""
    return buffer.unflatten(0, (-1, page_size))
