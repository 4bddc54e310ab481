"""The command line: exit codes, formats, and input that is out to break it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg import options as o
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.commands import batch as batch_command
from attn_lint.lintcfg.commands import exec as exec_command
from attn_lint.lintcfg.commands import file_request as check_command
from attn_lint.lintcfg.flags import load_flags
from attn_lint.matrix.loader import ROOM, load, releases

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


def surroundings(**environment: str) -> dict[str, str]:
    """The environment of a new process: this one's modules, and nothing said about colour."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"NO_COLOR", "FORCE_COLOR", "TERM"}
    }
    return {**kept, "PYTHONPATH": path, **environment}


def spawn(
    *arguments: str | bytes, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env=surroundings(**environment),
        timeout=60,
    )


def strictly(text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"JSON has no {constant}")

    return json.loads(text, parse_constant=refuse)


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
        ([*GOOD, "--color", "red"], 2),
        ([*GOOD, "--fail-on", "never"], 2),
        ([*GOOD, "--select", "XYZ"], 2),
        ([*GOOD, "--exit-zero=yes"], 2),
        ([*GOOD, "--cuda", "9" * 5000], 2),
        ([*GOOD, "--cuda", ""], 2),
        ([*GOOD, "--lint-config", ""], 2),
        (["--gpu", "mi300x", "--cuda", "12.4", *LLAMA], 2),
        (["--gpu="], 2),
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


@pytest.mark.parametrize("command", ["check", "launches", "exec"])
def test_help_of_a_command_is_one_screen(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert len(out.splitlines()) <= 50
    assert max(map(len, out.splitlines())) <= 100


def test_version_names_the_releases(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--version")
    assert re.fullmatch(r"attn-lint \S.*, SGLang (\d+\.\d+\.\d+(, )?)+\n", out)


OWN = {
    option.name
    for options in (
        o.LAUNCH_OPTIONS,
        (o.BATCH,),
        check_command.CHECK_OPTIONS,
        check_command.LIST_OPTIONS,
        exec_command.OPTIONS,
    )
    for option in options
}


@pytest.mark.parametrize("release", releases())
def test_own_options_shadow_no_flag_of_sglang(release: str) -> None:
    assert not OWN & set(load_flags(load(release=release)).names)
    assert not OWN & {"--config", "--device", "--model"}


# The commands that the README shows, and what their answers must say.
STORIES: list[tuple[list[str], int, list[str]]] = [
    (
        ["--attention-backend", "trtllm_mha", "--speculative-eagle-topk", "4"], 1,
        ["no effect without --speculative-algorithm", "needs speculative_eagle_topk 1"],
    ),
    (
        ["--gpu", "h100", *LLAMA, "--attention-backend", "cutlass_mla"], 1,
        ["removed in 0.5.20", "page size 128", "use trtllm_mla"],
    ),
    (
        ["--gpu", "b200", "python3", "-m", "sglang.launch_server", "--model-path",
         "deepseek-ai/DeepSeek-V3", "--tp", "8", "--attention-backend", "trtllm_mla"], 0,
        ["starts"],
    ),
    (
        ["resolve", "--gpu", "b200", "--model-path", "deepseek-ai/DeepSeek-V3", "--tp", "8"], 0,
        ["attention_backend", "trtllm_mla", "page_size", "64", "overrides.py"],
    ),
    (
        ["resolve", "--gpu", "all", *LLAMA, "--attention-backend", "fa3"], 1,
        ["h100 .* starts", "b200 .* refuses"],
    ),
    (["matrix", "show", "--backend", "trtllm_mha"], 0, ["trtllm_mha"]),
    (["matrix", "show", "--family", "mla", "--output-format", "markdown"], 0, [r"\| trtllm_mla"]),
    (["rule"], 0, ["ATT101", "ATT405"]),
    (["rule", "ATT205"], 0, ["## Use instead", "trtllm-mha-topk", "speculative_hook.py"]),
    (
        ["suggest", "--gpu", "b200", *LLAMA, "--kv-cache-dtype", "fp8_e4m3",
         "--speculative-eagle-topk", "4"], 0,
        [r"^--attention-backend \S+ \(default\)", "^--attention-backend triton"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "says"), STORIES)
def test_the_commands_of_the_readme(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: list[str]
) -> None:
    found, out, err = run(capsys, *arguments)
    assert (found, err) == (code, "")
    for pattern in says:
        assert re.search(pattern, out, re.MULTILINE), pattern


@pytest.mark.parametrize(
    ("gpu", "near"), [("h10", "h100"), ("b20", "b200"), ("rtx-509", "rtx5090"), ("nothing", "h100")]
)
def test_an_unknown_gpu_is_answered_with_known_ones(
    capsys: pytest.CaptureFixture[str], gpu: str, near: str
) -> None:
    code, out, err = run(capsys, "--gpu", gpu, *LLAMA)
    assert (code, out) == (2, "")
    assert f"unknown GPU {gpu!r}" in err
    assert near in err


def test_selection_counts_for_exit_code_and_report(capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["--gpu", "b200", "--model-path", "deepseek-ai/DeepSeek-V3", "--page-size", "16"]

    def codes(*options: str) -> tuple[int, set[str]]:
        code, out, _ = run(capsys, *launch, *options, "--output-format", "json")
        return code, {finding["code"] for finding in json.loads(out)["findings"]}

    _, everything = codes()
    assert {"ATT302", "ATT305"} <= everything
    assert codes("--select", "ATT302") == (1, {"ATT302"})
    assert codes("--select", "page-size-changed") == (1, {"ATT302"})
    assert codes("--select", "ATT302,ATT305") == (1, {"ATT302", "ATT305"})
    assert codes("--select", "ATT3", "--ignore", "att302") == (0, {"ATT305"})
    assert codes("--ignore", "ATT302", "--fail-on", "info")[0] == 1
    assert codes("--exit-zero") == (0, everything)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--speculative-algorithm", "nextn"],
        ["--speculative-algorithm", "eagle"],
        ["--kv-cache-dtype", "auto"],
    ],
)
def test_another_name_of_the_same_is_no_change(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    launch = ["--gpu", "b200", "--model-path", "deepseek-ai/DeepSeek-V3.2", "--tp", "8"]
    code, out, _ = run(capsys, *launch, *arguments, "--output-format", "concise")
    assert code == 0, out
    assert "becomes" not in out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "depends on the machine and the model"),
        (["--gpu", "b200"], "depends on the model"),
        (LLAMA, "depends on the machine"),
    ],
)
def test_a_start_that_depends_says_on_what(
    capsys: pytest.CaptureFixture[str], given: list[str], says: str
) -> None:
    launch = [*given, "--attention-backend", "fa3"]
    code, out, _ = run(capsys, *launch)
    assert (code, out.splitlines()[0]) == (0, f"SGLang 0.5.22 {says}")
    code, out, _ = run(capsys, *launch, "--speculative-accept-threshold-single", "0.5")
    assert code == 1
    assert f"SGLang 0.5.22 {says}: 1 warning in any case\n" in out


