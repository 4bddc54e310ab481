"""SGLang's attention backends that are not bundled here, and why.

A name is here because its kernels can't be installed with pip and run on hardware that evidence
comes from, or because they belong to one model. Its cells are untested, not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_INDEXED = "sparse attention over tokens that the model's own index picks; no layer alone runs it"
_ONE_MODEL = "a variant for one family of models, on kernels that are bundled under another name"

NOT_BUNDLED: Mapping[str, str] = MappingProxyType(
    {
        "trtllm_mla": "nothing of it runs on Hopper: FlashInfer's XQA for MLA asserts compute "
        "capability 12.0, the generated kernels need 10.0",
        "cutedsl_mla": "FlashInfer's CuTe DSL kernels for MLA need compute capability 10.0",
        "tokenspeed_mla": "its kernels need compute capability 10.0",
        "hpc_ops": "no wheel of its kernels was tried; they are built from source",
        "dsa": _INDEXED,
        "nsa": _INDEXED,
        "qsa": _INDEXED,
        "dsv4": _INDEXED,
        "compressed": _INDEXED,
        "llada2_cfg_flashinfer": _ONE_MODEL,
        "minicpm_flashattn": _ONE_MODEL,
        "minicpm_flashinfer": _ONE_MODEL,
        "aiter": "its kernels are for AMD GPUs",
        "wave": "its kernels are for AMD GPUs",
        "ascend": "its kernels are for Ascend NPUs",
        "intel_amx": "its kernels come with builds of sgl_kernel for CPUs with AMX",
        "intel_xpu": "its kernels come with builds of sgl_kernel for Intel GPUs",
    }
)
