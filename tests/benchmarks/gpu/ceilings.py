"""What the device itself can do: copy, read-only and matrix product."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .timing import graph_of, medians


@triton.jit
def _read(x, out, n, BLOCK: tl.constexpr, EACH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sum blocks, so that the loads can't be dropped; one number written for a program."""
    pid = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(EACH):
        offset = (pid.to(tl.int64) * EACH + i) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + offset).to(tl.float32)
    tl.store(out + pid, tl.sum(total, 0))


def measure() -> dict[str, float]:
    """GB/s of a copy (read and written) and of reading alone; TFLOP/s of a bf16 product."""
    count = 1 << 31
    x = torch.randn(count // 8, device="cuda", dtype=torch.bfloat16).repeat(8)
    y = torch.empty_like(x)
    block, each = 4096, 16
    programs = count // (block * each)
    out = torch.empty(programs, device="cuda")

    def read() -> None:
        _read[(programs,)](x, out, count, block, each, num_warps=8)

    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)

    def product() -> None:
        for _ in range(10):
            torch.mm(a, b, out=c)

    # A copy that is captured becomes a memcpy node, which is slower than the copy kernel.
    ms = medians(
        {
            "copy": lambda: y.copy_(x),
            "read": graph_of(read).replay,
            "product": graph_of(product).replay,
        },
        seconds=1.0,
    )
    moved = count * 2
    return {
        "copy_gb_s": 2 * moved / ms["copy"] / 1e6,
        "read_only_gb_s": moved / ms["read"] / 1e6,
        "matmul_bf16_tflop_s": 10 * 2 * size**3 / ms["product"] / 1e9,
    }
