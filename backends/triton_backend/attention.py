"""Calls of the kernels on plain tensors: no batch, no layer, no choice of backend.

Buffers of keys and values are [slots, heads, dim] with a last stride of 1; `v` may be a view of
the first dims of `k`, which is then read once (MLA).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .launch import ExtendConfig, SplitConfig, halves, power_of_two
from .loading import Kernels
from .metadata import WorkPlan

_LOG2E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Options:
    """Numbers of a layer: `scale` of scores, window (-1: none), cap (0: none), stored scales."""

    scale: float
    window: int = -1
    cap: float = 0.0
    k_scale: float = 1.0
    v_scale: float = 1.0

    def factors(self) -> tuple[float, float]:
        """What kernels multiply products with, and the cap, for exponentials of base 2."""
        scale = self.scale * self.k_scale
        if self.cap > 0:
            return scale / self.cap, self.cap * _LOG2E
        return scale * _LOG2E, 0.0


def rows_of(q_heads: int, kv_heads: int, queries: int) -> int:
    """Rows of the split kernel's tiles: query heads of a KV head times queries of a request."""
    return q_heads // kv_heads * queries


def split_target(config: SplitConfig, rows: int, kv_heads: int, multiprocessors: int) -> int:
    """How many pieces of keys to aim at, for one KV head and one block of rows."""
    programs = kv_heads * -(-rows // config.block_m)
    return max(1, multiprocessors * config.per_sm // programs)


def split_attention(
    kernels: Kernels,
    config: SplitConfig,
    plan: WorkPlan,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    req_to_token: torch.Tensor,
    options: Options,
    *,
    queries: int = 1,
    tree: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    partials: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Attention of `queries` tokens a request, q [batch * queries, heads, dim]."""
    tokens, heads, dk = q.shape
    kv_heads, dv = v.shape[1], v.shape[2]
    group = heads // kv_heads
    d1, d2 = halves(dk)
    if out is None:
        out = q.new_empty(tokens, heads, dv)
    if partials is None:
        partials = new_partials(plan, queries, heads, dv, q.device)
    part_out, part_lse = partials
    scale, cap = options.factors()
    shared = v.data_ptr() == k.data_ptr() and power_of_two(dv) == d1
    block_dv = power_of_two(dv, 16)
    kernels.split[(kv_heads * -(-group * queries // config.block_m), plan.max_items)](
        q,
        k,
        v,
        req_to_token,
        plan.items,
        plan.items if tree is None else tree.view(torch.uint8),
        part_out,
        part_lse,
        scale,
        cap,
        options.window,
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        v.stride(0),
        v.stride(1),
        req_to_token.stride(0),
        HEADS=heads,
        GROUP=group,
        NQ=queries,
        DK=dk,
        DV=dv,
        D1=d1,
        D2=d2,
        BLOCK_DV=block_dv,
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        STAGES=config.stages,
        SHARED_KV=shared,
        WINDOWED=options.window >= 0,
        TREE=tree is not None,
        CAPPED=options.cap > 0,
        OVERLAP=config.overlap,
        num_warps=config.warps,
        num_stages=config.stages,
    )
    # The interpreter runs programs one by one: the fewer the better.
    heads_each = power_of_two(heads) if kernels.interpreted else 1
    block_d, block_s = merge_tile(plan, block_dv, None if kernels.interpreted else tokens * heads)
    kernels.merge[(-(-heads // heads_each) * -(-dv // block_d), tokens)](
        part_out,
        part_lse,
        plan.item_indptr,
        part_lse if sinks is None else sinks,
        out,
        options.v_scale,
        out.stride(0),
        out.stride(1),
        HEADS=heads,
        NQ=queries,
        DV=dv,
        BLOCK_D=block_d,
        BLOCK_S=block_s,
        BLOCK_H=heads_each,
        SINKS=sinks is not None,
        OVERLAP=config.overlap,
        num_warps=4 if block_d * block_s > 2048 else 2,
        **({"launch_pdl": True} if config.overlap else {}),
    )
    return out


#: Programs that keep a large GPU busy with merging, two or so for each multiprocessor.
_ENOUGH = 256


def merge_tile(plan: WorkPlan, block_dv: int, rows: int | None) -> tuple[int, int]:
    """Dims and pieces that a program of the merge kernel takes at once; `rows`: heads × tokens.

    Few rows are cut into chunks of dims (32 floats are a line of memory), so that all
    multiprocessors share the reading; the pieces of a request fit one turn if they can.
    """
    block_d = block_dv
    while rows and rows * (block_dv // block_d) < _ENOUGH and block_d > 32:
        block_d //= 2
    batch = plan.item_indptr.shape[0] - 1
    pieces = power_of_two(-(-plan.target // batch), 8)
    return block_d, min(pieces, 128, 8192 // block_d)


def new_partials(
    plan: WorkPlan, queries: int, heads: int, dv: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for what the split kernel hands to the merge kernel."""
    rows = plan.max_items * queries
    return (
        torch.empty(rows, heads, dv, dtype=torch.float32, device=device),
        torch.empty(rows, heads, dtype=torch.float32, device=device),
    )


def extend_attention(
    kernels: Kernels,
    config: ExtendConfig,
    plan: WorkPlan,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    req_to_token: torch.Tensor,
    query_starts: torch.Tensor,
    query_counts: torch.Tensor,
    options: Options,
    *,
    causal: bool = True,
    kv_limit: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of ragged queries, q [tokens, heads, dim]."""
    tokens, heads, dk = q.shape
    kv_heads, dv = v.shape[1], v.shape[2]
    group = heads // kv_heads
    d1, d2 = halves(dk)
    if out is None:
        out = q.new_empty(tokens, heads, dv)
    scale, cap = options.factors()
    shared = v.data_ptr() == k.data_ptr() and power_of_two(dv) == d1
    programs = kv_heads if config.pack > 1 else heads
    kernels.extend[(programs, plan.max_items)](
        q,
        k,
        v,
        out,
        req_to_token,
        plan.items,
        query_starts,
        query_counts,
        query_starts if kv_limit is None else kv_limit,
        plan.items if sinks is None else sinks,
        scale,
        cap,
        options.window,
        options.v_scale,
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        v.stride(0),
        v.stride(1),
        out.stride(0),
        out.stride(1),
        req_to_token.stride(0),
        GROUP=group,
        PACK=config.pack,
        DK=dk,
        DV=dv,
        D1=d1,
        D2=d2,
        BLOCK_DV=power_of_two(dv, 16),
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        STAGES=config.stages,
        SHARED_KV=shared,
        CAUSAL=causal,
        LIMITS=kv_limit is not None,
        WINDOWED=options.window >= 0,
        CAPPED=options.cap > 0,
        SINKS=sinks is not None,
        num_warps=config.warps,
        num_stages=config.stages,
    )
    return out
