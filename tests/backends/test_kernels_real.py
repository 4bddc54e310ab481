"""Arguments of emulated kernels, held against the libraries' own where those are installed.

Their source is parsed and not imported, which may take a GPU.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from . import emulated


def arguments(package: str, file: str, function: str) -> list[str]:
    """Names of a function's arguments, in order; skips where the package is not installed."""
    spec = importlib.util.find_spec(package)
    paths = [Path(folder) / file for folder in (spec and spec.submodule_search_locations) or ()]
    found = [path for path in paths if path.is_file()]
    if not found:
        pytest.skip(f"{package} is not installed")
    body = ast.parse(found[0].read_text(encoding="utf-8")).body
    (defined,) = [
        node for node in body if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    assert not defined.args.posonlyargs
    return [argument.arg for argument in (*defined.args.args, *defined.args.kwonlyargs)]


@pytest.mark.parametrize(
    ("package", "file", "function", "ours"),
    [
        ("flash_attn", "cute/interface.py", "flash_attn_varlen_func", emulated.fa4),
        ("sgl_kernel", "flash_attn.py", "flash_attn_with_kvcache", emulated.fa3),
        *[
            ("flash_mla", "flash_mla_interface.py", name, getattr(emulated.FlashMLA, name))
            for name in (
                "get_mla_metadata",
                "get_mla_decoding_metadata",
                "flash_mla_with_kvcache",
            )
        ],
    ],
)
def test_emulated_arguments_are_the_real_ones(
    package: str, file: str, function: str, ours: Callable[..., Any]
) -> None:
    emulated.check_arguments(ours, arguments(package, file, function), function)
