"""Build FlashInfer's modules ahead of time, on a machine with no GPU, and install them.

    python scripts/flashinfer_modules.py list
    python scripts/flashinfer_modules.py build --output modules [--arch 9.0a] [--lean] [NAME …]
    python scripts/flashinfer_modules.py install modules

`build` needs flashinfer-python, a C++ compiler, ninja and nvcc. The nvcc of PyPI will do (packages
nvidia-cuda-nvcc, nvidia-cuda-crt, nvidia-nvvm, nvidia-cuda-runtime, nvidia-cuda-cccl and
nvidia-curand, of one CUDA version); it is found beside Python, and what it lacks to link against
is added to it. A module that is in the output folder already is left alone. `--lean` leaves out of
prefill modules what no bundled backend calls (keys in one piece, scores of several items, fa3 with
a custom mask), in a third of the time: such a call then fails with cudaErrorNotSupported. Names
are built in the order given, and `--seconds` stops a build that takes longer and keeps what is
done. `install` copies built modules into the FlashInfer of this environment, which then compiles
nothing.

The modules are those of flashinfer_modules.yaml beside this file.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIST = HERE / "flashinfer_modules.yaml"
#: Enough for a linker to accept -lcuda; the real library comes with a driver.
_STUB = "int cuInit(unsigned flags) { return flags != 0; }\n"


def entries() -> Iterator[dict[str, Any]]:
    """Every module of the list, lists of values multiplied out."""
    import yaml

    for row in yaml.safe_load(LIST.read_text(encoding="utf-8")):
        values = [value if isinstance(value, list) else [value] for value in row.values()]
        for combination in itertools.product(*values):
            yield dict(zip(row, combination, strict=True))


def spec_of(entry: dict[str, Any]) -> Any:
    """FlashInfer's own description of a module: its name, sources and flags."""
    import torch
    from flashinfer.jit.attention import modules
    from flashinfer.jit.quantization import gen_quantization_module
    from flashinfer.jit.xqa import gen_xqa_module

    dtypes = {
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "fp8_e4m3": torch.float8_e4m3fn,
        "fp8_e5m2": torch.float8_e5m2,
        "fp4_e2m1": torch.uint8,
    }
    e = {key: dtypes.get(value, value) for key, value in entry.items()}
    index = torch.int32
    if e["kind"] == "quantization":
        return gen_quantization_module()
    if e["kind"] == "xqa":
        return gen_xqa_module(
            e["dtype"],
            e["kv"],
            e["page_size"],
            e["head_dim"],
            e["group"],
            e["window"],
            e["dtype"],
            e["queries"],
        )
    if e["kind"] == "mla":
        types = (e["dtype"], e["dtype"], e["dtype"], index)
        return modules.gen_batch_mla_module(e["backend"], *types, e["rank"], e["rope"], False)
    types = (e["q"], e.get("kv", e["q"]), e.get("out", e["q"]), index)
    dims = (e["qk_head_dim"], e["v_head_dim"], 0, e.get("window", False))
    cap = e.get("logit_cap", False)
    if e["kind"] == "decode":
        return modules.gen_batch_decode_module(*types, *dims, cap)
    if e.get("sinks"):
        return modules.gen_batch_prefill_attention_sink_module(e["backend"], *types, *dims)
    return modules.gen_batch_prefill_module(e["backend"], *types, *dims, cap, False)


def build(options: argparse.Namespace) -> int:
    """Build what is missing in the output folder; the exit code says whether all is there."""
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = options.arch
    os.environ.pop("FLASHINFER_DISABLE_JIT", None)
    _find_cuda()
    until = time.monotonic() + options.seconds
    wanted = []
    for entry in entries():
        spec = spec_of(entry)
        target = options.output / spec.name / f"{spec.name}.so"
        if target.exists() or (options.names and spec.name not in options.names):
            continue
        if options.lean and entry["kind"] == "prefill":
            leave_out(spec, entry["backend"])
        _need_driver(spec)
        wanted.append((spec, target))
    if options.names:
        wanted.sort(key=lambda pair: options.names.index(pair[0].name))
    # A module's sources keep two cores busy; all modules at once keep more, without a wait for the
    # slowest source of each.
    together = max(1, len(wanted)) if options.jobs > 3 else 1
    failed = False
    for first in range(0, len(wanted), together):
        failed |= _build_together(wanted[first : first + together], options.jobs, until)
    return 1 if failed else 0


def _need_driver(spec: Any) -> None:
    """Have a module name the driver's library as one that it needs.

    Linkers leave out a library that defines nothing of what is asked of it, as the stub here; the
    module's process would then end at its first call of the driver.
    """
    if "-lcuda" in (spec.extra_ldflags or []) and not spec.needs_device_linking:
        spec.extra_ldflags = ["-Wl,--no-as-needed", *spec.extra_ldflags]


def _build_together(wanted: list[tuple[Any, Path]], jobs: int, until: float) -> bool:
    """Build modules in one run of ninja and keep those that succeed; whether one failed."""
    start = time.monotonic()
    lines = ["ninja_required_version = 1.3"]
    for spec, _ in wanted:
        spec.write_ninja()
        lines.append(f"subninja {spec.ninja_path}")
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "build.ninja"
        top.write_text("\n".join([*lines, ""]), encoding="utf-8")
        command = ["ninja", "-C", folder, "-f", str(top), "-k", "0", "-j", str(jobs)]
        said = _run(command, until)
    failed = False
    for spec, target in wanted:
        built = Path(spec.jit_library_path)
        if not built.exists():
            failed = True
            print(f"{spec.name} was not built", file=sys.stderr)
            continue
        _keep(built, target)
        print(f"{target.stat().st_size / 1e6:6.2f} MB {spec.name}", flush=True)
    print(f"{time.monotonic() - start:6.0f} s for {len(wanted)} modules", flush=True)
    if failed:
        print(said[-4000:], file=sys.stderr, flush=True)
    return failed


