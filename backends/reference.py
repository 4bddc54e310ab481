"""The float64 reference: attention written down as its definition, one request at a time.

Reads what the pool holds (dequantized) and shares no code with any backend but the pool and the
batch. Slow on purpose.
"""

from __future__ import annotations

import torch

from .interface.batch import ForwardBatch
from .interface.layer import AttentionLayer


def attention(
    q: torch.Tensor,
    layer: AttentionLayer,
    batch: ForwardBatch,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of the batch's queries in float64, [tokens, q_heads, v_head_dim].

    `q` is [tokens, q_heads, head_dim] in any dtype; keys and values are in the pool already.
    """
    out = []
    first = 0
    table = batch.req_to_token_pool.host
    for row, count in enumerate(batch.query_lens_cpu):
        request = int(batch.req_pool_indices_cpu[row])
        length = int(batch.kv_lens_cpu[row])
        slots = table[request, :length].long().to(q.device)
        k, v = batch.token_to_kv_pool.load(layer, slots, torch.float64)
        query = q[first : first + count].double().view(count, layer.tp_q_head_num, layer.head_dim)
        seen = visible(batch, layer, row, count, length).to(q.device)
        out.append(_softmax_attention(query, k, v, seen, layer, sinks))
        first += count
    if not out:
        return q.new_zeros((0, layer.tp_q_head_num, layer.v_head_dim), dtype=torch.float64)
    return torch.cat(out)


def visible(
    batch: ForwardBatch, layer: AttentionLayer, row: int, count: int, length: int
) -> torch.Tensor:
    """Which of `length` keys each of the last `count` tokens sees, bool [count, length]."""
    position = torch.arange(length - count, length)[:, None]
    key = torch.arange(length)[None]
    spec = batch.spec_info
    if spec is not None and spec.tree_mask is not None:
        seen = torch.ones(count, length, dtype=torch.bool)
        seen[:, length - count :] = spec.tree_mask[row].cpu()
    elif not layer.is_causal:
        seen = torch.ones(count, length, dtype=torch.bool)
    else:
        seen = key <= position
        if batch.mm_spans is not None:
            for low, high in batch.mm_spans[row]:
                inside = (position >= low) & (position < high)
                seen |= inside & (key >= low) & (key < high)
    if layer.sliding_window_size >= 0:
        seen = seen & (key >= position - layer.sliding_window_size)
    return seen


def _softmax_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: torch.Tensor,
    layer: AttentionLayer,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    group = layer.tp_q_head_num // layer.tp_k_head_num
    keys, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    score = torch.einsum("qhd,khd->hqk", q, keys) * layer.scaling
    if layer.logit_cap > 0:
        score = layer.logit_cap * torch.tanh(score / layer.logit_cap)
    score = score.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        column = sinks.double()[:, None, None].expand(-1, len(q), 1)
        weight = torch.cat((score, column), -1).softmax(-1)[..., :-1]
    else:
        weight = score.softmax(-1)
    return torch.einsum("hqk,khd->qhd", weight, values)


def relative_error(out: torch.Tensor, ref: torch.Tensor) -> float:
    """‖out − ref‖ / ‖ref‖ over all elements, in float64; infinite if `out` is not finite."""
    out64, ref64 = out.double().reshape(-1), ref.double().reshape(-1)
    if out64.numel() == 0:
        return 0.0
    if not bool(torch.isfinite(out64).all()):
        return float("inf")
    return float((out64 - ref64).norm() / ref64.norm())
