"""What an image's tag, devices and resources tell of the machine, wherever a launch stands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.cli import dispatch
from attn_lint.lintcfg.judge import Judge, Launch
from attn_lint.matrix.loader import load

SERVER = ["python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"]
#: No machine but an NPU starts it, where every backend gives way to another.
MLA_ONLY = [*SERVER, "--attention-backend", "trtllm_mla"]


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(load())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = dispatch(["--output-format", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


#: Tags as SGLang's release workflows put them together, with the GPU_ARCH that they build each for.
BUILT = {
    "lmsysorg/sglang:v0.5.22-rocm700-mi30x": "gfx942",
    "lmsysorg/sglang:v0.5.22-rocm720-mi35x": "gfx950",
    "lmsysorg/sglang:rocm700-mi35x-latest": "gfx950",
    "rocm/sgl-dev:v0.5.22-rocm700-mi30x-20251201": "gfx942",
    "lmsysorg/sglang:v0.4.9.post2-cu128-b200": "sm100",
    "lmsysorg/sglang:v0.5.2-cu129-gb200": "sm100",
}


@pytest.mark.parametrize("image", BUILT)
def test_a_tag_that_names_the_gpu_sets_the_machine(
    capsys: pytest.CaptureFixture[str], judge: Judge, image: str
) -> None:
    _, answer = answered(capsys, "docker", "run", image, *SERVER)
    assert judge.platforms.by_name[answer["gpu"]]["architecture"] == BUILT[image]
    assert f"(image {image})" in " ".join(answer["assumptions"])


def test_a_tag_for_xeon_is_about_the_cpu_that_sglang_is_built_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, answer = answered(capsys, "docker", "run", "lmsysorg/sglang:v0.5.22-xeon", *SERVER)
    assert answer["gpu"] == "cpu-amx"


#: What tells the kind of machine alone, on a command line.
CLUES = {
    ("docker", "run", "lmsysorg/sglang:v0.5.22-cu129"): "cuda",
    ("docker", "run", "lmsysorg/sglang:dev-cu13"): "cuda",
    ("docker", "run", "lmsysorg/sglang:latest"): "cuda",
    ("docker", "run", "lmsysorg/sglang:v0.5.22"): "cuda",
    ("docker", "run", "mine/sglang:v0.5.22"): None,
    ("docker", "run", "--gpus", "all", "mine/sglang:x"): "cuda",
    ("docker", "run", "--gpus=2", "mine/sglang:x"): "cuda",
    ("docker", "run", "--runtime=nvidia", "mine/sglang:x"): "cuda",
    ("podman", "run", "--device", "nvidia.com/gpu=all", "mine/sglang:x"): "cuda",
    ("docker", "run", "--device=/dev/kfd", "--device=/dev/dri", "mine/sglang:x"): "hip",
    ("docker", "run", "--device", "/dev/kfd", "rocm/sgl-dev:v0.5.22-rocm700"): "hip",
    ("docker", "run", "lmsysorg/sglang:v0.5.22-xpu"): "xpu",
    ("docker", "run", "lmsysorg/sglang:v0.5.22-cann8.3.rc1-910b"): "npu",
    ("docker", "run", "lmsysorg/sglang:main-cann9.0.0-a3"): "npu",
    ("docker", "run", "--device", "/dev/davinci0", "mine/sglang:x"): "npu",
    # What an image is built for weighs more than what it is handed.
    ("docker", "run", "--gpus", "all", "lmsysorg/sglang:v0.5.22-rocm700"): "hip",
    ("docker", "run", "--device", "/dev/dri", "mine/sglang:latest"): None,
    ("srun", "--gpus=4"): None,
}


@pytest.mark.parametrize("around", CLUES)
def test_only_machines_of_the_kind_told_are_tried(
    capsys: pytest.CaptureFixture[str], judge: Judge, around: tuple[str, ...]
) -> None:
    code, answer = answered(capsys, *around, *MLA_ONLY)
    tried = {judge.platforms.by_name[one["gpu"]]["kind"] for one in answer["contexts"]}
    kind = CLUES[around]
    every = {row["kind"] for row in judge.platforms.rows}
    assert tried == ({kind} if kind else every)
    assert answer["startup"] == {None: "depends", "npu": "starts"}.get(kind, "refuses")
    assert (code == 1) is (kind is not None)
    (told,) = [text for text in answer["assumptions"] if text.startswith("GPU not given")]
    assert told.endswith(")") is (kind is not None)


def container(image: str = "mine/sglang:x", **more: Any) -> dict[str, Any]:
    return {"name": "a", "image": image, "command": MLA_ONLY, **more}


def pod(inside: dict[str, Any], **more: Any) -> str:
    spec = {"containers": [inside], **more}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})


def service(**more: Any) -> str:
    inside = {"image": "mine/sglang:x", "command": " ".join(MLA_ONLY), **more}
    return json.dumps({"services": {"a": inside}})


RESERVED = [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]
CMD = f"CMD {json.dumps(MLA_ONLY)}\n"
#: Files of each format, with whether no machine of the kind that they tell starts the launch.
FILES = {
    "Dockerfile": [
        (f"FROM lmsysorg/sglang:v0.5.22-cu129\n{CMD}", True),
        (f"FROM lmsysorg/sglang:v0.5.22-cu129 AS base\nFROM base\n{CMD}", True),
        (f"FROM lmsysorg/sglang:v0.5.22-rocm720-mi35x\n{CMD}", True),
        (f"FROM mine/sglang:x\n{CMD}", False),
    ],
    "compose.yaml": [
        (service(deploy={"resources": {"reservations": {"devices": RESERVED}}}), True),
        (service(runtime="nvidia"), True),
        (service(gpus="all"), True),
        (service(devices=["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"]), True),
        (service(), False),
    ],
    "pod.yaml": [
        (pod(container(resources={"limits": {"nvidia.com/gpu": 1}})), True),
        (pod(container(resources={"requests": {"amd.com/gpu": "8"}})), True),
        (pod(container(resources={"limits": {"gpu.intel.com/i915": 1}})), True),
        (pod(container("lmsysorg/sglang:v0.5.22-rocm700-mi30x")), True),
        (pod(container(), runtimeClassName="nvidia"), True),
        (pod(container(), initContainers=[{"resources": {"limits": {"amd.com/gpu": 1}}}]), True),
        (pod(container(), nodeSelector={"nvidia.com/gpu.present": "true"}), True),
        (pod(container(resources={"limits": {"huawei.com/Ascend910": 8}})), False),
        (pod(container(resources={"limits": {"nvidia.com/gpu": 0}})), False),
        (pod(container(resources={"limits": {"memory": "64Gi"}})), False),
    ],
    "run.sh": [
        (f"docker run --gpus all mine/sglang:x {' '.join(MLA_ONLY)}\n", True),
        (f"docker run --gpus all mine/sglang:x bash -c '{' '.join(MLA_ONLY)}'\n", True),
        (f"docker run --device=/dev/davinci0 mine/sglang:x {' '.join(MLA_ONLY)}\n", False),
        (f"{' '.join(MLA_ONLY)}\n", False),
    ],
    "page.md": [
        (f"```\ndocker pull lmsysorg/sglang:v0.5.22-cu129\n```\n```\n{' '.join(MLA_ONLY)}\n```\n",
         True),
        (f"`lmsysorg/sglang:dev-cu13` or `lmsysorg/sglang:dev-xpu`:\n\n"
         f"```\n{' '.join(MLA_ONLY)}\n```\n", False),
    ],
}  # fmt: skip


@pytest.mark.usefixtures("shared_judges")
@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [(name, text, refused) for name, several in FILES.items() for text, refused in several],
)
def test_a_file_that_tells_the_kind_of_machine_is_judged_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, refused: bool
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    code = dispatch(["check", "--isolated", "--output-format", "json", name])
    sure = [one for one in json.loads(capsys.readouterr().out) if one["certain"]]
    assert any(one["severity"] == "error" for one in sure) is refused
    assert code == bool(sure)  # on an NPU, that the backend gives way to another


@pytest.mark.usefixtures("shared_judges")
def test_a_machine_that_is_named_counts_more_than_its_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    launch = ["docker", "run", "--gpus", "all", "mine/sglang:x", *SERVER]
    code, answer = answered(capsys, "--gpu", "mi300x", *launch)
    assert (answer["gpu"], code, "contexts" in answer) == ("mi300x", 0, False)
    text = f"# attn-lint: gpu=npu\n{' '.join([*launch[:5], *MLA_ONLY])}\n"
    (tmp_path / "run.sh").write_text(text, encoding="utf-8")
    dispatch(["check", "--isolated", "--output-format", "json", "run.sh"])
    found = json.loads(capsys.readouterr().out)
    assert found and all(one["basis"].startswith("gpu npu (comment)") for one in found)


@pytest.mark.skipif(os.name == "nt", reason="a program is made of a script")
@pytest.mark.parametrize("tool", ["docker", "podman"])
def test_exec_starts_no_container_that_no_machine_of_its_kind_serves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str
) -> None:
    (tmp_path / tool).write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [tool, "run", "--gpus", "all", "mine/sglang:x", *MLA_ONLY]
    assert dispatch(["exec", "--", *command]) == 1
    assert "judged for every class of CUDA machine (--gpus all)" in capsys.readouterr().err


def test_lines_of_a_batch_tell_the_kind_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["docker", "run", "--gpus", "all", "mine/sglang:x", *MLA_ONLY]
    lines = [{"argv": command}, {"argv": MLA_ONLY, "cuda": "12.9"}, {"argv": MLA_ONLY},
             {"argv": command, "gpu": "npu"}]  # fmt: skip
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    dispatch(["resolve", "--batch", str(path)])
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    verdicts = [one["startup"] for one in answers]
    assert verdicts == ["refuses", "refuses", "depends", "starts"]


#: Launches about which something is said on one kind of machine and not on others.
TOLD_APART = [
    ["--attention-backend", "trtllm_mha"],
    ["--attention-backend", "aiter", "--kv-cache-dtype", "fp8_e4m3"],
    ["--attention-backend", "flashinfer", "--page-size", "128"],
    ["--attention-backend", "intel_amx"],
    ["--kv-cache-dtype", "fp4_e2m1"],
    ["--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "4"],
    ["--enable-deterministic-inference"],
]


@pytest.mark.parametrize("kind", ["cuda", "hip", "cpu", "xpu", "npu", "mps", "musa"])
@pytest.mark.parametrize("argv", TOLD_APART, ids=" ".join)
def test_what_is_said_of_a_kind_holds_for_each_of_its_machines(
    judge: Judge, kind: str, argv: list[str]
) -> None:
    launch = Launch(argv, model="Qwen/Qwen3-8B", kind=kind)
    whole = judge.judge(launch)
    sure = {(one.code, one.rule, one.phase) for one in whole.findings if one.certain}
    for row in judge.platforms.rows:
        if row["kind"] != kind:
            continue
        one = judge.judge(Launch(argv, model="Qwen/Qwen3-8B", gpu=row["name"]))
        assert sure <= {(f.code, f.rule, f.phase) for f in one.findings if f.certain}
        assert whole.startup in ("depends", one.startup)
