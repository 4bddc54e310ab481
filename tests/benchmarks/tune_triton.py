"""Time launch configurations of the `triton` backend's kernels on the CUDA device present.

    python -m tests.benchmarks.tune_triton --seconds 240 --output-file tuned.json

Kernels are compiled by a pool of processes while the first ones are timed. Every configuration is
compared with a float64 computation of some of its rows before it is timed; wrong ones are listed
as such and have no time. Times are medians of CUDA-graph replays with a cold L2 cache.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, TimeoutError
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from attn_lint.backends.interface.dtypes import TORCH
from attn_lint.backends.triton_backend import attention
from attn_lint.backends.triton_backend.launch import ExtendConfig, SplitConfig
from attn_lint.backends.triton_backend.loading import Kernels, load_kernels
from attn_lint.backends.triton_backend.metadata import allocate, fill

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
    Work("decode", 64, 8192), Work("decode", 1, 8192), Work("decode", 16, 8192),
    Work("extend", 4, 4096, 4096), Work("decode", 64, 32768), Work("decode", 1, 32768),
    Work("decode", 16, 32768), Work("extend", 1, 16384, 16384), Work("verify", 16, 8192, 8),
    MLA, Work("decode", 64, 8192, kv_dtype="fp8_e4m3"),
)  # fmt: skip


def split_configs(work: Work) -> Iterator[tuple[SplitConfig, tuple[int, ...]]]:
    """Launches to compile, the most promising first, and the finenesses to time each with."""
    if work.mla:
        tiles = [(64, 32, 8), (64, 64, 8), (64, 32, 4), (32, 32, 4), (64, 64, 4), (128, 32, 8)]
        depths = (5, 3)
        per_sm: tuple[int, ...] = (1, 2, 4)
    else:
        least = max(16, 1 << (min(work.rows, 64) - 1).bit_length())
        tiles = [(least, n, w) for n, w in ((64, 4), (32, 2), (64, 2), (32, 4), (128, 4), (32, 1),
                                            (128, 8), (16, 1))]  # fmt: skip
        depths = (5, 3, 7)
        per_sm = (2, 3, 4, 5, 6, 8, 12, 16, 24)
    for stages, (m, n, warps) in itertools.product(depths, tiles):
        yield SplitConfig(m, n, warps, stages, 1), per_sm


def extend_configs(work: Work) -> Iterator[tuple[ExtendConfig, tuple[int, ...]]]:
    """As `split_configs`; an extend has no fineness."""
    group = work.q_heads // work.kv_heads
    packs = [1, group] if group & (group - 1) == 0 and group > 1 else [1]
    tiles = [(128, 64, 8, 5), (128, 64, 8, 3), (128, 128, 8, 3), (64, 64, 4, 3), (128, 128, 8, 5),
             (64, 64, 4, 5), (64, 128, 4, 3), (128, 64, 4, 5), (128, 64, 8, 7), (128, 32, 8, 5),
             (64, 32, 4, 5), (128, 64, 4, 3)]  # fmt: skip
    for (m, n, warps, stages), pack in itertools.product(tiles, packs):
        yield ExtendConfig(m, n, warps, stages, pack), (1,)


def configs(work: Work) -> list[tuple[Config, tuple[int, ...]]]:
    return list(extend_configs(work) if work.kind == "extend" else split_configs(work))


# Inputs


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
    batch, tokens = (work.batch, work.batch * work.queries) if pool is not None else (1, 1)
    if pool is not None:
        order = torch.randperm(pages, device=device, dtype=torch.int32).view(batch, -1, 1)
        inside = torch.arange(work.page_size, device=device, dtype=torch.int32)
        table = (order * work.page_size + inside).flatten(1)
    else:
        table = torch.zeros(1, 16, dtype=torch.int32, device=device)
    q = torch.randn(tokens, work.q_heads, work.qk_dim, device=device).to(TORCH[work.dtype])

    def full(value: int) -> torch.Tensor:
        return torch.full((batch,), value, dtype=torch.int32, device=device)

    return Inputs(
        work, q, k, v, table, torch.arange(batch, device=device), full(work.context),
        torch.arange(batch, dtype=torch.int32, device=device) * work.queries, full(work.queries),
        attention.Options(work.qk_dim**-0.5),
    )  # fmt: skip


def call_of(kernels: Kernels, config: Config, x: Inputs, sms: int) -> Callable[[], torch.Tensor]:
    """Plan a pass with a configuration; the returned call runs it."""
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


# Compiling without a device


class _NoDevice:
    """Stands in for Triton's driver: enough to compile for a target."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)


class _Warm:
    """A kernel that is compiled where it would be launched."""

    def __init__(self, kernel: Any, found: list[Any]) -> None:
        self.kernel, self.found = kernel, found

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def compile_only(*args: Any, **kwargs: Any) -> None:
            self.found.append(self.kernel.warmup(*args, grid=grid, **kwargs))

        return compile_only


