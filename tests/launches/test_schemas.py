"""JSON Schemas against our own readers, and reports against the schemas of those who read them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.lintcfg.cli import dispatch, guarded

LAUNCH = (
    "# attn-lint: gpu=b200\npython3 -m sglang.launch_server --model-path Qwen/Qwen3-8B "
    "--attention-backend fa3 --disable-cuda-graph\n"
)
ODD_NAMES = ["a b%,:#é.sh", "new\nline.sh", "esc\x1b[31m.sh", os.fsdecode(b"bad\xff.sh")]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = guarded(dispatch, list(arguments))
    out, err = capsys.readouterr()
    assert "internal error" not in err, err
    return code, out


def validator(capsys: pytest.CaptureFixture[str], kind: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(output(capsys, "schema", kind)[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "text",
    [
        'gpu = "h100"', "gpu = 1", 'select = ["ATT2"]', 'select = ["att201", "slow-path"]',
        'select = "ATT2"', 'select = ["DOC1"]', 'severity = {ATT201 = "info"}',
        'severity = {ATT201 = "x"}', 'severity = {ATT999 = "info"}', "severity = []",
        "require-reason = true", 'require-reason = "yes"', 'fail-on = "never"',
        'output-format = "sarif"', 'output-format = "xml"', "bogus = 1", 'exclude = ["x"]',
        "exclude = [1]", '[per-path."a/*"]\ngpu = "h100"\nignore = ["ATT2"]',
        '[per-path."a/*"]\nselect = ["ATT2"]', "per-path = {a = 1}", 'ignore = ["ATT999"]',
        'sglang = "0.5.22"', 'sglang = "v0.5.3.post1"', 'sglang = "newest"', 'cuda = "12.8"',
        'cuda = "twelve"', "docs = 1", "[docs]\nx = 1", '[[docs.accept]]\ncode = "DOC102"',
        '[[docs.accept]]\ncode = "DOC102"\nreason = "x"',
        '[[docs.accept]]\ncode = "DOC102"\nreason = ""',
        '[[docs.accept]]\ncode = "DOC102"\nreason = "x"\npages = "y"',
    ],
)  # fmt: skip
def test_the_schema_of_the_configuration_takes_what_we_take(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = validator(capsys, "config")
    (tmp_path / "attn-lint.toml").write_text(text + "\n", encoding="utf-8")
    (tmp_path / "a.sh").write_text("echo\n", encoding="utf-8")
    code, _ = output(capsys, "check", str(tmp_path))
    assert schema.is_valid(tomllib.loads(text)) is (code == 0)


@pytest.mark.parametrize(
    "text",
    [
        "attention-backend: fa3", "attention_backend: fa3", "attention-backend: fa9",
        "page-size: 64", 'page-size: "64"', "page-size: many", "tp-size: 8",
        "mem-fraction-static: 0.8", "mem-fraction-static: most", "disable-radix-cache: true",
        "kv-cache-dtype: fp8_e4m3", "kv-cache-dtype: fp9", "no-such-flag: 1",
        "cuda-graph-bs-decode: [1, 2, 4]", "cuda-graph-bs-decode: [a]",
        "served-model-name: 7", "enable-metrics: true",
    ],
)  # fmt: skip
def test_the_schema_of_launches_takes_what_we_take(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = validator(capsys, "sglang-config")
    document = {"model-path": "Qwen/Qwen3-8B", **yaml.safe_load(text)}
    path = tmp_path / "server.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    _, out = output(
        capsys, "--output-format", "json", "--gpu", "h100", "python3", "-m",
        "sglang.launch_server", "--config", str(path),
    )  # fmt: skip
    refused = [
        one
        for one in json.loads(out)["findings"]
        if one["severity"] == "error" and one["code"].startswith("ATT1")
    ]
    assert schema.is_valid(document) is (not refused), refused


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in ODD_NAMES:
        (folder / name).write_text(LAUNCH, encoding="utf-8")
    (folder / "broken.sh").write_bytes(b"sglang \xff\n")
    return folder


FORMATS = ["text", "concise", "json", "github", "gitlab", "sarif", "junit"]


@pytest.mark.parametrize("name", FORMATS)
def test_odd_names_of_files_break_no_report(
    name: str, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = odd.parent / "report"
    arguments = ["check", "--isolated", "--output-format", name, str(odd)]
    assert guarded(dispatch, [*arguments, "--output-file", str(target)]) == 1
    assert "internal error" not in capsys.readouterr().err
    written = target.read_bytes()
    assert b"\x1b" not in written
    text = written.decode("utf-8")
    if name == "junit":
        assert len(ElementTree.fromstring(text).findall("testsuite")) == len(ODD_NAMES) + 1
    elif name in ("json", "gitlab", "sarif"):
        json.loads(text)
    elif name in ("concise", "github"):
        # Nothing that a name holds makes two lines of one.
        assert all("ATT" in line for line in text.splitlines())


def test_gitlab_gets_what_its_documentation_asks_for(
    odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = output(capsys, "check", "--isolated", "--output-format", "gitlab", str(odd))
    rows = json.loads(out)
    assert len({row["fingerprint"] for row in rows}) == len(rows)
    for row in rows:
        assert set(row) == {"check_name", "description", "severity", "fingerprint", "location"}
        assert row["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert row["location"]["path"] and not row["location"]["path"].startswith("./")
        assert row["location"]["positions"]["begin"]["line"] >= 1


def test_junit_has_the_shape_that_readers_ask_for(
    odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Elements, their order and their attributes, as the XSD of the JUnit task has them."""
    _, out = output(capsys, "check", "--isolated", "--output-format", "junit", str(odd))
    root = ElementTree.fromstring(out)
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name")
        cases = suite.findall("testcase")
        assert len(cases) == len(suite) == int(suite.get("tests", "-1"))
        assert int(suite.get("failures", "-1")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "-1")) == 0
        for case in cases:
            assert case.get("name") and case.get("classname") and float(case.get("time", "-1")) >= 0
            assert [child.tag for child in case] in ([], ["failure"])
    counted = [sum(int(suite.get(key, "0")) for suite in root) for key in ("tests", "failures")]
    assert counted == [int(root.get("tests", "-1")), int(root.get("failures", "-1"))]


def test_sarif_passes_its_validator(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The official multitool, where `Sarif.Multitool` is on the path."""
    tool = os.environ.get("SARIF_MULTITOOL") or shutil.which("Sarif.Multitool")
    if tool is None:
        pytest.skip("no Sarif.Multitool on the path")
    report, verdict = odd.parent / "report.sarif", odd.parent / "verdict.sarif"
    _, out = output(capsys, "check", "--isolated", "--output-format", "sarif", str(odd))
    report.write_text(out, encoding="utf-8")
    subprocess.run(
        [tool, "validate", str(report), "--rule-kind", "Sarif;Gh", "--level",
         "Error;Warning;Note", "--kind", "Fail", "--output", str(verdict)],
        check=True, stdout=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    found = json.loads(verdict.read_text(encoding="utf-8-sig"))["runs"][0].get("results", [])
    grave = [one for one in found if one.get("level", "warning") in ("error", "warning")]
    assert [(one["ruleId"], one["message"]) for one in grave] == []
