"""What is tuned: shapes of work, and the launches tried for each."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from attn_lint.backends.interface.dtypes import TORCH
from attn_lint.backends.triton_backend.launch import ExtendConfig, Shape, SplitConfig

Config = SplitConfig | ExtendConfig


@dataclass(frozen=True, slots=True)
class Work:
    """One shape: `queries` new tokens of `batch` requests that have `context` tokens each."""

    kind: str  # decode, verify or extend
    batch: int
    context: int
    queries: int = 1
    q_heads: int = 32
    kv_heads: int = 8
    qk_dim: int = 128
    v_dim: int = 128
    page_size: int = 16
    dtype: str = "bfloat16"
    kv_dtype: str = "bfloat16"
    mla: bool = False

    @property
    def name(self) -> str:
        mla = "mla_" if self.mla else ""
        return f"{mla}{self.kind} {self.batch}x{self.context} q{self.queries} {self.kv_dtype}"

    @property
    def shape(self) -> Shape:
        return Shape(
            self.q_heads, self.kv_heads, self.qk_dim, self.v_dim,
            TORCH[self.dtype].itemsize, TORCH[self.kv_dtype].itemsize, self.mla,
        )  # fmt: skip

    @property
    def rows(self) -> int:
        return self.q_heads // self.kv_heads * self.queries

    @property
    def kv_bytes(self) -> int:
        dims = self.qk_dim if self.mla else self.qk_dim + self.v_dim
        size = TORCH[self.kv_dtype].itemsize
        return self.batch * self.context * self.kv_heads * dims * size

    @property
    def flops(self) -> float:
        seen = self.queries * (self.context - (self.queries - 1) / 2)
        return 2 * self.batch * seen * self.q_heads * (self.qk_dim + self.v_dim)


MLA = Work(
    "decode", 16, 8192, q_heads=128, kv_heads=1, qk_dim=576, v_dim=512, page_size=64, mla=True
)
DEFAULT = (
    Work("decode", 1, 8192), Work("decode", 1, 32768), Work("extend", 4, 4096, 4096),
    Work("decode", 16, 8192), Work("decode", 64, 8192), Work("decode", 1, 1024),
    Work("extend", 1, 16384, 16384), MLA, Work("decode", 16, 32768), Work("decode", 64, 32768),
    Work("decode", 16, 1024), Work("decode", 64, 8192, kv_dtype="fp8_e4m3"),
    Work("verify", 16, 8192, 8),
)  # fmt: skip


def split_configs(work: Work) -> Iterator[tuple[SplitConfig, tuple[int, ...]]]:
    """Launches to compile, the most promising first, and the finenesses to time each with."""
    if work.mla:
        tiles = [(64, 32, 8), (64, 64, 8), (64, 32, 4), (32, 32, 4), (64, 64, 4), (128, 32, 8)]
        depths = (3, 5)
        per_sm: tuple[int, ...] = (1, 2, 3, 4)
    else:
        least = max(16, 1 << (min(work.rows, 64) - 1).bit_length())
        tiles = [(least, n, w) for n, w in ((64, 4), (32, 2), (64, 2), (32, 4), (128, 4), (128, 8),
                                            (32, 1), (16, 1))]  # fmt: skip
        depths = (5, 3, 7)
        per_sm = (3, 4, 2, 6, 8, 5, 1, 12, 16)
    for at, (stages, (m, n, warps)) in enumerate(itertools.product(depths, tiles)):
        yield SplitConfig(m, n, warps, stages, 1, overlap=True), per_sm
        if at % len(tiles) < 2:
            yield SplitConfig(m, n, warps, stages, 1, overlap=False), per_sm


def extend_configs(work: Work) -> Iterator[tuple[ExtendConfig, tuple[int, ...]]]:
    """As `split_configs`; an extend has no fineness."""
    group = work.q_heads // work.kv_heads
    packs = [1, group] if group & (group - 1) == 0 and group > 1 else [1]
    tiles = [(128, 64, 8, 3), (64, 64, 4, 3), (128, 128, 8, 3), (128, 64, 8, 5), (128, 64, 4, 3),
             (64, 64, 4, 5), (128, 128, 8, 5), (64, 32, 4, 3), (64, 128, 4, 3), (128, 64, 8, 2),
             (64, 64, 4, 2), (128, 32, 8, 3), (128, 64, 8, 7), (64, 32, 4, 5)]  # fmt: skip
    for pack, (m, n, warps, stages) in itertools.product(packs, tiles):
        yield ExtendConfig(m, n, warps, stages, pack), (1,)


def configs(work: Work) -> list[tuple[Config, tuple[int, ...]]]:
    return list(extend_configs(work) if work.kind == "extend" else split_configs(work))


def rates(work: Work, ms: float) -> dict[str, float]:
    return {
        "us": round(ms * 1e3, 2),
        "kv_gb_s": round(work.kv_bytes / ms / 1e6, 1),
        "tflop_s": round(work.flops / ms / 1e9, 1),
    }


def work_of(text: str) -> Work:
    """`KIND:BATCHxCONTEXT[xQUERIES][,field=value…]` as a Work."""
    head, *settings = text.split(",")
    try:
        kind, _, shape = head.partition(":")
        batch, context, *queries = (int(part) for part in shape.split("x"))
        base = replace(MLA, kind="decode") if kind == "mla_decode" else Work("decode", 1, 1)
        kind = kind.removeprefix("mla_")
        if kind not in ("decode", "verify", "extend"):
            raise ValueError(kind)
        count = queries[0] if queries else context if kind == "extend" else 1
        named: dict[str, Any] = {}
        for setting in settings:
            field, _, value = setting.partition("=")
            named[field] = int(value) if value.isdigit() else value
        return replace(base, kind=kind, batch=batch, context=context, queries=count, **named)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND:BATCHxCONTEXT: {error}") from error