@pytest.mark.parametrize(("given", "others"), [([], True), (LLAMA, False)])
def test_machines_that_stand_in_for_an_unknown_one_are_named(
    capsys: pytest.CaptureFixture[str], given: list[str], others: bool
) -> None:
    _, out, _ = run(capsys, *given, "--attention-backend", "fa3", "--output-format", "json")
    answer = json.loads(out)
    (told,) = [text for text in answer["assumptions"] if text.startswith("GPU not given")]
    assert "judged for every class of machine" in told
    tried = {one["gpu"] for one in answer["contexts"] if one["family"] == "mla"}
    assert all(gpu in told for gpu in tried)
    assert ("(the other families)" in told) is others is bool(tried)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--gpuu", "--gpu"), ("--verbosee", "--verbose"), ("--exit-zer", "--exit-zero")],
)
def test_an_own_option_that_is_mistyped_is_named(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    code, out, _ = run(capsys, *GOOD, typed, "h100")
    assert code == 1
    assert f"attn-lint's own option is {meant}, not {typed}" in out
    _, out, _ = run(capsys, *GOOD, "--page-sise", "64")
    assert "own option" not in out


def test_a_reason_of_several_families_names_no_model_of_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "--attention-backend", "fa3", "--output-format", "json")
    told = [one for one in json.loads(out)["findings"] if one["code"] == "ATT201"]
    assert [one["message"] for one in told if len(one["families"]) > 1]
    for one in told:
        named = re.findall(r"\w+For(?:CausalLM|ConditionalGeneration)", one["message"])
        assert bool(named) is (len(one["families"]) == 1), one


@pytest.mark.parametrize(("gpu", "offered"), [("h100", False), ("b200", True)])
def test_a_fix_that_is_refused_as_well_is_not_offered(
    capsys: pytest.CaptureFixture[str], gpu: str, offered: bool
) -> None:
    """The name that took over from a removed one is of other machines here."""
    launch = ["--gpu", gpu, "--model-path", "deepseek-ai/DeepSeek-V3", "--tp", "8"]
    code, out, _ = run(capsys, *launch, "--attention-backend", "cutlass_mla")
    assert code == 1
    assert ("fix: --attention-backend trtllm_mla" in out) is offered
    assert ("trtllm_mla is no way out here: ATT201" in out) is not offered
    code, _, _ = run(capsys, *launch, "--attention-backend", "trtllm_mla", "--fail-on", "error")
    assert code == (0 if offered else 1)


