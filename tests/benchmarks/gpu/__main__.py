"""Measure, print the table, and keep the figures as JSON."""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from attn_lint.backends import bundled  # noqa: F401  # registers
from attn_lint.backends.interface.base import AttentionBackend, capability_of
from attn_lint.backends.interface.capabilities import Request
from attn_lint.backends.interface.errors import BackendError
from attn_lint.backends.registry import CAPABILITIES, create_backend, missing_packages

from . import bare, ceilings
from .timing import graph_of, medians, nodes_of
from .workload import Workload, make

MHA = Request(device="cuda", page_size=16)
MLA = Request(
    device="cuda", family="mla", page_size=64, q_heads=128, kv_heads=1,
    qk_head_dim=576, v_head_dim=512,
)  # fmt: skip
DECODE = ((1, 1024), (1, 8192), (1, 32768), (16, 1024), (16, 8192), (16, 32768),
          (64, 1024), (64, 8192), (64, 32768))  # fmt: skip
EXTEND = ((4, 4096), (1, 16384))
MLA_DECODE = ((16, 8192), (64, 8192))


KINDS = ("decode", "decode_fp8", "extend", "mla_decode")
#: Backends that gather or compile anew in every pass; there is no graph to replay.
EAGER = frozenset({"torch_native", "flex_attention"})
#: Largest ‖a - b‖/‖b‖ of an adapter's answer and the bare call's: rounding of bf16.
ALIKE = 1e-2

PACKAGES = ("triton", "flashinfer-python", "sgl-flash-mla", "flash-attn-4", "sglang-kernel")


def workloads(which: str) -> Iterator[tuple[str, Request, int, int]]:
    """(name, request, batch size, context) of each workload."""
    for kind, base, shapes in (
        ("decode", replace(MHA, mode="decode"), DECODE),
        ("decode_fp8", replace(MHA, mode="decode", kv_dtype="fp8_e4m3"), ((64, 8192),)),
        ("extend", replace(MHA, mode="extend"), EXTEND),
        ("mla_decode", replace(MLA, mode="decode"), MLA_DECODE),
    ):
        if which == kind:
            for size, context in shapes:
                yield kind, base, size, context


def adapter(name: str, work: Workload) -> tuple[AttentionBackend, Callable[[], object]]:
    """A backend with its pass prepared, and a call of its forward; sync-free where it must be."""
    backend = create_backend(name, work.runner)
    backend.init_cuda_graph_state(work.batch.batch_size, work.batch.num_tokens)
    backend.init_forward_metadata_out_graph(work.batch, in_capture=True)
    backend.init_forward_metadata_in_graph(work.batch)
    if work.request.mode == "decode":
        sync_free(backend, work)

    def call() -> object:
        return backend.forward(work.q, work.k, work.v, work.layer, work.batch, save_kv_cache=False)

    return backend, call


def sync_free(backend: AttentionBackend, work: Workload) -> None:
    """Raise if preparing a decode waits for the device."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        prepare(backend, work)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def prepare(backend: AttentionBackend, work: Workload) -> None:
    """What a server does before each replay of a pass."""
    backend.init_forward_metadata_out_graph(work.batch)
    backend.init_forward_metadata_in_graph(work.batch)


def same(call: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Raise if an adapter and the bare call beside it don't answer alike."""
    ours, theirs = call(), other()
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    a, b = ours.flatten().float(), theirs.flatten().float()
    apart = float((a - b).norm() / b.norm())
    if not apart < ALIKE:
        raise RuntimeError(f"the bare call answers something else: {apart:.1e} apart")


def plan_us(backend: AttentionBackend, work: Workload, *, times: int = 30) -> float:
    """Median microseconds that preparing a pass keeps the host, the device idle at its start."""
    seen = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        prepare(backend, work)
        seen.append(time.perf_counter() - start)
    return statistics.median(seen) * 1e6


