"""Unused slots of a request's last page, for kernels that load whole pages.

Such a kernel gives keys past a request's end the weight 0, but 0 times NaN is NaN. The slots
belong to the request and hold nothing, so zeros may be put there.
"""

from __future__ import annotations

import torch

from ..interface.batch import ForwardBatch
from ..interface.pool import KVPool
from ..interface.staging import staged
from .kinds import kv_buffers


class TailCleaner:
    """Zeroes the values of unused slots in the last page of each request, for every pass.

    Runs on the device while metadata is prepared, outside of graphs. Which slots they are is known
    on the host; what they hold is not, since a page may come back from another request.
    """

    def __init__(self, pool: KVPool, layers: list[int]) -> None:
        self.pool = pool
        self.layers = layers

    def clean(self, batch: ForwardBatch) -> None:
        """Zero what follows the batch's tokens in their last pages."""
        slots = []
        page = self.pool.page_size
        host = batch.req_to_token_pool.host
        requests = batch.req_pool_indices_cpu.tolist()
        for request, length in zip(requests, batch.kv_lens_cpu.tolist(), strict=True):
            last = int(host[request, length - 1]) // page
            used = (length - 1) % page + 1
            if used < page:
                slots.append(torch.arange(last * page + used, (last + 1) * page))
        if not slots:
            return
        unused = staged(torch.cat(slots), self.pool.device)
        for layer_id in self.layers:
            values = kv_buffers(self.pool, layer_id)[1].flatten(0, 1)
            if values.element_size() == 1:
                values = values.view(torch.uint8)
            values.index_fill_(0, unused, 0)