def compile_one(work: Work, config: Config, capability: int) -> dict[str, Any]:
    """Compile what a configuration launches, in a process of its own, into Triton's disk cache."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from triton.runtime.driver import driver

    driver.set_active(_NoDevice(capability))
    kernels = load_kernels(torch.device("cuda"))
    found: list[Any] = []
    warm = Kernels(False, *(_Warm(kernel, found) for kernel in kernels[1:]))
    began = time.monotonic()
    call_of(warm, config, inputs(work, "cpu"), 132)()
    main = found[1]
    return {"shared": main.metadata.shared, "seconds": round(time.monotonic() - began, 1)}


# Timing


def key_of(work: Work, config: Config) -> tuple[Work, Config]:
    """What a compiled kernel hangs on."""
    return replace(work, kind="", batch=1, context=1), config


def tune(works: list[Work], seconds: float, workers: int) -> list[dict[str, Any]]:
    deadline = time.monotonic() + seconds
    capability = torch.cuda.get_device_capability()
    jobs: dict[tuple[Work, Config], Future[dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(workers, get_context("spawn")) as executor:
        # In turns over the shapes, so that each has its best candidates compiled early.
        for turn in itertools.zip_longest(*([(w, c) for c, _ in configs(w)] for w in works)):
            for work, config in (pair for pair in turn if pair):
                key = key_of(work, config)
                if key not in jobs:
                    jobs[key] = executor.submit(
                        compile_one, work, config, capability[0] * 10 + capability[1]
                    )
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        kernels = load_kernels(torch.device("cuda"))
        largest = max(w.kv_bytes // TORCH[w.kv_dtype].itemsize for w in works)
        pool = torch.empty(largest, dtype=torch.bfloat16, device="cuda")
        for part in pool.split(1 << 28):
            part.normal_()
        for done, work in enumerate(works):
            left = deadline - time.monotonic()
            until = time.monotonic() + left / (len(works) - done)
            rows += _tune_one(work, inputs(work, "cuda", pool), kernels, jobs, until, sms)
        executor.shutdown(wait=False, cancel_futures=True)
    return rows


def _tune_one(
    work: Work,
    x: Inputs,
    kernels: Kernels,
    jobs: dict[tuple[Work, Config], Future[dict[str, Any]]],
    until: float,
    sms: int,
) -> list[dict[str, Any]]:
    from tests.benchmarks.gpu.timing import graph_of, medians

    rows: list[dict[str, Any]] = []
    reference = expected(x)
    best: list[tuple[float, Config]] = []
    waiting = configs(work)
    while waiting and time.monotonic() < until:
        ready = [pair for pair in waiting if jobs[key_of(work, pair[0])].done()]
        if not ready:
            try:
                jobs[key_of(work, waiting[0][0])].result(max(0.1, until - time.monotonic()))
            except TimeoutError:
                break
            except Exception:  # reported below
                pass
            continue
        base, finenesses = ready[0]
        waiting.remove(ready[0])
        row: dict[str, Any] = {"work": work.name, **asdict(base)}
        try:
            row |= jobs[key_of(work, base)].result()
            for per_sm in finenesses:
                config = replace(base, per_sm=per_sm) if isinstance(base, SplitConfig) else base
                call = call_of(kernels, config, x, sms)
                if per_sm == finenesses[0] or per_sm == finenesses[-1]:
                    error = error_of(call(), reference)
                    if error > 2e-2:
                        rows.append({**row, **asdict(config), "wrong": error})
                        print(work.name, config, f"WRONG {error}", flush=True)
                        break
                ms = medians({"": graph_of(call).replay}, seconds=0.01, least=7)[""]
                rows.append({**row, **asdict(config), "error": error, **_rates(work, ms)})
                best.append((ms, config))
                if time.monotonic() > until:
                    break
        except Exception as problem:
            rows.append({**row, "failed": f"{type(problem).__name__}: {problem}"[:300]})
    finalists = list(dict.fromkeys(c for _, c in sorted(best, key=lambda b: b[0])[:6]))
    again = {str(i): graph_of(call_of(kernels, c, x, sms)).replay for i, c in enumerate(finalists)}
    if again:
        for i, ms in medians(again, seconds=0.3, least=15).items():
            config = finalists[int(i)]
            row = {"work": work.name, **asdict(config), "final": True, **_rates(work, ms)}
            rows.append(row)
            print(f"{work.name:32} {config} {ms * 1e3:8.1f} us {row['kv_gb_s']:6.0f} GB/s "
                  f"{row['tflop_s']:6.0f} TFLOP/s", flush=True)  # fmt: skip
    failed = [row for row in rows if "failed" in row]
    print(f"{work.name}: {len(best)} timed, {len(failed)} failed, {len(waiting)} not tried",
          *{row["failed"][:160] for row in failed}, sep="\n  ", flush=True)  # fmt: skip
    return rows


def _rates(work: Work, ms: float) -> dict[str, float]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--output-file", type=Path)
    parser.add_argument(
        "work", nargs="*", type=work_of,
        help="as decode:64x8192, verify:16x8192x8, extend:4x4096,q_heads=16; default: a set",
    )  # fmt: skip
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this tuner needs a CUDA device")
    rows = tune(options.work or list(DEFAULT), options.seconds, options.workers)
    if options.output_file:
        options.output_file.write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
