"""Compiles the matrix into the form that the hot path loads, as part of every build."""

from __future__ import annotations

import sys
import types
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


def compile_matrix() -> None:
    """Run `matrix/compile.py` out of the tree, under its installed name."""
    package = types.ModuleType("attn_lint")
    package.__path__ = [str(ROOT)]
    sys.modules["attn_lint"] = package
    from attn_lint.matrix.compile import main

    main()
    # What follows from the data alone is left beside it, so that no start has to make it.
    from attn_lint.lintcfg.judge import Judge
    from attn_lint.matrix.loader import load

    Judge(load()).archetypes()


class BuildWithMatrix(build_py):
    """The usual build, with `matrix/compiled/` made first."""

    def run(self) -> None:
        compile_matrix()
        super().run()


setup(cmdclass={"build_py": BuildWithMatrix})
