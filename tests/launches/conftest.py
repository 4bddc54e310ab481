"""What tests of files share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.runner import Runner
from attn_lint.lintcfg.judge import Judge


@pytest.fixture(scope="module")
def shared_judges() -> Iterator[None]:
    """One judge for all runs; making one takes longer than anything else here."""
    kept: dict[str, Judge] = {}
    make = Runner.judge

    def judge(self: Runner, release: str) -> Judge:
        if release not in kept:
            kept[release] = make(self, release)
        return kept[release]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "judge", judge)
        yield


#: Stands in for Python, and writes down what it is given.
STUB = """\
#!/bin/bash
[ "$1 $2" = "-m sglang.launch_server" ] || exit 0
shift 2
{ printf '%s\\0' "$@"; printf '\\1'; } >> "$GIVEN"
"""
Started = Callable[..., list[list[str]]]


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Arguments of each server that a command really starts in `tmp_path`."""

    def run(*command: str, check: bool = False) -> list[list[str]]:
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "python3").write_text(STUB)
        (programs / "python3").chmod(0o755)
        given = tmp_path / "given"
        given.touch()
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "GIVEN": str(given)}
        subprocess.run(
            command, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL,
            capture_output=True, check=check, timeout=20,
        )  # fmt: skip
        return [one.split("\0")[:-1] for one in given.read_text().split("\1")[:-1]]

    return run
