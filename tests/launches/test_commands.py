"""`exec`, `schema`, `completion` and `launches`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.matrix.loader import load

ROOT = Path(__file__).parents[2]
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
MAIN = "import sys; from attn_lint.lintcfg.cli import main; main()"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guarded(dispatch, list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


# --------------------------------------------------------------------------- exec


@pytest.fixture
def server(tmp_path: Path) -> dict[str, str]:
    """An environment whose python3 only says who it is."""
    script = tmp_path / "python3"
    script.write_text(
        '#!/bin/sh\ntrap "exit 9" TERM\necho "pid $$ args $*"\n'
        'if [ -n "$WAIT" ]; then while :; do sleep 0.05; done; fi\nexit 7\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def execute(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, "exec", *arguments],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip


def test_a_good_launch_takes_over_the_process(server: dict[str, str]) -> None:
    command = ["python3", "-m", "sglang.launch_server", "--model-path", MODEL]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "exec", "--gpu", "h100", "--", *command],
        stdout=subprocess.PIPE, text=True, env=server,
    ) as process:  # fmt: skip
        out, _ = process.communicate(timeout=60)
    assert out == f"pid {process.pid} args {' '.join(command[1:])}\n"
    assert process.returncode == 7


def test_signals_reach_the_launch(server: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "exec", "--gpu", "h100", "--", "python3", "-m",
         "sglang.launch_server", "--model-path", MODEL],
        stdout=subprocess.PIPE, text=True, env={**server, "WAIT": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("pid ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 9


BROKEN = ["python3", "-m", "sglang.launch_server", "--model-path", MODEL, "--attention-backend",
          "fa3"]  # fmt: skip


def test_a_broken_launch_is_refused(server: dict[str, str]) -> None:
    done = execute(server, "--gpu", "b200", "--", *BROKEN)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ATT2" in done.stderr and "not started" in done.stderr


def test_a_broken_launch_starts_with_a_warning_where_that_is_wanted(
    server: dict[str, str],
) -> None:
    done = execute(server, "--warn-only", "--gpu", "b200", "--", *BROKEN)
    assert done.returncode == 7 and done.stdout.startswith("pid ")
    assert "ATT2" in done.stderr


def test_what_is_no_launch_starts(server: dict[str, str]) -> None:
    done = execute(server, "--", "python3", "-m", "http.server")
    assert done.returncode == 7 and "args -m http.server" in done.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--"], ["--gpu", "nosuch", "--", *BROKEN], ["--bogus", "--", "true"]]
)
def test_a_wrong_command_line_is_a_usage_error(
    server: dict[str, str], arguments: list[str]
) -> None:
    done = execute(server, *arguments)
    assert done.returncode == 2 and "error:" in done.stderr


def test_a_missing_program_is_a_usage_error(server: dict[str, str]) -> None:
    done = execute(server, "--", "no-such-program-here", "sglang", "serve")
    assert done.returncode == 2 and "no such command" in done.stderr


def test_a_file_that_is_no_program_is_named(server: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    done = execute(server, "--", str(program))
    assert done.returncode == 2 and "broken: " in done.stderr


@pytest.mark.parametrize("wrap", [["env", "A=b"], ["nohup"], ["sh", "-c"]])
def test_a_broken_launch_is_refused_in_what_wraps_it(
    server: dict[str, str], wrap: list[str]
) -> None:
    command = [*wrap, " ".join(BROKEN)] if wrap[0] == "sh" else [*wrap, *BROKEN]
    done = execute(server, "--gpu", "b200", "--", *command)
    assert (done.returncode, done.stdout) == (1, "")


# ------------------------------------------------------------------------- schemas


def test_the_schema_of_launches_has_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "schema", "sglang-config")
    assert code == 0
    properties = json.loads(out)["properties"]
    backends = properties["attention-backend"]
    assert "flashinfer" in json.dumps(backends) and "attention_backend" not in properties
    assert properties["disable-radix-cache"] == {"type": "boolean"}
    rows = (
        [row for row in load()["flags"]["flags"] if row.get("names")]
        if isinstance(load()["flags"], dict)
        else [row for row in load()["flags"] if row.get("names")]
    )
    names = {name[2:] for row in rows for name in row["names"] if not row.get("no_cli")}
    assert {name for name in names if name} - set(properties) <= {"config", "elp", ""}


def test_the_schema_of_the_configuration_knows_its_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from attn_lint.lintcfg.config import KEYS

    _, out, _ = run(capsys, "schema", "config")
    assert set(json.loads(out)["properties"]) == set(KEYS)


def test_a_schema_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "schema", "nothing")[0] == 2


# ---------------------------------------------------------------------- completion


def test_bash_completes_commands_flags_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    _, script, _ = run(capsys, "completion", "bash")

    def complete(*words: str) -> list[str]:
        line = (
            f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
            f"COMP_CWORD={len(words) - 1}\n_attn_lint\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("attn-lint", "che") == ["check"]
    assert "--attention-backend" in complete("attn-lint", "--attention-b")
    assert complete("attn-lint", "--attention-backend", "flashi") == ["flashinfer"]
    assert complete("attn-lint", "resolve", "--attention-backend", "flashi") == ["flashinfer"]
    assert "--unsafe-fixes" in complete("attn-lint", "check", "--un")
    assert complete("attn-lint", "--gpu", "rtx4") == ["rtx4090"]
    assert complete("attn-lint", "check", "--fail-on", "w") == ["warning"]

    # Commands below commands, each with its own options and none of a launch.
    assert complete("attn-lint", "matrix", "s") == ["show", "schema"]
    assert complete("attn-lint", "matrix", "show", "--e") == ["--engine"]
    assert complete("attn-lint", "matrix", "show", "--engine", "b") == ["bundled"]
    assert "trtllm_mla" in complete("attn-lint", "matrix", "show", "--backend", "t")
    assert complete("attn-lint", "matrix", "audit", "--so") == ["--source"]
    assert complete("attn-lint", "verify", "me") == ["merge"]
    assert complete("attn-lint", "verify", "--attention-b") == []
    assert complete("attn-lint", "verify", "--bu") == ["--budget"]
    assert complete("attn-lint", "verify", "--cell", "page") == ["page_sizes", "page_trees"]
    assert complete("attn-lint", "verify", "--backend", "tr") == ["triton", "trtllm_mha"]
    assert complete("attn-lint", "verify", "--quiet", "--device", "") == ["cpu", "cuda"]
    assert complete("attn-lint", "verify", "--calls", "sm9") == ["sm90"]
    assert complete("attn-lint", "verify", "merge", "--out") == ["--output-file"]
    assert complete("attn-lint", "docs", "gen") == ["generate"]
    assert complete("attn-lint", "docs", "generate", "--table", "ml") == ["mla"]
    assert complete("attn-lint", "facts", "diff", "--o") == ["--old", "--output-format",
                                                             "--output-file"]  # fmt: skip
    assert complete("attn-lint", "schema", "sg") == ["sglang-config"]
    assert complete("attn-lint", "completion", "z") == ["zsh"]


def test_completion_knows_every_command() -> None:
    """Each word that is offered first has an entry, and what it takes is what it says in help."""
    from attn_lint.lintcfg.commands import completion

    commands = dict(completion.every_command([]))
    first = {name.split()[0] for name in commands}
    assert first == set(completion.COMMANDS) - set(completion.LAUNCHES)
    for name, words in commands.items():
        for word in words.words if name in ("matrix", "verify", "docs", "facts") else ():
            assert f"{name} {word}" in commands


@pytest.mark.parametrize("name", ["matrix show", "verify", "verify merge", "docs", "facts diff"])
def test_completion_offers_what_help_lists(capsys: pytest.CaptureFixture[str], name: str) -> None:
    from attn_lint.lintcfg.commands import completion

    code, out, _ = run(capsys, *name.split(), "--help")
    listed = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", out[out.index("Options:") :]))
    assert code == 0
    assert set(dict(completion.every_command([]))[name].options) - {"-o"} == listed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0 and "attention-backend" in out
    assert "page_sizes" in out and "merge" in out and "audit" in out


# ------------------------------------------------------------------------ launches


def test_the_inventory_has_the_keys_that_are_promised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = ROOT / "fixtures" / "launches" / "kubernetes" / "deployment.yaml"
    code, out, _ = run(capsys, "launches", "--output-format", "json", str(folder))
    assert code == 0
    rows = json.loads(out)
    assert rows
    for row in rows:
        assert list(row) == [
            "path", "line", "end_line", "kind", "engine", "argv", "flags", "env", "unknown",
            "context",
        ]  # fmt: skip
        assert list(row["context"]) == ["gpu", "sglang", "from"]


def test_secrets_stay_out_of_the_inventory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.sh"
    path.write_text(
        "export HF_TOKEN=hf_x MY_API_KEY=y SGLANG_Z=1\nsglang serve org/m\n", encoding="utf-8"
    )
    _, out, _ = run(capsys, "launches", "--output-format", "json", str(path))
    assert json.loads(out)[0]["env"] == {"SGLANG_Z": "1"}


def test_verbose_tells_what_was_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "fixtures" / "launches" / "negatives" / "others.sh"
    code, out, err = run(capsys, "launches", "--verbose", str(path))
    assert (code, out) == (0, "")
    assert "vllm: another engine's command" in err
