"""The float64 reference: attention written down as its definition, one request at a time.

Reads what the pool holds (dequantized) and shares no code with any backend but the pool and the
batch. Slow on purpose.
"""

from __future__ import annotations

import torch

from .interface.batch import ForwardBatch
from .interface.layer import AttentionLayer
from .interface.staging import HOST


def attention(
    q: torch.Tensor,
    layer: AttentionLayer,
    batch: ForwardBatch,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of the batch's queries in float64, [tokens, q_heads, v_head_dim].

    `q` is [tokens, q_heads, head_dim] in any dtype; keys and values are in the pool already.
    """
    table = batch.req_to_token_pool.host
    counts, lengths = batch.query_lens_cpu, [int(n) for n in batch.kv_lens_cpu]
    tree = _tree(batch)
    slots, masks = [], []
    for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        slots.append(table[int(batch.req_pool_indices_cpu[row]), :length].long())
        masks.append(visible(batch, layer, row, count, length, tree))
    out = []
    first = 0
    for count, where, seen in zip(
        counts, _together(slots, q.device), _together(masks, q.device), strict=True
    ):
        k, v = batch.token_to_kv_pool.load(layer, where, torch.float64)
        query = q[first : first + count].double().view(count, layer.tp_q_head_num, layer.head_dim)
        out.append(_softmax_attention(query, k, v, seen, layer, sinks))
        first += count
    if not out:
        return q.new_zeros((0, layer.tp_q_head_num, layer.v_head_dim), dtype=torch.float64)
    return torch.cat(out)


def _tree(batch: ForwardBatch) -> torch.Tensor | None:
    spec = batch.spec_info
    return None if spec is None or spec.tree_mask is None else spec.tree_mask.cpu()


def _together(parts: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Tensors of the host on a device, in one copy: many small ones would each be waited for."""
    if not parts:
        return []
    whole = torch.cat([part.flatten() for part in parts]).to(device)
    pieces = whole.split([part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def visible(
    batch: ForwardBatch,
    layer: AttentionLayer,
    row: int,
    count: int,
    length: int,
    tree: torch.Tensor | None = None,
) -> torch.Tensor:
    """Which of `length` keys each of the last `count` tokens sees, bool [count, length].

    `tree` is the batch's tree of drafts on the host, where it is at hand.
    """
    tree = _tree(batch) if tree is None else tree
    position = torch.arange(length - count, length, device=HOST)[:, None]
    key = torch.arange(length, device=HOST)[None]
    if tree is not None:
        seen = torch.ones(count, length, dtype=torch.bool, device=HOST)
        seen[:, length - count :] = tree[row]
    elif not layer.is_causal:
        seen = torch.ones(count, length, dtype=torch.bool, device=HOST)
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
