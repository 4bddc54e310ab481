"""Whatever stands in a data file, the matrix loads or says what is wrong: it never crashes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attn_lint.matrix import loader
from attn_lint.matrix.compile import compile_release, read_yaml
from attn_lint.matrix.errors import MatrixDataError, ReleaseNotFound
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

SMALL = {
    "pipeline.yaml": (
        "engine: test\nrelease: '1'\nstages: [one]\nsource: {file: srt/a.py, symbol: f}\n"
    ),
    "platforms.yaml": (
        "platforms:\n- {name: gpu, title: GPU, kind: cuda, vendor: V, architecture: sm90,\n"
        "   capability: [9, 0], cuda: '12.8', memory_mib: 1}\n"
    ),
    "facts.yaml": "environment: {A: {type: bool, source: {file: srt/a.py}}}\n",
    "stages/one.yaml": (
        "stage: one\nlabel: resolve\nsummary: One.\nsource: {file: srt/a.py, symbol: f}\nrules:\n"
        "- {id: r, when: {platform.kind: cuda, env.A: true},\n"
        "   refuse: {code: ATT201, message: not here}}\n"
        "- choose: [{when: {platform.major: {gt: 8}}, stop: true}, {doc: nothing}]\n"
    ),
}


def release(folder: Path, changed: dict[str, bytes] | None = None) -> Path:
    (folder / "stages").mkdir(parents=True, exist_ok=True)
    for name, text in SMALL.items():
        (folder / name).write_bytes((changed or {}).get(name, text.encode()))
    return folder


def test_the_small_release_compiles(tmp_path: Path) -> None:
    assert compile_release(release(tmp_path))["program"]["stages"]


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(sorted(SMALL)),
    start=st.integers(0, 400),
    length=st.integers(0, 40),
    text=st.one_of(
        st.binary(max_size=12), st.text(max_size=12).map(lambda t: t.encode("utf-8", "ignore"))
    ),
)
@example(name="stages/one.yaml", start=0, length=400, text=b"\x00")
@example(name="stages/one.yaml", start=0, length=400, text=b"[" * 5000)
@example(name="facts.yaml", start=0, length=400, text=b"a: &a [*a]")
@example(name="platforms.yaml", start=0, length=400, text=b"platforms: []")
@example(name="platforms.yaml", start=110, length=0, text=b":")
@example(name="pipeline.yaml", start=0, length=400, text=b"? [a]\n: 1")
@example(name="pipeline.yaml", start=0, length=400, text=b"2001-99-99")
@example(name="pipeline.yaml", start=0, length=400, text=b"!!python/object:os.system {}")
def test_a_damaged_file_gives_problems_with_their_place(
    tmp_path: Path, name: str, start: int, length: int, text: bytes
) -> None:
    whole = SMALL[name].encode()
    folder = release(tmp_path, {name: whole[:start] + text + whole[start + length :]})
    try:
        compile_release(folder)
    except MatrixDataError as error:
        assert error.problems
        assert all(isinstance(problem, str) and problem for problem in error.problems)
    finally:
        shutil.rmtree(folder / "stages")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a: 1\na: 2\n", "given twice"),
        (b"a: [1\n", r":2:1: "),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"a: \x00\n", "x.yaml"),
        (b"a: !!python/name:os.system\n", "could not determine a constructor"),
    ],
)
def test_yaml_that_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(MatrixDataError, match=complaint):
        read_yaml(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MatrixDataError, match="No such file"):
        read_yaml(tmp_path / "x.yaml")


def test_a_release_that_is_not_there() -> None:
    with pytest.raises(ReleaseNotFound, match=r"there is: 0\.5\.22"):
        loader.load(release="9.9.9")


def test_a_damaged_compiled_file_names_itself(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text("{", encoding="utf-8")
    with pytest.raises(MatrixDataError, match=r"program\.json"):
        loader.Release("sglang", "x", tmp_path)["program"]


def test_the_whole_matrix_compiles() -> None:
    assert loader.load()["program"]["stages"]
