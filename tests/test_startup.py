"""What a start must not load: the whole of it has a tenth of a second."""

from __future__ import annotations

import subprocess
import sys

import pytest

LAUNCH = ["--attention-backend", "trtllm_mha", "--speculative-eagle-topk", "4"]
HEAVY = (
    "torch", "libcst", "pydantic", "typer", "rich", "yaml", "argparse", "dataclasses", "inspect",
    "difflib", "tomllib", "pathlib", "importlib.metadata", "asyncio", "multiprocessing",
)  # fmt: skip


def modules_after(*arguments: str) -> set[str]:
    """Modules that are loaded once attn-lint has answered, in a fresh interpreter."""
    code = (
        "import sys\n"
        "from attn_lint.lintcfg.cli import dispatch\n"
        f"dispatch({list(arguments)!r})\n"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-X", "frozen_modules=on", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    return set(done.stderr.split())


def installed() -> bool:
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import attn_lint.lintcfg"], capture_output=True, check=False
    )
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not installed(), reason="attn-lint is not installed")


@pytest.mark.parametrize(
    "arguments",
    [LAUNCH, ["--gpu", "h100", "--model-path", "Qwen/Qwen3-8B", "--attention-backend", "fa3"]],
    ids=["open", "known"],
)
def test_a_verdict_loads_nothing_heavy(arguments: list[str]) -> None:
    editable = {name for name in modules_after("--version") if name.startswith("__editable__")}
    loaded = modules_after(*arguments)
    # The finder of an editable installation brings pathlib; a real installation has none.
    allowed = {"pathlib"} if editable else set()
    assert loaded & set(HEAVY) <= allowed
