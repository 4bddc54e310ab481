"""Attention through `scaled_dot_product_attention`, one request at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..library.kinds import scales_of
from .capabilities import CAPABILITIES


class TorchNativeAttnBackend(AttentionBackend):
    """Gathers a request's keys and values from its pages, then lets SDPA choose a kernel."""

    capabilities = CAPABILITIES

    def _attend(
        self,
        q: torch.Tensor,
        layer: AttentionLayer,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        out = q.new_empty(q.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        table = self.req_to_token_pool.req_to_token
        first = 0
        for row, count in enumerate(batch.query_lens_cpu):
            length = int(batch.kv_lens_cpu[row])
            slots = table[int(batch.req_pool_indices_cpu[row]), :length].long()
            # SDPA adds a bias in the queries' dtype, in which a sink of 20 is off by up to 6 % of
            # its weight; with sinks everything is done in the dtype that sinks have.
            dtype = q.dtype if sinks is None else sinks.dtype
            if dtype is torch.float16 and scales_of(layer, self.token_to_kv_pool) != (1.0, 1.0):
                # What e5m2 holds, times its scale, may be more than fp16 does.
                dtype = torch.float32
            k, v = self.token_to_kv_pool.load(layer, slots, dtype)
            bias = self._bias(layer, batch, row, first, count, length, sinks)
            if sinks is not None:
                # A key of zeros scores 0, to which the bias adds the sink; its value adds nothing.
                k, v = F.pad(k, (0, 0, 0, 0, 0, 1)), F.pad(v, (0, 0, 0, 0, 0, 1))
            out[first : first + count] = F.scaled_dot_product_attention(
                q[first : first + count].to(dtype).transpose(0, 1).unsqueeze(0),
                k.transpose(0, 1).unsqueeze(0),
                v.transpose(0, 1).unsqueeze(0),
                attn_mask=bias,
                scale=layer.scaling,
                enable_gqa=layer.tp_q_head_num != layer.tp_k_head_num,
            )[0].transpose(0, 1)
            first += count
        return out

    _decode = _extend = _verify = _attend

    def _bias(
        self,
        layer: AttentionLayer,
        batch: ForwardBatch,
        row: int,
        first: int,
        count: int,
        length: int,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor | None:
        """What SDPA adds to the scores: a bool mask [count, length], with sinks a float one."""
        mask: torch.Tensor | None = None
        key = torch.arange(length, device=self.device)
        position = torch.arange(length - count, length, device=self.device)[:, None]
        spec = batch.spec_info
        if spec is not None and spec.tree_mask is not None:
            mask = F.pad(spec.tree_mask[row], (length - count, 0), value=True)
        elif layer.is_causal and batch.kv_limit is not None:
            mask = key <= batch.kv_limit[first : first + count, None]
        elif layer.is_causal and count > 1:
            mask = key <= position
        if layer.sliding_window_size >= 0:
            window = key >= position - layer.sliding_window_size
            mask = window if mask is None else mask & window
        if sinks is None:
            return mask
        shape = (layer.tp_q_head_num, count, length + 1)
        bias = torch.zeros(shape, dtype=sinks.dtype, device=self.device)
        bias[..., -1] = sinks[:, None]
        if mask is not None:
            bias[..., :-1].masked_fill_(~mask, float("-inf"))
        return bias