def test_resolved_values_are_those_of_some_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the GPU is open; and of a machine that the launch starts on, where others refuse it."""

    def values(*words: str) -> dict[str, str]:
        _, out, _ = run(capsys, "resolve", *LLAMA, *words)
        lines = [re.split(r"  +", line) for line in out.partition("\n\n")[0].splitlines()]
        return {line[0]: line[1] for line in lines}

    machines = ["t4", "a100", "h100", "b200", "rtx5090", "mi300x", "cpu-amx", "npu", "xpu"]
    each = [values("--gpu", machine) for machine in machines]
    for name, told in values().items():
        said = set(told.split(" or "))
        assert {one.get(name, "unset") for one in each} <= said | {"unset"}, name
        assert "trtllm_mla" not in said and "unknown" not in said
    alone = values("--attention-backend", "trtllm_mla")
    assert alone == values("--attention-backend", "trtllm_mla", "--gpu", "npu")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('gpu = "h200"', "gpu h200 (configuration)"),
        ('cuda = "12.9"', "cuda 12.9 (configuration)"),
        ('sglang = "0.5.22"', "sglang 0.5.22 (configuration)"),
    ],
)
def test_what_the_configuration_tells_is_said_of_every_launch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "attn-lint.toml").write_text(text, encoding="utf-8")
    launch = [*LLAMA, "--attention-backend", "fa3"]
    for command in ([], ["resolve"]):
        _, out, _ = run(capsys, *command, *launch)
        assert f"  {says}\n" in out
    (answer,) = batch(capsys, tmp_path, [json.dumps({"argv": launch}).encode()])
    assert says in answer["assumptions"]
    # What the command line says is known to whoever typed it.
    _, out, _ = run(capsys, "--gpu", "b200", "--cuda", "13.0", "--sglang", "0.5.22", *launch)
    assert "(configuration)" not in out and "(given)" not in out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--model-path", "foo/bar"], "model 'foo/bar' is not known here"),
        ([], "model not given (--model-path)"),
    ],
)
@pytest.mark.parametrize("machine", [[], ["--gpu", "h100"], ["--gpu", "cpu-amx"]])
@pytest.mark.parametrize("flags", [[], ["--attention-backend", "fa3"], ["--page-size", "64"]])
def test_a_model_that_is_not_known_is_said_whatever_else_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
    given: list[str], says: str, machine: list[str], flags: list[str],
) -> None:  # fmt: skip
    _, out, _ = run(capsys, "resolve", *given, *machine, *flags)
    assert f"  {says}: judged for one of every family\n" in out
    line = {"argv": [*given, *flags], **({"gpu": machine[1]} if machine else {})}
    (answer,) = batch(capsys, tmp_path, [json.dumps(line).encode()])
    assert f"{says}: judged for one of every family" in answer["assumptions"]


@pytest.mark.parametrize("machine", ["h100", "mi300x"])
def test_backends_are_suggested_family_by_family_on_any_machine(
    capsys: pytest.CaptureFixture[str], machine: str
) -> None:
    """Also where SGLang has no kernels for the weights of one family."""
    _, out, _ = run(capsys, "suggest", "--gpu", machine, "--model-path", "foo/bar")
    named = re.findall(r"^(\S+) models: ", out, re.MULTILINE)
    assert set(named) == {*load()["program"]["archetypes"]}


def test_only_what_was_typed_is_to_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["--gpu", "mps", *LLAMA, "--decode-attention-backend", "fa3"]
    code, out, _ = run(capsys, *launch)
    assert code == 1
    assert re.findall(r"fix: (.*)", out) == ["remove --decode-attention-backend"]


@pytest.mark.parametrize(
    "flags",
    [["--dllm-algorithm", "LowConfidence"], ["--language-model-only"]],
)
def test_an_unknown_model_is_not_refused_for_its_architecture(
    capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    launch = ["--gpu", "h100", "--model-path", "nobody/knows-this-one", *flags]
    code, out, _ = run(capsys, *launch, "--output-format", "json")
    answer = json.loads(out)
    assert answer["startup"] == "depends"
    assert code == 0
    assert not [one for one in answer["findings"] if one["certain"] and one["severity"] == "error"]


@pytest.mark.parametrize(
    "arguments",
    [
        GOOD,
        BAD,
        [*GOOD, "--mem-fraction-static", "nan", "--page-size", "9" * 4000],
        [*GOOD, "--served-model-name", "\udcff\x00\x1b[31m"],
    ],
)
@pytest.mark.parametrize("command", [[], ["resolve"], ["suggest"]])
def test_json_is_the_only_thing_on_stdout(
    capsys: pytest.CaptureFixture[str], command: list[str], arguments: list[str]
) -> None:
    _, out, err = run(capsys, *command, *arguments, "--output-format", "json")
    assert isinstance(strictly(out), dict)
    assert err == ""


def test_concise_has_a_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, *BAD, "--output-format", "concise")
    assert re.fullmatch(r"(\S+: (error|warning|info) ATT\d{3} .+\n)+", out)


def test_colour_follows_the_option_and_the_environment() -> None:
    assert b"\x1b[" not in spawn(*BAD).stdout
    assert b"\x1b[" in spawn(*BAD, "--color", "always").stdout
    assert b"\x1b[" in spawn(*BAD, FORCE_COLOR="1").stdout
    assert b"\x1b[" not in spawn(*BAD, "--color", "never", FORCE_COLOR="1").stdout
    assert b"\x1b[" in spawn(*BAD, "--color", "always", NO_COLOR="1").stdout
    assert b"\x1b[" not in spawn(*BAD, FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.parametrize("named", [False, True], ids=["found", "named"])
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('gpus = "h100"', "unknown key 'gpus'; did you mean 'gpu'"),
        ("gpu = [", "lint.toml:"),
        ('gpu = "a"\ngpu = "b"', "lint.toml:"),
        ("\x00", "lint.toml:"),
        ("[" * 100_000, "lint.toml:"),
        ("gpu = 1", "takes a string"),
        ('fail-on = "never"', "takes error, warning, info"),
        ('severity = {ATT201 = "bad"}', "severity of ATT201 is one of error"),
        ("select = 'ATT2'", "takes a list"),
    ],
)
def test_a_wrong_configuration_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, complaint: str, named: bool
) -> None:
    path = tmp_path / ("other-lint.toml" if named else "attn-lint.toml")
    path.write_text(text, encoding="utf-8")
    code, out, err = run(capsys, *GOOD, *(["--lint-config", str(path)] if named else []))
    assert (code, out) == (2, "")
    assert complaint in err


def test_a_configuration_that_cannot_be_read_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bytes.toml").write_bytes(b'gpu = "\xff\xfe"')
    (tmp_path / "folder.toml").mkdir()
    names = ["none.toml", "bytes.toml", "folder.toml", "a\x00b", "a\udcffb", "x" * 5000]
    if os.geteuid():
        (tmp_path / "closed.toml").write_text("")
        (tmp_path / "closed.toml").chmod(0)
        names.append("closed.toml")
    for name in names:
        code, out, err = run(capsys, *GOOD, "--lint-config", str(tmp_path / name))
        assert (code, out) == (2, ""), name
        assert err.startswith("attn-lint: error: "), err
        assert err.rstrip("\n").isprintable(), err


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


@pytest.mark.parametrize(
    "arguments",
    [
        ["rule"],
        ["rule", "--output-format", "json"],
        ["matrix", "show", "--output-format", "json"],
        ["resolve", "--gpu", "all", *LLAMA],
        ["resolve", "--batch", "many.jsonl"],
    ],
)
def test_a_closed_pipe_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    line = json.dumps({"id": 1, "argv": GOOD[2:], "gpu": "h100"}) + "\n"
    (tmp_path / "many.jsonl").write_text(line * 500, encoding="utf-8")
    child = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings()
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.read(1)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(60) in (0, 1)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(GOOD, 0), (BAD, 1), (["--gpu", "x"], 2), (["resolve", "--batch", "-"], 0)],
)
def test_streams_may_be_closed_from_the_start(closed: str, arguments: list[str], code: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        env=surroundings(),
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *GOOD], stdout=full, stderr=subprocess.PIPE, check=False, env=surroundings()
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"attn-lint: error: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("output", [subprocess.DEVNULL, None], ids=["errors", "both"])
@pytest.mark.parametrize("words", [GOOD, ("check", "no such file")], ids=["launch", "check"])
def test_where_no_error_can_be_written_the_exit_code_tells(
    words: Sequence[str], output: int | None
) -> None:
    """1 would say that the launch has findings."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full if output is None else output, stderr=full,
            check=False, env=surroundings(),
        )  # fmt: skip
    assert done.returncode == (0 if words is GOOD and output is not None else 2)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_locale_and_any_bytes(locale: str) -> None:
    done = spawn(*BAD, "--served-model-name", b"\xff\xfe\xc3", "--attention-backend", "é…",
                 "--quantization", b"\x1b[31m\xff", LC_ALL=locale, PYTHONUTF8="0")  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--attention-backend"] * 10_000,
        ["--tp", "2"] * 5_000,
        [*LLAMA, *["stray"] * 10_000],
        [f"--bogus-{number}" for number in range(10_000)],
        ["--served-model-name", "x" * 1_000_000],
        ["--attention-backend", "x" * 1_000_000],
        ["--quantization", "x" * 1_000_000],
        ["--tp", "1" * 1_000_000],
        ["--tp", "9" * 4_000, "--page-size", "9" * 4_000],
        ["--" + "x" * 1_000_000],
        [*LLAMA, "x" * 1_000_000],
        ["--json-model-override-args", "[" * 500_000],
        ["--json-model-override-args", '{"a":' * 100_000],
        ["--model-path", "../" * 300_000],
        ["--model-path", "x" * 1_000_000],
        ["--config", "x" * 1_000_000],
        ["python3 -m sglang.launch_server " + "--tp 2 " * 10_000],
    ],
    ids=lambda arguments: f"{arguments[0][:28]}-{len(arguments)}",
)
@pytest.mark.parametrize("command", [[], ["resolve"]], ids=["judge", "resolve"])
def test_large_launches_end_with_an_answer(
    capsys: pytest.CaptureFixture[str], command: list[str], arguments: list[str]
) -> None:
    code, out, err = run(capsys, *command, "--gpu", "h100", *arguments)
    assert (code in (0, 1), err) == (True, "")
    # Nothing that was typed is repeated at length.
    assert max(map(len, out.splitlines())) < 1_000


