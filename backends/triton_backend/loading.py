"""Loads the kernels compiled for a GPU, or interpreted for the CPU; both can live in one process.

Triton decides when a kernel is defined whether it will be compiled or interpreted. So the modules
of `kernels` are imported a second time, under another package name, with the interpreter on for
just as long as that takes: no environment variable is left behind for other users of Triton.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch


class Kernels(NamedTuple):
    """The entry points of one copy of the kernels."""

    interpreted: bool
    plan: Any
    split: Any
    merge: Any
    extend: Any


def load_kernels(device: torch.device) -> Kernels:
    """The kernels that run on a device."""
    return _load(device.type == "cpu")


@cache
def _load(interpreted: bool) -> Kernels:
    from triton import knobs

    here = __name__.rpartition(".")[0]
    name = f"{here}.{'interpreted' if interpreted else 'compiled'}_kernels"
    package = ModuleType(name)
    package.__path__ = [str(Path(__file__).parent / "kernels")]
    sys.modules[name] = package
    with knobs.runtime.scope():
        knobs.runtime.interpret = interpreted
        ops, plan, decode, extend = (
            importlib.import_module(f"{name}.{module}")
            for module in ("ops", "plan", "decode", "extend")
        )
    if ops.INTERPRETED.value is not interpreted:
        raise RuntimeError("Triton did not take the interpreter setting")
    return Kernels(
        interpreted,
        plan.plan_kernel,
        decode.split_kernel,
        decode.merge_kernel,
        extend.extend_kernel,
    )
