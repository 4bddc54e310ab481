"""What adapters and their emulated libraries take for granted, held against a real FlashInfer."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
if importlib.util.find_spec("flashinfer") is None:
    pytest.skip("flashinfer is not installed", allow_module_level=True)

from . import emulated

ROOT = Path(__file__).parents[2]
_NAMES = """
import json, sys
sys.path.insert(0, sys.argv[1])
import flashinfer_modules as script
import torch
from attn_lint.backends.interface.dtypes import TORCH
from attn_lint.backends.library import modules

def name(entry):
    e = {k: TORCH.get(v, torch.uint8 if v == "fp4_e2m1" else v) for k, v in entry.items()}
    kind = e.pop("kind")
    if kind == "quantization":
        return modules.PACKING
    if kind == "mla":
        return modules.mla(e["backend"], e["dtype"], e["rank"], e["rope"])
    if kind == "xqa":
        return modules.xqa(**e)
    e.setdefault("kv", e["q"])
    e.setdefault("window", False)
    e.setdefault("logit_cap", False)
    if kind == "decode":
        return modules.decode(**e)
    e.setdefault("out", e["q"])
    e.setdefault("sinks", False)
    return modules.prefill(e.pop("backend"), **e)

print(json.dumps([[name(e), script.spec_of(e).name] for e in script.entries()]))
"""


def test_names_of_modules(tmp_path: Path) -> None:
    """A name that is not the library's would refuse what runs."""
    env = os.environ | {
        "FLASHINFER_CUDA_ARCH_LIST": "9.0a",
        "FLASHINFER_WORKSPACE_BASE": str(tmp_path),
        "CUDA_HOME": _nvcc(tmp_path),
    }
    command = [sys.executable, "-c", _NAMES, str(ROOT / "scripts")]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    pairs = json.loads(run.stdout.splitlines()[-1])
    assert len(pairs) > 40
    assert [a for a, _ in pairs] == [b for _, b in pairs]
    assert len({b for _, b in pairs}) == len(pairs)


def _nvcc(folder: Path) -> str:
    """A compiler that can only say its version, which is all that a description asks."""
    tool = folder / "cuda" / "bin" / "nvcc"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    tool.chmod(0o755)
    return str(tool.parent.parent)


def _real() -> list[tuple[Any, Any]]:
    os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
    import flashinfer

    paged, decode = (
        flashinfer.BatchPrefillWithPagedKVCacheWrapper,
        flashinfer.BatchDecodeWithPagedKVCacheWrapper,
    )
    latent = flashinfer.mla.BatchMLAPagedAttentionWrapper
    pairs = [(emulated.xqa, flashinfer.decode.trtllm_batch_decode_with_kv_cache)]
    for ours, theirs in (
        (emulated.Prefill, paged),
        (emulated.Decode, decode),
        (emulated.Latent, latent),
    ):
        pairs += [(getattr(ours, m), getattr(theirs, m)) for m in ("__init__", "plan", "run")]
    return pairs


def test_emulated_arguments_are_the_real_ones() -> None:
    """Every argument that the emulation takes is one of the library's, at the same place."""
    for ours, theirs in _real():
        emulated.check_arguments(ours, list(inspect.signature(theirs).parameters), theirs)