@pytest.mark.parametrize("option", ["--gpu", "--cuda", "--sglang", "--matrix", "--batch", "--color",
                                    "--lint-config", "--select", "--fail-on"])  # fmt: skip
@pytest.mark.parametrize(
    "value", ["x" * 1_000_000, "a\x00b", "a\udcffb", "a\x1b[31mb", "a\nb", "a\u202eb"],
    ids=["long", "nul", "surrogate", "escape", "newline", "bidi"],
)  # fmt: skip
def test_odd_values_of_own_options_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    gpu = [] if option == "--gpu" else ["--gpu", "h100"]
    code, out, err = run(capsys, *gpu, *LLAMA, option, value)
    assert (code, out) == (2, "")
    assert err.startswith("attn-lint: error: ")
    assert all(line.isprintable() for line in err.splitlines()), err
    assert len(err) < 1_000


@pytest.mark.parametrize("value", ["a\x00b", "a\udcffb", "a\x1b[31mb", "a\nb", "a\u202eb", "", " "])
@pytest.mark.parametrize(
    "flag",
    ["--attention-backend", "--model-path", "--page-size", "--config", "--dllm-algorithm",
     "--speculative-algorithm", "--speculative-draft-model-path", "--quantization",
     "--json-model-override-args", "--served-model-name", "--kv-cache-dtype", None],
)  # fmt: skip
def test_odd_values_of_flags_do_not_act_on_the_terminal(
    capsys: pytest.CaptureFixture[str], flag: str | None, value: str
) -> None:
    typed = [flag, value] if flag else [value]
    # It prints all that a judgement prints, and the values besides.
    code, out, err = run(capsys, "resolve", "--gpu", "h100", *LLAMA, *typed)
    assert (code in (0, 1), err) == (True, "")
    assert all(line.isprintable() for line in out.splitlines()), out


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


