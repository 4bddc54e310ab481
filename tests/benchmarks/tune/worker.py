"""The process that owns the device: it times what it is asked to, and may die of it.

An illegal access on a CUDA device leaves the process that caused it without a usable context. So
`Timer` runs the timing in a child, reads its rows as they come, and starts another child when one
has died or has not answered for too long.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
from attn_lint.backends.triton_backend.loading import load_kernels

from .works import Config, Work, rates

#: Relative errors beyond this are wrong, whatever the dtype.
_WRONG = 2e-2
Row = dict[str, Any]


class Died(Exception):
    """The child ended, or had to be ended."""


class Device(NamedTuple):
    name: str
    capability: tuple[int, int]
    multiprocessors: int


def _serve(conn: Connection, largest: int) -> None:
    from . import inputs as given

    properties = torch.cuda.get_device_properties(0)
    multiprocessors = properties.multi_processor_count
    conn.send(Device(properties.name, (properties.major, properties.minor), multiprocessors))
    kernels = load_kernels(torch.device("cuda"))
    pool = torch.empty(largest, dtype=torch.bfloat16, device="cuda")
    for part in pool.split(1 << 28):
        part.normal_()
    torch.cuda.synchronize()
    # Each capture collects garbage first: what lives for good need not be looked at.
    gc.freeze()
    work: Work | None = None
    while (asked := conn.recv()) is not None:
        new, configs, final = asked
        try:
            if new != work:
                work, x, reference = new, None, None
                x = given.inputs(new, "cuda", pool)
                reference = given.expected(x)
            calls = {c: given.call_of(kernels, c, x, multiprocessors) for c in configs}
            for row in _timed(new, calls, reference, final):
                conn.send(row)
        except Exception as problem:
            conn.send({"failed": f"{type(problem).__name__}: {problem}"[:300]})
            calls = {}
            torch.cuda.synchronize()  # ends this process if the context is lost
        conn.send(None)


def _timed(work: Work, calls: dict[Config, Any], reference: Any, final: bool) -> Iterator[Row]:
    """Rows of right configurations; all calls are kept while any graph is replayed."""
    from tests.benchmarks.gpu.timing import graph_of, medians

    from .inputs import error_of

    graphs: dict[Config, Any] = {}
    errors: dict[Config, float] = {}
    for config, call in calls.items():
        out = call()
        errors[config] = error_of(out, reference)
        if errors[config] < _WRONG:
            graph = graph_of(call)
            out.fill_(float("nan"))
            graph.replay()
            errors[config] = max(errors[config], error_of(out, reference))
            graphs[config] = graph
        if errors[config] > _WRONG:
            yield {**asdict(config), "wrong": errors[config]}
            graphs.pop(config, None)
    runs = {str(i): graph.replay for i, graph in enumerate(graphs.values())}
    if runs:
        effort = {"seconds": 0.3, "least": 15} if final else {"seconds": 0.02, "least": 9}
        for config, ms in zip(graphs, medians(runs, **effort).values(), strict=True):
            row = {**asdict(config), "error": errors[config], **rates(work, ms)}
            yield {**row, "final": True} if final else row


class Timer:
    """Times configurations in a child process."""

    def __init__(self, largest: int, serve: Callable[[Connection, int], None] = _serve) -> None:
        self._largest, self._serve = largest, serve
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self._conn, other = context.Pipe()
        self._child = context.Process(target=self._serve, args=(other, self._largest), daemon=True)
        self._child.start()
        other.close()
        self.device: Device = self._receive(60)

    def _receive(self, seconds: float) -> Any:
        try:
            if self._conn.poll(max(0.1, seconds)):
                return self._conn.recv()
            problem = f"no answer in {seconds:.0f} s"
        except (EOFError, OSError):
            problem = "the timing process died"
        raise Died(problem)

    def time(
        self, work: Work, configs: list[Config], seconds: float, *, final: bool = False
    ) -> list[Row]:
        """Rows of the configurations; one with `failed` if the child had to be replaced."""
        until = time.monotonic() + seconds
        rows: list[Row] = []
        try:
            self._conn.send((work, configs, final))
            while (row := self._receive(until - time.monotonic())) is not None:
                rows.append(row)
        except (Died, OSError) as problem:
            rows.append({"failed": str(problem)})
            self.close()
            self._start()
        return rows

    def close(self) -> None:
        """End the child."""
        self._conn.close()
        self._child.terminate()
        self._child.join(5)
        if self._child.is_alive():
            self._child.kill()
