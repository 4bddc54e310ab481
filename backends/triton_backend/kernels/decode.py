"""Split-KV attention for few queries a request: decode, and verify of draft tokens.

Stage one: a program takes a piece of one request's keys, one KV head, and all the query heads (and
draft tokens) that share that head, packed as rows of one tile. Stage two puts the pieces together.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .ops import (
    LOG2E,
    attend,
    largest,
    let_next_start,
    load_queries,
    total,
    wait_for_previous,
)
from .plan import ITEM_WIDTH, KV_LEN, POOL_ROW, REQUEST, START, STOP


@triton.jit(do_not_specialize=["window", "stride_req"])
def split_kernel(
    q,
    k,
    v,
    req_to_token,
    items,
    tree,
    part_out,
    part_lse,
    scale,
    cap,
    window,
    stride_qt,
    stride_qh,
    stride_ks,
    stride_kh,
    stride_vs,
    stride_vh,
    stride_req,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    NQ: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    D1: tl.constexpr,
    D2: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
    SHARED_KV: tl.constexpr,
    WINDOWED: tl.constexpr,
    TREE: tl.constexpr,
    CAPPED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Attend to one piece of keys; write a normalised output and its log2 denominator."""
    blocks: tl.constexpr = (NQ * GROUP + BLOCK_M - 1) // BLOCK_M
    if OVERLAP:
        let_next_start()
    pid = tl.program_id(0)
    item = tl.program_id(1)
    kv_head = pid // blocks
    at = items + item * ITEM_WIDTH
    request = tl.load(at + REQUEST)
    start = tl.load(at + START)
    stop = tl.load(at + STOP)
    pool_row = tl.load(at + POOL_ROW)
    kv_len = tl.load(at + KV_LEN)
    if request >= 0:
        row = (pid % blocks) * BLOCK_M + tl.arange(0, BLOCK_M)
        ok = row < NQ * GROUP
        qi = row // GROUP
        head = kv_head * GROUP + row % GROUP
        q_rows = q + (request * NQ + qi).to(tl.int64) * stride_qt + head * stride_qh
        q1 = load_queries(q_rows, ok, DK, 0, D1)
        if D2 > 0:
            q2 = load_queries(q_rows, ok, DK, D1, D2)
        else:
            q2 = q1
        q_pos = kv_len - NQ + qi
        tree_base = tree + (request * NQ + tl.where(ok, qi, 0)).to(tl.int64) * NQ
        row_base = req_to_token + pool_row.to(tl.int64) * stride_req
        k_base = k + kv_head * stride_kh
        v_base = v + kv_head * stride_vh

        m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
        l_i = tl.full([BLOCK_M], 0.0, tl.float32)
        acc = tl.full([BLOCK_M, BLOCK_DV], 0.0, tl.float32)
        for n0 in tl.range(start, stop, BLOCK_N, num_stages=STAGES):
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
                q_pos,
                tree_base,
                kv_len - NQ,
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
                True,
                NQ > 1 and not TREE,
                WINDOWED,
                TREE,
                CAPPED,
            )

        some = l_i > 0.0
        weight = tl.where(some, l_i, 1.0)
        dv = tl.arange(0, BLOCK_DV)
        out_row = (item * NQ + qi).to(tl.int64) * HEADS + head
        tl.store(
            part_out + out_row[:, None] * DV + dv[None, :],
            acc / weight[:, None],
            mask=ok[:, None] & (dv[None, :] < DV),
        )
        lse = tl.where(some, m_i + tl.log2(weight), float("-inf"))
        tl.store(part_lse + out_row, lse, mask=ok)


@triton.jit
def merge_kernel(
    part_out,
    part_lse,
    item_indptr,
    sinks,
    out,
    v_scale,
    stride_ot,
    stride_oh,
    HEADS: tl.constexpr,
    NQ: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_H: tl.constexpr,
    SINKS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Put the pieces of a token, `BLOCK_H` heads and `BLOCK_D` dims together.

    Rows that saw no key become zero. `BLOCK_S` pieces are read at a time; the host picks it such
    that one turn of the loop is the rule, since each costs the latency of a read.
    """
    chunks: tl.constexpr = (DV + BLOCK_D - 1) // BLOCK_D
    pid = tl.program_id(0)
    token = tl.program_id(1)
    head = pid // chunks * BLOCK_H + tl.arange(0, BLOCK_H)
    request = token // NQ
    # The plan was complete before the split kernel began: these need not wait for it.
    first = tl.load(item_indptr + request)
    last = tl.load(item_indptr + request + 1)
    s = tl.arange(0, BLOCK_S)
    dv = pid % chunks * BLOCK_D + tl.arange(0, BLOCK_D)
    here = head < HEADS
    there = dv < DV
    m_i = tl.full([BLOCK_H], float("-inf"), tl.float32)
    l_i = tl.full([BLOCK_H], 0.0, tl.float32)
    acc = tl.full([BLOCK_H, BLOCK_D], 0.0, tl.float32)
    if OVERLAP:
        wait_for_previous()
    for s0 in range(first, last, BLOCK_S):
        row = ((s0 + s) * NQ + token % NQ).to(tl.int64) * HEADS
        at = row[:, None] + head[None, :]
        ok = (s0 + s < last)[:, None] & here[None, :]
        lse = tl.load(part_lse + at, mask=ok, other=float("-inf"))
        tile = tl.load(
            part_out + at[:, :, None] * DV + dv[None, None, :],
            mask=ok[:, :, None] & there[None, None, :],
            other=0.0,
        )
        m_new = tl.maximum(m_i, largest(lse, 0))
        m_use = tl.where(m_new == float("-inf"), 0.0, m_new)
        weight = tl.exp2(lse - m_use[None, :])
        alpha = tl.exp2(m_i - m_use)
        l_i = l_i * alpha + total(weight, 0)
        acc = acc * alpha[:, None] + total(tile * weight[:, :, None], 0)
        m_i = m_new
    if SINKS:
        sink = tl.load(sinks + head, mask=here, other=0.0).to(tl.float32) * LOG2E
        m_new = tl.maximum(m_i, sink)
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.exp2(sink - m_new)
        acc = acc * alpha[:, None]
    acc = acc * (v_scale / tl.where(l_i > 0.0, l_i, 1.0))[:, None]
    o = out + token.to(tl.int64) * stride_ot + head[:, None] * stride_oh + dv[None, :]
    tl.store(o, acc.to(out.dtype.element_ty), mask=here[:, None] & there[None, :])
