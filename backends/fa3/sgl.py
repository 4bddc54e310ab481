"""`sgl_kernel.flash_attn`: FlashAttention-3 with page tables, split keys and sinks."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..library.kinds import kv_buffers
from ..library.scales import ScaleTensors, to_e4m3
from ..library.tables import TabledPass
from ..library.varlen import QUERY_BOUNDS, VarlenEngine

_MODULE = "sgl_kernel.flash_attn"


def is_built() -> bool:
    """Whether `sgl_kernel` is installed with a FlashAttention-3 that can be loaded.

    Asked by importing it: the package is built for some devices without.
    """
    if importlib.util.find_spec("sgl_kernel") is None:
        return False
    try:
        importlib.import_module(_MODULE)
    except (ImportError, OSError):
        return False
    return True


class SglKernel(VarlenEngine):
    """Plans and runs `flash_attn_with_kvcache`."""

    def __init__(self, runner: ModelRunner, library: Any = None) -> None:
        super().__init__(runner)
        self.library = library or importlib.import_module(_MODULE)
        self._scales = ScaleTensors(runner)

    def _call(
        self,
        now: TabledPass,
        q: torch.Tensor,
        layer: AttentionLayer,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        k, v = kv_buffers(self.pool, layer.layer_id)
        options: dict[str, Any] = {}
        if self.pool.kv_cache_dtype == "fp8_e4m3":
            q = to_e4m3(q)
            # One row of [batch, key heads] stands for all.
            _, *scales = (x.expand(len(now.kv_lens), -1) for x in self._scales.of(layer))
            options["k_descale"], options["v_descale"] = scales
        window = layer.sliding_window_size
        right = 0 if layer.is_causal else -1
        out: torch.Tensor = self.library.flash_attn_with_kvcache(
            q=q,
            k_cache=k,
            v_cache=v,
            page_table=now.table,
            cache_seqlens=now.kv_lens,
            cu_seqlens_q=now.more[QUERY_BOUNDS],
            max_seqlen_q=now.max_q_len,
            softmax_scale=layer.scaling,
            causal=layer.is_causal,
            window_size=(window, right) if window >= 0 else (-1, -1),
            softcap=layer.logit_cap,
            sinks=None if sinks is None else sinks.to(self.runner.dtype),
            **options,
        )
        return out.to(self.runner.dtype)