def batch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: list[bytes]
) -> list[dict[str, Any]]:
    (tmp_path / "batch.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    code, out, err = run(capsys, "resolve", "--batch", str(tmp_path / "batch.jsonl"))
    assert code == 0, err
    assert err == ""
    return [strictly(line) for line in out.splitlines()]


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
        b'{"id": 1, "argv": [], "env": {"SGLANG_X": null}}',
        b'{"id": 1, "argv": [], "model": 5}',
        b'{"id": 1, "argv": [], "cuda": "' + b"9" * 5000 + b'", "gpu": "h100"}',
        b'{"id": ' + b"1" * 5000 + b', "argv": []}',
        b'{"id": {"a": NaN}, "argv": 3}',
        b'{"id": 1, "argv": ["vllm", "serve", "x"]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ]
    lines = []
    for number, line in enumerate(bad):
        lines += [line, json.dumps({"id": f"good{number}", **good}).encode()]
    answers = batch(capsys, tmp_path, lines)
    assert len(answers) == len(lines)
    assert all("error" in answer for answer in answers[::2])
    assert [(a["id"], a["startup"]) for a in answers[1::2]] == [
        (f"good{number}", "starts") for number in range(len(bad))
    ]


def test_a_batch_may_hold_what_no_command_line_can(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    argv = ["--model-path", "a\x00b", "--served-model-name", "\ud800", "--tp", "1" * 5000]
    (answer,) = batch(capsys, tmp_path, [json.dumps({"id": "x", "argv": argv}).encode()])
    assert answer["startup"] == "refuses"


@pytest.mark.parametrize("own", [[], ["--speculative-draft-model-path", "some/draft"]])
def test_the_draft_of_a_line_stands_for_the_flag(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, own: list[str]
) -> None:
    model, draft = "Qwen/Qwen3-8B", "Tengyunw/qwen3_8b_eagle3"
    eagle = ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3",
             "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]  # fmt: skip
    spelled = ["--model-path", model, *eagle, "--speculative-draft-model-path", draft]
    lines: list[dict[str, Any]] = [
        {"argv": spelled, "gpu": "h100"},
        {"argv": [*eagle, *own], "gpu": "h100", "model": model, "draft": draft},
    ]
    told = []
    for answer in batch(capsys, tmp_path, [json.dumps(line).encode() for line in lines]):
        findings = [(one["code"], one["message"]) for one in answer["findings"]]
        told.append((answer["then"], answer["resolved"], findings))
    assert told[0] == told[1]
    assert told[0][0] is None


def test_an_id_comes_back_as_it_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    idents: list[Any] = [1, "x", "\ud800", None, [1, {"a": 2}], 1.5, True]
    lines = [
        json.dumps({"id": ident, "argv": GOOD[2:], "gpu": "h100"}).encode() for ident in idents
    ]
    assert [answer["id"] for answer in batch(capsys, tmp_path, lines)] == idents
    # A number that JSON does not have is no id.
    (answer,) = batch(capsys, tmp_path, [b'{"id": [Infinity], "argv": [], "gpu": "h100"}'])
    assert answer["id"] is None


def test_a_line_that_is_too_long_is_one_bad_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_command, "MAX_LINE", 1_000)
    good = json.dumps({"id": "good", "argv": GOOD[2:], "gpu": "h100"}).encode()
    long = json.dumps({"id": "long", "argv": ["x" * 5_000]}).encode()
    answers = batch(capsys, tmp_path, [good, long, b"", good])
    assert ["error" in answer for answer in answers] == [False, True, False]
    assert answers[1]["error"]["line"] == 2


def test_a_megabyte_in_a_batch_is_answered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    launches: list[Sequence[str]] = [
        ["--served-model-name", "x" * 1_000_000],
        [f"--bogus-{number}" for number in range(5_000)],
        ["--attention-backend=fa3"] * 10_000,
    ]
    lines = [json.dumps({"id": 1, "argv": argv, "gpu": "h100"}).encode() for argv in launches]
    answers = batch(capsys, tmp_path, lines)
    assert [answer["startup"] for answer in answers] == ["starts", "refuses", "starts"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    "command",
    [["matrix", "validate"], ["matrix", "show", "--backend", "fa3"], ["rule", "ATT205"]],
    ids=["validate", "show", "rule"],
)
def test_other_data_may_be_named_in_one_way_everywhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str], before: bool
) -> None:
    import shutil

    folder = tmp_path / "matrix"
    shutil.copytree(Path(ROOM) / "data" / "sglang" / "0.5.22", folder)
    option = ["--matrix", str(folder)]
    arguments = [*option, *command] if before else [*command, *option]
    code, _, err = run(capsys, *arguments)
    assert code == 0
    if command[-1] == "validate":
        assert f"0 problems in {folder}" in err
    (folder / "codes.yaml").write_text("codes: 5\n", encoding="utf-8")
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "codes.yaml" in err


