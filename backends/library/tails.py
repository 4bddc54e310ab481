"""Slots behind a request's end in its last page, for kernels that load whole pages.

Such a kernel gives keys past a request's end the weight 0, but 0 times NaN is NaN. What the slots
hold need not be garbage: the page may be one of a longer request as well, and the request itself
may be longer than the batch says. So what is finite stays, which 0 times it needs no change of.
"""

from __future__ import annotations

import torch

from ..interface.batch import ForwardBatch
from ..interface.dtypes import FP4
from ..interface.pool import KVPool
from ..interface.staging import HOST, staged
from .finite import finite, raw
from .kinds import kv_buffers


class TailCleaner:
    """Puts 0 for values that are not finite behind each request's end, for every pass.

    Runs on the device while metadata is prepared, outside of graphs. Which slots they are is known
    on the host; what they hold is not, since a page may come back from another request.
    """

    def __init__(self, pool: KVPool, layers: list[int]) -> None:
        self.pool = pool
        # All sixteen numbers of FP4 are finite.
        self.layers = [] if pool.kv_cache_dtype == FP4 else layers

    def clean(self, batch: ForwardBatch) -> None:
        """Clean what follows the batch's tokens in their last pages."""
        page = self.pool.page_size
        host = batch.req_to_token_pool.host
        ends: dict[int, int] = {}  # by page, each once; of those who share one the earliest end
        requests = batch.req_pool_indices_cpu.tolist()
        for request, length in zip(requests, batch.kv_lens_cpu.tolist(), strict=True):
            last = int(host[request, length - 1]) // page
            ends[last] = min((length - 1) % page + 1, ends.get(last, page))
        slots = [
            torch.arange(last * page + used, (last + 1) * page, device=HOST)
            for last, used in ends.items()
            if used < page
        ]
        if not slots:
            return
        behind = staged(torch.cat(slots), self.pool.device)
        for layer_id in self.layers:
            values = kv_buffers(self.pool, layer_id)[1].flatten(0, 1)
            stored = raw(values)
            stored.index_copy_(0, behind, finite(stored.index_select(0, behind), values.dtype))
