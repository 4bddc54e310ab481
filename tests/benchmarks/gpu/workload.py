"""Large batches over one shuffled pool, filled on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from attn_lint.backends.interface.batch import ForwardBatch
from attn_lint.backends.interface.capabilities import Request
from attn_lint.backends.interface.dtypes import TORCH
from attn_lint.backends.interface.layer import AttentionLayer
from attn_lint.backends.interface.pool import KVPool, ReqToTokenPool
from attn_lint.backends.interface.runner import ModelRunner
from attn_lint.backends.verify.scenario import layer_for, pool_for


@dataclass(slots=True)
class Workload:
    """One forward pass of many tokens."""

    request: Request
    runner: ModelRunner
    layer: AttentionLayer
    batch: ForwardBatch
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values that the pass has to read at least once."""
        pool = self.runner.token_to_kv_pool
        keys, values = pool.get_kv_buffer(0)  # type: ignore[attr-defined]
        row = keys[0].numel() * keys.element_size()
        if pool.family == "mha":
            row += values[0].numel() * values.element_size()
        return row * int(self.batch.kv_lens_cpu.sum())

    @property
    def flops(self) -> float:
        """Floating-point operations of a causal pass (decode sees every key)."""
        layer = self.layer
        dims = 2 * layer.tp_q_head_num * (layer.head_dim + layer.v_head_dim)
        total = 0.0
        for new, length in zip(
            self.batch.query_lens_cpu, self.batch.kv_lens_cpu.tolist(), strict=True
        ):
            total += new * (length - (new - 1) / 2)
        return dims * total


def make(request: Request, batch_size: int, context: int, *, seed: int = 0) -> Workload:
    """`batch_size` requests of `context` tokens: a decode of one more, or an extend of all."""
    generator = torch.Generator().manual_seed(seed)
    torch.cuda.manual_seed(seed)
    page = request.page_size
    pages = -(-context // page)
    num_pages = pages * batch_size + 1
    reqs = ReqToTokenPool(
        batch_size, pages * page, page_size=page, num_pages=num_pages, device="cuda"
    )
    order = torch.randperm(num_pages - 1, generator=generator) + 1
    for row in range(batch_size):
        mine = order[row * pages : (row + 1) * pages]
        reqs.write(row + 1, (mine[:, None] * page + torch.arange(page)).flatten()[:context])
    pool = pool_for(request, num_pages)
    _randomize(pool)
    layer = layer_for(request)
    runner = ModelRunner([layer], reqs, pool, TORCH[request.dtype])
    ids = list(range(1, batch_size + 1))
    if request.mode == "decode":
        batch = ForwardBatch.decode(reqs, pool, ids, [context] * batch_size)
    else:
        batch = ForwardBatch.extend(reqs, pool, ids, [0] * batch_size, [context] * batch_size)

    def rows(heads: int, dim: int) -> torch.Tensor:
        shape = (batch.num_tokens, heads, dim)
        return torch.randn(shape, device="cuda", dtype=runner.dtype)

    return Workload(
        request,
        runner,
        layer,
        batch,
        rows(request.q_heads, request.qk_head_dim),
        rows(request.kv_heads, request.qk_head_dim),
        rows(request.kv_heads, request.v_head_dim),
    )


def _randomize(pool: KVPool) -> None:
    keys, values = pool.get_kv_buffer(0)  # type: ignore[attr-defined]
    for buffer in (keys,) if pool.family == "mla" else (keys, values):
        flat = buffer.view(-1)
        step = 1 << 28
        for start in range(0, flat.numel(), step):
            part = flat[start : start + step]
            part.copy_(torch.randn(part.numel(), device="cuda", dtype=torch.bfloat16))
