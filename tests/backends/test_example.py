"""The README's example of a backend in Python runs, and is right."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

README = Path(__file__).parents[2] / "README.md"


def test_the_example_of_the_readme() -> None:
    (block,) = re.findall(r"(?m)^    import torch\n(?:(?:    .*)?\n)+", README.read_text("utf-8"))
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(block), str(README), "exec"), names)
    q, k, v = (names[name].transpose(0, 1) for name in ("q", "k", "v"))
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(names["out"], want.transpose(0, 1).reshape(20, -1))
