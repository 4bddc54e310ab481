"""Time launch configurations of the `triton` backend's kernels on the CUDA device present.

    python -m tests.benchmarks.tune --seconds 180 --output-file tuned.json
    python -m tests.benchmarks.tune --seconds 60 decode:1x8192 decode:1x32768

Kernels are compiled by a pool of processes while the first ones are timed, in one process that
owns the device and is replaced when it dies. Every configuration is compared with a float64
computation of some of its rows, run eagerly and replayed, before it is timed; wrong ones are listed
as such and have no time. Times are medians of CUDA-graph replays with a cold L2 cache.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, TimeoutError
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from attn_lint.backends.interface.dtypes import TORCH
from attn_lint.backends.triton_backend.launch import ExtendConfig, SplitConfig

from .compiling import compile_main, compile_small, key_of
from .worker import Row, Timer
from .works import DEFAULT, Config, Work, configs, work_of

#: Seconds kept back: processes that still compile have to end.
_RESERVE = 8
#: Seconds within which a handful of configurations must be timed.
_PATIENCE = 25


class Tuner:
    """Compiles in a pool, times in a child, keeps rows."""

    def __init__(
        self, works: list[Work], seconds: float, workers: int, output: Path | None
    ) -> None:
        self.deadline = time.monotonic() + seconds - _RESERVE
        self.works = works
        self.output = output
        self.rows: list[Row] = []
        self.pool = ProcessPoolExecutor(workers, get_context("spawn"))
        self.jobs: dict[object, Future[dict[str, Any]]] = {}
        largest = max(w.kv_bytes // TORCH[w.kv_dtype].itemsize for w in works)
        self.timer = Timer(largest)
        self.device = self.timer.device
        print(self.device, flush=True)

    def run(self) -> None:
        """Tune every shape within the time there is."""
        try:
            self._compile()
            for done, work in enumerate(self.works):
                left = self.deadline - time.monotonic()
                self._tune(work, time.monotonic() + left / (len(self.works) - done))
                self._save()
        finally:
            self._save()
            self.pool.shutdown(wait=False, cancel_futures=True)
            self.timer.close()

    def _compile(self) -> None:
        """Queue what is compiled, in turns over the shapes: the best candidates of each early."""
        major, minor = self.device.capability
        for work in self.works:
            if work.kind != "extend":
                self.jobs[work] = self.pool.submit(
                    compile_small, work, major * 10 + minor, self.device.multiprocessors
                )
        for turn in itertools.zip_longest(*([(w, c) for c, _ in configs(w)] for w in self.works)):
            for work, config in (pair for pair in turn if pair):
                key = key_of(work, config)
                if key not in self.jobs:
                    self.jobs[key] = self.pool.submit(
                        compile_main, work, config, major * 10 + minor
                    )

    def _tune(self, work: Work, until: float) -> None:
        waiting = configs(work)
        timed: dict[Config, float] = {}
        problems: set[str] = set()
        if work in self.jobs:
            _settle(self.jobs[work], until)
        while waiting and time.monotonic() < until - 2:
            ready = next((p for p in waiting if self.jobs[key_of(work, p[0])].done()), None)
            if ready is None:
                _settle(self.jobs[key_of(work, waiting[0][0])], until - 2)
                continue
            waiting.remove(ready)
            base, finenesses = ready
            row: Row = {"work": work.name, **asdict(base)}
            try:
                compiled = self.jobs[key_of(work, base)].result()
            except Exception as problem:
                self.rows.append({**row, "failed": f"{type(problem).__name__}: {problem}"[:300]})
                problems.add(self.rows[-1]["failed"][:160])
                continue
            variants: list[Config] = [base]
            if isinstance(base, SplitConfig):
                variants = [replace(base, per_sm=per_sm) for per_sm in finenesses]
            for got in self.timer.time(work, variants, _PATIENCE):
                self.rows.append({**row, **compiled, **got})
                if "us" in got:
                    timed[_config_of(self.rows[-1])] = got["us"]
                else:
                    problem = got.get("failed") or f"wrong by {got['wrong']}"
                    problems.add(f"{base}: {problem}"[:240])
        finalists = sorted(timed, key=lambda config: timed[config])[:5]
        if finalists:
            again = self.timer.time(work, finalists, _PATIENCE, final=True)
            for got in sorted(again, key=lambda row: row.get("us", 0.0)):
                self.rows.append({"work": work.name, **got})
                print(_line(work, got), flush=True)
        print(
            f"{work.name}: {len(timed)} timed, {len(problems)} problems, {len(waiting)} not tried",
            *sorted(problems)[:6], sep="\n  ", flush=True,
        )  # fmt: skip

    def _save(self) -> None:
        if self.output:
            device, capability, multiprocessors = self.device
            kept = {
                "device": device, "capability": capability, "multiprocessors": multiprocessors,
                "works": {w.name: asdict(w) for w in self.works}, "rows": self.rows,
            }  # fmt: skip
            part = self.output.with_suffix(".part")
            part.write_text(json.dumps(kept, indent=0) + "\n")
            part.replace(self.output)


def _settle(job: Future[dict[str, Any]], until: float) -> None:
    """Wait for a job, but not beyond `until`; whether it failed is looked at later."""
    try:
        job.exception(max(0.1, until - time.monotonic()))
    except TimeoutError:
        return


def _config_of(row: Row) -> Config:
    kind = SplitConfig if "per_sm" in row else ExtendConfig
    return kind(**{name: row[name] for name in kind.__dataclass_fields__})


def _line(work: Work, row: Row) -> str:
    if "us" not in row:
        return f"{work.name:32} {row}"[:300]
    config = _config_of(row)
    return (f"{work.name:32} {config} {row['us']:8.1f} us {row['kv_gb_s']:6.0f} GB/s "
            f"{row['tflop_s']:6.0f} TFLOP/s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.tune", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=240, help="end by then (default: 240)")
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--output-file", type=Path)
    parser.add_argument(
        "work", nargs="*", type=work_of,
        help="as decode:64x8192, verify:16x8192x8, extend:4x4096,q_heads=16; default: a set",
    )  # fmt: skip
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this tuner needs a CUDA device")
    Tuner(
        options.work or list(DEFAULT), options.seconds, options.workers, options.output_file
    ).run()


if __name__ == "__main__":
    main()
