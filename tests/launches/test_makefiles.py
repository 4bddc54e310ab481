"""Makefiles of every turn: what make really starts is among what is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.runner import Options, Runner
from attn_lint.lintcfg.config import Config

RUNNER = Runner(Options(), Config())
L = "python3 -m sglang.launch_server --model-path m"
MAKEFILES = {
    "a recipe": f"all:\n\t@{L} --tp 2\n\t-@{L} --tp 4 # why\n",
    "a recipe in the line of its rule": f"all: a ; {L} --tp 2\na:;@{L} --tp 4\n",
    "continued lines": f"F = --tp 2 \\\n    --port 1\nall:\n\t{L} \\\n\t\t$(F) \\\n"
                       "\t\t--page-size 64\n",
    "kinds of assignments": f"A := 1\nB := $(A)\nA = 2\nA ?= 3\nC ?= 4\nF = --port $(A)\n"
                            f"F += --tp $(B)\nall:\n\t{L} $(F) --page-size ${{C}}\n",
    "set after its use": f"B = $(A)\nall:\n\t{L} --tp $(B) --port $(C)\nA = 2\nC = 3\n",
    "a command in a variable": f"CMD := {L}\nall:\n\t$(CMD) --tp 2\n",
    "several lines in a variable": f"define serve\n{L} --tp $(1) \\\n  --port $(2)\nendef\n"
                                   "all:\n\t$(call serve,2,30000)\n",
    "a variable with dollars": f"F = --tp $$X\nall:\n\tX=2; {L} $(F)\n",
    "functions": f"F=$(if $(X),--port 1,--port 3)\nall:\n\t{L} $(F) --tp $(or $(Y),2)\n",
    "conditionals": f"ifeq ($(X),1)\nTP=1\nelse ifdef Y\nTP=2\nelse\nTP=4\nendif\n"
                    f"ifndef Z\n  P=3\nendif\nall:\n\t{L} --tp $(TP) --port $(P)\n",
    "another prefix": f".RECIPEPREFIX = >\nall:\n> {L} --tp 2\n",
    "one shell": f".ONESHELL:\nall:\n\tTP=2\n\t{L} --tp $$TP\n",
    "loops": f"all:\n\tfor t in 2 4; do \\\n\t  {L} --tp $$t; \\\n\tdone\n",
    "odd characters": f"# a\u2028b\x85c\x0c\nall:\n\t{L} --served-model-name 'é\u2028#' --tp 2\n",
}  # fmt: skip


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize("name", MAKEFILES)
def test_what_make_starts_is_read(
    name: str, tmp_path: Path, started: Callable[..., list[list[str]]]
) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILES[name])
    really = started("make", "-s", check=True)
    read = [
        [word.text for word in variant.words if not word.open]
        for found in RUNNER.extract("Makefile", MAKEFILES[name]).launches
        for variant in found.variants
    ]
    for argv in really:
        assert argv in read


def test_variables_that_grow_without_end(tmp_path: Path) -> None:
    grown = "".join(f"A{n} = {f'$(A{n + 1}) ' * 100}\n" for n in range(20))
    RUNNER.extract("Makefile", f"{grown}B = $(B)$(B)\nall:\n\t{L} $(A0) $(B)\n")
