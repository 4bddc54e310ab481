"""What a start must not load: the whole of it has a tenth of a second."""

from __future__ import annotations

import subprocess
import sys

import pytest

LAUNCH = ["--attention-backend", "trtllm_mha", "--speculative-eagle-topk", "4"]
KNOWN = ["--gpu", "h100", "--model-path", "Qwen/Qwen3-8B", "--attention-backend", "fa3"]
#: Packages that this project uses elsewhere, and what of the standard library takes long to load.
HEAVY = {
    "torch", "libcst", "pydantic", "pydantic_core", "typer", "click", "rich", "yaml",
    "markdown_it", "tree_sitter", "argparse", "dataclasses", "inspect", "difflib", "tomllib",
    "logging", "pathlib", "importlib.metadata", "asyncio", "multiprocessing", "subprocess",
}  # fmt: skip


def modules_after(*arguments: str) -> set[str]:
    """Modules that are loaded once attn-lint has answered, in a fresh interpreter."""
    # The checkout may be found by PYTHONPATH or by an installation; here it is the path of this
    # process, without what its own working folder or environment would add.
    places = [entry for entry in sys.path if entry]
    code = (
        "import sys\n"
        f"sys.path += [entry for entry in {places!r} if entry not in sys.path]\n"
        "from attn_lint.lintcfg.cli import dispatch, guarded\n"
        f"code = guarded(dispatch, {list(arguments)!r})\n"
        "print(code, *sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-X", "frozen_modules=on", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    code, *modules = done.stderr.split()
    assert code in ("0", "1"), done.stderr
    assert done.stdout
    return set(modules)


@pytest.fixture(scope="module")
def unavoidable() -> set[str]:
    """What the interpreter brings by itself, such as the finder of an editable installation."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    modules = set(done.stdout.split())
    # Such a finder loads pathlib when it is first asked for a module.
    return modules | ({"pathlib"} if any("editable" in name for name in modules) else set())


@pytest.mark.parametrize(
    "arguments",
    [
        LAUNCH,
        KNOWN,
        [*KNOWN, "--output-format", "json"],
        ["resolve", *KNOWN],
        ["python3", "-m", "sglang.launch_server", *KNOWN[2:]],
    ],
    ids=["open", "known", "json", "resolve", "command"],
)
def test_a_verdict_loads_nothing_heavy(arguments: list[str], unavoidable: set[str]) -> None:
    assert modules_after(*arguments) & HEAVY <= unavoidable


def test_near_names_are_looked_for_when_needed(unavoidable: set[str]) -> None:
    assert "difflib" in modules_after("--gpu", "h100", "--attention-backedn", "fa3")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_small_answers_load_no_packages(argument: str, unavoidable: set[str]) -> None:
    packages = HEAVY - set(sys.stdlib_module_names) - {"importlib.metadata"}
    assert modules_after(argument) & packages <= unavoidable
