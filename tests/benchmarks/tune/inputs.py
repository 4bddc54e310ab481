"""Inputs of a shape, a call of the kernels on them, and what the call should give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from attn_lint.backends.interface.dtypes import TORCH
from attn_lint.backends.triton_backend import attention
from attn_lint.backends.triton_backend.launch import ExtendConfig
from attn_lint.backends.triton_backend.loading import Kernels
from attn_lint.backends.triton_backend.metadata import allocate, fill

from .works import Config, Work


@dataclass(slots=True)
class Inputs:
    work: Work
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    rows: torch.Tensor
    seq_lens: torch.Tensor
    starts: torch.Tensor
    counts: torch.Tensor
    options: attention.Options


def inputs(work: Work, device: str, pool: torch.Tensor | None = None) -> Inputs:
    """Random queries over shuffled pages; keys and values from `pool`, or (compiling) tiny ones."""
    kv = TORCH[work.kv_dtype]
    pages = -(-work.context // work.page_size) * work.batch
    slots = pages * work.page_size if pool is not None else work.page_size
    dims = (work.qk_dim,) if work.mla else (work.qk_dim, work.v_dim)
    buffers = []
    first = 0
    for dim in dims:
        count = slots * work.kv_heads * dim
        if pool is None:
            buffers.append(torch.zeros(slots, work.kv_heads, dim, dtype=kv, device=device))
        else:
            part = pool[first : first + count]
            part = part if part.dtype is kv else part.to(kv)
            buffers.append(part.view(slots, work.kv_heads, dim))
            first += count
    k = buffers[0]
    v = k[..., : work.v_dim] if work.mla else buffers[1]
    batch = work.batch
    # What is only compiled needs the number of requests, but not the tokens of their prompts.
    tokens = 1 if pool is None and work.kind == "extend" else batch * work.queries
    if pool is not None:
        order = torch.randperm(pages, device=device, dtype=torch.int32).view(batch, -1, 1)
        inside = torch.arange(work.page_size, device=device, dtype=torch.int32)
        table = (order * work.page_size + inside).flatten(1)
    else:
        table = torch.zeros(batch, 16, dtype=torch.int32, device=device)
    q = torch.randn(tokens, work.q_heads, work.qk_dim, device=device).to(TORCH[work.dtype])

    def full(value: int) -> torch.Tensor:
        return torch.full((batch,), value, dtype=torch.int32, device=device)

    return Inputs(
        work, q, k, v, table, torch.arange(batch, device=device), full(work.context),
        torch.arange(batch, dtype=torch.int32, device=device) * work.queries, full(work.queries),
        attention.Options(work.qk_dim**-0.5),
    )  # fmt: skip


def call_of(kernels: Kernels, config: Config, x: Inputs, sms: int) -> Callable[[], torch.Tensor]:
    """Plan a pass with a configuration; the returned call runs it.

    The call owns the plan and the output: a graph captured from it may be replayed only for as
    long as the call is kept.
    """
    work, device = x.work, x.q.device
    batch = x.rows.shape[0]
    out = x.q.new_full((x.q.shape[0], work.q_heads, work.v_dim), float("nan"))
    if isinstance(config, ExtendConfig):
        align = config.block_m // config.pack
        items = x.q.shape[0] // align + batch
        plan = allocate(batch, items, align, items, device)
        fill(plan, kernels, x.seq_lens, x.rows, query_counts=x.counts)
        return lambda: attention.extend_attention(
            kernels, config, plan, x.q, x.k, x.v, x.table, x.starts, x.counts, x.options, out=out
        )  # fmt: skip
    target = attention.split_target(config, work.rows, work.kv_heads, sms)
    plan = allocate(batch, target + batch, config.block_n, target, device)
    fill(plan, kernels, x.seq_lens, x.rows)
    partials = attention.new_partials(plan, work.queries, work.q_heads, work.v_dim, device)
    return lambda: attention.split_attention(
        kernels, config, plan, x.q, x.k, x.v, x.table, x.options,
        queries=work.queries, out=out, partials=partials,
    )  # fmt: skip


def expected(x: Inputs) -> list[tuple[int, int, torch.Tensor]]:
    """(token, head, output in float64) of some rows."""
    work = x.work
    out = []
    for request in {0, work.batch // 2, work.batch - 1}:
        slots = x.table[request, : work.context].long()
        for head in {0, work.q_heads // 2 + 1, work.q_heads - 1}:
            kv_head = head * work.kv_heads // work.q_heads
            keys, values = x.k[slots, kv_head].double(), x.v[slots, kv_head].double()
            for query in {0, work.queries // 2, work.queries - 1}:
                token = request * work.queries + query
                seen = work.context - work.queries + query + 1
                score = keys[:seen] @ x.q[token, head].double() * x.options.scale
                out.append((token, head, score.softmax(0) @ values[:seen]))
    return out


def error_of(out: torch.Tensor, rows: list[tuple[int, int, torch.Tensor]]) -> float:
    """‖out − ref‖/‖ref‖ over the expected rows; infinite where anything at all is not finite."""
    if not bool(torch.isfinite(out).all()):
        return float("inf")
    ref = torch.stack([row for _, _, row in rows])
    got = torch.stack([out[token, head] for token, head, _ in rows]).double()
    return float((got - ref).norm() / ref.norm())