def _run(command: list[str], until: float) -> str:
    """What ninja says; it is ended, and ends its compilers, when its time is up."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ninja:
        try:
            left = until - time.monotonic()
            return ninja.communicate(timeout=None if left == math.inf else max(left, 0))[0]
        except subprocess.TimeoutExpired:
            ninja.terminate()
            return ninja.communicate()[0] + "\nthe time is up\n"


def leave_out(spec: Any, backend: str) -> None:
    """Replace instances of kernels that no bundled backend calls by functions that fail."""
    wanted = {"fa2": "012", "fa3": "01"}[backend]  # none, causal, custom
    kept, left = [], []
    for source in spec.sources:
        found = re.search(r"_(paged|ragged)_(?:sm90_)?kernel_mask_(\d)$", source.stem)
        absent = found and (found[1] == "ragged" or found[2] not in wanted)
        (left if absent else kept).append(source)
    main = next(s for s in kept if re.fullmatch(r"batch_prefill(_fp8)?(_sm90)?", s.stem))
    text = main.read_text(encoding="utf-8")
    # What the main source declares before it uses it: configuration and templates.
    head = text[: text.index("}  // namespace flashinfer")]
    parts = [_failing(source.read_text(encoding="utf-8")) for source in left]
    target = main.with_name("absent.cu")
    written = head + "\n".join(parts) + "\n}  // namespace flashinfer\n"
    if not target.exists() or target.read_text(encoding="utf-8") != written:
        target.write_text(written, encoding="utf-8")
    spec.sources[:] = [*kept, target]


def _failing(instances: str) -> str:
    """Explicit instances of a kernel's launcher as specializations that report an error."""
    out = []
    for found in re.finditer(r"template (cudaError_t \w+\s*<.*?)\((.*?)\);", instances, re.DOTALL):
        custom = "true" if "MaskMode::kCustom" in found[1] else "false"
        name = re.sub(r"/\*.*?\*/", "", found[1]).replace("use_custom_mask", custom)
        types = ", ".join(part.rsplit(" ", 1)[0] for part in found[2].split(", "))
        out.append(f"template <> {name}({types}) {{ return cudaErrorNotSupported; }}")
    return "\n".join(out)


def _keep(built: Path, target: Path) -> None:
    """Copy a module without the symbols that only debuggers read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    if shutil.which("strip"):
        subprocess.run(["strip", "-o", str(part), str(built)], check=True)
    else:
        shutil.copyfile(built, part)
    part.chmod(0o755)
    part.replace(target)


def _find_cuda() -> None:
    """Point FlashInfer at an nvcc: the one of CUDA_HOME, of the system, or of PyPI."""
    if os.environ.get("CUDA_HOME") or shutil.which("nvcc"):
        return
    found = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/nvcc"))
    if not found:
        sys.exit("no nvcc: set CUDA_HOME, or pip install nvidia-cuda-nvcc and what its help names")
    home = found[-1].parent.parent
    os.environ["CUDA_HOME"] = str(home)
    library = home / "lib"
    if not (home / "lib64").exists():
        (home / "lib64").symlink_to("lib")
    runtime = sorted(library.glob("libcudart.so.*"))
    if runtime and not (library / "libcudart.so").exists():
        (library / "libcudart.so").symlink_to(runtime[-1].name)
    stub = library / "stubs" / "libcuda.so"
    if not stub.exists():
        stub.parent.mkdir(exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c", "-"]
        subprocess.run([*command, "-o", str(stub)], input=_STUB, text=True, check=True)


def install(options: argparse.Namespace) -> int:
    """Copy built modules to where the FlashInfer of this environment looks for them."""
    from flashinfer.jit import env

    built = sorted(options.folder.glob("*/*.so"))
    if not built:
        sys.exit(f"{options.folder} holds no modules (NAME/NAME.so)")
    for source in built:
        target = Path(env.FLASHINFER_AOT_DIR) / source.parent.name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    print(f"{len(built)} modules in {env.FLASHINFER_AOT_DIR}")
    return 0


def names(options: argparse.Namespace) -> int:
    """Print the modules of the list."""
    os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", options.arch)
    for entry in entries():
        print(spec_of(entry).name)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, run in (("list", names), ("build", build)):
        command = commands.add_parser(name, help=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--arch", default="9.0a", help="compute capability (default 9.0a)")
        if name == "build":
            command.add_argument("names", nargs="*", help="modules to build (default: all)")
            command.add_argument("--lean", action="store_true", help="leave out unused kernels")
            command.add_argument("--output", type=Path, required=True)
            command.add_argument("--jobs", type=int, default=os.cpu_count())
            command.add_argument("--seconds", type=float, default=math.inf, help="stop after")
    command = commands.add_parser("install", help=install.__doc__)
    command.set_defaults(run=install)
    command.add_argument("folder", type=Path)
    options = parser.parse_args()
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
