"""Compiles kernels in processes that see no device, into Triton's disk cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from attn_lint.backends.triton_backend.launch import SplitConfig
from attn_lint.backends.triton_backend.loading import Kernels, load_kernels

from .inputs import call_of, inputs
from .works import Config, Work, configs


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
    """A kernel that is compiled where it would be launched, once for each set of constants."""

    def __init__(self, kernel: Any, found: list[Any] | None) -> None:
        self.kernel, self.found = kernel, found
        self.done: set[tuple[tuple[str, Any], ...]] = set()

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def compile_only(*args: Any, **kwargs: Any) -> None:
            constants = tuple(sorted(kwargs.items()))
            if self.found is not None and constants not in self.done:
                self.done.add(constants)
                self.found.append(self.kernel.warmup(*args, grid=grid, **kwargs))

        return compile_only


def _kernels(capability: int) -> Kernels:
    """The kernels for a GPU that this process doesn't see."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from triton.runtime.driver import driver

    driver.set_active(_NoDevice(capability))
    return load_kernels(torch.device("cuda"))


def compile_main(work: Work, config: Config, capability: int) -> dict[str, Any]:
    """Compile the attention kernel of a configuration; shared memory, and seconds it took."""
    began = time.monotonic()
    kernels = _kernels(capability)
    found: list[Any] = []
    warm = Kernels(
        False, *(_Warm(k, found if k in (kernels.split, kernels.extend) else None)
                 for k in kernels[1:]),
    )  # fmt: skip
    call_of(warm, config, inputs(work, "cpu"), 132)()
    return {"shared": found[0].metadata.shared, "seconds": round(time.monotonic() - began, 1)}


def compile_small(work: Work, capability: int, multiprocessors: int) -> dict[str, Any]:
    """Compile the plan and merge kernels of every configuration of a shape."""
    kernels = _kernels(capability)
    found: list[Any] = []
    warm = Kernels(
        False, *(_Warm(k, found if k in (kernels.plan, kernels.merge) else None)
                 for k in kernels[1:]),
    )  # fmt: skip
    x = inputs(work, "cpu")
    for base, finenesses in configs(work):
        for per_sm in finenesses:
            config = replace(base, per_sm=per_sm) if isinstance(base, SplitConfig) else base
            call_of(warm, config, x, multiprocessors)()
    return {"kernels": len(found)}


def key_of(work: Work, config: Config) -> tuple[Work, Config]:
    """What a compiled attention kernel hangs on."""
    queries = 1 if work.kind == "extend" else work.queries
    return replace(work, kind="", batch=1, context=1, queries=queries), config
