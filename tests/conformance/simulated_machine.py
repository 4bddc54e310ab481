"""Makes torch report a machine that is not there, before the real SGLang is imported.

SGLang learns about the machine from `torch.version`, `torch.cuda` and their like, from whether
kernel packages can be found, and from a few programs such as nvidia-smi. A row of the matrix's
`platforms.yaml` is enough to answer all of these.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any

#: Kernel packages that an installation for this kind of machine has.
PACKAGES = {
    "cuda": ("sgl_kernel", "flashinfer", "deep_gemm", "tokenspeed_mla", "triton_kernels", "cutlass",
             "quack", "cuda", "tvm_ffi"),
    "hip": ("sgl_kernel", "aiter", "wave_lang", "tvm_ffi"),
    "cpu": ("sgl_kernel", "tvm_ffi"),
    "xpu": ("sgl_kernel", "tvm_ffi"),
    "mps": ("tvm_ffi",),
    "npu": ("torch_npu", "sgl_kernel_npu", "acl", "torchair", "tvm_ffi"),
}  # fmt: skip


class Nothing:
    """Answers every attribute, call and index with another nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A stub used as a decorator must leave the function alone.
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Nothing):
            return args[0]
        return Nothing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __getitem__(self, key: Any) -> Any:
        return Nothing()

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return True

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)

    def __or__(self, other: Any) -> Any:
        return Nothing()

    __ror__ = __or__


