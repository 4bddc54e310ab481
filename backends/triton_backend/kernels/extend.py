"""Paged attention for many queries a request: extend with a prefix.

The keys of prefix and new tokens are all in the pool. A program takes a tile of queries of one
request and one head, or of all heads that share a KV head.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .ops import LOG2E, attend, largest, load_queries
from .plan import ITEM_WIDTH, KV_LEN, POOL_ROW, REQUEST, START, STOP


@triton.jit(do_not_specialize=["window", "stride_req"])
def extend_kernel(
    q,
    k,
    v,
    out,
    req_to_token,
    items,
    query_starts,
    query_counts,
    kv_limit,
    sinks,
    scale,
    cap,
    window,
    v_scale,
    stride_qt,
    stride_qh,
    stride_ks,
    stride_kh,
    stride_vs,
    stride_vh,
    stride_ot,
    stride_oh,
    stride_req,
    GROUP: tl.constexpr,
    PACK: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    D1: tl.constexpr,
    D2: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
    SHARED_KV: tl.constexpr,
    CAUSAL: tl.constexpr,
    LIMITS: tl.constexpr,
    WINDOWED: tl.constexpr,
    CAPPED: tl.constexpr,
    SINKS: tl.constexpr,
):
    """Attend with one tile of queries, first to the keys that all of them see, then to the rest."""
    pid = tl.program_id(0)
    at = items + tl.program_id(1) * ITEM_WIDTH
    request = tl.load(at + REQUEST)
    q_start = tl.load(at + START)
    q_stop = tl.load(at + STOP)
    pool_row = tl.load(at + POOL_ROW)
    kv_len = tl.load(at + KV_LEN)
    if request >= 0:
        begin = tl.load(query_starts + request)
        count = tl.load(query_counts + request)
        prefix = kv_len - count
        row = tl.arange(0, BLOCK_M)
        qi = q_start + row // PACK
        ok = qi < q_stop
        if PACK > GROUP:
            ok = ok & (row % PACK < GROUP)
        heads: tl.constexpr = GROUP if PACK > 1 else 1
        first_head = pid * heads
        head = first_head + row % PACK
        kv_head = first_head // GROUP
        token = begin + qi
        q_rows = q + token.to(tl.int64) * stride_qt + head * stride_qh
        q1 = load_queries(q_rows, ok, DK, 0, D1)
        if D2 > 0:
            q2 = load_queries(q_rows, ok, DK, D1, D2)
        else:
            q2 = q1
        q_pos = prefix + qi
        limit = q_pos
        if LIMITS:
            limit = tl.minimum(tl.load(kv_limit + token, mask=ok, other=0), kv_len - 1)
            open_to = 1 - largest(tl.where(ok, -limit, -kv_len), 0)
            stop = largest(tl.where(ok, limit, -1), 0) + 1
        elif CAUSAL:
            open_to = prefix + q_start + 1
            stop = prefix + q_stop
        else:
            open_to = kv_len
            stop = kv_len
        start = 0
        if WINDOWED:
            start = tl.maximum(prefix + q_start - window, 0) // BLOCK_N * BLOCK_N
        middle = tl.maximum(open_to, 0) // BLOCK_N * BLOCK_N
        if WINDOWED:
            middle = start
        row_base = req_to_token + pool_row.to(tl.int64) * stride_req
        k_base = k + kv_head * stride_kh
        v_base = v + kv_head * stride_vh

        m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
        l_i = tl.full([BLOCK_M], 0.0, tl.float32)
        acc = tl.full([BLOCK_M, BLOCK_DV], 0.0, tl.float32)
        # First the keys that every query sees, without a mask; with a window there are none.
        for masked in tl.static_range(WINDOWED, 2):
            for n0 in tl.range(
                middle if masked == 1 else start,
                stop if masked == 1 else middle,
                BLOCK_N,
                num_stages=STAGES,
            ):
                acc, m_i, l_i = attend(
                    acc,
                    m_i,
                    l_i,
                    q1,
                    q2,
                    k_base,
                    v_base,
                    row_base,
                    stride_ks,
                    stride_vs,
                    n0,
                    stop,
                    q_pos,
                    limit,
                    q_pos,
                    0,
                    scale,
                    cap,
                    window,
                    DK,
                    DV,
                    D1,
                    D2,
                    BLOCK_DV,
                    BLOCK_M,
                    BLOCK_N,
                    SHARED_KV,
                    masked == 1,
                    masked == 1 and (LIMITS or CAUSAL),
                    masked == 1 and WINDOWED,
                    False,
                    CAPPED,
                )

        if SINKS:
            sink = tl.load(sinks + head, mask=ok, other=0.0).to(tl.float32) * LOG2E
            m_new = tl.maximum(m_i, sink)
            alpha = tl.exp2(m_i - m_new)
            l_i = l_i * alpha + tl.exp2(sink - m_new)
            acc = acc * alpha[:, None]
        acc = acc * (v_scale / tl.where(l_i > 0.0, l_i, 1.0))[:, None]
        dv = tl.arange(0, BLOCK_DV)
        o = out + token.to(tl.int64)[:, None] * stride_ot + head[:, None] * stride_oh + dv[None, :]
        tl.store(o, acc.to(out.dtype.element_ty), mask=ok[:, None] & (dv[None, :] < DV))
