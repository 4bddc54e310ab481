"""Where the pages of a batch are, in the two forms that kernel libraries read.

A page list is flat (all pages of row 0, then of row 1, …) with host-side bounds; a page table is a
rectangle, one row a request. Both are built on the device from `req_to_token`; every shape comes
from lengths that the host knows, so that nothing is read back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..interface.batch import ForwardBatch
from ..interface.pool import ReqToTokenPool
from ..interface.staging import HOST


@dataclass(frozen=True, slots=True)
class HostLengths:
    """Bounds of a batch on the host, int32: what the planners of kernel libraries read."""

    kv_lens: torch.Tensor  # [batch]
    qo_indptr: torch.Tensor  # [batch + 1]: queries before each row
    kv_indptr: torch.Tensor  # [batch + 1]: pages before each row
    last_page_len: torch.Tensor  # [batch]: tokens in a row's last page
    max_q_len: int

    @property
    def total_pages(self) -> int:
        return int(self.kv_indptr[-1])


def host_lengths(batch: ForwardBatch) -> HostLengths:
    """The bounds of a batch; reads the host's copies only.

    For a batch on CUDA they are in pinned memory: a copy from pageable memory may wait.
    """
    page = batch.token_to_kv_pool.page_size
    pin = batch.device.type == "cuda"

    def host(x: torch.Tensor) -> torch.Tensor:
        return x.pin_memory() if pin else x

    kv_lens = batch.kv_lens_cpu.to(torch.int32)
    queries = torch.tensor(batch.query_lens_cpu, dtype=torch.int32, device=HOST)
    return HostLengths(
        kv_lens=host(kv_lens),
        qo_indptr=host(_bounds(queries)),
        kv_indptr=host(_bounds((kv_lens + page - 1) // page)),
        last_page_len=host((kv_lens - 1) % page + 1),
        max_q_len=int(queries.max()) if len(queries) else 0,
    )


def page_list(
    batch: ForwardBatch, lengths: HostLengths, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Pages of all rows in a row, int32 on the device; into the head of `out` if given."""
    page = batch.token_to_kv_pool.page_size
    total = lengths.total_pages
    counts = (kv_lens_on_device(batch) + page - 1) // page
    row = torch.repeat_interleave(counts, output_size=total)
    start = counts.cumsum(0) - counts
    column = torch.arange(total, device=batch.device) - start[row]
    table = batch.req_to_token_pool.req_to_token
    slots = table[batch.req_pool_indices[row], column * page]
    pages = torch.div(slots, page, rounding_mode="floor")
    if out is None:
        return pages
    out[:total].copy_(pages)
    return out[:total]


def plan_source(batch: ForwardBatch) -> torch.Tensor:
    """All that the plan of a pass without a mask is made of, in a row on the host."""
    page, host = batch.token_to_kv_pool.page_size, batch.req_to_token_pool.host
    lens = batch.kv_lens_cpu
    requests = batch.req_pool_indices_cpu.tolist()
    firsts = [host[row, :n:page] for row, n in zip(requests, lens.tolist(), strict=True)]
    return torch.cat((torch.tensor(batch.query_lens_cpu, device=HOST), lens, *firsts))


def columns_of(batch: ForwardBatch) -> int:
    """How many pages the longest row has."""
    return -(-batch.max_kv_len // batch.token_to_kv_pool.page_size)


def page_table(batch: ForwardBatch, columns: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """Pages as int32 [batch, columns]; columns past a row's end hold pages of the pool, any.

    With `out`, the first `columns` columns of it are written.
    """
    page = batch.token_to_kv_pool.page_size
    first = torch.arange(columns, device=batch.device) * page
    slots = batch.req_to_token_pool.req_to_token[batch.req_pool_indices[:, None], first]
    pages = torch.div(slots, page, rounding_mode="floor")
    if out is None:
        return pages
    out[:, :columns].copy_(pages)
    return out


def kv_lens_on_device(batch: ForwardBatch) -> torch.Tensor:
    """Keys of each row, drafts included, int32 on the device."""
    drafts = batch.spec_info.draft_token_num if batch.spec_info else 0
    return batch.seq_lens + drafts if drafts else batch.seq_lens


def most_columns(pool: ReqToTokenPool) -> int:
    """Pages that the longest context of the table has: the width of a graph's page table."""
    return -(-pool.max_context_len // pool.page_size)


def query_bounds(batch: ForwardBatch) -> torch.Tensor:
    """Queries before each row, int32 [batch + 1] on the device."""
    if batch.extend_seq_lens is not None:
        zero = batch.extend_seq_lens.new_zeros(1)
        return torch.cat((zero, batch.extend_seq_lens.cumsum(0).to(torch.int32)))
    step = batch.query_lens_cpu[0] if batch.batch_size else 1
    return torch.arange(batch.batch_size + 1, dtype=torch.int32, device=batch.device) * step


def key_bounds(batch: ForwardBatch) -> torch.Tensor:
    """Keys before each row, int32 [batch + 1] on the device."""
    bounds = torch.nn.functional.pad(kv_lens_on_device(batch).cumsum(0), (1, 0))
    return bounds.to(torch.int32)


def _bounds(counts: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(len(counts) + 1, dtype=torch.int32, device=HOST)
    torch.cumsum(counts, 0, out=out[1:])
    return out
