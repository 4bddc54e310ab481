"""Medians of CUDA-graph replays."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

#: Bytes written between replays; more than any L2 cache so far.
_FLUSH = 256 << 20


def graph_of(fn: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Capture `fn`, after running it once to compile and allocate."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        fn()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph


def medians(
    runs: dict[str, Callable[[], object]], *, seconds: float = 0.15, least: int = 15
) -> dict[str, float]:
    """Median milliseconds of each run, taken in turns so that a drift of clocks hits all alike."""
    flush = torch.empty(_FLUSH, dtype=torch.int8, device="cuda")
    for run in runs.values():
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    first = {name: _once(run, flush) for name, run in runs.items()}
    rounds = max(least, min(300, int(seconds * 1e3 / max(1e-3, sum(first.values())))))
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {n: [] for n in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            start.record()
            run()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: statistics.median(a.elapsed_time(b) for a, b in pairs)
        for name, pairs in events.items()
    }


def _once(run: Callable[[], object], flush: torch.Tensor) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush.zero_()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)
