"""What a run was made on: device, architecture, versions. Asks torch in a process of its own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

#: Distributions whose versions evidence carries where they are installed.
DISTRIBUTIONS = (
    "torch", "triton", "flashinfer-python", "apache-tvm-ffi", "sgl-flash-mla", "flash-attn-4",
    "nvidia-cutlass-dsl", "sgl-kernel", "sglang-kernel", "numpy",
)  # fmt: skip
_ASK = """
import json, torch
cuda = torch.cuda.is_available() and torch.version.hip is None
alike = [(torch.cuda.get_device_name(i), torch.cuda.get_device_capability(i))
         for i in range(torch.cuda.device_count() if cuda else 0)]
print(json.dumps({
    "gpus": [i for i, other in enumerate(alike) if other == alike[0]],
    "torch": torch.__version__, "cuda": torch.version.cuda,
    "device": torch.cuda.get_device_name() if cuda else None,
    "capability": torch.cuda.get_device_capability() if cuda else None,
}))
"""


@dataclass(frozen=True, slots=True)
class Here:
    """The machine at hand, as far as it matters for one kind of device."""

    device: str  # cpu or cuda
    name: str
    capability: tuple[int, int] | None
    versions: dict[str, str]
    #: GPUs of the kind named, as CUDA_VISIBLE_DEVICES names them, where there are several.
    gpus: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        return "cpu" if self.capability is None else "sm{}{}".format(*self.capability)

    def to_json(self) -> dict[str, Any]:
        """The `machine` of an evidence run."""
        return {
            "architecture": self.architecture,
            "device": self.name,
            "capability": list(self.capability) if self.capability else None,
            "system": f"{platform.system()} {platform.machine()}",
        }


def torch_is_installed() -> bool:
    return util.find_spec("torch") is not None


def look(device: str | None) -> Here | str:
    """This machine with the device asked for, the best one where none is; or why there is none."""
    done = subprocess.run(
        # Not from the folder that we stand in, which may have a torch of its own.
        [sys.executable, "-P", "-c", _ASK],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return f"torch can't be imported: {lines[-1] if lines else f'exit code {done.returncode}'}"
    found = json.loads(done.stdout.strip().splitlines()[-1])
    versions = {"python": platform.python_version(), **_versions(), "torch": found["torch"]}
    if found["cuda"]:
        versions["cuda"] = found["cuda"]
    if device == "cuda" and found["device"] is None:
        return "there is no CUDA device that torch sees"
    if device != "cpu" and found["device"] is not None:
        gpus = _names(found["gpus"]) if len(found["gpus"]) > 1 else ()
        return Here("cuda", found["device"], tuple(found["capability"]), versions, gpus)
    return Here("cpu", _processor(), None, versions)


def _names(gpus: list[int]) -> tuple[str, ...]:
    """GPUs that torch counts from 0, as CUDA_VISIBLE_DEVICES has to name them."""
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return tuple(visible[gpu] if len(visible) > gpu and visible[gpu] else str(gpu) for gpu in gpus)


def _processor() -> str:
    """The CPU's model where the system tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
