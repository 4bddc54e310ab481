"""How kernels are launched: tile sizes, warps, stages, and how finely the work is cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from .tuned import TUNED_EXTEND, TUNED_SPLIT, ShapeKey, SplitKey


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """Launch of the split-KV kernel.

    `per_sm`: programs wanted for each multiprocessor. `overlap`: the merge kernel starts while
    the last programs of the split kernel still run, and waits for their results (Hopper on).
    """

    block_m: int
    block_n: int
    warps: int
    stages: int
    per_sm: int
    overlap: bool = False


@dataclass(frozen=True, slots=True)
class ExtendConfig:
    """Launch of the extend kernel. `pack`: query heads that share a tile, a power of two."""

    block_m: int
    block_n: int
    warps: int
    stages: int
    pack: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What the choice of a launch hangs on; dims and heads of a layer, widths in bytes."""

    q_heads: int
    kv_heads: int
    qk_dim: int
    v_dim: int
    q_bytes: int
    kv_bytes: int
    mla: bool

    @property
    def group(self) -> int:
        return self.q_heads // self.kv_heads


def power_of_two(n: int, least: int = 1) -> int:
    """The smallest power of two that is `n` and `least` or more."""
    return max(least, 1 << (n - 1).bit_length())


def halves(dim: int) -> tuple[int, int]:
    """A head dim as two tile widths: the largest power of two in it, and the rest rounded up.

    128 is (128, 0), 192 is (128, 64), 576 is (512, 64): little or nothing is padded.
    """
    first = max(16, 1 << (dim.bit_length() - 1))
    rest = dim - first
    return first, power_of_two(rest, 16) if rest > 0 else 0


def split_config(
    shape: Shape, rows: int, batch: int = 1, capability: tuple[int, int] | None = None
) -> SplitConfig:
    """Launch of decode and verify; `rows` is query heads of a KV head times queries."""
    tuned = TUNED_SPLIT.get(capability, {}).get(split_key(shape, rows), {})
    if tuned:
        return SplitConfig(*tuned[nearest(batch, tuned)])
    if shape.mla or shape.qk_dim > 256:
        block_m = min(power_of_two(rows, 16), 32 if shape.q_bytes == 4 else 64)
        block_n = 16 if shape.q_bytes == 4 else 32
        return SplitConfig(block_m, block_n, 8 if block_m > 16 else 4, 2, 2)
    block_m = min(power_of_two(rows, 16), 64)
    width = max(shape.qk_dim, shape.v_dim) * max(shape.q_bytes, shape.kv_bytes)
    block_n = 64 if width <= 256 else 32
    # The slots are loaded ahead of the keys: three stages hold one tile, five two, seven three.
    stages = 5 if width <= 512 else 3
    # Few requests are cut into pieces of one size: all of them should run at once. Of many
    # requests the pieces differ, and finer ones even that out.
    return SplitConfig(block_m, block_n, 4, stages, 3 if batch <= 4 else 8)


def extend_config(
    shape: Shape, tokens: int, batch: int, capability: tuple[int, int] | None = None
) -> ExtendConfig:
    """Launch of extend."""
    few = tokens <= 32 * max(batch, 1)
    tuned = TUNED_EXTEND.get(capability, {}).get(shape_key(shape))
    if tuned and not few:
        return ExtendConfig(*tuned)
    if shape.mla or shape.qk_dim > 256:
        return ExtendConfig(32, 16 if shape.q_bytes == 4 else 32, 8, 2, 1)
    if shape.q_bytes == 4:
        return ExtendConfig(32, 32, 4, 2, 1)
    if max(shape.qk_dim, shape.v_dim) > 128:
        return ExtendConfig(64, 64, 4, 2, 1)
    pack = power_of_two(shape.group)
    if few and pack <= 64:
        return ExtendConfig(64, 64, 4, 3, pack)
    return ExtendConfig(128, 64, 8, 5, 1)


def shape_key(shape: Shape) -> ShapeKey:
    """What a measured launch of extend holds for: any number of heads."""
    return shape.mla, shape.qk_dim, shape.v_dim, shape.q_bytes, shape.kv_bytes


def split_key(shape: Shape, rows: int) -> SplitKey:
    """What a measured launch of the split kernel holds for: also the tile that rows fill."""
    return *shape_key(shape), min(power_of_two(rows, 16), 64)


def nearest(batch: int, measured: Iterable[int]) -> int:
    """The measured batch size closest to `batch` as a ratio; the larger of two."""
    return min(measured, key=lambda other: (max(batch, other) / min(batch, other), -other))


def multiprocessors(device: torch.device) -> int:
    """Multiprocessors of a GPU; for the interpreter two: it runs programs one by one."""
    if device.type == "cpu":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
