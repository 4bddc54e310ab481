"""What cannot be read is a finding, and the rest goes on."""

from __future__ import annotations

import os
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
    assert {one.path for one in found if one.code == "DOC190"} == {REGISTRY}
    assert any("decoded" in one.message for one in found)


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


def deep(opened: str, closed: str = "") -> bytes:
    """A function on backends with an expression that is nested thousands of times."""
    nested = opened * 4000 + "1" + closed * 4000
    lines = (
        "",
        "def own(args):",
        "    if args.attention_backend == 'alpha':",
        f"        x = {nested}",
    )
    return "\n".join((*lines, "")).encode()


@pytest.mark.parametrize(
    "data",
    [
        deep("(", ")"), deep("{1:", "}"), deep("not "), deep("1 + "), deep("1 if y else "),
        deep("lambda: "), b"\nif a:\n    x = 1\n" + b"elif b:\n    x = 1\n" * 4000,
    ],
    ids=["brackets", "dicts", "not", "sums", "conditionals", "lambdas", "elif"],
)  # fmt: skip
def test_deep_nesting_is_survived(data: bytes, tmp_path: Path) -> None:
    name = "sglang/srt/arg_groups/overrides.py"
    found = broken(tmp_path, name, lambda content: content + data)
    assert name in {one.path for one in found if one.code == "DOC190"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_text_is_told_and_read(encoding: str, tmp_path: Path) -> None:
    found = broken(tmp_path, REGISTRY, lambda data: data.decode().encode(encoding))
    assert [(one.code, one.path) for one in found] == [("DOC190", REGISTRY)]


def test_a_null_byte_is_told_at_its_line(tmp_path: Path) -> None:
    found = broken(tmp_path, REGISTRY, lambda data: data + b"\n# \0\n")
    lines = (MODERN / REGISTRY).read_text().count("\n")
    assert [(one.code, one.path, one.line) for one in found] == [("DOC190", REGISTRY, lines + 2)]


def test_a_huge_file_is_left_alone(tmp_path: Path) -> None:
    found = broken(tmp_path, REGISTRY, lambda data: data + b"x = 1\n" * 1_000_000)
    assert "too large" in next(one.message for one in found if one.path == REGISTRY)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_links_and_pipes(tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    folder = tree / "sglang/srt/layers/attention"
    (folder / "loop").symlink_to(tree, target_is_directory=True)
    (folder / "self.py").symlink_to("self.py")
    os.mkfifo(folder / "pipe.py")
    found = drift(RIGHT, tree)
    assert {one.path.rpartition("/")[2] for one in found} == {"self.py", "pipe.py"}


def test_a_missing_module_is_told_where_it_is_imported(tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    (tree / "sglang/srt/layers/attention/gamma_backend.py").unlink()
    found = [one for one in drift(RIGHT, tree) if one.code == "DOC190"]
    assert [one.path for one in found] == [REGISTRY]
    assert "gamma_backend, which is not in the tree" in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        "<table><tr><td>fa3<td>16<tr><td>x", "<div>" * 3000, "<table>" * 500,
        "<!--" * 5000 + "{/*" * 5000, "\n`" * 3000, "[" * 3000, "={" * 2000 + '<td a={"',
        "- a\n" * 3000, "| a " * 2000 + "|\n" + "|---" * 2000 + "|\n",
        "\n```bash\nsglang serve \\\n", "<td a='" + "x" * 9000, "&#xD800;&#99999999999;",
    ],
)  # fmt: skip
def test_a_hostile_page_is_survived(text: str) -> None:
    before = [(one.code, one.line) for one in drift(RIGHT)]
    assert [(one.code, one.line) for one in drift(f"{RIGHT}\n\n{text}")] == before
