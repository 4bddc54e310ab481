"""Fixes are judged: none makes a launch worse, and what is promised is what is done."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.check.fixer import Fixer
from attn_lint.lintcfg.check.runner import Options, Runner
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.config import Config
from attn_lint.matrix.loader import load

pytestmark = pytest.mark.usefixtures("shared_judges")

SERVE = "python3 -m sglang.launch_server --model-path"
SPARSE, LATENT, DENSE = (
    "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V3", "meta-llama/Llama-3.1-8B-Instruct",
)  # fmt: skip
HEAD = f"{SERVE} {SPARSE} --tp 8"
HISTORY: dict[str, Any] = load()["history"]


def run(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> str:
    guarded(dispatch, ["check", "--isolated", "--gpu", "h200", *more, str(path)])
    return capsys.readouterr().out


def found(capsys: pytest.CaptureFixture[str], path: Path) -> list[dict[str, Any]]:
    out = run(capsys, path, "--output-format", "json")
    return [one for one in json.loads(out) if one["certain"]]


def promised(summary: str) -> tuple[int, int]:
    """How many safe fixes the last line of a report promises, and how many others."""
    last = summary.splitlines()[-1]
    safe = re.search(r"(\d+) fixable with --fix\b", last)
    others = re.search(r"(\d+) with --fix --unsafe-fixes", last)
    return int(safe.group(1)) if safe else 0, int(others.group(1)) if others else 0


# ------------------------------------------------------------------ what is promised


#: Files, how many of their findings `--fix` cures, and how many more `--unsafe-fixes` does.
PROMISES: dict[str, tuple[str, str, int, int]] = {
    "one": ("a.sh", f"{HEAD} --page-size 16\n", 1, 0),
    "two in one launch": (
        "a.sh", f"{HEAD} --page-size 16 --nsa-decode-backend flashmla_kv\n", 2, 0
    ),
    "one typed twice": (
        "a.sh", f"{HEAD} --nsa-decode-backend fa3 --nsa-decode-backend flashmla_kv\n", 1, 0
    ),
    "a word of two launches": (
        "a.sh", f"A=(--page-size 16)\n{HEAD} ${{A[@]}}\n{HEAD} --port 2 ${{A[@]}}\n", 1, 0
    ),
    "a variable that others read": (
        "a.sh", f"PAGE=16\n{HEAD} --page-size $PAGE\necho $PAGE\n", 0, 1
    ),
    "a launch that takes it as it is": (
        "a.sh", f"PAGE=16\n{HEAD} --page-size $PAGE\n{SERVE} {DENSE} --page-size $PAGE\n", 0, 0
    ),
    "quoted in the middle": ("a.sh", f'{HEAD} --nsa-decode-"backend" flashmla_kv\n', 0, 0),
    "a list in one line": ("a.yaml", f"sglang:\n  args: [{', '.join(HEAD.split()[3:])}, "
                           "--language-only]\n", 0, 1),
    "a value that is not written so": (
        "a.py", f"import subprocess\nsubprocess.run({HEAD.split()!r} + ['--page-size', '1' '6'])\n",
        0, 0,
    ),
    "another value": ("a.sh", f"{HEAD} --fp4-gemm-backend cutlass\n", 0, 1),
    "both kinds": ("a.sh", f"{HEAD} --fp4-gemm-backend cutlass --page-size 16\n", 1, 1),
    "a value that this machine refuses": (
        "a.sh", f"{SERVE} {LATENT} --tp 8 --attention-backend cutlass_mla\n", 0, 0
    ),
    "a name that the release has": (
        "a.sh", f"docker run lmsysorg/sglang:v0.5.10 {HEAD} --nsa-decode-backend flashmla_kv\n",
        0, 0,
    ),
    "a name that is there already": (
        "a.sh", f"{HEAD} --nsa-decode-backend fa3 --dsa-decode-backend flashmla_kv\n", 0, 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROMISES)
def test_what_is_promised_is_done(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, text, safe, others = PROMISES[case]
    path = tmp_path / name
    path.write_text(text)
    assert promised(run(capsys, path)) == (safe, others)
    before = found(capsys, path)
    assert sum(one["fixable"] for one in before) == safe + others
    for more, cured in (((), safe), (("--unsafe-fixes",), others)):
        held = path.read_bytes()
        after = run(capsys, path, "--fix", *more)
        assert (path.read_bytes() != held) == bool(cured)
        assert promised(after) == ((0, 0) if more else (0, others))
        left = found(capsys, path)
        if cured and not more:
            # Whatever else there was is there still, and nothing new is.
            assert len(left) == len(before) - cured
        assert not any(one["fixable"] for one in left) or not more
        before = left


# ---------------------------------------------------------------- what is never done


def on_release(release: str, flag: str) -> str:
    return f"docker run lmsysorg/sglang:v{release} {HEAD} {flag}\n"


def test_what_the_release_of_the_file_has_is_never_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each former flag and value on the releases that had it, as their own parsers say."""
    asked = []
    for entry in HISTORY["flags"]:
        text = entry["name"] + ("" if entry.get("values") is False else " 4")
        asked += [(entry, text)]
    asked += [
        (entry, f"{flag} {entry['value']}")
        for entry in HISTORY["values"]
        for flag in entry["flags"]
    ]
    lines = [
        on_release(release, text)
        for entry, text in asked
        for release in sorted({entry["first_seen"], entry["last_seen"]})
    ]
    lines.append(on_release("0.5.10", "--attention-backend nsa"))  # long before it had another name
    assert len(lines) > 150
    path = tmp_path / "a.sh"
    path.write_text("".join(lines))
    run(capsys, path, "--fix", "--unsafe-fixes", "--select", "ATT105,ATT106")
    assert path.read_text() == "".join(lines)


