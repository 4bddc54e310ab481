"""Facts hang on what the code means, not on how it is written down."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .mutate import reformat, rename_locals, reorder, split
from .support import FIXTURES, MODERN, TREES, copied, drift, statements

PAGES = [FIXTURES / "right.mdx", FIXTURES / "right_diffusion.mdx"]
EDITS = ["reformat", "rename", "reorder", "split", "crlf", "comments", "bom"]


def edit(tree: Path, kind: str, seed: int) -> None:
    """Change every file of a tree in one way."""
    for file in sorted(tree.rglob("*.py")):
        text = file.read_text(encoding="utf-8-sig")
        if kind == "reformat":
            file.write_text(reformat(text), encoding="utf-8")
        elif kind == "rename":
            file.write_text(rename_locals(text), encoding="utf-8")
        elif kind == "reorder":
            file.write_text(reorder(text, seed), encoding="utf-8")
        elif kind == "split":
            if file.name != "__init__.py" and not file.name.endswith("_more.py"):
                split(file)
        elif kind == "crlf":
            file.write_bytes(text.replace("\r\n", "\n").replace("\n", "\r\n").encode())
        elif kind == "comments":
            lines = [
                f"{line}  # {seed}" if line.endswith(":") else line for line in text.split("\n")
            ]
            file.write_text("\n".join(lines), encoding="utf-8")
        else:
            file.write_bytes(b"\xef\xbb\xbf" + text.encode())


@pytest.mark.parametrize("layout", ["modern", "chain", "decorators", "annotated"])
@pytest.mark.parametrize("kind", EDITS)
def test_one_edit(layout: str, kind: str, tmp_path: Path) -> None:
    tree = copied(TREES / layout, tmp_path / "tree")
    edit(tree, kind, 1)
    assert statements(tree) == statements(TREES / layout)


@settings(max_examples=12)
@given(st.lists(st.sampled_from(EDITS), min_size=2, max_size=4), st.integers(0, 1000))
def test_several_edits(kinds: list[str], seed: int) -> None:
    with TemporaryDirectory() as folder:
        tree = copied(MODERN, Path(folder, "tree"))
        for kind in kinds:
            edit(tree, kind, seed)
        assert statements(tree) == statements(MODERN)
        for page in PAGES:
            assert drift(page.read_text(encoding="utf-8"), tree) == []
