"""The audit of a small matrix against the modern tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from attn_lint.docs_check.audit import evidence
from attn_lint.docs_check.audit.run import audit
from attn_lint.docs_check.drift.findings import DriftFinding
from attn_lint.docs_check.facts.code import CodeFacts
from attn_lint.docs_check.flags.collect import collect
from attn_lint.docs_check.flags.render import to_yaml
from attn_lint.docs_check.source.tree import SourceTree
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.matrix.loader import data_folder

from .mutate import reformat
from .support import MODERN, copied

GAMMA = """\
name: gamma
title: Gamma
families:
  - family: mha
    page_sizes:
      support: partial
      sizes: [16, 32, 64, 128]
      source: {file: srt/arg_groups/overrides.py, symbol: _page_constraints}
    cells:
      spec_topk_1: {support: "no"}
      sliding_window: {support: "no"}
      vision_encoder: {support: "yes"}
"""
OTHERS = {
    "alpha": "name: alpha\nfamilies: [{family: mha, page_sizes: {sizes: any}}]\n",
    "beta_mla": "name: beta_mla\nfamilies: [{family: mla, page_sizes: {sizes: [32, 64]}}]\n",
    "delta": "name: delta\nfamilies: []\n",
    "sparse": "name: sparse\nfamilies: []\n",
    "old_beta": "name: old_beta\nalias_of: beta_mla\n",
}
STAGE = """\
stage: checks
rules:
  - id: beta-needs-blackwell
    source:
      file: srt/arg_groups/overrides.py
      symbol: _dtype_checks
  - id: alpha-class
    source: {file: srt/layers/attention/alpha_backend.py, symbol: AlphaAttnBackend.forward_decode}
  - id: advice
    source: {url: "https://example.com"}