class StubModule(types.ModuleType):
    """A module whose capitalised names are empty classes and whose others are nothings."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value: Any = Nothing()
        if name[:1].isupper():
            members = {"__init__": lambda self, *a, **k: None, "__module__": self.__name__}
            value = type(name, (), members)
        setattr(self, name, value)
        return value


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are only pretended."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = set(packages)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        module = StubModule(spec.name)
        module.__path__ = []
        module.__version__ = "99.0"  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: Any) -> None:
        pass


def pretend(machine: dict[str, Any]) -> StubFinder:
    """Patch torch for a machine (a row of platforms.yaml); return the finder of stub packages."""
    kind = machine["kind"]
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    os.environ["SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK"] = "1"
    os.environ.pop("SGLANG_USE_CPU_ENGINE", None)
    finder = StubFinder(PACKAGES[kind])
    sys.meta_path.insert(0, finder)
    # The C++ operators of a CUDA build of torchvision do not load beside a CPU torch.
    sys.modules.setdefault(
        "torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations")
    )
    torch = importlib.import_module("torch")
    torch.version.cuda = torch.version.hip = None
    for module in (torch.xpu, torch.cuda, torch.mps, torch.backends.mps):
        module.is_available = _constant(False)
    {"cuda": _gpu, "hip": _gpu, "cpu": _cpu, "xpu": _xpu, "mps": _mps, "npu": _npu}[kind](
        torch, machine
    )
    return finder


def _constant(value: Any) -> Any:
    return lambda *args, **kwargs: value


def _gpu(torch: Any, machine: dict[str, Any]) -> None:
    capability = tuple(machine["capability"])
    size = machine["memory_mib"] << 20
    properties = types.SimpleNamespace(
        name=machine["device_name"], major=capability[0], minor=capability[1], total_memory=size,
        multi_processor_count=machine["sms"], warp_size=64 if machine["kind"] == "hip" else 32,
        gcnArchName=machine.get("gcn_arch") or "", shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472, regs_per_multiprocessor=65536,
        L2_cache_size=50 << 20, is_integrated=0,
    )  # fmt: skip
    answers = {
        "is_available": True, "is_initialized": False, "device_count": 8, "current_device": 0,
        "get_device_capability": capability, "get_device_properties": properties,
        "get_device_name": machine["device_name"], "mem_get_info": (size, size),
        "set_device": None, "synchronize": None, "is_bf16_supported": capability >= (8, 0),
    }  # fmt: skip
    for name, value in answers.items():
        setattr(torch.cuda, name, _constant(value))
    if machine["kind"] == "cuda":
        torch.version.cuda = machine["cuda"]
        return
    torch.version.hip = "7.0.51831"
    float8 = torch.float8_e4m3fn
    if "gfx942" in machine["gcn_arch"]:
        float8 = torch.float8_e4m3fnuz
    aiter = importlib.import_module("aiter")
    dtypes = types.SimpleNamespace(
        fp8=float8, bf16=torch.bfloat16, fp16=torch.float16, fp32=torch.float32, i8=torch.int8,
        i32=torch.int32, u8=torch.uint8, fp4x2=torch.uint8, fp8_e8m0=torch.uint8,
    )  # fmt: skip
    aiter.dtypes = dtypes  # type: ignore[attr-defined]
    sys.modules["aiter.dtypes"] = dtypes  # type: ignore[assignment]
    kernels = importlib.import_module("aiter.ops.triton.utils.types")
    kernels.e4m3_dtype, kernels.e5m2_dtype = float8, torch.float8_e5m2  # type: ignore[attr-defined]


def _cpu(torch: Any, machine: dict[str, Any]) -> None:
    os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
    torch.cpu._is_amx_tile_supported = _constant(bool(machine.get("amx")))


def _xpu(torch: Any, machine: dict[str, Any]) -> None:
    size = machine["memory_mib"] << 20
    properties = types.SimpleNamespace(
        name=machine["device_name"], has_fp64=bool(machine.get("fp64")), total_memory=size,
        gpu_eu_count=machine["sms"], max_compute_units=machine["sms"], gpu_subslice_count=20,
        architecture=0, driver_version="1.0",
    )  # fmt: skip
    answers = {
        "is_available": True, "device_count": 4, "current_device": 0, "set_device": None,
        "get_device_properties": properties, "get_device_name": machine["device_name"],
        "get_device_capability": {"version": "20.1.4", "name": machine["device_name"]},
        "mem_get_info": (size, size),
    }  # fmt: skip
    for name, value in answers.items():
        setattr(torch.xpu, name, _constant(value))


def _mps(torch: Any, machine: dict[str, Any]) -> None:
    torch.mps.is_available = torch.backends.mps.is_available = _constant(True)
    torch.backends.mps.get_name = _constant(machine["device_name"])
    torch.mps.device_count = _constant(1)
    torch.mps.recommended_max_memory = _constant(machine["memory_mib"] << 20)
    torch.mps.driver_allocated_memory = _constant(0)


def _npu(torch: Any, machine: dict[str, Any]) -> None:
    size = machine["memory_mib"] << 20
    name = machine.get("device_name") or "Ascend910B3"
    module = types.ModuleType("torch.npu")
    answers = {
        "is_available": True, "device_count": 8, "current_device": 0, "get_device_name": name,
        "mem_get_info": (size, size), "set_device": None,
        "get_device_properties": types.SimpleNamespace(name=name, total_memory=size),
    }  # fmt: skip
    for key, value in answers.items():
        setattr(module, key, _constant(value))
    module.Stream = module.Event = object  # type: ignore[attr-defined]
    torch.npu = sys.modules["torch.npu"] = module


def settle(machine: dict[str, Any]) -> None:
    """Answer for the programs and files that SGLang asks about memory; after its import."""
    common = importlib.import_module("sglang.srt.utils.common")
    size = float(machine["memory_mib"])
    for name in ("nvgpu", "amdgpu", "cpu"):
        setattr(common, f"get_{name}_memory_capacity", _constant(size))
    if machine["kind"] == "cpu":
        common._is_intel_amx_backend_available = _constant(True)  # type: ignore[attr-defined]
        common.is_amx_tile_supported = bool(machine.get("amx"))  # type: ignore[attr-defined]
    if machine["kind"] == "cuda":
        common.get_nvidia_driver_version_str = _constant("580.95.05")  # type: ignore[attr-defined]
