"""What a backend is created for: layers, pools and device (SGLang: `ModelRunner`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from .checks import listed
from .errors import InvalidInput
from .layer import AttentionLayer
from .pool import KVPool, MHATokenToKVPool, MLATokenToKVPool, ReqToTokenPool


@dataclass(frozen=True, slots=True)
class ModelRunner:
    """The surroundings of a backend.

    `layers` are all layers that the backend will be called for: library wrappers plan for each
    kind of layer before any runs. `dtype` is that of queries and outputs.
    """

    layers: Sequence[AttentionLayer]
    req_to_token_pool: ReqToTokenPool
    token_to_kv_pool: KVPool
    dtype: torch.dtype = torch.bfloat16
    speculative_attention_mode: Literal["prefill", "decode"] = "prefill"

    def __post_init__(self) -> None:
        # A tuple: every pass goes through them again, and they must not change in between.
        object.__setattr__(self, "layers", tuple(listed("layers", self.layers)))
        strange = [
            f"a layer is {x!r}; it is an AttentionLayer"
            for x in self.layers
            if not isinstance(x, AttentionLayer)
        ]
        strange += [
            f"{name} is {value!r}; it is a {kind.__name__}"
            for name, kind in (
                ("req_to_token_pool", ReqToTokenPool),
                ("token_to_kv_pool", KVPool),
                ("dtype", torch.dtype),
            )
            if not isinstance(value := getattr(self, name), kind)
        ]
        if strange:
            raise InvalidInput(strange)
        if self.device.type == "meta":
            raise InvalidInput(["the pool is on meta, where nothing has values"])
        pool = self.token_to_kv_pool
        problems = [
            f"layer {layer.layer_id} is beyond the pool's {pool.layer_num} layers"
            for layer in self.layers
            if layer.layer_id >= pool.layer_num
        ]
        problems += [
            f"layer {layer.layer_id} is {'MLA' if layer.is_mla else 'MHA'}, the pool is not"
            for layer in self.layers
            if layer.is_mla != (pool.family == "mla")
        ]
        problems += [
            f"layer {layer.layer_id} has {kind} {mine}, the pool {theirs}"
            for layer in self.layers
            for kind, mine, theirs in _sizes(layer, pool)
            if mine != theirs
        ]
        if not self.layers:
            problems.append("there are no layers")
        if self.speculative_attention_mode not in ("prefill", "decode"):
            problems.append(
                f"speculative_attention_mode is {self.speculative_attention_mode!r}; "
                "it is prefill or decode"
            )
        if problems:
            raise InvalidInput(problems)

    @property
    def device(self) -> torch.device:
        return self.token_to_kv_pool.device

    @property
    def page_size(self) -> int:
        return self.token_to_kv_pool.page_size


def _sizes(layer: AttentionLayer, pool: KVPool) -> list[tuple[str, int, int]]:
    """What a layer and the pool must agree on: (what, the layer's, the pool's)."""
    if isinstance(pool, MHATokenToKVPool) and not layer.is_mla:
        return [
            ("key heads:", layer.tp_k_head_num, pool.head_num),
            ("head_dim", layer.head_dim, pool.head_dim),
            ("v_head_dim", layer.v_head_dim, pool.v_head_dim),
        ]
    if isinstance(pool, MLATokenToKVPool) and layer.is_mla:
        return [
            ("head_dim", layer.head_dim, pool.kv_cache_dim),
            ("kv_lora_rank", layer.v_head_dim, pool.kv_lora_rank),
        ]
    return []
