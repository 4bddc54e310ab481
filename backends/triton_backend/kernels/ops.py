"""Device functions that all the kernels share.

Every matrix product of this package goes through `dot`: Triton's interpreter multiplies bfloat16
(and quantised) operands wrongly and says nothing, so there they are widened to float32 first. A
test holds that no kernel calls `tl.dot` on its own.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton import knobs

# Fixed when the kernels are defined, as is whether they are compiled or interpreted.
INTERPRETED = tl.constexpr(bool(knobs.runtime.interpret))

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def widen(x, like):
    """Bring a loaded tile to the type it is multiplied in."""
    if INTERPRETED:
        x = x.to(tl.float32)
    else:
        x = x.to(like)
    return x


@triton.jit
def dot(a, b, acc):
    """Multiply two tiles and add to a float32 tile, right under the interpreter too."""
    if INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    # Only float32 is split in three: as exact as float32 needs, on tensor cores.
    return tl.dot(a, b, acc, input_precision="tf32x3")


@triton.jit
def largest(x, axis: tl.constexpr):
    """The maximum along an axis.

    `tl.max` itself can't be called by an interpreted kernel once Triton was imported without the
    interpreter; the reduction behind it can.
    """
    return tl.reduce(x, axis, tl.standard._elementwise_max)


@triton.jit
def total(x, axis: tl.constexpr):
    """The sum along an axis; not `tl.sum`, for the same reason."""
    return tl.reduce(x, axis, tl.standard._sum_combine)


@triton.jit
def running_total(x):
    """The sums up to each element of a vector."""
    return tl.associative_scan(x, 0, tl.standard._sum_combine)


@triton.jit
def let_next_start():
    """From here on, the next kernel of the stream may start where there is room (Hopper on)."""
    tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def wait_for_previous():
    """Wait until the kernel before this one has ended and its writes can be read (Hopper on)."""
    tl.extra.cuda.gdc_wait()


@triton.jit
def tanh(x):
    """Hyperbolic tangent; beyond ±15 it is ±1 in float32, and the exponential stays finite.

    Near 0, where the difference would leave few digits, its series: a large cap makes all small.
    """
    x = tl.minimum(tl.maximum(x, -15.0), 15.0)
    far = 1.0 - 2.0 / (1.0 + tl.exp2(x * (2.0 * LOG2E)))
    s = x * x
    near = x * (1.0 + s * (-1.0 / 3 + s * (2.0 / 15 + s * (-17.0 / 315 + s * (62.0 / 2835)))))
    return tl.where(tl.abs(x) < 0.25, near, far)


@triton.jit
def attend(
    acc,
    m_i,
    l_i,
    q1,
    q2,
    k_base,
    v_base,
    row_base,
    stride_k,
    stride_v,
    n0,
    stop,
    q_pos,
    limit,
    tree_base,
    tree_from,
    scale,
    cap,
    window,
    DK: tl.constexpr,
    DV: tl.constexpr,
    D1: tl.constexpr,
    D2: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SHARED_KV: tl.constexpr,
    BOUNDED: tl.constexpr,
    LIMITED: tl.constexpr,
    WINDOWED: tl.constexpr,
    TREE: tl.constexpr,
    CAPPED: tl.constexpr,
):
    """Fold the keys `n0 … n0 + BLOCK_N` of one request into the running softmax of a query tile.

    `row_base` points at the request's row of slots. `BOUNDED`: keys from `stop` on do not exist;
    neither they nor their slots are read. `LIMITED`: a query sees keys up to `limit`. `TREE`: from
    key `tree_from` on, the mask at `tree_base` (one row a query) decides.
    """
    n = n0 + tl.arange(0, BLOCK_N)
    d1 = tl.arange(0, D1)
    dv = tl.arange(0, BLOCK_DV)
    exists = n < stop
    if BOUNDED:
        slot = tl.load(row_base + n, mask=exists, other=0).to(tl.int64)
    else:
        slot = tl.load(row_base + n).to(tl.int64)
    k_rows = k_base + slot[:, None] * stride_k

    k1_ptr = k_rows + d1[None, :]
    if D1 > DK:
        if BOUNDED:
            k1 = tl.load(k1_ptr, mask=exists[:, None] & (d1[None, :] < DK), other=0.0)
        else:
            k1 = tl.load(k1_ptr, mask=d1[None, :] < DK, other=0.0)
    else:
        if BOUNDED:
            k1 = tl.load(k1_ptr, mask=exists[:, None], other=0.0)
        else:
            k1 = tl.load(k1_ptr)
    k1 = widen(k1, q1.dtype)
    s = dot(q1, tl.trans(k1), tl.full([BLOCK_M, BLOCK_N], 0.0, tl.float32))
    if D2 > 0:
        d2 = D1 + tl.arange(0, D2)
        k2_ptr = k_rows + d2[None, :]
        if D1 + D2 > DK:
            if BOUNDED:
                k2 = tl.load(k2_ptr, mask=exists[:, None] & (d2[None, :] < DK), other=0.0)
            else:
                k2 = tl.load(k2_ptr, mask=d2[None, :] < DK, other=0.0)
        else:
            if BOUNDED:
                k2 = tl.load(k2_ptr, mask=exists[:, None], other=0.0)
            else:
                k2 = tl.load(k2_ptr)
        s = dot(q2, tl.trans(widen(k2, q1.dtype)), s)

    if CAPPED:
        s = tanh(s * scale) * cap
    if BOUNDED or LIMITED or WINDOWED or TREE:
        seen = exists[None, :]
        if LIMITED:
            seen = seen & (n[None, :] <= limit[:, None])
        if WINDOWED:
            seen = seen & (q_pos[:, None] - n[None, :] <= window)
        if TREE:
            draft = n - tree_from
            asked = seen & (draft >= 0)[None, :]
            bit = tl.load(tree_base[:, None] + draft[None, :], mask=asked, other=1)
            seen = seen & (bit != 0)
        s = tl.where(seen, s, float("-inf"))

    if CAPPED:
        m_new = tl.maximum(m_i, largest(s, 1))
    else:
        m_new = tl.maximum(m_i, largest(s, 1) * scale)
    if LIMITED or WINDOWED or TREE:
        # A row may have seen nothing so far: -inf less -inf is no number.
        m_use = tl.where(m_new == float("-inf"), 0.0, m_new)
    else:
        m_use = m_new
    if CAPPED:
        p = tl.exp2(s - m_use[:, None])
    else:
        p = tl.exp2(s * scale - m_use[:, None])
    alpha = tl.exp2(m_i - m_use)
    l_i = l_i * alpha + total(p, 1)
    acc = acc * alpha[:, None]

    if SHARED_KV:
        v = k1
    else:
        v_ptr = v_base + slot[:, None] * stride_v + dv[None, :]
        if BLOCK_DV > DV:
            if BOUNDED:
                v = tl.load(v_ptr, mask=exists[:, None] & (dv[None, :] < DV), other=0.0)
            else:
                v = tl.load(v_ptr, mask=dv[None, :] < DV, other=0.0)
        else:
            if BOUNDED:
                v = tl.load(v_ptr, mask=exists[:, None], other=0.0)
            else:
                v = tl.load(v_ptr)
        v = widen(v, q1.dtype)
    acc = dot(widen(p, q1.dtype), v, acc)
    return acc, m_new, l_i


@triton.jit
def load_queries(q_rows, ok, DK: tl.constexpr, FIRST: tl.constexpr, WIDTH: tl.constexpr):
    """Read columns `FIRST … FIRST + WIDTH` of some query rows; zeros where there are none."""
    d = FIRST + tl.arange(0, WIDTH)
    return tl.load(q_rows[:, None] + d[None, :], mask=ok[:, None] & (d[None, :] < DK), other=0.0)
