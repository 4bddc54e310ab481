"""`--config FILE`: what the release makes of it, and what stops it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.flags import FlagTable, ParsedLaunch, parse
from attn_lint.lintcfg.flags import config_file as module


def run(table: FlagTable, folder: Path, text: str | bytes, *words: str) -> ParsedLaunch:
    """Parse `--config c.yaml` with that content."""
    path = folder / "c.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return parse(["--config", str(path), *words], table)


def test_typed_words_win_over_the_file(table: FlagTable, tmp_path: Path) -> None:
    launch = run(table, tmp_path, "model-path: m\ntp-size: 2\npage-size: 16\n", "--tp", "4")
    assert launch.refusal is None
    assert (launch.values["tp_size"], launch.values["page_size"]) == (4, 16)
    assert launch.typed["tp_size"].index == 2
    place = launch.typed["page_size"]
    assert (place.index, place.line) == (None, 3)
    assert place.file is not None and place.file.endswith("c.yaml")
    assert launch.config_path == place.file
    assert launch.config_keys["tp-size"].line == 2


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("disable-radix-cache: true", "disable_radix_cache", True),
        ("disable_radix_cache: false", "disable_radix_cache", False),
        ("disable-radix-cache: off", "disable_radix_cache", False),
        ("cuda-graph-bs-decode: [1, 2]", "cuda_graph_bs_decode", [1, 2]),
        ("cuda-graph-bs-decode: []", "cuda_graph_bs_decode", None),
        ("mm-process-config: {image: {a: 1}}", "mm_process_config", {"image": {"a": 1}}),
        ("served-model-name: null", "served_model_name", "None"),
        ("quantization-param-path: null", "quantization_param_path", None),
        ("served-model-name: 2020-01-01", "served_model_name", "2020-01-01"),
        ("attention-back: fa3", "attention_backend", "fa3"),
        ("tp: 2", "tp_size", 2),
        ("mem-fraction-static: .5", "mem_fraction_static", 0.5),
        ("tp: 2\ntp: 4", "tp_size", 4),
    ],
)
def test_values(table: FlagTable, tmp_path: Path, line: str, field: str, value: Any) -> None:
    launch = run(table, tmp_path, line, "--model-path", "m")
    assert launch.refusal is None
    assert launch.values[field] == value


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("- a", "config-file", "no mapping"),
        ("a: [", "config-file", "not YAML"),
        ("a: b: c", "config-file", "not YAML"),
        ("1: 2", "config-file", "not text"),
        ("disable-cuda-graph: true", "config-file", "only on the command line"),
        ("no_dllm_fdfo: true", "unknown-flag", "no flag --no_dllm_fdfo"),
        ("dllm_fdfo: true", "config-file", "only on the command line"),
        ("a: !!python/name:os.system x", "config-file", "not YAML"),
        ("mm-process-config: {a: 2020-01-01}", "config-file", "not JSON serializable"),
        (b"a: \xff", "config-file", "not UTF-8"),
        ("tp_size: 2", "unknown-flag", "no flag --tp_size"),
        ("dtype: true", "invalid-choice", "'true'"),
        ("page-size: x", "bad-type", "cannot be 'x'"),
    ],
)
def test_refused(table: FlagTable, tmp_path: Path, text: str | bytes, kind: str, part: str) -> None:
    launch = run(table, tmp_path, text, "--model-path", "m")
    assert launch.refusal is not None
    assert launch.refusal.kind == kind
    assert part in launch.refusal.message
    assert launch.refusal.file is not None


def test_a_broken_line_is_pointed_at(table: FlagTable, tmp_path: Path) -> None:
    launch = run(table, tmp_path, "tp: 2\npage-size: x\n", "--model-path", "m")
    assert launch.refusal is not None
    assert (launch.refusal.line, launch.refusal.index) == (2, None)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--config"], "needs a file"),
        (["--config", "a.yaml", "--config", "b.yaml"], "2 times"),
        (["--config", "nowhere.yaml"], "does not exist"),
        (["--config", "a\0b.yaml"], "does not exist"),
        (["--config", "a.json"], "must be named"),
        (["--config", "--tp"], "must be named"),
    ],
)
def test_the_file_itself(table: FlagTable, words: list[str], part: str) -> None:
    launch = parse(["--model-path", "m", *words], table)
    assert launch.refusal is not None
    assert launch.refusal.kind == "config-file"
    assert part in launch.refusal.message
    # What the file would have held is not missed.
    assert [problem.kind for problem in launch.problems] == ["config-file"]


@pytest.mark.parametrize("words", [["--config=x.yaml"], ["--config", ""], ["--confi", "x"]])
def test_only_the_exact_word_merges(table: FlagTable, words: list[str]) -> None:
    launch = parse(["--model-path", "m", *words], table)
    assert launch.refusal is None
    assert launch.config_path is None


def test_a_folder_of_its_own(table: FlagTable, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model-path: m\n", encoding="utf-8")
    assert parse(["--config", "c.yaml"], table, directory=tmp_path).refusal is None


def test_positions_count_the_words_as_given(table: FlagTable, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("tp: 2\n", encoding="utf-8")
    words = ["--model-path", "m", "--config", str(tmp_path / "c.yaml"), "--page-size", "x"]
    (problem,) = parse(words, table).problems
    assert (problem.index, problem.end) == (4, 6)


def test_what_cannot_be_read_here_leaves_the_verdict_open(
    table: FlagTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8)
    )
    for text in (bomb, "a: &a [*a]\n"):
        launch = run(table, tmp_path, text, "--model-path", "m")
        assert [problem.refuses for problem in launch.problems] == [None]
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    launch = run(table, tmp_path, "model-path: " + "m" * 20)
    assert [problem.refuses for problem in launch.problems] == [None]


def test_a_pipe_is_not_waited_for(table: FlagTable, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    os.mkfifo(path)
    (problem,) = parse(["--model-path", "m", "--config", str(path)], table).problems
    assert (problem.kind, problem.refuses) == ("config-file", None)


def test_deep_nesting_is_a_message(table: FlagTable, tmp_path: Path) -> None:
    launch = run(table, tmp_path, "a: " + "[" * 20_000, "--model-path", "m")
    assert [problem.kind for problem in launch.problems] == ["config-file"]