def test_two_folders_to_validate_are_one_too_many(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, "matrix", "validate", "a", "--matrix", "b")
    assert code == 2 and "two folders: a and --matrix b" in err


#: What the real SGLang takes by itself, here and on machines of other kinds, best first.
TAKEN = [
    ("b200", "Qwen/Qwen3-8B", ["trtllm_mha", "flashinfer", "triton"]),
    ("h100", "Qwen/Qwen3-8B", ["fa3", "flashinfer", "triton", "trtllm_mha"]),
    ("rtx5090", "Qwen/Qwen3-8B", ["flashinfer", "triton", "trtllm_mha"]),
    ("mi300x", "Qwen/Qwen3-8B", ["aiter", "triton"]),
    ("b200", "deepseek-ai/DeepSeek-V3", ["trtllm_mla"]),
]
#: What it takes for nobody, and what is made for one kind of model or of machine.
ODD = {"llada2_cfg_flashinfer", "flex_attention", "wave", "hpc_ops"}


@pytest.mark.parametrize(("gpu", "model", "first"), TAKEN)
def test_suggestions_come_in_the_order_of_sglang_s_own_choices(
    capsys: pytest.CaptureFixture[str], gpu: str, model: str, first: list[str]
) -> None:
    code, out, _ = run(
        capsys, "suggest", "--gpu", gpu, "--model-path", model, "--output-format", "json"
    )
    assert code == 0
    names = [one["backend"] for one in strictly(out)["suggestions"]]
    assert names[: len(first)] == first
    odd = [name for name in names if name in ODD]
    assert names[len(names) - len(odd) :] == odd


@pytest.mark.parametrize("model", [LLAMA, []], ids=["model", "families"])
def test_no_backend_is_blamed_for_a_flag_that_nobody_has(
    capsys: pytest.CaptureFixture[str], model: list[str]
) -> None:
    code, out, _ = run(capsys, "suggest", *GOOD[:2], *model, "--page-sise", "64")
    assert code == 1
    assert out.startswith("error[ATT101] SGLang 0.5.22 has no flag --page-sise\n")
    assert "did you mean --page-size" in out
    assert out.endswith("refused with any backend: mend that first\n")
    assert "triton" not in out


@pytest.mark.parametrize("model", [[], ["--model-path", "nobody/knows-this"]])
def test_suggestions_for_a_model_that_is_not_known_are_told_by_family(
    capsys: pytest.CaptureFixture[str], model: list[str]
) -> None:
    code, out, _ = run(capsys, "suggest", "--gpu", "b200", *model)
    assert code == 0
    families = dict(re.findall(r"^(\S+) models: (.+)$", out, re.MULTILINE))
    # What SGLang takes for models of these families on this machine.
    for family, backend in (("dense", "trtllm_mha"), ("mla", "trtllm_mla"), ("sparse-mla", "dsa")):
        assert families[family].startswith(f"{backend} (default)")
    code, out, _ = run(capsys, "suggest", "--gpu", "b200", "--output-format", "json", *model)
    suggestions = strictly(out)["suggestions"]
    assert list(dict.fromkeys(one["family"] for one in suggestions)) == list(families)
    # One that no model can have ends as it does for a known one.
    code, out, _ = run(capsys, "suggest", "--gpu", "h100", "--kv-cache-dtype", "mxfp8", *model)
    assert code == 1 and "no backend carries all of it" in out


#: An image of a release that still had the flag, with a CUDA version of its own.
PASTED = [
    "docker", "run", "--gpus", "all", "-p", "30000:30000", "lmsysorg/sglang:v0.5.4-cu126",
    "python3", "-m", "sglang.launch_server", *LLAMA, "--enable-ep-moe",
]  # fmt: skip


@pytest.mark.parametrize("separate", [[], ["--"]])
def test_a_pasted_command_is_judged_as_in_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, separate: list[str]
) -> None:
    (tmp_path / "run.sh").write_text(" ".join(PASTED) + "\n", encoding="utf-8")
    code, out, _ = run(capsys, "check", "run.sh", "--gpu", "h100", "--output-format", "json")
    (in_file,) = [one for one in strictly(out) if one["code"] == "ATT105"]
    pasted = ["--gpu", "h100", "--output-format", "json", *separate, *PASTED]
    pasted_code, out, _ = run(capsys, *pasted)
    answer = strictly(out)
    (alone,) = [one for one in answer["findings"] if one["code"] == "ATT105"]
    assert (code, pasted_code) == (0, 0)
    assert (alone["severity"], alone["message"]) == (in_file["severity"], in_file["message"])
    assert alone["severity"] == "info" and "0.5.4, which this runs on" in alone["message"]
    assert in_file["basis"] in answer["assumptions"]
    assert answer["startup"] != "refuses"


