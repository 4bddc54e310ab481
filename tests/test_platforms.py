"""Names of machines, as people write them."""

from __future__ import annotations

import pytest
from attn_lint.lintcfg.errors import UsageError
from attn_lint.lintcfg.platforms import Platforms
from attn_lint.matrix.loader import load
from attn_lint.matrix.platforms import platform_values


@pytest.fixture(scope="module")
def platforms() -> Platforms:
    return Platforms(load()["platforms"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100", "h100"),
        ("H100-SXM", "h100"),
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA-H100-NVL", "h100"),
        ("H100-SXM5-80GB", "h100"),
        ("h800", "h100"),
        ("sm90", "h100"),
        ("SM_90", "h100"),
        ("NVIDIA-H200", "h200"),
        ("NVIDIA-A100-SXM4-40GB", "a100-40"),
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("nvidia-l4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("gb200", "gb200"),
        ("GB300", "b300"),
        ("sm100", "b200"),
        ("sm103", "b300"),
        ("sm120", "rtx5090"),
        ("GeForce RTX 5090", "rtx5090"),
        ("DGX Spark", "gb10"),
        ("gfx942", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("MI325X", "mi300x"),
        ("mi350x", "mi355x"),
        ("h100-cu121", "h100-cu121"),
        ("Ascend 910B", "npu"),
        ("cpu-amx", "cpu-amx"),
        ("Tesla-T4", "t4"),
    ],
)
def test_names_that_people_use(platforms: Platforms, name: str, expected: str) -> None:
    assert platforms.find(name) == expected


@pytest.mark.parametrize("name", ["", "h1000", "gpu", "x", "rtx", "sm9", "\x00", "h" * 10_000])
def test_names_that_are_none(platforms: Platforms, name: str) -> None:
    with pytest.raises(UsageError, match="unknown GPU"):
        platforms.find(name)


def test_another_cuda_version(platforms: Platforms) -> None:
    values = platforms.values("h100", "12.1")
    assert values["platform.cuda"] == "12.1"
    assert platforms.values("h100", "13")["platform.cuda"] == "13.0"


@pytest.mark.parametrize(("name", "cuda"), [("h100", "new"), ("mi300x", "12.8"), ("h100", "12.x")])
def test_a_cuda_version_that_is_none(platforms: Platforms, name: str, cuda: str) -> None:
    with pytest.raises(UsageError, match="--cuda"):
        platforms.values(name, cuda)


def test_every_class_has_one_representative(platforms: Platforms) -> None:
    """But the one on which SGLang loads no model: it would make every launch hang on the GPU."""
    rows = {row["name"]: row for row in platforms.rows}
    classes = {rows[name]["architecture"] for name in platforms.representatives()}
    assert {row["architecture"] for row in platforms.rows} == {*classes, "sm70"}
    assert platform_values(rows["h100"])["capability"] == 90