def test_what_the_release_of_the_file_has_lost_is_for_unsafe_fixes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sh"
    text = on_release("0.5.21", "--nsa-decode-backend flashmla_kv")
    path.write_text(text)
    run(capsys, path, "--fix")
    assert path.read_text() == text
    run(capsys, path, "--fix", "--unsafe-fixes")
    assert path.read_text() == text.replace("--nsa-", "--dsa-")


@pytest.mark.parametrize("gpu", ["h200", "a100", "b200"])
def test_a_value_is_written_where_the_machine_takes_it(
    gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SGLang 0.5.22 refuses `trtllm_mla` on anything but Blackwell."""
    path = tmp_path / "a.sh"
    text = f"# attn-lint: gpu={gpu}\n{SERVE} {LATENT} --tp 8 --attention-backend cutlass_mla\n"
    path.write_text(text)
    run(capsys, path, "--fix", "--unsafe-fixes")
    wanted = text.replace("cutlass_mla", "trtllm_mla") if gpu == "b200" else text
    assert path.read_text() == wanted


RANKS = {"starts": 0, "unchecked": 0, "depends": 1, "refuses": 2}


@pytest.mark.parametrize("gpu", ["h200", "b200", "mi300x", None])
@pytest.mark.parametrize("model", [SPARSE, LATENT, DENSE])
def test_no_launch_gets_worse(gpu: str | None, model: str) -> None:
    """Every former value, written anew: judged again, nothing grave is there that was not."""
    runner = Runner(Options(gpu=gpu), Config())
    texts = [f"{flag} {one['value']}" for one in HISTORY["values"] for flag in one["flags"]]
    texts += [f"--page-size {size}" for size in (1, 16, 24, 128)]
    texts += ["--enable-hisparse", "--language-only", "--speculative-algorithm EAGLE"]
    for text in texts:
        report = runner.check_text("a.sh", f"{SERVE} {model} --tp 8 {text}\n")
        _, after = Fixer(runner.check_text, unsafe=True).fixed(report)
        assert RANKS[after.startups[0][0]] <= RANKS[report.startups[0][0]], text
        errors = [
            {one.finding.message for one in each.located
             if one.finding.severity == "error" and one.finding.certain}
            for each in (report, after)
        ]  # fmt: skip
        assert errors[1] <= errors[0], text