def test_the_flags_of_an_image_with_a_server_of_its_own_are_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = [*PASTED[:7], *LLAMA, "--attention-backend", "fa3", "--enable-ep-moe"]
    (tmp_path / "run.sh").write_text(" ".join(command) + "\n", encoding="utf-8")
    _, out, _ = run(capsys, "check", "run.sh", "--gpu", "b200", "--output-format", "json")
    in_file = {(one["code"], one["severity"]) for one in strictly(out) if one["certain"]}
    for words in (command, [" ".join(command)]):
        code, out, _ = run(capsys, "--gpu", "b200", "--output-format", "json", *words)
        answer = strictly(out)
        alone = {(one["code"], one["severity"]) for one in answer["findings"] if one["certain"]}
        assert (code, answer["startup"]) == (1, "refuses")
        assert alone == in_file == {("ATT105", "info"), ("ATT201", "error")}
    done = spawn("exec", "--gpu", "b200", "--", *command)
    assert done.returncode in (1, 2)  # 2 where there is no docker
    code, _, err = run(capsys, "docker", "run", "nginx", "--model-path", "x")
    assert code == 2 and "no SGLang server launch: docker" in err


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("resolv", "resolve"), ("sugest", "suggest"), ("chekc", "check"), ("launch", "launches"),
        ("exce", "exec"), ("completions", "completion"), ("matirx", "matrix"), ("rules", "rule"),
        ("doc", "docs"), ("fact", "facts"), ("verfy", "verify"), ("docker", None), ("bash", None),
        ("vllm", None), ("nginx", None),
    ],
)  # fmt: skip
def test_a_mistyped_command_is_asked_about(
    capsys: pytest.CaptureFixture[str], word: str, meant: str | None
) -> None:
    for words in ([word, "x"], ["--gpu", "h100", word, "x"]):
        code, _, err = run(capsys, *words)
        assert code == 2
        assert (f"(did you mean {meant}?)" if meant else "launch: ") in err
        assert ("did you mean" in err) == bool(meant)


