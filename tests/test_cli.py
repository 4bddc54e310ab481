"""The command line: exit codes, formats, and input that is out to break it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from attn_lint.lintcfg import options as o
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.flags import load_flags
from attn_lint.matrix.loader import ROOM, load

LLAMA = ["--model-path", "meta-llama/Llama-3.1-8B-Instruct"]
GOOD = ["--gpu", "h100", *LLAMA, "--attention-backend", "fa3"]
BAD = ["--gpu", "b200", *LLAMA, "--attention-backend", "fa3"]
COMMAND = [sys.executable, "-c", "from attn_lint.lintcfg.cli import main; main()"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the checkout or of the user is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guarded(dispatch, list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def spawn(
    *arguments: str | bytes, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (GOOD, 0),
        (BAD, 1),
        ([*BAD, "--exit-zero"], 0),
        (["--attention-backend", "trtllm_mha", "--speculative-eagle-topk", "4"], 1),
        (["--gpu", "h100", *LLAMA, "--attention-backend", "cutlass_mla"], 1),
        (["--gpu", "b200", "--model-path", "deepseek-ai/DeepSeek-V3", "--page-size", "16"], 1),
        (
            ["--fail-on", "error", "--gpu", "b200", "--model-path", "deepseek-ai/DeepSeek-V3",
             "--page-size", "16"], 0,
        ),
        ([*BAD, "--ignore", "ATT2"], 0),
        ([*BAD, "--select", "ATT3"], 0),
        ([*GOOD, "--gpu", "h1000"], 2),
        ([*GOOD, "--cuda", "new"], 2),
        ([*GOOD, "--sglang", "0.1"], 2),
        ([*GOOD, "--sglang", "../.."], 2),
        ([*GOOD, "--output-format", "xml"], 2),
        (["--gpu"], 2),
        (["vllm", "serve", "x"], 2),
        (["resolve", *GOOD], 0),
        (["resolve", "--gpu", "all", *LLAMA], 1),
        (["suggest", *GOOD], 0),
        (["suggest", *LLAMA], 2),
        (["matrix", "show", "--backend", "fa3"], 0),
        (["matrix", "show", "--backend", "fa33"], 2),
        (["matrix", "schema"], 0),
        (["rule"], 0),
        (["rule", "ATT201"], 0),
        (["rule", "unsupported-gpu"], 0),
        (["rule", "page-flashmla"], 0),
        (["rule", "nonsense"], 2),
        (["matrix", "nonsense"], 2),
        (["--version"], 0),
        (["--help"], 0),
        ([], 0),
    ],
)  # fmt: skip
def test_exit_codes(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    found, out, err = run(capsys, *arguments)
    assert found == code, (out, err)
    if code == 2:
        assert err.strip()
        assert "Traceback" not in err


def test_a_whole_command_is_judged_like_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    command = "python3 -m sglang.launch_server " + " ".join(BAD[2:])
    _, plain, _ = run(capsys, *BAD)
    _, words, _ = run(capsys, "--gpu", "b200", *command.split())
    _, text, _ = run(capsys, "--gpu", "b200", command)
    assert words == plain == text


def test_help_is_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    assert len(out.splitlines()) <= 50
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["docs", "--help"], "--certainty"),
        (["docs", "generate", "--help"], "--table"),
        (["facts", "--help"], "--source"),
        (["check", "--help"], "--fix"),
    ],
)
def test_a_command_has_a_help_of_its_own(
    capsys: pytest.CaptureFixture[str], arguments: list[str], option: str
) -> None:
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert option in out
    assert "usage:\n  attn-lint [OPTIONS] FLAGS" not in out


def test_own_options_shadow_no_flag_of_sglang() -> None:
    table = load_flags(load())
    own = {option.name for option in (*o.LAUNCH_OPTIONS, o.BATCH)}
    assert not own & set(table.names)


@pytest.mark.parametrize("arguments", [GOOD, BAD, ["resolve", *GOOD], ["suggest", *GOOD]])
def test_json_is_the_only_thing_on_stdout(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    _, out, _ = run(capsys, *arguments, "--output-format", "json")
    assert isinstance(json.loads(out), dict)


def test_concise_has_a_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, *BAD, "--output-format", "concise")
    assert re.fullmatch(r"(\S+: (error|warning|info) ATT\d{3} .+\n)+", out)


def test_colour_follows_the_option_and_the_environment() -> None:
    assert b"\x1b[" not in spawn(*BAD).stdout
    assert b"\x1b[" in spawn(*BAD, "--color", "always").stdout
    assert b"\x1b[" in spawn(*BAD, FORCE_COLOR="1").stdout
    assert b"\x1b[" not in spawn(*BAD, FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('gpus = "h100"', "unknown key 'gpus'; did you mean 'gpu'"),
        ("gpu = [", "attn-lint.toml"),
        ("gpu = 1", "takes a string"),
        ('fail-on = "never"', "takes error, warning, info"),
        ('severity = {ATT201 = "bad"}', "severity maps codes"),
        ("select = 'ATT2'", "takes a list"),
    ],
)
def test_a_wrong_configuration_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "attn-lint.toml").write_text(text, encoding="utf-8")
    code, _, err = run(capsys, *GOOD)
    assert code == 2
    assert complaint in err


def test_the_nearest_configuration_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.attn-lint]\ngpu = "b200"\n', encoding="utf-8")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert run(capsys, *BAD[2:])[0] == 1
    (tmp_path / "deep" / "attn-lint.toml").write_text('gpu = "h100"\n', encoding="utf-8")
    assert run(capsys, *BAD[2:])[0] == 0
    assert run(capsys, *BAD)[0] == 1
    assert run(capsys, *BAD[2:], "--lint-config", str(tmp_path / "none.toml"))[0] == 2


def test_a_closed_pipe_is_no_error() -> None:
    script = " ".join(f"'{word}'" for word in [*COMMAND, "rule", "--output-format", "json"])
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        ["sh", "-c", f"{script} | head -c 1"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stderr == b""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_locale_and_any_bytes(locale: str) -> None:
    done = spawn(*BAD, "--served-model-name", b"\xff\xfe\xc3", "--attention-backend", "é…",
                 LC_ALL=locale, PYTHONUTF8="0")  # fmt: skip
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--attention-backend"] * 10_000,
        ["--tp", "2"] * 5_000,
        ["--served-model-name", "x" * 100_000],
        ["--attention-backend", "x" * 100_000],
        ["--json-model-override-args", "[" * 50_000],
        ["--model-path", "../" * 20_000],
    ],
    ids=["valueless", "repeated", "long", "long-choice", "deep-json", "long-path"],
)
def test_large_launches_end_with_an_answer(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, _, err = run(capsys, "--gpu", "h100", *arguments)
    assert code in (0, 1), err[:500]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "config.json"),
        (b"\xff\xfe", "config.json"),
        (b"[]", "config.json"),
        (b"\x00" * 100, "config.json"),
        (b'{"a":' * 50_000, "config.json"),
        (b"{}", "config.json"),
    ],
)
def test_a_model_that_cannot_be_read_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, complaint: str
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_bytes(content)
    code, out, err = run(capsys, "--gpu", "h100", "--model-path", str(tmp_path / "model"))
    assert code in (1, 2)
    assert complaint in out + err
    assert "internal error" not in err


def test_a_broken_matrix_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "matrix"
    shutil.copytree(Path(ROOM) / "data" / "sglang" / "0.5.22", folder)
    (folder / "facts.yaml").write_text("definitions: [", encoding="utf-8")
    code, _, err = run(capsys, *GOOD, "--matrix", str(folder))
    assert code == 2
    assert re.search(r"facts\.yaml:\d+:\d+: ", err)


def batch(capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: list[bytes]) -> list[object]:
    (tmp_path / "batch.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    code, out, err = run(capsys, "resolve", "--batch", str(tmp_path / "batch.jsonl"))
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_bad_lines_of_a_batch_do_not_stop_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    good = {"argv": ["--attention-backend", "fa3"], "gpu": "h100", "model": LLAMA[1]}
    bad = [
        b"not json",
        b"[]",
        b'{"id": 1}',
        b'{"id": 1, "argv": "x"}',
        b'{"id": 1, "argv": [1]}',
        b'{"id": 1, "argv": [], "gpu": "nothing"}',
        b'{"id": 1, "argv": [], "gpu": 3}',
        b'{"id": 1, "argv": [], "speed": 3}',
        b'{"id": 1, "argv": [], "env": []}',
        b'{"id": 1, "argv": ["vllm", "serve", "x"]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ]
    lines = []
    for number, line in enumerate(bad):
        lines += [line, json.dumps({"id": f"good{number}", **good}).encode()]
    answers = batch(capsys, tmp_path, lines)
    assert len(answers) == len(lines)
    assert all("error" in answer for answer in answers[::2])  # type: ignore[operator]
    assert [(a["id"], a["startup"]) for a in answers[1::2]] == [  # type: ignore[index]
        (f"good{number}", "starts") for number in range(len(bad))
    ]


def test_a_batch_may_hold_what_no_command_line_can(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    argv = ["--model-path", "a\x00b", "--served-model-name", "\ud800", "--tp", "1" * 5000]
    (answer,) = batch(capsys, tmp_path, [json.dumps({"id": "x", "argv": argv}).encode()])
    assert answer["startup"] == "refuses"  # type: ignore[index]


def test_an_empty_batch_gives_nothing() -> None:
    done = spawn("resolve", "--batch", "-")
    assert (done.returncode, done.stdout) == (0, b"")
    assert spawn("resolve", "--batch", "/no/such/file").returncode == 2