def measure(names: list[str], which: str) -> list[dict[str, Any]]:
    """Milliseconds and rates of each backend and bare call on each workload."""
    rows: list[dict[str, Any]] = []
    for kind, request, size, context in workloads(which):
        work = make(request, size, context)
        runs: dict[str, Callable[[], object]] = {}
        kept: list[object] = []  # wrappers own the buffers that graphs read
        nodes: dict[str, int] = {}
        notes: dict[str, str] = {}
        plans: dict[str, float] = {}
        for name in names:
            try:
                backend, call = adapter(name, work)
                other = bare.calls_for(name, work)
                if other is not None:
                    same(call, other)
                if request.mode == "decode":
                    plans[name] = plan_us(backend, work)
                graph = graph_of(call)
                kept += [backend, graph]
                runs[name] = graph.replay
                nodes[name] = nodes_of(graph)
                if other is not None:
                    graph = graph_of(other)
                    kept += [other, graph]
                    runs[f"{name} bare"] = graph.replay
                    nodes[f"{name} bare"] = nodes_of(graph)
            except BackendError as error:
                notes[name] = f"refused: {error}"
            except Exception as error:
                notes[name] = f"failed: {type(error).__name__}: {error}"
                traceback.print_exc()
        ms = medians(runs) if runs else {}
        for name, value in ms.items():
            row: dict[str, Any] = {
                "workload": kind, "batch": size, "context": context,
                "backend": name, "us": value * 1e3, "nodes": nodes[name],
                "kv_gb_s": work.kv_bytes / value / 1e6,
                "tflop_s": work.flops / value / 1e9,
            }  # fmt: skip
            if name in plans:
                row["plan_us"] = plans[name]
            if (other_ms := ms.get(f"{name} bare")) is not None:
                row["times_bare"] = value / other_ms
            if (fa2 := ms.get("flashinfer bare")) is not None:
                row["times_fa2"] = value / fa2
            rows.append(row)
            print(describe(row), flush=True)
        for name, note in notes.items():
            rows.append({"workload": kind, "batch": size, "context": context,
                         "backend": name, "note": note})  # fmt: skip
            print(f"{kind:10} {size:3} x {context:<6} {name:18} {note[:200]}", flush=True)
        del work, runs, kept
        gc.collect()
        torch.cuda.empty_cache()
    return rows


def describe(row: dict[str, Any]) -> str:
    """One line of the table."""
    parts = [
        f"{row['workload']:10} {row['batch']:3} x {row['context']:<6} {row['backend']:18}",
        f"{row['us']:9.1f} us {row['kv_gb_s']:7.0f} GB/s {row['tflop_s']:6.0f} TFLOP/s",
        f"{row['nodes']} nodes",
    ]
    if "plan_us" in row:
        parts.append(f"plan {row['plan_us']:.0f} us")
    if "times_bare" in row:
        parts.append(f"{row['times_bare']:.3f} x bare")
    if "times_fa2" in row:
        parts.append(f"{row['times_fa2']:.3f} x fa2")
    return " ".join(parts)


def machine() -> dict[str, Any]:
    """Device, versions and date."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": torch.cuda.get_device_name(),
        "capability": capability_of(torch.device("cuda")),
        "versions": versions,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", action="append", help="default: all that are installed")
    parser.add_argument("--workload", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--output-file", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device")
    names = options.backend or [
        name for name, c in CAPABILITIES.items() if name not in EAGER and not missing_packages(c)
    ]
    kinds = options.workload or list(KINDS)
    if options.here:
        print("ROWS " + json.dumps(measure(names, kinds[0])))
        return
    out: dict[str, Any] = {**machine(), "ceilings": ceilings.measure(), "rows": []}
    torch.cuda.empty_cache()
    print(json.dumps(out["ceilings"]), flush=True)
    for kind in kinds:
        out["rows"] += _in_child(kind, names)
    top = out["ceilings"]["read_only_gb_s"]
    for row in out["rows"]:
        if "kv_gb_s" in row and row["workload"] == "decode":
            row["of_read_only"] = round(row["kv_gb_s"] / top, 4)
    if options.output_file:
        options.output_file.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


def _in_child(kind: str, names: list[str]) -> list[dict[str, Any]]:
    """Rows of one kind, measured in a process of its own: a CUDA error ends a process."""
    command = [sys.executable, "-m", __spec__.name.removesuffix(".__main__"), "--here"]
    command += ["--workload", kind, *(f"--backend={name}" for name in names)]
    rows: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("ROWS "):
                rows = json.loads(line[5:])
            else:
                print(line, end="", flush=True)
    if child.returncode:
        print(f"{kind}: the process ended with {child.returncode}", flush=True)
        rows.append({"workload": kind, "note": f"the process ended with {child.returncode}"})
    return rows


if __name__ == "__main__":
    main()
