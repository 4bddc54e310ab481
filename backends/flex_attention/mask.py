"""Block masks over the physical pool: who sees which slot, and which blocks hold any.

flex_attention takes keys and values as one long sequence, here all slots of the pool in order. A
slot is translated to a position of a request while the mask is evaluated, through a table of
pages: requests may share pages and have them anywhere. What a query sees of its request is a range
of positions, plus, with a tree, a row of the tree's mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import BlockMask

from ..interface.batch import ForwardBatch
from ..interface.layer import AttentionLayer
from ..interface.pool import KVPool
from ..interface.staging import HOST, staged

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

QUERY_BLOCK = 128
#: Position of a page that a request does not have; no query's range reaches it.
_ABSENT = -(2**30)
_FAR = 2**30


def key_block(page_size: int) -> int:
    """Slots in a block: the largest of 128, 64, 32, 16 that fits a page evenly, else 16.

    A block within one page is either a request's or not. Kernels take no fewer than 16 keys, so
    that with other page sizes a block may hold slots of several requests or of none.
    """
    return next((n for n in (128, 64, 32) if page_size % n == 0), 16)


class PoolGeometry:
    """What depends on the pool alone: the page of a slot, its place there, blocks and granules.

    A granule is the longest run of slots that lies within one page and within one block.
    """

    def __init__(self, pool: KVPool) -> None:
        self.page_size, self.num_pages, self.num_slots = (
            pool.page_size,
            pool.num_pages,
            pool.num_slots,
        )
        self.device = pool.device
        self.key_block = key_block(pool.page_size)
        self.num_blocks = -(-pool.num_slots // self.key_block)
        self.granule = math.gcd(pool.page_size, self.key_block)
        with torch.inference_mode(False):
            slot = torch.arange(pool.num_slots, dtype=torch.int32, device=pool.device)
            self.page_of = slot // pool.page_size
            self.offset_of = slot % pool.page_size
            granules = self.num_blocks * (self.key_block // self.granule)
            start = torch.arange(granules, device=pool.device) * self.granule
            # Granules beyond the pool fill up the last block; they are on no request's page.
            self.granule_page = (start // pool.page_size).clamp(max=pool.num_pages)
            self.granule_offset = (start % pool.page_size).to(torch.int32)


@dataclass(frozen=True, slots=True)
class Kind:
    """What the masks of layers differ in."""

    group: int  # query heads for each key head
    window: int  # -1 is none
    causal: bool

    @classmethod
    def of(cls, layer: AttentionLayer) -> Kind:
        group = layer.tp_q_head_num // layer.tp_k_head_num
        return cls(group, layer.sliding_window_size, layer.is_causal)


@dataclass(frozen=True, slots=True)
class Shape:
    """How queries are laid out: [rows of flex's batch, tokens in each].

    Decode and verify have one row for each request, so that a kernel runs for each; the ragged
    queries of an extend are one sequence.
    """

    rows: int
    tokens: int

    @classmethod
    def of(cls, batch: ForwardBatch) -> Shape:
        if batch.forward_mode.is_extend():
            return cls(1, batch.num_tokens)
        return cls(batch.batch_size, batch.num_tokens // batch.batch_size)


class Pages:
    """The page table turned round, for the requests of one batch."""

    def __init__(self, batch: ForwardBatch, geometry: PoolGeometry) -> None:
        self.batch, self.geometry = batch, geometry
        size, device = geometry.page_size, geometry.device
        self.lengths = staged(batch.kv_lens_cpu, device)
        width = -(-batch.max_kv_len // size)
        table = batch.req_to_token_pool.req_to_token
        rows = table[batch.req_pool_indices]
        start = torch.arange(width, dtype=torch.int32, device=device) * size
        held = start < self.lengths[:, None]
        page = torch.where(held, rows[:, : width * size : size] // size, geometry.num_pages)
        #: Position of the first token of each page, int32 [requests, pages + 1].
        self.base = torch.full(
            (batch.batch_size, geometry.num_pages + 1), _ABSENT, dtype=torch.int32, device=device
        )
        self.base.scatter_(1, page.long(), start.expand_as(page))
        self.base[:, -1] = _ABSENT
        #: Whether a slot is some request's, bool [slots]. Rows that fill up a graph have none: what
        #: their page holds was written by nobody.
        token = torch.arange(batch.max_kv_len, dtype=torch.int32, device=device)
        lengths = torch.where(batch.req_pool_indices > 0, self.lengths, 0)
        slots = torch.where(
            token < lengths[:, None], rows[:, : batch.max_kv_len], geometry.num_slots
        )
        owned = torch.zeros(geometry.num_slots + 1, dtype=torch.bool, device=device)
        owned[slots.flatten().long()] = True
        self.owned = owned[:-1]

    def block_ranges(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """First and last position of each request in each block, and whether all is its own."""
        g = self.geometry
        low = self.base[:, g.granule_page] + g.granule_offset
        mine = low >= 0
        blocks = (low.shape[0], g.num_blocks, g.key_block // g.granule)
        first = torch.where(mine, low, _FAR).view(blocks).amin(-1)
        last = torch.where(mine, low + g.granule - 1, _ABSENT).view(blocks).amax(-1)
        return first, last, mine.view(blocks).all(-1)


@dataclass(frozen=True, slots=True)
class PagedMask:
    """A block mask, and the slots in its blocks that are no request's of the batch."""

    block_mask: BlockMask
    strangers: torch.Tensor  # int64; filled up with slot 0, which is padding


def paged_mask(pages: Pages, kind: Kind, *, all_blocks: bool) -> PagedMask:
    """The mask of one kind of layer.

    `all_blocks` says that a kernel reads blocks that no query sees, as the eager form does.
    """
    batch, geometry = pages.batch, pages.geometry
    shape = Shape.of(batch)
    ranges = _ranges(batch, kind, shape, geometry.device)
    visible, whole = _blocks(pages, ranges, shape.tokens * kind.group)
    partial_count, partial = _ordered(visible & ~whole)
    whole_count, full = _ordered(whole)
    block_mask = BlockMask.from_kv_blocks(
        partial_count,
        partial,
        whole_count,
        full,
        BLOCK_SIZE=(QUERY_BLOCK, geometry.key_block),
        mask_mod=_mask_mod(pages, ranges),
        seq_lengths=(shape.tokens * kind.group, geometry.num_slots),
    )
    return PagedMask(block_mask, _strangers(pages, visible, all_blocks=all_blocks))


@dataclass(frozen=True, slots=True)
class _Ranges:
    """What each query sees of its request, [rows, queries]; heads of a group are queries."""

    request_cpu: torch.Tensor  # row in the batch
    request: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor
    sure: torch.Tensor  # up to here nothing but `first` hides a key
    token: torch.Tensor
    tree: torch.Tensor | None  # bool [tokens, drafts]
    prefix: torch.Tensor


def _ranges(batch: ForwardBatch, kind: Kind, shape: Shape, device: torch.device) -> _Ranges:
    counts = torch.tensor(batch.query_lens_cpu, device=HOST)
    request = torch.repeat_interleave(torch.arange(len(counts), device=HOST), counts)
    length = batch.kv_lens_cpu.long()[request]
    start = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    token = torch.arange(len(request), device=HOST)
    prefix = length - counts[request]
    position = prefix + token - start
    spec = batch.spec_info
    tree = None if spec is None else spec.tree_mask
    last = position if kind.causal and tree is None else length - 1
    sure = last if tree is None else prefix - 1
    first = torch.zeros_like(position)
    if kind.window >= 0:
        first = (position - kind.window).clamp(min=0)

    def rows(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.int32).repeat_interleave(kind.group).view(shape.rows, -1)

    limit = None
    if kind.causal and batch.kv_limit is not None:
        limit = rows(batch.kv_limit)
    return _Ranges(
        request_cpu=rows(request),
        request=staged(rows(request), device),
        first=staged(rows(first), device),
        last=staged(rows(last), device) if limit is None else limit,
        sure=staged(rows(sure), device) if limit is None else limit,
        token=staged(rows(token), device),
        tree=None if tree is None else tree.flatten(0, 1),
        prefix=staged(rows(prefix), device),
    )


def _mask_mod(pages: Pages, ranges: _Ranges) -> MaskMod:
    """Whether query `m` of row `b` sees slot `n`; reads tensors only, so that it compiles once."""
    base, page_of, offset_of = pages.base, pages.geometry.page_of, pages.geometry.offset_of
    request, first, last = ranges.request, ranges.first, ranges.last

    def in_range(
        b: torch.Tensor, h: torch.Tensor, m: torch.Tensor, n: torch.Tensor
    ) -> torch.Tensor:
        position = base[request[b, m], page_of[n]] + offset_of[n]
        return (position >= first[b, m]) & (position <= last[b, m])

    if ranges.tree is None:
        return in_range
    tree, token, prefix = ranges.tree, ranges.token, ranges.prefix
    top = tree.shape[1] - 1

    def in_tree(b: torch.Tensor, h: torch.Tensor, m: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        position = base[request[b, m], page_of[n]] + offset_of[n]
        seen = (position >= first[b, m]) & (position <= last[b, m])
        draft = position - prefix[b, m]
        return seen & ((draft < 0) | tree[token[b, m], draft.clamp(0, top)])

    return in_tree


def _blocks(pages: Pages, ranges: _Ranges, queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks that some query of a query block sees, and those that all of it see entirely.

    Both bool [rows, 1, query blocks, key blocks]. Worked out from ranges, for each pair of a query
    block and a request in it; the mask itself is never written out.
    """
    device = pages.geometry.device
    requests = pages.batch.batch_size
    rows = ranges.request_cpu.shape[0]
    per_row = -(-queries // QUERY_BLOCK)
    row, query = torch.arange(rows, device=HOST), torch.arange(queries, device=HOST)
    block = row[:, None] * per_row + query // QUERY_BLOCK
    key = (block * requests + ranges.request_cpu).flatten()
    pairs, of = torch.unique_consecutive(key, return_inverse=True)
    pair_block, request = staged(pairs // requests, device), staged(pairs % requests, device)
    index = staged(of, device)

    def reduce(x: torch.Tensor, how: str, start: int) -> torch.Tensor:
        out = torch.full((len(pairs),), start, dtype=torch.int32, device=device)
        return out.scatter_reduce_(0, index, x.flatten(), how)[:, None]

    first, last, own = (x[request] for x in pages.block_ranges())
    seen = (reduce(ranges.last, "amax", _ABSENT) >= first) & (
        reduce(ranges.first, "amin", _FAR) <= last
    )
    sure = (
        own
        & (reduce(ranges.sure, "amin", _FAR) >= last)
        & (reduce(ranges.first, "amax", _ABSENT) <= first)
    )
    shape = (rows, 1, per_row, pages.geometry.num_blocks)

    def count(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(rows * per_row, x.shape[1], dtype=torch.int32, device=device)
        return out.index_add_(0, pair_block, x.to(torch.int32))

    # Another request's queries in the same query block see nothing of this one's keys.
    alone = count(torch.ones(len(pairs), 1, device=device)) == 1
    return (count(seen) > 0).view(shape), ((count(sure) > 0) & alone).view(shape)


def _ordered(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many blocks are set in each row, and their numbers first, as BlockMask takes them."""
    number = blocks.to(torch.int32)
    order = number.argsort(dim=-1, descending=True, stable=True)
    return number.sum(-1, dtype=torch.int32), order.to(torch.int32)


def _strangers(pages: Pages, visible: torch.Tensor, *, all_blocks: bool) -> torch.Tensor:
    """Slots in blocks that are read which no request of the batch has.

    Their number is not read back: the list is as long as they can be many.
    """
    g = pages.geometry
    most = g.num_slots
    strange = ~pages.owned
    if not all_blocks:
        strange &= visible.any(0).any(1)[0].repeat_interleave(g.key_block)[: g.num_slots]
        if g.granule == g.key_block:
            held = pages.batch.batch_size
        else:
            touched = (g.page_size - 1) // g.key_block + 2
            held = int((-(-pages.batch.kv_lens_cpu // g.page_size)).sum()) * touched
        most = min(most, held * g.key_block)
    return torch.nonzero_static(strange, size=most, fill_value=0).flatten()
