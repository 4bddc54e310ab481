"""Medians of CUDA-graph replays."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable

import torch

#: Bytes written between replays; more than any L2 cache so far.
_FLUSH = 256 << 20
#: Replays before a timed one. Few programs leave most multiprocessors without the kernel's code:
#: XQA's 32 at 1 x 1,024 took 17.5 us after one replay, 14.2 after three and 13.5 after five. A run
#: that is longer than this many milliseconds has warmed itself after one.
_BEFORE = 5
_LONG_MS = 1.0


def graph_of(fn: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Capture `fn`, after running it once to compile and allocate."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        fn()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        fn()
    return graph


def nodes_of(graph: torch.cuda.CUDAGraph) -> int:
    """How many kernels, copies and fills a graph records."""
    count = ctypes.c_size_t()
    ask = ctypes.CDLL("libcuda.so.1").cuGraphGetNodes
    ask.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
    status = ask(graph.raw_cuda_graph(), None, ctypes.byref(count))
    if status:
        raise RuntimeError(f"cuGraphGetNodes: error {status}")
    return count.value


def medians(
    runs: dict[str, Callable[[], object]], *, seconds: float = 0.3, least: int = 40
) -> dict[str, float]:
    """Median milliseconds of each run, taken in turns so that a drift of clocks hits all alike.

    Each timed run comes after some of itself and a flush of the L2 cache: data are cold for all,
    and instructions equally warm, whichever kernel had the turn before. The order turns round after
    each round, and rounds are even in number, so that neither of two alike follows the other more
    often: after a kernel that draws much power, clocks are lower.
    """
    flush = torch.empty(_FLUSH, dtype=torch.int8, device="cuda")
    for run in runs.values():
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    first = {name: _once(run, flush) for name, run in runs.items()}
    before = {name: 1 if ms > _LONG_MS else _BEFORE for name, ms in first.items()}
    each = sum((1 + before[name]) * ms for name, ms in first.items())
    rounds = max(least, min(300, int(seconds * 1e3 / max(1e-3, each)))) // 2 * 2
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {n: [] for n in runs}
    order = list(runs.items())
    for _ in range(rounds):
        order.reverse()
        for name, run in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(before[name]):
                run()
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
