"""What cannot be read is a finding, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attn_lint.docs_check.drift.findings import DriftFinding
from attn_lint.docs_check.errors import InputError
from attn_lint.docs_check.source.tree import SourceTree

from .support import FIXTURES, MODERN, copied, drift, facts

RIGHT = (FIXTURES / "right.mdx").read_text(encoding="utf-8")
REGISTRY = "sglang/srt/layers/attention/attention_registry.py"


def broken(tmp_path: Path, name: str, change: Callable[[bytes], bytes]) -> list[DriftFinding]:
    """Findings of a right page once a file of the tree is changed."""
    tree = copied(MODERN, tmp_path / "tree")
    file = tree / name
    file.write_bytes(change(file.read_bytes()))
    return drift(RIGHT, tree)


BREAKAGES: dict[str, Callable[[bytes], bytes]] = {
    "an open bracket": lambda data: data + b"\nx = (1,\n",
    "an open string": lambda data: data + b'\nx = """never closed\n',
    "no colon": lambda data: data + b"\ndef broken()\n    pass\n",
    "an operator": lambda data: data + b"\nx = = 1\n",
    "a conflict": lambda data: b"<<<<<<< HEAD\n" + data,
    "cut off": lambda data: data[: data.rindex(b"def ") + 9],
    "Python 2": lambda data: data + b'\ndef old():\n    print "text"\n',
    "in a body": lambda data: data.replace(
        b"        ATTENTION", b"        x y\n        ATTENTION", 1
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_syntax_error(name: str, tmp_path: Path) -> None:
    found = broken(tmp_path, REGISTRY, BREAKAGES[name])
    unreadable = [one for one in found if one.code == "DOC190"]
    assert [one.path for one in unreadable] == [REGISTRY]
    assert unreadable[0].line > 0


def test_the_line_of_a_syntax_error(tmp_path: Path) -> None:
    lines = (MODERN / REGISTRY).read_text().count("\n")
    found = broken(tmp_path, REGISTRY, lambda data: data + b"\nx = = 1\n")
    assert [(one.code, one.line) for one in found] == [("DOC190", lines + 2)]


def test_the_rest_is_still_read(tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    file = tree / REGISTRY
    text = file.read_text()
    file.write_text(text.replace("def create_gamma_backend(runner):", "def create_gamma_backend(:"))
    own = facts(tree)
    assert {"alpha", "beta_mla", "delta", "sparse"} <= set(own.registry)
    assert own.tree.problems


@pytest.mark.parametrize("data", [b"\xff\xfe\x00x", "caf\xe9 = 1\n".encode("latin-1")])
def test_another_encoding(data: bytes, tmp_path: Path) -> None:
    found = broken(tmp_path, REGISTRY, lambda content: content + b"\n# " + data)
    assert [one.code for one in found].count("DOC190") == 1
    assert "decoded" in next(one.message for one in found if one.code == "DOC190")


def test_a_declared_encoding_is_honoured(tmp_path: Path) -> None:
    found = broken(
        tmp_path, REGISTRY,
        lambda data: b"# -*- coding: latin-1 -*-\n" + data + "\nx = 'caf\xe9'\n".encode("latin-1"),
    )  # fmt: skip
    assert found == []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("sglang/srt/arg_groups/choices.py", "choices"),
        (REGISTRY, "registry"),
        ("sglang/srt/arg_groups/overrides.py", "resolution"),
        ("sglang/srt/arg_groups/model_override_base.py", "defaults"),
    ],
)
def test_a_missing_file_leaves_a_hole_that_is_told(name: str, what: str, tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    (tree / name).unlink()
    found = drift(RIGHT, tree)
    assert what in {one.subject for one in found if one.code == "DOC192"}
    # Nothing is called wrong only because its source is out of sight.
    assert [one for one in found if one.certainty == "proved" and one.code == "DOC101"] == []


def test_no_tree(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        SourceTree.find(tmp_path / "nothing")
    with pytest.raises(InputError, match="not a source tree"):
        SourceTree.find(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="not a folder"):
        SourceTree.find(file)


@pytest.mark.parametrize("place", ["", "sglang", "python/sglang", "site-packages/sglang"])
def test_where_the_package_may_lie(place: str, tmp_path: Path) -> None:
    root = tmp_path / place
    (root / "srt").mkdir(parents=True)
    assert SourceTree.find(tmp_path).root == root