"""


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """Data of a release that agrees with the tree."""
    folder = tmp_path / "9.1.0"
    (folder / "backends").mkdir(parents=True)
    for name, text in {**OTHERS, "gamma": GAMMA}.items():
        (folder / "backends" / f"{name}.yaml").write_text(text)
    (folder / "stages").mkdir()
    (folder / "stages" / "checks.yaml").write_text(STAGE)
    (folder / "flags.yaml").write_text(to_yaml(collect(MODERN / "sglang")))
    facts = CodeFacts(SourceTree.find(MODERN))
    (folder / evidence.RECORD).write_text(evidence.record(folder, facts, "9.1.0"))
    return folder


def found(matrix: Path, tree: Path = MODERN) -> list[DriftFinding]:
    """Findings of the audit."""
    return audit(SourceTree.find(tree), matrix, "matrix", "9.1.0")


def test_a_matrix_that_agrees(matrix: Path) -> None:
    assert found(matrix) == []
    record = (matrix / evidence.RECORD).read_text()
    assert '"srt/arg_groups/overrides.py:_dtype_checks": "' in record
    assert record.count('": "') == 3


CHANGES = [
    ("backends/gamma.yaml", "[16, 32, 64, 128]", "[16, 32, 64]", "MAT105", 7),
    ("backends/gamma.yaml", "[16, 32, 64, 128]", "any", "MAT105", 7),
    ("backends/gamma.yaml", 'spec_topk_1: {support: "no"}', 'spec_topk_1: {support: "yes"}',
     "MAT106", 10),
    ("backends/gamma.yaml", "name: gamma", "name: omega", "MAT101", 1),
    ("backends/old_beta.yaml", "beta_mla", "alpha", "MAT104", 1),
    ("stages/checks.yaml", "_dtype_checks", "_type_checks", "MAT107", 4),
    ("stages/checks.yaml", "alpha_backend.py", "alphas.py", "MAT108", 8),
    ("stages/checks.yaml", "symbol: _dtype_checks", "symbol: _spec_checks\n      fingerprint: aa",
     "MAT109", 4),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "code", "line"), CHANGES)
def test_one_thing_that_is_wrong(
    name: str, old: str, new: str, code: str, line: int, matrix: Path
) -> None:
    file = matrix / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    findings = [one for one in found(matrix) if one.path == f"matrix/{name}"]
    assert [(one.code, one.line) for one in findings] == [(code, line)]


def test_flags(matrix: Path) -> None:
    file = matrix / "flags.yaml"
    text = file.read_text()
    file.write_text(
        text.replace("beta_mla, delta", "delta", 1)
        .replace("default: 4096", "default: 512")
        .replace("- field: page_size\n  names: [--page-size]", "- field: x\n  names: [--x]")
    )
    told = {(one.code, one.message) for one in found(matrix)}
    assert told == {
        ("MAT103", "--attention-backend also takes beta_mla"),
        ("MAT102", "--chunk-limit: default is 4096, not 512"),
        ("MAT102", "--x is gone"),
        ("MAT102", "--page-size is new"),
    }


def test_a_rewritten_source(matrix: Path, tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    file = tree / "sglang/srt/arg_groups/overrides.py"
    file.write_text(file.read_text().replace("nvfp4", "nvfp5"))
    (one,) = found(matrix, tree)
    assert (one.code, one.line, one.certainty) == ("MAT109", 4, "review")
    assert "beta-needs-blackwell" in one.message
    assert (one.evidence[0].file, one.evidence[0].line) == ("srt/arg_groups/overrides.py", 21)


def test_layout_and_comments_do_not_count(matrix: Path, tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    for file in tree.rglob("*.py"):
        file.write_text(reformat(file.read_text()))
    assert [one for one in found(matrix, tree) if one.code != "MAT102"] == []


def test_a_moved_source(matrix: Path, tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    folder = tree / "sglang/srt/layers/attention"
    (folder / "alpha_backend.py").rename(folder / "alpha_kernels.py")
    (one,) = [one for one in found(matrix, tree) if one.code.startswith("MAT10")]
    assert (one.code, one.certainty) == ("MAT108", "proved")
    assert "is now in srt/layers/attention/alpha_kernels.py, unchanged" in one.message


def test_what_cannot_be_read(matrix: Path, tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    file = tree / "sglang/srt/arg_groups/overrides.py"
    file.write_bytes(file.read_bytes() + b"\nx = (\n")
    assert "MAT190" in {one.code for one in found(matrix, tree)}


def run(*arguments: str) -> int:
    """Run `attn-lint matrix audit`."""
    return guarded(dispatch, ["matrix", "audit", *arguments])


def test_the_command(matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--source", str(MODERN), "--matrix", str(matrix), "--sglang", "9.1.0")
    assert run(*arguments) == 0
    assert capsys.readouterr().out == "no drift found\n"
    (matrix / "stages" / "checks.yaml").write_text(STAGE.replace("_dtype_checks", "_gone"))
    assert run(*arguments, "--output-format", "concise") == 1
    out = capsys.readouterr().out
    assert "stages/checks.yaml:4:1: MAT107 no symbol _gone in srt/arg_groups/overrides.py" in out
    assert run(*arguments, "--record") == 0
    assert "_gone" not in (matrix / evidence.RECORD).read_text()
    capsys.readouterr()
    assert run("--source", str(MODERN), "--matrix", str(matrix / "nothing")) == 2
    assert run("--source", str(MODERN), "--matrix", str(matrix), "--record") == 2
    assert "recorded from its own source" in capsys.readouterr().err


def test_broken_data(matrix: Path) -> None:
    (matrix / "stages" / "checks.yaml").write_text("a: [")
    assert run("--source", str(MODERN), "--matrix", str(matrix), "--sglang", "9.1.0") == 2


def test_our_own_record_is_of_this_release() -> None:
    folder = Path(data_folder())
    known = evidence.recorded(folder)
    assert known
    places = {f"{use.file}:{use.symbol}" for use in evidence.uses(folder, "")}
    # A statement may be younger than the record, but most have their fingerprint.
    assert len(places & set(known)) > 0.8 * len(places)


def test_every_source_of_the_data_is_on_record() -> None:
    """What no fingerprint was taken of could change in the next release without a word."""
    folder = Path(data_folder())
    known = set(evidence.recorded(folder))
    named = {f"{use.file}:{use.symbol}" for use in evidence.uses(folder, "")}
    assert named - known == set(), "attn-lint matrix audit --record"
    assert known - named == set(), "attn-lint matrix audit --record"