@pytest.mark.parametrize("whole", [False, True])
def test_a_quoted_command_runs_on_what_stands_around_it(
    capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    words = [*PASTED[:7], "bash", "-c", " ".join(PASTED[7:])]
    command = [shlex.join(words)] if whole else words
    code, out, _ = run(capsys, "--gpu", "h100", "--output-format", "json", *command)
    (finding,) = [one for one in strictly(out)["findings"] if one["code"] == "ATT105"]
    assert (code, finding["severity"]) == (0, "info")


def test_all_commands_know_what_a_pasted_command_runs_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = json.dumps({"id": 1, "argv": PASTED, "gpu": "h100"}).encode()
    (answer,) = batch(capsys, tmp_path, [line])
    (finding,) = [one for one in answer["findings"] if one["code"] == "ATT105"]
    assert finding["severity"] == "info"
    done = spawn("exec", "--gpu", "h100", "--", "true", *PASTED)
    assert done.returncode == 0
    assert b"0.5.4, which this runs on, still has it" in done.stderr


@pytest.mark.parametrize(
    ("command", "gpu"),
    [
        (["srun", "--gres=gpu:h200:8"], "h200"),
        (["srun", "--gres", "gpu:h200:8"], "h200"),
        (["srun", "--gres=gpu:8"], "b200"),
        (["srun", "--gres=gpu:nothing:8"], None),
    ],
)
def test_a_scheduler_s_words_name_the_machine(
    capsys: pytest.CaptureFixture[str], command: list[str], gpu: str | None
) -> None:
    pasted = [*command, "python3", "-m", "sglang.launch_server", *LLAMA]
    code, out, err = run(capsys, "--gpu", "b200", "--output-format", "json", *pasted)
    assert code == 0
    assert strictly(out)["gpu"] == gpu
    assert ("unknown GPU 'nothing'" in err) is (gpu is None)


@pytest.mark.parametrize("configured", [False, True])
def test_a_line_of_a_batch_asks_for_its_release(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, configured: bool
) -> None:
    """As `--sglang` does: for that one, or none; before what the launch's own image says."""
    (newest,) = releases()
    if configured:
        (tmp_path / "attn-lint.toml").write_text(f'sglang = "{newest}"', encoding="utf-8")
    image = ["docker", "run", "lmsysorg/sglang:v0.5.4", "python3", "-m", "sglang.launch_server"]
    lines: list[dict[str, Any]] = [
        {"argv": LLAMA, "sglang": newest},
        {"argv": [*image, *LLAMA], "sglang": f"v{newest}"},
        {"argv": LLAMA, "sglang": "0.4.0"},
        {"argv": LLAMA, "sglang": 5},
        {"argv": LLAMA, "sglang": None},
    ]
    first, second, absent, strange, last = batch(
        capsys, tmp_path, [json.dumps({**line, "gpu": "h100"}).encode() for line in lines]
    )
    assert {answer["release"] for answer in (first, second, last)} == {newest}
    assert not any("0.5.4" in text for text in second["assumptions"])
    _, _, err = run(capsys, "--sglang", "0.4.0", *LLAMA)
    assert err == f"attn-lint: error: {absent['error']['message'].removeprefix('line 3: ')}\n"
    assert strange["error"] == {"line": 4, "message": "line 4: sglang is a string"}


def test_a_batch_without_a_model_is_judged_for_every_family(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    argv = ["--attention-backend", "trtllm_mla"]
    _, out, _ = run(capsys, "--gpu", "b200", "--output-format", "json", *argv)
    single = strictly(out)
    assert single["startup"] == "depends"
    lines = [
        {"id": "bare", "argv": argv, "gpu": "b200"},
        {"id": "whole", "argv": ["python3", "-m", "sglang.launch_server", *argv], "gpu": "b200"},
    ]
    bare, whole = batch(capsys, tmp_path, [json.dumps(line).encode() for line in lines])
    assert {**single, "id": "bare"} == bare
    # A whole command has said all that it says: SGLang misses the model.
    assert (whole["startup"], whole["stage"]) == ("refuses", "parse")


#: Launches that SGLang lets start and that are known not to serve, with what they do then.
SPOILT = {
    "fails": ["--gpu", "h100", *LLAMA, "--attention-backend", "fa4"],
    "answers wrongly": [
        "--gpu", "mi300x", "--model-path", "unsloth/gpt-oss-20b-BF16", "--attention-backend",
        "aiter", "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
        "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8",
    ],
}  # fmt: skip


@pytest.mark.parametrize("then", SPOILT)
def test_a_launch_that_starts_in_vain_is_told_everywhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, then: str
) -> None:
    arguments = SPOILT[then]
    code, out, _ = run(capsys, *arguments)
    assert code == 1 and f"starts, and then {then}: 1 error" in out
    # What the configuration makes of the finding changes nothing about the launch.
    (tmp_path / "attn-lint.toml").write_text(
        'severity = {ATT401 = "info", ATT402 = "info"}', encoding="utf-8"
    )
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and f"starts, and then {then}: " in out
    line = {"id": 1, "argv": arguments[2:], "gpu": arguments[1]}
    (answer,) = batch(capsys, tmp_path, [json.dumps(line).encode()])
    assert (answer["startup"], answer["stage"], answer["then"]) == ("starts", "factory", then)
    command = ["--", "echo", "python3", "-m", "sglang.launch_server", *arguments[2:]]
    done = spawn("exec", *arguments[:2], *command)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"not started: SGLang would start it, and then it {then}".encode() in done.stderr
    done = spawn("exec", "--warn-only", *arguments[:2], *command)
    assert done.returncode == 0 and done.stdout.startswith(b"python3")


def test_a_launch_that_starts_says_nothing_of_afterwards(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "attn-lint.toml").write_text(
        'severity = {deprecated-name = "error"}', encoding="utf-8"
    )
    arguments = ["--gpu", "h100", "--model-path", "deepseek-ai/DeepSeek-V3.2"]
    code, out, _ = run(capsys, *arguments, "--attention-backend", "nsa")
    assert code == 1 and "starts: 1 error" in out


def test_an_open_verdict_tells_where_a_launch_starts_in_vain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, *LLAMA, "--attention-backend", "fa4")
    assert re.search(r"^  starts, and then fails, on .*sm90", out, re.MULTILINE)
    assert re.search(r"^  starts on .*sm100", out, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gpu", "h1oo", *LLAMA],
        ["--gpu", "h1oo", "resolve", *LLAMA],
        ["suggest", "--gpu", "h1oo", *LLAMA],
        ["check", "--gpu", "h1oo", "."],
        ["exec", "--gpu", "h1oo", "--", "true"],
        ["resolve", "--gpu", "h1oo", "--batch", os.devnull],
        ["--gpu", "h1oo", "srun", "--gres=gpu:h200:8", "python3", "-m", "sglang.launch_server"],
    ],
    ids=["judge", "resolve", "suggest", "check", "exec", "batch", "named by the launch"],
)
def test_an_unknown_machine_is_refused_by_every_command(
    capsys: pytest.CaptureFixture[str], arguments: list[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "unknown GPU 'h1oo'; known ones include" in err and "h100" in err
    # The command that it names does list them.
    command = re.search("attn-lint (resolve .*) lists every one", err)
    assert command
    _, out, _ = run(capsys, *command[1].split())
    assert [line.split()[0] for line in out.splitlines()] == [
        row["name"] for row in load()["platforms"]
    ]


def test_an_unknown_machine_of_the_configuration_is_named_with_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "attn-lint.toml").write_text('gpu = "h1oo"', encoding="utf-8")
    for arguments in (LLAMA, ["exec", "--", "true"], ["check", "."]):
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert "attn-lint.toml:1: unknown GPU 'h1oo'; known ones include" in err


def test_an_empty_batch_gives_nothing() -> None:
    for nothing in (b"", b"\n", b" \n\r\n"):
        done = spawn("resolve", "--batch", "-", stdin=nothing)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert spawn("resolve", "--batch", "/no/such/file").returncode == 2
