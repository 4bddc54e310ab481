"""Configuration by folder and by path, comments in files, and what is refused of either."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.discover import matches
from attn_lint.lintcfg.check.judged import Judged
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.judge import Judge, Launch
from attn_lint.matrix.loader import load

LAUNCH = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --attention-backend fa3\n"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guarded(dispatch, ["check", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, set[str]]:
    code, out, err = run(capsys, "--output-format", "json", *arguments)
    assert code in (0, 1), err
    told: dict[str, set[str]] = {}
    for one in json.loads(out):
        if one["certain"]:
            told.setdefault(Path(one["path"]).name, set()).add(one["code"])
    return told


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# --------------------------------------------------------------- the nearest file


def test_each_file_has_the_nearest_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "attn-lint.toml", 'gpu = "h100"\n')
    write(tmp_path / "new" / "pyproject.toml", '[tool.attn-lint]\ngpu = "b200"\n')
    write(tmp_path / "new" / "deep" / "in.sh", LAUNCH)
    write(tmp_path / "out.sh", LAUNCH)
    first = found(capsys, str(tmp_path / "out.sh"), str(tmp_path / "new" / "deep" / "in.sh"))
    second = found(capsys, str(tmp_path / "new" / "deep" / "in.sh"), str(tmp_path / "out.sh"))
    assert first == second == found(capsys, str(tmp_path))
    assert "ATT201" in first["in.sh"] and "ATT201" not in first.get("out.sh", set())


def test_isolation_reads_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path / "attn-lint.toml", 'nonsense = 1\ngpu = "b200"\n')
    path = write(tmp_path / "a.sh", LAUNCH)
    assert run(capsys, str(path))[0] == 2
    assert run(capsys, "--isolated", str(path))[0] == 0


def test_standard_input_has_the_configuration_of_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a" / "attn-lint.toml", 'gpu = "b200"\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LAUNCH.encode())))
    code, out, _ = run(capsys, "-", "--stdin-filename", str(tmp_path / "a" / "x.sh"))
    assert code == 1 and "gpu b200 (configuration)" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selct = []\n", "did you mean 'select'"),
        ('select = ["XYZ1"]\n', "no code or name starts with 'XYZ1'"),
        ('ignore = ["ATT999"]\n', "ATT999"),
        ('gpu = "h1000"\n', "unknown GPU"),
        ('cuda = "twelve"\n', "cuda"),
        ('sglang = "newest"\n', "takes a release"),
        ('fail-on = "never"\n', "error, warning, info"),
        ('[per-path."a/*"]\ngpus = "h100"\n', "did you mean 'gpu'"),
        ('[per-path."a/*"]\ngpu = "h1000"\n', "unknown GPU"),
        ('[per-path."a/*"]\nignore = ["nothing"]\n', "nothing"),
        ('severity = {ATT201 = "fatal"}\n', "severity"),
        ("gpu = 1\n", "takes a string"),
        ("gpu = [\n", "attn-lint.toml"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    write(tmp_path / "attn-lint.toml", text)
    code, out, err = run(capsys, str(write(tmp_path / "a.sh", LAUNCH)))
    assert (code, out) == (2, "")
    assert "attn-lint.toml" in err and said in err


#: Entries that are right: as a table, as one whose reason shows a table, and as a value.
GOOD = '[[docs.accept]]\ncode = "a"\nreason = "x"\n'
TALKING = '[[docs.accept]]\ncode = "a"\nreason = """\n[[docs.accept]]\ncode = "a"\n"""\n'
INLINE = '{code = "a", reason = "x"}'
#: Files, what they hold, and the line and the words of what is wrong with them.
WRONG = [
    ("pyproject.toml", "tool = 5\n", "1: tool is not a table but 5"),
    ("pyproject.toml", '[tool]\nattn-lint = "x"\n', "2: [tool.attn-lint] is not a table but 'x'"),
    ("pyproject.toml", "[tool]\nattn-lint = []\n", "2: [tool.attn-lint] is not a table but a list"),
    ("pyproject.toml", '[[tool.attn-lint]]\ngpu = "h100"\n', "1: [tool.attn-lint] is not a table"),
    ("pyproject.toml", "\ntool.attn-lint.gpu = 5\n", "2: gpu takes a string, not 5"),
    ("pyproject.toml", "tool = {attn-lint = {gpu = 5}}\n", "1: gpu takes a string, not 5"),
    ("pyproject.toml", "[tool.'attn-lint']\ngpu = 5\n", "2: gpu takes a string, not 5"),
    ("pyproject.toml", '[tool.attn_lint]\ngpu = "h100"\n', "1: [tool.attn_lint] is called"),
    ("pyproject.toml", "[tool.other]\ngpu = 1\n[tool.attn-lint]\ngpu = 1\n", "4: gpu takes a"),
    ("pyproject.toml", '[tool.attn-lint]\ngpu = "h100\n', "2:12: "),
    ("attn-lint.toml", '[tool.attn-lint]\ngpu = "h100"\n', "1: the keys stand by themselves here"),
    ("attn-lint.toml", 'gpu = "h100"\ngpu = "h200"\n', "2:13: "),
    ("attn-lint.toml", 'gpu = ""\n', "1: gpu is empty"),
    ("attn-lint.toml", '\n\ngpu = "h1000"\n', "3: unknown GPU 'h1000'"),
    ("attn-lint.toml", 'select = [\n""]\n', "1: select takes a list of strings, not an empty one"),
    ("attn-lint.toml", 'gpu = "h100"\nexclude = [5]\n', "2: exclude takes a list of strings"),
    ("attn-lint.toml", "[severity]\nATT305 = 5\n", "2: severity of ATT305 is one of error"),
    ("attn-lint.toml", "severity = 5\n", "1: severity maps codes to error, warning, info; it is 5"),
    ("attn-lint.toml", "require-reason = 'yes'\n", "1: require-reason takes true or false"),
    ("attn-lint.toml", '[per-path."a/*"]\ngup = 1\n', "2: unknown key 'gup' in per-path.a/*"),
    ("attn-lint.toml", 'gpu = "h100"\n[per-path."a/*"]\ngpu = "x"\n', "3: unknown GPU 'x'"),
    ("attn-lint.toml", '[[docs.accept]]\ncode = "DOC101"\n', "1: docs.accept 1: reason is missing"),
    ("attn-lint.toml", f'{GOOD}{GOOD}[[docs.accept]]\nreason = "x"\n',
     "7: docs.accept 3: code is missing"),
    ("attn-lint.toml", f"{GOOD}{GOOD}[[docs.accept]]\n# page\npage = 3\n",
     "9: docs.accept 3: page takes a string, not 3"),
    ("attn-lint.toml", f'{GOOD}[[ docs . "accept" ]]\ncode = "a"\n{GOOD}',
     "4: docs.accept 2: reason is missing"),
    ("attn-lint.toml", f'{GOOD}{GOOD}\n[[docs.accept]]\ncode = "a"\npages = "x"\n',
     "10: unknown key 'pages' in docs.accept; did you mean 'page'?"),
    ("attn-lint.toml", f'{GOOD}[[docs.accept]]\ncode = "a"\nreason = """\n\n"""\n{GOOD}',
     "6: docs.accept 2: reason is empty"),
    ("attn-lint.toml", f'{TALKING}[[docs.accept]]\ncode = "a"\n', "7: docs.accept 2: reason is"),
    ("attn-lint.toml", f'docs.accept = [\n{INLINE},\n\n{INLINE},\n{{code = "a"}},\n]\n',
     "5: docs.accept 3: reason is missing"),
    ("attn-lint.toml", f'docs = {{accept = [{INLINE},\n{INLINE}, {{code = 3}}]}}\n',
     "2: docs.accept 3: code takes a string, not 3"),
    ("pyproject.toml", '[[tool.attn-lint.docs.accept]]\ncode = "a"\nreason = "x"\n\n'
     '[[tool.attn-lint.docs.accept]]\ncode = "a"\n', "5: docs.accept 2: reason is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said"), WRONG)
def test_what_is_wrong_with_a_configuration_is_told_by_every_command(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name, text)
    launch = ["--model-path", "Qwen/Qwen3-8B"]
    for command in (["check", str(write(tmp_path / "a.sh", LAUNCH))], launch,
                    ["resolve", *launch], ["exec", "--", "true"],
                    ["--lint-config", name, *launch]):  # fmt: skip
        assert guarded(dispatch, command) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"{name}:{said}" in err


@pytest.mark.parametrize(
    "text",
    ['[project]\ndependencies = ["attn-lint"]\n', "[tool.other]\nx = 1\n", "[project\nattn-lint",
     "\xff"],
)  # fmt: skip
def test_a_shared_file_without_our_table_is_passed_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    (tmp_path / "below" / "pyproject.toml").write_bytes(text.encode("latin-1"))
    write(tmp_path / "attn-lint.toml", 'gpu = "h200"\n')
    guarded(dispatch, ["--model-path", "Qwen/Qwen3-8B", "--output-format", "json"])
    assert json.loads(capsys.readouterr().out)["gpu"] == "h200"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--select", "BOGUS"], "no code or name"),
        (["--ignore", "ATT99"], "no code or name"),
        (["--gpu", "h1000"], "unknown GPU"),
        (["--cuda", "x"], "--cuda takes"),
        (["--sglang", "banana"], "--sglang takes"),
        (["--unsafe-fixes"], "--fix or --diff"),
        (["--output-format", "xml"], "takes text"),
    ],
)
def test_an_option_that_would_say_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], said: str
) -> None:
    path = write(tmp_path / "a.sh", LAUNCH)
    code, out, err = run(capsys, "--isolated", *options, str(path))
    assert (code, out) == (2, "")
    assert said in err


def test_severities_by_prefix_and_threshold_by_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.sh", f"# attn-lint: gpu=b200\n{LAUNCH}")
    write(tmp_path / "attn-lint.toml", 'severity = {ATT2 = "info"}\n')
    code, out, _ = run(capsys, str(path))
    assert code == 0 and "info[ATT201]" in out
    write(tmp_path / "attn-lint.toml", 'severity = {ATT2 = "warning"}\nfail-on = "error"\n')
    assert run(capsys, str(path))[0] == 0
    assert run(capsys, "--fail-on", "warning", str(path))[0] == 1


def test_what_the_file_says_comes_before_its_path_and_that_before_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "attn-lint.toml", '[per-path."p/*"]\ngpu = "a100"\nsglang = "0.5.21"\n')
    write(tmp_path / "p" / "said.sh", f"# attn-lint: gpu=b200\n{LAUNCH}")
    write(tmp_path / "p" / "path.sh", LAUNCH)
    write(tmp_path / "given.sh", LAUNCH)
    _, out, err = run(
        capsys, "--gpu", "h100", "--output-format", "json", "--verbose", str(tmp_path)
    )
    told = {(Path(one["path"]).name, one["basis"]) for one in json.loads(out)}
    assert {basis.split(",")[0] for name, basis in told if name == "said.sh"} == {
        "gpu b200 (comment)"
    }
    assert all("judged by 0.5.22" in basis for name, basis in told if name == "said.sh")
    # Said once, however many launches name it.
    assert err.count("0.5.21 is not in the matrix") == 1


def test_excluded_files_are_left_out_where_they_are_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "attn-lint.toml", 'exclude = ["vendor", "**/old/*.sh"]\ngpu = "b200"\n')
    for name in ("vendor/a.sh", "x/old/b.sh", "x/c.sh", "x/older.sh"):
        write(tmp_path / name, LAUNCH)
    assert set(found(capsys, str(tmp_path))) == {"c.sh", "older.sh"}
    vendored = str(tmp_path / "vendor" / "a.sh")
    assert set(found(capsys, vendored)) == {"a.sh"}
    assert run(capsys, "--force-exclude", "--allow-empty", vendored)[0] == 0
    assert set(found(capsys, "--exclude", "c.sh", str(tmp_path))) == {"older.sh"}


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("deploy/a.sh", "deploy", True),
        ("deploy/a.sh", "deploy/", True),
        ("deploy/a.sh", "./deploy/*.sh", True),
        ("deploy/b/a.sh", "deploy/*.sh", False),
        ("deploy/b/a.sh", "deploy/**", True),
        ("deploy/b/a.sh", "deploy/**/a.sh", True),
        ("deploy/a.sh", "deploy/**/a.sh", True),
        ("deploy/xa.sh", "deploy/**/a.sh", False),
        ("x/y/a.sh", "a.sh", True),
        ("x/ya.sh", "a.sh", False),
        ("redeploy/a.sh", "deploy", False),
        ("a[1].sh", "a[[]1].sh", True),
        ("a1.sh", "a[!2].sh", True),
        ("a.sh", "[", False),
        ("a\nb.sh", "*.sh", True),
    ],
)
def test_patterns(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, pattern) is fits


# ------------------------------------------------------------------ comments


def told(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, name: str = "a.sh",
         *options: str) -> list[tuple[str, str]]:  # fmt: skip
    path = write(tmp_path / name, text)
    _, out, _ = run(
        capsys, "--isolated", "--gpu", "b200", "--output-format", "json", *options, str(path)
    )
    return [(one["code"], one["message"]) for one in json.loads(out) if one["certain"]]


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("ignore[ATT201]", []),
        ("ignore[unsupported-gpu] -- tried it", []),
        ("ignore[att2]", []),
        ("ignore", []),
        ("ignore[ATT201, ATT302]", [("ATT903", "[ATT302]")]),
        ("ignore[ATT302]", [("ATT201", ""), ("ATT903", "[ATT302]")]),
        ("ignore[ATT999]", [("ATT201", ""), ("ATT903", "no code ATT999")]),
        ("ignore[]", [("ATT201", ""), ("ATT904", "no code")]),
        ("ignroe[ATT201]", [("ATT201", ""), ("ATT904", "did you mean 'ignore'")]),
        ("gpus=b200", [("ATT201", ""), ("ATT904", "did you mean 'gpu'")]),
        ("gpu=b2000", [("ATT904", "unknown GPU")]),
        ("sglang=newest", [("ATT904", "no release"), ("ATT201", "")]),
        ("gpu=b200 -- as in rack 4", [("ATT201", "")]),
        ("file-ignore[ATT201] -- all of it", []),
    ],
)
def test_comments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, comment: str, left: list[tuple[str, str]]
) -> None:
    got = told(capsys, tmp_path, f"# attn-lint: {comment}\n{LAUNCH}")
    for code, part in left:
        assert any(one[0] == code and part in one[1] for one in got), got
    assert {code for code, _ in got} == {code for code, _ in left}


@pytest.mark.parametrize(
    "text",
    [
        "Write `# attn-lint: ignore[ATT201]` on the line.\n\n# attn-lint: heading\n",
        "{/* attn-lint: table mha */}\n",
    ],
)
def test_a_page_that_speaks_of_comments_has_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    assert told(capsys, tmp_path, text, "page.md") == []


def test_comments_of_a_page_stand_in_its_blocks_or_in_markup(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    block = f"```bash\n{{}}{LAUNCH}```\n"
    assert told(capsys, tmp_path, block.format(""), "page.md")
    comment = "# attn-lint: ignore[ATT201]\n"
    assert told(capsys, tmp_path, block.format(comment), "page.md") == []
    marked = f"<!-- attn-lint: ignore[ATT201] -- known -->\n{block.format('')}"
    assert told(capsys, tmp_path, marked, "page.md") == []


MULTI = (
    "sglang serve --model-path Qwen/Qwen3-8B \\\n  --attention-backend trtllm_mha \\\n  --port 1"
)


@pytest.mark.parametrize(
    ("name", "text", "asked"),
    [
        ("a.sh", MULTI, True),
        ("a.sh", f"# graphs stall with the default\n{MULTI}", False),
        ("a.sh", f"# graphs stall with the default\n# shellcheck disable=SC1\n{MULTI}", False),
        ("a.sh", f"#!/bin/bash\n{MULTI}", True),
        ("a.sh", f"# shellcheck disable=SC1\n{MULTI}", True),
        ("a.sh", f"# attn-lint: gpu=b200\n{MULTI}", True),
        ("a.sh", f"{MULTI}  # graphs stall", False),
        ("a.sh", f"# why\n\n{MULTI}", True),
        ("a.sh", f"{MULTI} #", True),
        ("a.json", json.dumps({"command": MULTI.replace("\\\n", "")}), False),
    ],
)
def test_a_reason_may_stand_where_a_comment_can(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, asked: bool
) -> None:
    codes = {code for code, _ in told(capsys, tmp_path, text + "\n", name, "--require-reason")}
    assert ("ATT405" in codes) is asked


# ------------------------------------------------------------------- judgements


def test_launches_that_differ_in_nothing_asked_for_are_judged_once() -> None:
    judge = Judge(load())
    calls: list[Launch] = []
    ask = judge.judge

    def counted(launch: Launch) -> object:
        calls.append(launch)
        return ask(launch)

    judge.judge = counted  # type: ignore[assignment, method-assign]
    judged = Judged(judge)

    def of(*more: str) -> list[str]:
        argv = ("--model-path", "Qwen/Qwen3-8B", "--attention-backend", "fa3", *more)
        return [one.message for one in judged(Launch(argv, gpu="b200")).findings]

    assert of("--port", "1") == of("--port", "2") == of("--port", "30000")
    assert len(calls) == 1
    # A value that a rule asks for, one that is no number, and one of another flag are told apart.
    for more in (["--page-size", "16"], ["--page-size", "128"], ["--port", "x"], ["--port=1"]):
        argv = ("--model-path", "Qwen/Qwen3-8B", "--attention-backend", "fa3", *more)
        fresh = Judge(load()).judge(Launch(argv, gpu="b200"))
        assert of(*more) == [one.message for one in fresh.findings]


def test_many_files_are_told_of_in_order_whoever_looked_at_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attn_lint.lintcfg.check import parallel

    for number in range(120):
        backend = "fa3" if number % 3 else "trtllm_mha"
        write(tmp_path / f"{number:03}.sh", LAUNCH.replace("fa3", backend) if number % 2 else "#\n")
    write(tmp_path / "old.sh", f"docker run lmsysorg/sglang:v0.4.0 {LAUNCH}")
    arguments = ["--isolated", "--gpu", "b200", "--output-format", "json", str(tmp_path)]
    alone = run(capsys, *arguments)
    monkeypatch.setattr(parallel, "_WORTHWHILE", 10)
    monkeypatch.setattr(parallel, "_processors", lambda: 3)
    shared = run(capsys, *arguments)
    assert shared == alone
    assert len(json.loads(alone[1])) >= 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_problem_of_the_configuration_in_a_far_folder_ends_a_shared_run_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attn_lint.lintcfg.check import parallel

    for number in range(40):
        write(tmp_path / f"{number}.sh", LAUNCH)
    write(tmp_path / "z" / "attn-lint.toml", "bogus = 1\n")
    write(tmp_path / "z" / "a.sh", LAUNCH)
    monkeypatch.setattr(parallel, "_WORTHWHILE", 10)
    monkeypatch.setattr(parallel, "_processors", lambda: 2)
    code, _, err = run(capsys, str(tmp_path))
    assert code == 2 and "bogus" in err
