"""Masks that kernels take as bits: trees of draft tokens, blocks that see one another both ways."""

from __future__ import annotations

import torch

from ..interface.batch import ForwardBatch
from ..interface.staging import HOST
from .paging import HostLengths, kv_lens_on_device

#: FlashInfer's bounds of a mask are int32 counts of bits.
MOST_BITS = 2**31 - 1


def mask_bits(batch: ForwardBatch) -> int:
    """Bits of a batch's mask: queries times keys, over all rows."""
    lens = batch.kv_lens_cpu.tolist()
    return sum(q * kv for q, kv in zip(batch.query_lens_cpu, lens, strict=True))


def flat_mask(batch: ForwardBatch) -> torch.Tensor:
    """What each query sees: bool, the rows' [queries, keys] one after another."""
    spec = batch.spec_info
    parts = []
    first = 0
    for row, (count, length) in enumerate(
        zip(batch.query_lens_cpu, batch.kv_lens_cpu.tolist(), strict=True)
    ):
        key = torch.arange(length, device=batch.device)
        if spec is not None and spec.tree_mask is not None:
            seen = torch.ones(count, length, dtype=torch.bool, device=batch.device)
            seen[:, length - count :] = spec.tree_mask[row]
        elif batch.kv_limit is not None:
            seen = key <= batch.kv_limit[first : first + count, None]
        else:
            raise ValueError("the batch has no mask")
        parts.append(seen.flatten())
        first += count
    return torch.cat(parts)


def packed_bounds(lengths: HostLengths) -> torch.Tensor:
    """Bytes before each row of a packed mask, int32 [batch + 1] on the host."""
    queries = (lengths.qo_indptr[1:] - lengths.qo_indptr[:-1]).long()
    size = (queries * lengths.kv_lens.long() + 7) // 8
    out = torch.zeros(len(size) + 1, dtype=torch.int32, device=HOST)
    out[1:] = size.cumsum(0)
    return out


def pack_trees(batch: ForwardBatch, bounds: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Trees as FlashInfer packs them, uint8 with the low bit first, in the head of `out`.

    `bounds` are the bytes of `packed_bounds` on the device. Everything is visible but drafts that
    a tree hides, so bytes start full and lose the bits of hidden drafts: each bit once, so that a
    sum is exact. Shapes hang on the host's lengths alone.
    """
    spec = batch.spec_info
    if spec is None or spec.tree_mask is None:
        raise ValueError("the batch has no tree")
    drafts = spec.draft_token_num
    out.fill_(255)
    query = torch.arange(drafts, device=batch.device)[:, None]
    draft = torch.arange(drafts, device=batch.device)
    length = kv_lens_on_device(batch).long()[:, None, None]
    bit = query * length + (length - drafts) + draft
    place = bounds[:-1].long()[:, None, None] + bit // 8
    weight = torch.bitwise_left_shift(torch.ones_like(bit), bit % 8)
    # Taking a bit away is adding 256 less it, as bytes wrap.
    change = torch.where(spec.tree_mask, 0, 256 - weight).to(torch.uint8)
    return out.scatter_add_(0, place.flatten(), change.flatten())


def tree_words(batch: ForwardBatch) -> torch.Tensor:
    """Which drafts each draft sees, as XQA reads it: uint16 [batch, drafts, words].

    Words come in pairs (32 bits), the low half first; bit j is draft j. A chain is its own tree.
    """
    spec = batch.spec_info
    if spec is None:
        raise ValueError("the batch has no drafts")
    drafts = spec.draft_token_num
    words = (drafts + 31) // 32 * 2
    seen = spec.tree_mask
    if seen is None:
        seen = torch.ones(drafts, drafts, dtype=torch.bool, device=batch.device).tril()
        seen = seen.expand(batch.batch_size, drafts, drafts)
    padded = torch.nn.functional.pad(seen, (0, words * 16 - drafts)).unflatten(-1, (words, 16))
    weight = torch.bitwise_left_shift(
        torch.ones(16, dtype=torch.int32, device=batch.device),
        torch.arange(16, dtype=torch.int32, device=batch.device),
    )
    value = (padded.to(torch.int32) * weight).sum(-1)
    # int16 has the same bits; torch casts no int32 beyond 32767 to uint16 on every device.
    return torch.where(value > 32767, value - 65536, value).to(torch.int16).view(torch.uint16)
