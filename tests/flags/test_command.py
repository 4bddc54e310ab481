"""Commands around the server's arguments."""

from __future__ import annotations

from typing import Any

import pytest
from attn_lint.lintcfg.flags import Command, FlagTable, parse, strip_command

M = ["--model-path", "m"]
SERVER = ["python3", "-m", "sglang.launch_server"]


@pytest.fixture
def strip(sections: dict[str, Any]) -> Any:
    """`strip_command` with the release's words."""

    def run(*words: str) -> Command:
        return strip_command(words, sections["commands"])

    return run


@pytest.mark.parametrize(
    ("words", "argv", "environment"),
    [
        (M, M, {}),
        ([], [], {}),
        ([*SERVER, *M], M, {}),
        (["python", "-u", "-X", "dev", "-m", "sglang.launch_server", *M], M, {}),
        (["A=b", "C=", "nohup", *SERVER, *M], M, {"A": "b", "C": ""}),
        (["env", "-u", "X", "A=1", *SERVER, *M], M, {"A": "1"}),
        (["exec", *SERVER, *M], M, {}),
        (["numactl", "-N", "0", *SERVER, *M], M, {}),
        (["python3", "-usm", "sglang.launch_server", *M], M, {}),
        (["python3", "-umsglang.launch_server", *M], M, {}),
        (["torchrun", "--nproc-per-node", "2", "-m", "sglang.launch_server", *M], M, {}),
        (["python3", "/opt/sglang/launch_server.py", *M], M, {}),
        (["docker", "run", "--name", "sglang", "-e", "A=1", "--env=B=2", "x/sglang:1", *SERVER, *M],
         M, {"A": "1", "B": "2"}),
        (["kubectl", "exec", "pod", "--", "sglang", "serve", *M], M, {}),
        (["bash", "-lc", "A=1 python3 -m sglang.launch_server --model-path 'a b'"],
         ["--model-path", "a b"], {"A": "1"}),
        (["sglang", "serve", "m"], M, {}),
        (["/usr/bin/sglang", "serve", "m", "--tp", "2"], [*M, "--tp", "2"], {}),
        (["sglang", "serve", "--model-type", "llm", *M], M, {}),
        (["sglang", "serve", "--model-type=auto", *M], M, {}),
        (["A=1 python3 -m sglang.launch_server \\\n  --model-path m > log 2>&1 &"], M, {"A": "1"}),
        (["export A=1\ncd x && python3 -m sglang.launch_server --model-path m | tee log"],
         M, {"A": "1"}),
        (["--model-path m"], M, {}),
        (["--served-model-name=my model"], ["--served-model-name=my model"], {}),
        (["P=m\nsglang serve --model-path $P"], M, {"P": "m"}),
    ],
)  # fmt: skip
def test_server_arguments(
    strip: Any, words: list[str], argv: list[str], environment: dict[str, str]
) -> None:
    command = strip(*words)
    assert command.other_program is None
    assert command.argv == argv
    assert command.environment == environment
    assert command.problems == ()


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["vllm", "serve", "m"], "vllm"),
        (["python", "-m", "vllm.entrypoints.api_server"], "vllm.entrypoints.api_server"),
        (["python", "-m", "sglang.bench_serving"], "sglang.bench_serving"),
        (["python", "-Imsglang.bench_serving"], "sglang.bench_serving"),
        (["sglang", "generate", *M], "sglang generate"),
        (["sglang", "version"], "sglang version"),
        (["sglang", "serve", "m", "--model-type", "diffusion"],
         "sglang serve --model-type diffusion"),
        (["python", "train.py", *M], "train.py"),
        (["nice", "-n", "10", "ls"], "ls"),
        (["cd x; ls"], "cd"),
    ],
)  # fmt: skip
def test_other_programs(strip: Any, words: list[str], program: str) -> None:
    command = strip(*words)
    assert command.other_program == program
    assert command.argv == []


def test_origins_point_into_the_words(strip: Any) -> None:
    command = strip("sglang", "serve", "m", "--model-type", "llm", "--tp", "2")
    assert command.argv == ["--model-path", "m", "--tp", "2"]
    assert command.origins == [2, 2, 5, 6]
    assert len(command.words) == 7


def test_serve_wants_the_model_spelled_out(strip: Any, table: FlagTable) -> None:
    command = strip("sglang", "serve", "--model-pa", "m")
    launch = parse(command.argv, table, before=command.problems)
    assert launch.refusal is not None
    assert launch.refusal.kind == "missing-required"
    assert "sglang serve MODEL" in launch.refusal.message
    # The module itself accepts the abbreviation.
    assert parse(strip(*SERVER, "--model-pa", "m").argv, table).refusal is None
    assert strip("sglang", "serve", "--help").problems == ()


def test_serve_may_choose_by_the_model(strip: Any) -> None:
    assert strip("sglang", "serve", "m").backend == "auto"
    assert strip("sglang", "serve", "m", "--model-type", "llm").backend == "llm"
    assert strip(*SERVER, *M).backend == "llm"


@pytest.mark.parametrize(
    ("words", "kind", "refuses"),
    [
        (["sglang", "launch_server", *M], "command", True),
        (["sglang", *M], "command", True),
        (["sglang"], "command", True),
        (["sglang", "serve", "m", "--model-type"], "missing-value", True),
        (["sglang", "serve", "m", "--model-type="], "invalid-choice", True),
        (["sglang", "serve", "m", "--model-type", "plugin"], "invalid-choice", None),
        (["python3 -m sglang.launch_server --model-path 'm"], "command", True),
    ],
)
def test_problems_of_the_command(
    strip: Any, words: list[str], kind: str, refuses: bool | None
) -> None:
    command = strip(*words)
    assert [(problem.kind, problem.refuses) for problem in command.problems] == [(kind, refuses)]


def test_words_that_only_a_shell_knows_are_marked(strip: Any) -> None:
    command = strip("sglang serve <model> --tp $TP --port=${P:-1} --dtype $(get it) --host h")
    assert command.argv[1:] == [
        "<model>", "--tp", "$TP", "--port=${P:-1}", "--dtype", "$(get it)", "--host", "h",
    ]  # fmt: skip
    assert command.unknown == {1, 3, 4, 6}


def test_without_data_the_default_release_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from attn_lint.matrix import loader

    asked = []

    def load() -> dict[str, Any]:
        asked.append(True)
        return {"commands": None}

    monkeypatch.setattr(loader, "load", load)
    assert strip_command(["--tp", "2"]).argv == ["--tp", "2"]
    assert asked == []
    assert strip_command(["sglang", "serve"]).other_program == "sglang"
    assert asked == [True]
