"""Installs the real SGLang beside the project, as the judge of the validator.

    python -m tests.conformance.install            # about two minutes, once

Only its argument and backend-construction code is needed, so no kernels and no GPU: torch goes
first (a CPU build will do) and SGLang comes without its dependencies. Everything lives in one
folder: $ATTN_LINT_CONFORMANCE_HOME, by default below ~/.cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RELEASE = "0.5.22"
TORCH = "torch==2.13.0"
#: Packages that must not bring their own dependencies: those would replace torch.
ALONE = ("torchvision==0.28.0", "triton==3.9.0", "dill", "gguf==0.19.0", "uvicorn")
REQUIREMENTS = (
    "numpy", "transformers==5.19.0", "tokenizers==0.23.2", "huggingface_hub", "safetensors",
    "msgspec", "orjson", "pydantic", "pyzmq", "psutil", "requests", "packaging", "pyyaml", "regex",
    "tqdm", "pillow", "fastapi", "uvloop", "setproctitle", "xxhash", "einops", "pybase64",
    "sentencepiece", "aiohttp", "prometheus-client", "partial_json_parser",
    "compressed-tensors==0.18.0", "IPython", "openai==2.6.1", "openai-harmony==0.0.4", "scipy",
    "nvidia-ml-py", "zstandard",
)  # fmt: skip


def home() -> Path:
    """Folder of the installation."""
    set_by_user = os.environ.get("ATTN_LINT_CONFORMANCE_HOME")
    return Path(set_by_user) if set_by_user else Path.home() / ".cache" / "attn-lint-conformance"


def interpreter() -> Path:
    """Python of the installation."""
    return home() / "venv" / "bin" / "python"


def is_installed() -> bool:
    """Whether the installation is complete."""
    return (home() / f"sglang-{RELEASE}.installed").exists()


def install() -> None:
    """Create the environment; a complete one is left as it is."""
    if is_installed():
        return
    home().mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", home() / "venv"], check=True)
    pip = [interpreter(), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, TORCH], check=True)
    subprocess.run([*pip, "--no-deps", f"sglang=={RELEASE}", *ALONE], check=True)
    subprocess.run([*pip, *REQUIREMENTS], check=True)
    (home() / f"sglang-{RELEASE}.installed").touch()


if __name__ == "__main__":
    install()
    print(interpreter())
