"""Compiled modules of FlashInfer: their names, and whether one is at hand.

FlashInfer compiles a module for each combination of dtypes, head dims and options when it is first
used, which takes minutes and a CUDA compiler. Modules built beforehand, for instance with
`scripts/flashinfer_modules.py`, are taken from FlashInfer's own folder for them. A call whose
module is neither there nor can be compiled is refused up front instead of failing halfway.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from ..interface.capabilities import Refusal

#: Traits of a refusal that no kernel causes: something has to be installed or built first.
NOT_BUILT: tuple[str, ...] = ()

#: Files that were found, so that every pass need not look. What is missing may be built yet.
_found: set[Path] = set()
#: The same for compilers: what was looked for, and the folders that it was looked for in.
_compilers: set[tuple[str, str | None]] = set()


def missing(names: Sequence[str]) -> list[Refusal]:
    """A refusal for each module that is not built and can't be compiled here."""
    absent = [name for name in dict.fromkeys(names) if not _is_built(name)]
    if not absent or _has_compiler():
        return []
    return [
        Refusal(
            NOT_BUILT,
            f"FlashInfer's module {name} is not built, and "
            + ("FLASHINFER_DISABLE_JIT is set" if _jit_is_off() else "there is no CUDA compiler")
            + f": run scripts/flashinfer_modules.py build {name}, or install nvcc",
        )
        for name in absent
    ]


def prefill(
    backend: str,
    *,
    q: torch.dtype,
    kv: torch.dtype,
    out: torch.dtype,
    qk_head_dim: int,
    v_head_dim: int,
    window: bool,
    logit_cap: bool,
    sinks: bool,
) -> str:
    """The module behind the paged prefill wrapper, which serves tensor-core decode as well."""
    from flashinfer.jit.attention.modules import (
        get_batch_prefill_attention_sink_uri,
        get_batch_prefill_uri,
    )

    shared = (backend, q, kv, out, torch.int32, qk_head_dim, v_head_dim, 0, window)
    if sinks:
        return str(get_batch_prefill_attention_sink_uri(*shared))
    return str(get_batch_prefill_uri(*shared, logit_cap, False))


def decode(
    *,
    q: torch.dtype,
    kv: torch.dtype,
    qk_head_dim: int,
    v_head_dim: int,
    window: bool,
    logit_cap: bool,
) -> str:
    """The module behind the CUDA-core decode wrapper."""
    from flashinfer.jit.attention.modules import get_batch_decode_uri

    return str(
        get_batch_decode_uri(q, kv, q, torch.int32, qk_head_dim, v_head_dim, 0, window, logit_cap)
    )


def mla(backend: str, dtype: torch.dtype, rank: int, rope: int) -> str:
    """The module behind the MLA wrapper."""
    from flashinfer.jit.attention.modules import get_batch_mla_uri

    return str(get_batch_mla_uri(backend, dtype, dtype, dtype, torch.int32, rank, rope, False))


def xqa(
    *,
    dtype: torch.dtype,
    kv: torch.dtype,
    page_size: int,
    head_dim: int,
    group: int,
    window: bool,
    queries: int,
) -> str:
    """The module behind XQA; the name is that of FlashInfer's `gen_xqa_module`."""
    from flashinfer.jit.utils import filename_safe_dtype_map as name

    return (
        f"xqa_input_{name[dtype]}_kv_cache_{name[kv]}_output_{name[dtype]}"
        f"_page_size_{page_size}_head_dim_{head_dim}_head_group_ratio_{group}"
        f"_use_sliding_window_{window}_use_spec_dec_{queries > 1}_spec_q_seq_len_{queries}"
    )


#: Packs masks of bits.
PACKING = "quantization"


def _is_built(name: str) -> bool:
    from flashinfer.jit import env

    # What FlashInfer compiled itself, in its folder for that, it loads through its compiler only.
    module = Path(env.FLASHINFER_AOT_DIR) / name / f"{name}.so"
    if module not in _found and module.exists():
        _found.add(module)
    return module in _found


def _jit_is_off() -> bool:
    return bool(os.environ.get("FLASHINFER_DISABLE_JIT"))


def _has_compiler() -> bool:
    if _jit_is_off():
        return False
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    nvcc = os.environ.get("FLASHINFER_NVCC") or str(Path(home) / "bin" / "nvcc")
    asked = (nvcc, os.environ.get("PATH"))
    if asked not in _compilers and (shutil.which(nvcc) or shutil.which("nvcc")):
        _compilers.add(asked)
    return asked in _compilers
