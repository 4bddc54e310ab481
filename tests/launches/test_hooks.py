"""The hooks' file patterns take what the extraction reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from attn_lint.lintcfg.launches import kind_of

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
FIXTURES = ROOT / "fixtures" / "launches"


def test_there_are_two_hooks() -> None:
    assert [hook["id"] for hook in HOOKS] == ["attn-lint", "attn-lint-docs"]
    assert all(hook["require_serial"] and hook["language"] == "python" for hook in HOOKS)


@pytest.mark.parametrize(
    "name",
    [
        *(
            path.relative_to(FIXTURES).as_posix()
            for path in sorted(FIXTURES.rglob("*"))
            if path.is_file() and ".expected." not in path.name
        ),
        "Dockerfile.rocm", "deploy/Containerfile", ".env.production", "a/justfile", "x.sbatch",
    ],
)  # fmt: skip
def test_the_pattern_takes_a_kind_that_is_read(name: str) -> None:
    assert kind_of(name) is not None
    assert re.search(HOOKS[0]["files"], name)


@pytest.mark.parametrize("name", ["a.c", "b.go", "c.png", "LICENSE", "d.txt"])
def test_the_pattern_leaves_others_alone(name: str) -> None:
    assert kind_of(name) is None
    assert not re.search(HOOKS[0]["files"], name)


def test_the_action_passes_its_inputs_through_the_environment() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for step in action["runs"]["steps"]:
        assert "${{ inputs" not in step.get("run", ""), "an input in a script is an injection"
    assert action["runs"]["using"] == "composite"
