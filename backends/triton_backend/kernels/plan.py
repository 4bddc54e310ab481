"""The kernel that shares the work out, on the device, so that no length is ever waited for."""

from __future__ import annotations

import triton
import triton.language as tl

from .ops import largest, running_total, total

# Columns of a work item.
REQUEST = tl.constexpr(0)
START = tl.constexpr(1)
STOP = tl.constexpr(2)
POOL_ROW = tl.constexpr(3)
KV_LEN = tl.constexpr(4)
ITEM_WIDTH = tl.constexpr(8)


@triton.jit(do_not_specialize=["bs", "max_items", "target", "extra", "reach"])
def plan_kernel(
    seq_lens,
    query_counts,
    pool_rows,
    items,
    item_indptr,
    bs,
    max_items,
    target,
    extra,
    reach,
    ALIGN: tl.constexpr,
    QUERIES: tl.constexpr,
    WINDOWED: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_I: tl.constexpr,
):
    """Cut every request into nearly equal pieces, about `target` in all and never over `max_items`.

    What is cut is the keys that a request can see (`QUERIES` false) or its queries, `ALIGN` at a
    time (`QUERIES` true). Items that stay unused get request -1. Each program fills `BLOCK_I`
    items; the first one also writes where the items of each request begin.
    """
    pid = tl.program_id(0)
    b = tl.arange(0, BLOCK_B)
    item = pid * BLOCK_I + tl.arange(0, BLOCK_I)

    keys = tl.full([], 0, tl.int64)
    for b0 in range(0, bs, BLOCK_B):
        ok = b0 + b < bs
        if not QUERIES:
            size = tl.load(seq_lens + b0 + b, mask=ok, other=0).to(tl.int32)
            size = tl.where(ok, size + extra, 0)
            if WINDOWED:
                size = size - tl.maximum(size - reach, 0) // ALIGN * ALIGN
            keys += total(size.to(tl.int64), 0)
    piece = tl.maximum((keys + target - 1) // target, 1)
    piece = ((piece + ALIGN - 1) // ALIGN * ALIGN).to(tl.int32)
    if QUERIES:
        piece = tl.full([], ALIGN, tl.int32)

    request = tl.full([BLOCK_I], -1, tl.int32)
    start = tl.full([BLOCK_I], 0, tl.int32)
    stop = tl.full([BLOCK_I], 0, tl.int32)
    row = tl.full([BLOCK_I], 0, tl.int32)
    kv_len = tl.full([BLOCK_I], 0, tl.int32)
    base = tl.full([], 0, tl.int32)
    for b0 in range(0, bs, BLOCK_B):
        ok = b0 + b < bs
        length = tl.load(seq_lens + b0 + b, mask=ok, other=0).to(tl.int32)
        length = tl.where(ok, length + extra, 0)
        if QUERIES:
            low = tl.full([BLOCK_B], 0, tl.int32)
            size = tl.load(query_counts + b0 + b, mask=ok, other=0).to(tl.int32)
        else:
            low = tl.full([BLOCK_B], 0, tl.int32)
            if WINDOWED:
                low = tl.maximum(length - reach, 0) // ALIGN * ALIGN
            size = length - low
        tiles = (size + ALIGN - 1) // ALIGN
        count = (size + piece - 1) // piece
        before = base + running_total(count) - count
        if pid == 0:
            tl.store(item_indptr + b0 + b, before, mask=ok)
        mine = (item[:, None] >= before[None, :]) & (item[:, None] < (before + count)[None, :])
        rank = item[:, None] - before[None, :]
        parts = tl.maximum(count, 1)[None, :]
        from_tile = rank * tiles[None, :] // parts
        to_tile = (rank + 1) * tiles[None, :] // parts
        if QUERIES:
            # The last queries see the most keys: hand them out first.
            from_tile = parts - 1 - rank
            to_tile = from_tile + 1
        begins = low[None, :] + from_tile * ALIGN
        ends = tl.minimum(low[None, :] + to_tile * ALIGN, (low + size)[None, :])
        request = tl.maximum(request, largest(tl.where(mine, (b0 + b)[None, :], -1), 1))
        start += total(tl.where(mine, begins, 0), 1)
        stop += total(tl.where(mine, ends, 0), 1)
        pool = tl.load(pool_rows + b0 + b, mask=ok, other=0).to(tl.int32)
        row += total(tl.where(mine, pool[None, :], 0), 1)
        kv_len += total(tl.where(mine, length[None, :], 0), 1)
        base += total(count, 0)
    if pid == 0:
        tl.store(item_indptr + bs, base)
    at = items + item * ITEM_WIDTH
    keep = item < max_items
    tl.store(at + REQUEST, request, mask=keep)
    tl.store(at + START, start, mask=keep)
    tl.store(at + STOP, stop, mask=keep)
    tl.store(at + POOL_ROW, row, mask=keep)
    tl.store(at + KV_LEN, kv_len, mask=keep)
