"""`attn-lint check`: places, reports, suppressions, exit codes, fixes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from attn_lint.lintcfg.cli import dispatch, guarded

BAD = """\
#!/bin/bash
# attn-lint: gpu=b200
python3 -m sglang.launch_server \\
  --model-path meta-llama/Llama-3.1-8B-Instruct \\
  --attention-backend "fa3" # not on this card
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guarded(dispatch, list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "serve.sh"
    path.write_text(BAD, encoding="utf-8")
    return path


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    code, out, err = run(capsys, "check", "--output-format", "json", *arguments)
    assert code in (0, 1), err
    return [one for one in json.loads(out) if one["certain"]]


def test_a_finding_points_at_the_argument(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    code, out, _ = run(capsys, "check", "--isolated", str(script))
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"{script.as_posix()}:5:3: error[")
    assert lines[2] == '  5 |   --attention-backend "fa3" # not on this card'
    assert lines[3] == "    |   " + "^" * 24
    assert any("gpu b200 (comment)" in line for line in lines)


def test_a_clean_file_gives_zero(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "ok.sh"
    path.write_text(BAD.replace("fa3", "trtllm_mha"), encoding="utf-8")
    code, out, _ = run(capsys, "check", "--isolated", str(path))
    assert code == 0, out


def test_a_mistyped_path_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "no/such/file.sh")
    assert (code, out) == (2, "")
    assert "no such file" in err


def test_a_mistyped_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "check", "--output-fromat", "json", ".")
    assert code == 2
    assert "did you mean --output-format" in err


def test_an_unknown_gpu_is_a_usage_error(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    assert run(capsys, "check", "--gpu", "h1000", str(script))[0] == 2


def test_standard_input_has_the_name_that_is_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    found = findings(capsys, "--isolated", "-", "--stdin-filename", "deploy/x.sh")
    assert {one["path"] for one in found} == {"deploy/x.sh"}


def test_what_the_file_says_outweighs_the_command_line(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    assert findings(capsys, "--isolated", "--gpu", "h100", str(script))
    script.write_text(BAD.replace("# attn-lint: gpu=b200\n", ""), encoding="utf-8")
    assert not [
        one
        for one in findings(capsys, "--isolated", "--gpu", "h100", str(script))
        if one["severity"] == "error"
    ]


@pytest.mark.parametrize(
    "comment", ["# attn-lint: ignore[ATT2] -- measured", "# attn-lint: ignore"]
)
def test_a_comment_above_the_launch_silences_it(
    capsys: pytest.CaptureFixture[str], script: Path, comment: str
) -> None:
    script.write_text(BAD.replace("python3", f"{comment}\npython3"), encoding="utf-8")
    assert findings(capsys, "--isolated", str(script)) == []


def test_a_comment_on_the_line_silences_that_line(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    text = BAD.replace("# not on this card", "# attn-lint: ignore[ATT201] -- known")
    script.write_text(text, encoding="utf-8")
    assert findings(capsys, "--isolated", str(script)) == []


def test_a_comment_that_silences_nothing_is_reported(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    text = BAD.replace("fa3", "trtllm_mha").replace(
        "# not on this card", "# attn-lint: ignore[ATT201]"
    )
    script.write_text(text, encoding="utf-8")
    (one,) = findings(capsys, "--isolated", str(script))
    assert (one["code"], one["span"]["line"]) == ("ATT903", 5)  # type: ignore[index]


def test_configuration_by_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "attn-lint.toml").write_text(
        '[per-path."blackwell/**"]\ngpu = "b200"\n[per-path."hopper/*"]\ngpu = "h100"\n',
        encoding="utf-8",
    )
    for name in ("blackwell", "hopper"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.sh").write_text(
            BAD.replace("# attn-lint: gpu=b200\n", ""), encoding="utf-8"
        )
    found = findings(capsys, str(tmp_path))
    errors = {Path(str(one["path"])).parent.name for one in found if one["severity"] == "error"}
    assert errors == {"blackwell"}


def test_an_unknown_key_of_the_configuration_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: Path
) -> None:
    (tmp_path / "attn-lint.toml").write_text("per-pth = {}\n", encoding="utf-8")
    code, _, err = run(capsys, "check", str(script))
    assert code == 2
    assert "did you mean 'per-path'" in err


def test_a_reason_is_asked_for_where_that_is_wanted(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    text = BAD.replace("fa3", "trtllm_mha")
    script.write_text(text.replace(" # not on this card", ""), encoding="utf-8")
    assert not findings(capsys, "--isolated", str(script))
    (one,) = findings(capsys, "--isolated", "--require-reason", str(script))
    assert one["code"] == "ATT405"
    script.write_text(text, encoding="utf-8")
    assert not findings(capsys, "--isolated", "--require-reason", str(script))


# ------------------------------------------------------------------------ reports


def test_github_annotations(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    _, out, _ = run(capsys, "check", "--isolated", "--output-format", "github", str(script))
    assert out.startswith("::error title=attn-lint (ATT")
    assert ",line=5,col=3,endLine=5,endColumn=27::" in out


def test_gitlab_fingerprints_survive_a_move(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    def marks() -> list[str]:
        _, out, _ = run(capsys, "check", "--isolated", "--output-format", "gitlab", str(script))
        return [one["fingerprint"] for one in json.loads(out)]

    before = marks()
    script.write_text(BAD.replace("python3", "\n\n\npython3"), encoding="utf-8")
    assert before == marks() != []


def test_sarif_has_what_its_schema_asks_for(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    _, out, _ = run(capsys, "check", "--isolated", "--output-format", "sarif", str(script))
    document = json.loads(out)
    assert document["version"] == "2.1.0"
    (job,) = document["runs"]
    rules = job["tool"]["driver"]["rules"]
    for result in job["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] == 5 and region["endColumn"] > region["startColumn"]


def test_junit_is_xml_that_counts_its_failures(
    capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    _, out, _ = run(capsys, "check", "--isolated", "--output-format", "junit", str(script))
    root = ElementTree.fromstring(out)
    assert int(root.get("failures", "0")) == len(root.findall(".//failure")) > 0


#: In each format: what an error looks like, and how often where nothing is an error for sure.
ERRORS = {"github": "::error ", "gitlab": '"major"', "sarif": '"level": "error",\n     ',
          "junit": "<failure"}  # fmt: skip


@pytest.mark.parametrize("name", [*ERRORS, "concise"])
def test_what_hangs_on_the_machine_is_no_error_and_says_on_which(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.sh"
    path.write_text(
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --attention-backend fa3\n",
        encoding="utf-8",
    )
    words = ["check", "--isolated", "--verbose", "--output-format", name, str(path)]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert re.search(r"\bon (?:\w[\w-]*, )*b200\b", out)
    assert ERRORS.get(name, "none") not in out
    path.write_text("# attn-lint: gpu=b200\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    code, out, _ = run(capsys, *words)
    assert code == 1
    assert "on b200" not in out
    assert ERRORS.get(name, "error") in out


@pytest.mark.parametrize(
    ("flags", "sums_up"),
    [("", r"nothing sure, \d+ perhaps"), ("--page-sise 1", r"1 error, \d+ perhaps")],
)
def test_what_is_not_sure_is_marked_and_counted_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flags: str, sums_up: str
) -> None:
    path = tmp_path / "a.sh"
    launch = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --attention-backend fa3"
    path.write_text(f"{launch} {flags}\n", encoding="utf-8")
    _, out, _ = run(capsys, "check", "--isolated", "--verbose", str(path))
    heads = re.findall(r"^\S+: (perhaps )?(\w+)\[", out, re.MULTILINE)
    assert len([head for head in heads if not head[0]]) == (1 if flags else 0)
    summed = out.splitlines()[-1]
    assert re.search(sums_up, summed)
    assert f"{sum(bool(perhaps) for perhaps, _ in heads)} perhaps" in summed


@pytest.mark.parametrize("name", ["json", "gitlab", "sarif", "junit"])
def test_a_machine_format_is_a_document_also_when_empty(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.sh").write_text("echo\n", encoding="utf-8")
    code, out, _ = run(capsys, "check", "--isolated", "--output-format", name, str(tmp_path))
    assert code == 0
    ElementTree.fromstring(out) if name == "junit" else json.loads(out)


def test_a_report_goes_to_a_file(
    capsys: pytest.CaptureFixture[str], script: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    code, out, _ = run(
        capsys, "check", "--isolated", "--output-format", "json", "--output-file", str(target),
        str(script),
    )  # fmt: skip
    assert (code, out) == (1, "")
    assert json.loads(target.read_text(encoding="utf-8"))


# -------------------------------------------------------------------------- files


def test_git_decides_which_files_there_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored/\n", encoding="utf-8")
    for name in ("ignored", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.sh").write_text(BAD, encoding="utf-8")
    found = findings(capsys, "--isolated", str(tmp_path))
    assert {Path(str(one["path"])).parent.name for one in found} == {"kept"}


@pytest.mark.parametrize("git", [True, False])
def test_installed_packages_are_nobodys_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, git: bool
) -> None:
    if git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    inside = tmp_path / "v" / "lib" / "python3.11" / "site-packages" / "x"
    inside.mkdir(parents=True)
    for folder in (inside, tmp_path):
        (folder / "a.sh").write_text(BAD, encoding="utf-8")
    found = findings(capsys, "--isolated", str(tmp_path))
    assert {Path(str(one["path"])).parent for one in found} == {tmp_path}


def test_without_git_the_ignore_file_still_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / ".gitignore").write_text("*.tmp.sh\nbuild/\n!keep.tmp.sh\n", encoding="utf-8")
    (tmp_path / "build").mkdir()
    for name in ("a.sh", "b.tmp.sh", "keep.tmp.sh", "build/c.sh"):
        (tmp_path / name).write_text(BAD, encoding="utf-8")
    found = findings(capsys, "--isolated", str(tmp_path))
    assert {Path(str(one["path"])).name for one in found} == {"a.sh", "keep.tmp.sh"}


# -------------------------------------------------------------------------- fixes

OLD = """\
#!/bin/bash
# attn-lint: gpu=h100
python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3.2 --tp 8 \\
  --nsa-decode-backend 'flashmla_kv'   --nsa-prefill-backend=flashmla_sparse  # keep me
"""


def test_a_rename_touches_only_its_span(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_bytes(OLD.replace("\n", "\r\n").encode())
    path.chmod(0o750)
    run(capsys, "check", "--isolated", "--fix", str(path))
    assert path.read_bytes().decode() == OLD.replace("--nsa-", "--dsa-").replace("\n", "\r\n")
    assert path.stat().st_mode & 0o777 == 0o750
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.sh"]
    again = path.read_bytes()
    run(capsys, "check", "--isolated", "--fix", str(path))
    assert path.read_bytes() == again
    assert not [one for one in findings(capsys, "--isolated", str(path)) if one["code"] == "ATT105"]


def test_a_page_size_becomes_what_sglang_would_make_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    text = (
        "# attn-lint: gpu=h100\nmodel-path: deepseek-ai/DeepSeek-V3.2\ntp-size: 8\n"
        "page-size: 16  # why\n"
    )
    path.write_text(text, encoding="utf-8")
    run(capsys, "check", "--isolated", "--fix", str(path))
    assert path.read_text(encoding="utf-8") == text.replace("16", "64")


def test_a_diff_shows_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.sh"
    path.write_text(OLD, encoding="utf-8")
    code, out, _ = run(capsys, "check", "--isolated", "--diff", str(path))
    assert code == 1
    assert "+  --dsa-decode-backend 'flashmla_kv'" in out
    assert path.read_text(encoding="utf-8") == OLD


def test_a_comment_about_the_machine_speaks_for_what_follows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.sh"
    launch = BAD.split("b200\n", 1)[1]
    path.write_text(
        f"# attn-lint: gpu=h100\n{launch}\n# attn-lint: gpu=b200\n{launch}", encoding="utf-8"
    )
    errors = [
        one for one in findings(capsys, "--isolated", str(path)) if one["severity"] == "error"
    ]
    assert {one["span"]["line"] for one in errors} == {9}  # type: ignore[index]


def test_checking_a_file_imports_nothing_heavy(script: Path) -> None:
    import sys

    code = (
        "import sys\nfrom attn_lint.lintcfg.cli import dispatch\n"
        f"dispatch(['check', '--isolated', {str(script)!r}])\n"
        "names = {'torch', 'libcst', 'pydantic', 'rich', 'typer'}\n"
        "heavy = names & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("position", ["${a[%s]}", "${%s}", "${%s:-16}"])
def test_a_position_of_thousands_of_digits_hides_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, position: str
) -> None:
    path = tmp_path / "long.sh"
    first = f"a=(1 2)\nset -- 1 2\necho {position % ('9' * 5000)}\n"
    launch = "python3 -m sglang.launch_server --model-path m/x --page-size "
    path.write_text(f"{first}{launch}{position % ('9' * 5000)}\n{BAD}", encoding="utf-8")
    code, out, err = run(capsys, "check", "--isolated", "--output-format=concise", str(path))
    assert code == 1, err
    assert "fa3" in out


def test_a_fix_adds_no_flag_that_is_typed_already(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """--enable-flashinfer-mla stood for a backend; the one that is typed stays the last word."""
    path = tmp_path / "serve.sh"
    typed = "--attention-backend fa3 --enable-flashinfer-mla"
    path.write_text(f"python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B {typed}\n")
    for more in ((), ("--unsafe-fixes",)):
        run(capsys, "check", "--isolated", "--gpu", "h100", "--fix", *more, str(path))
        assert path.read_text().endswith(f"{typed}\n")


def words_in(capsys: pytest.CaptureFixture[str], path: Path) -> list[list[str]]:
    """The arguments of each launch of a file."""
    _, out, _ = run(capsys, "launches", "--isolated", "--output-format", "json", str(path))
    return [one["argv"] for one in json.loads(out)]


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("name", ["a.md", "a.rst", "a.service", "justfile", "a.env", "a.ipynb"])
def test_what_only_python_calls_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, odd: str, name: str
) -> None:
    """CommonMark, systemd and the others end lines at line feeds and carriage returns alone."""
    launch = f"sglang serve --model-path a/b --served-model-name 'x{odd}y' --page-size 24"
    text = {
        "a.md": f"a{odd}b\n```bash\n# {odd}\n{launch}\n```\n",
        "a.rst": f"a{odd}b\n\n.. code-block:: bash\n\n   # {odd}\n   {launch}\n",
        "a.service": f"[Service]\n# {odd}\nExecStart=/bin/{launch}\n",
        "justfile": f"# {odd}\nserve:\n    {launch}\n",
        "a.env": f"# {odd}\nSGLANG_CMD={launch}\n",
        "a.ipynb": json.dumps(
            {"cells": [{"cell_type": "code", "source": [f"# {odd}\n", f"!{launch}\n"]}]}
        ),
    }[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    (argv,) = words_in(capsys, path)
    assert argv == ["--model-path", "a/b", "--served-model-name", f"x{odd}y", "--page-size", "24"]


def test_empty_lines_in_a_continued_instruction(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Docker drops them, with a warning, and goes on."""
    path = tmp_path / "Dockerfile"
    path.write_text(
        "FROM lmsysorg/sglang\nENTRYPOINT python3 -m sglang.launch_server --model-path a/b \\\n\n"
        "  # why\n \n  --attention-backend fa3 \\\n  --page-size 24\n\nRUN echo done\n"
    )
    (argv,) = words_in(capsys, path)
    assert argv[-4:] == ["--attention-backend", "fa3", "--page-size", "24"]


@pytest.mark.parametrize("ending", ["", " ", " \t "])
def test_blanks_behind_the_backslash_of_an_instruction(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str
) -> None:
    """Docker continues such a line all the same (its parser's `\\\\[ \\t]*$`)."""
    path = tmp_path / "Dockerfile"
    path.write_text(
        "FROM lmsysorg/sglang\nONBUILD ENTRYPOINT python3 -m sglang.launch_server --model-path a/b "
        f"\\{ending}\n  --attention-backend fa3 \\{ending}\n  --page-size 24\n"
    )
    (argv,) = words_in(capsys, path)
    assert argv[-4:] == ["--attention-backend", "fa3", "--page-size", "24"]


def test_a_value_of_several_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A shell that reads the file takes a quoted value on to its closing quote."""
    path = tmp_path / "a.env"
    path.write_text(
        'SGLANG_ARGS="--model-path a/b\n  --tp 2\n--page-size 16"\nNEXT=1\n'
        "SGLANG_OTHER_ARGS='--tp 4 --page-size 64'\n"
    )
    for name, argv in zip(
        ("SGLANG_ARGS", "SGLANG_OTHER_ARGS"), words_in(capsys, path), strict=True
    ):
        script = f'. ./a.env; printf "%s\\n" ${name}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert argv == done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "cell",
    ["!{}", "!{} ?", "!!{}", "out = !{}", "a, b = !{}", "%sx {}", "%system {}", "x = %sx {}",
     "%time !{}", "%%capture\n!{}", "if True:\n    !{}", "%%bash\n{}", "%%bash --bg\n{}",
     "%%script --bg bash -e\n{}", "%%writefile run.sh\n{}", "%%file -a run.sh\n{}",
     "%%writefile run.py\nimport os\nos.system('{}')", "get_ipython().system('{}')"],
)  # fmt: skip
def test_how_a_notebook_runs_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, cell: str
) -> None:
    """The ways that IPython documents under "System shell access" and "Built-in magic commands"."""
    source = cell.format("sglang serve --model-path a/b --tp 2").splitlines(keepends=True)
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))
    (argv,) = words_in(capsys, path)
    assert argv[:4] == ["--model-path", "a/b", "--tp", "2"]


def test_a_recipe_in_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "justfile"
    path.write_text(
        "serve:\n    #!/usr/bin/env python3\n    import subprocess\n"
        '    subprocess.run(["sglang", "serve", "--model-path", "a/b", "--tp", "2"])\n'
    )
    assert words_in(capsys, path) == [["--model-path", "a/b", "--tp", "2"]]


@pytest.mark.parametrize("option", ["-m ", "-m", "-um ", "-um", "-u -B -m", "-IBm"])
@pytest.mark.parametrize(
    "module",
    ["sglang.launch_server", "dynamo.sglang", "dynamo.sglang.decode_worker",
     "sglang_router.launch_server"],
)  # fmt: skip
def test_a_module_joined_to_its_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, module: str
) -> None:
    """Python takes short options in one word, and the module in the same word or the next."""
    folder = tmp_path / Path(*module.split("."))
    folder.mkdir(parents=True)
    for each in (folder, *folder.parents[: len(module.split(".")) - 1]):
        (each / "__init__.py").touch()
    (folder / "__main__.py").write_text("import sys\nprint(*sys.argv[1:])\n")
    command = f"{option}{module} --model-path a/b --attention-backend fa3"
    words = [sys.executable, *command.split()]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    if "I" in option:  # which keeps Python from looking there
        words[1] = words[1].replace("I", "")
    really = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    path = tmp_path / "a.sh"
    path.write_text(f"python3 {command}\n")
    assert words_in(capsys, path) == [really.stdout.split()]


@pytest.mark.parametrize("name", ["double.sh", "double.py", "digits.toml"])
def test_what_outgrows_any_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """Texts that double sixty times, and a number of six thousand digits."""
    launch = "python3 -m sglang.launch_server --model-path a/b --attention-backend fa3"
    text = {
        "double.sh": "A=xx\n" + "A=$A$A\n" * 60 + f"{launch} --served-model-name $A\n",
        "double.py": "import subprocess\na = 'x'\n"
        + "a = a + a\n" * 60
        + f"subprocess.run('{launch} --served-model-name ' + a, shell=True)\n",
        "digits.toml": "a=" + "9" * 6000 + "\n",
    }[name]
    path = tmp_path / name
    path.write_text(text)
    code, _, err = run(capsys, "check", "--isolated", "--gpu", "h100", str(path))
    assert code in (0, 1)
    assert "internal" not in err
    if name != "digits.toml":
        (argv,) = words_in(capsys, path)
        assert argv[2:4] == ["--attention-backend", "fa3"]


def checked(capsys: pytest.CaptureFixture[str], path: Path, text: str) -> list[tuple[object, int]]:
    """Codes of what is certain about a file, and the line of each."""
    path.write_text(text, encoding="utf-8")
    told = findings(capsys, "--isolated", str(path))
    return [(one["code"], one["span"]["line"]) for one in told]  # type: ignore[index]


def test_a_name_that_the_release_of_the_file_had_is_no_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = (
        "docker run {} python3 -m sglang.launch_server --model-path org/m --nsa-prefill-backend fa3"
    )
    path = tmp_path / "a.sh"
    path.write_text(line.format("lmsysorg/sglang:v0.5.22"), encoding="utf-8")
    assert run(capsys, "check", "--isolated", str(path))[0] == 1
    path.write_text(line.format("lmsysorg/sglang:v0.5.12"), encoding="utf-8")
    assert run(capsys, "check", "--isolated", str(path))[0] == 0


def test_a_trainer_decides_how_many_ranks_there_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "train.sh"
    text = "python3 train.py --colocate --sglang-ep-size 8 --sglang-mem-fraction-static 0.7\n"
    assert checked(capsys, path, text) == []


def test_a_container_without_arguments_gets_them_elsewhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = 'FROM lmsysorg/sglang:v0.5.22\nENTRYPOINT ["python3", "-m", "sglang.launch_server"]\n'
    assert checked(capsys, tmp_path / "Dockerfile", text) == []


def test_what_follows_from_a_refused_value_is_not_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (
        "python3 -m sglang.launch_server --model-path org/m --tp 8 --ep-dispatch-algorithm static "
    )
    path = tmp_path / "a.sh"
    assert ("ATT229", 1) in checked(capsys, path, text)
    assert checked(capsys, path, text + "--enable-deepep-moe") == [("ATT105", 1)]
    assert checked(capsys, path, text + "--moe-a2a-backend depeep") == [("ATT103", 1)]


def test_what_a_configuration_file_says_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "server.yaml").write_text(
        "model-path: meta-llama/Llama-3.1-8B-Instruct\nattention-backend: fa3\n", encoding="utf-8"
    )
    text = "# attn-lint: gpu=b200\npython3 -m sglang.launch_server --config server.yaml"
    path = tmp_path / "a.sh"
    assert ("ATT201", 2) in checked(capsys, path, text)
    assert checked(capsys, path, text + " --attention-backend trtllm_mha") == []


def test_a_configuration_file_that_sglang_refuses_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (
        "cat > server.yaml <<EOF\n"
        "model-path: org/m\nattention-backend: fa3\nenable-dp-attention: true\nEOF\n"
        "python3 -m sglang.launch_server --config server.yaml\n"
    )
    assert ("ATT108", 6) in checked(capsys, tmp_path / "a.sh", text)


def test_a_word_that_several_launches_share_is_told_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    launch = 'python3 -m sglang.launch_server --model-path org/m "${COMMON[@]}"'
    text = f"COMMON=(--attention-backend fa9)\n{launch} --tp 1\n{launch} --tp 2\n"
    assert checked(capsys, tmp_path / "a.sh", text) == [("ATT103", 1)]
    apart = text.replace("fa9)", "fa3)").replace("--tp", "--attention-backend fa9 --tp")
    assert checked(capsys, tmp_path / "a.sh", apart) == [("ATT103", 2), ("ATT103", 3)]


def test_a_replaced_value_and_an_old_name_are_told_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    launch = "python3 -m sglang.launch_server --model-path org/m "
    chain = "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
    path = tmp_path / "a.sh"
    found = checked(capsys, path, launch + chain + "--speculative-num-draft-tokens 8")
    assert [code for code, _ in found].count("ATT304") == 1
    found = checked(capsys, path, launch + "--tp 8 --dp 8 --enable-dp-attention")
    assert [code for code, _ in found].count("ATT106") == 1


def test_a_graph_that_is_off_already_is_not_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (
        "# attn-lint: gpu=h200\n"
        "python3 -m sglang.launch_server --model-path zai-org/GLM-5-FP8 --tp 8 --enable-prefill-cp"
    )
    path = tmp_path / "a.sh"
    told = checked(capsys, path, text)
    assert ("ATT305", 2) in told
    assert ("ATT305", 2) not in checked(
        capsys, path, text + " --cuda-graph-backend-prefill disabled"
    )


def test_what_only_a_run_could_tell_is_not_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    launch = "python3 -m sglang.launch_server --model-path org/m "
    path = tmp_path / "a.sh"
    assert checked(capsys, path, launch + '--config "$1"') == []
    assert checked(capsys, path, launch + "--config elsewhere.yaml") == []
    assert checked(capsys, path, launch + "--config settings.json") == [("ATT108", 1)]
    assert checked(capsys, path, launch + "[args] --page-size [page_size]") == []
    assert checked(capsys, path, launch + "--port PORT_PLACEHOLDER") == []
    helper = 'popen_launch_server(model="org/m", base_url=url, other_args=["--page-size", "64"])'
    assert checked(capsys, tmp_path / "a.py", helper) == []


OPEN = ("--attention-backend", "--page-size", "--kv-cache-dtype", "--speculative-eagle-topk")


@pytest.mark.parametrize("machine", ["b200", "mi300x", None])
@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3", "$MODEL"])
def test_what_statements_hang_on_is_said_in_the_words_of_the_launch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, machine: str | None, model: str
) -> None:
    flags = " ".join(f"{name} ${place}" for place, name in enumerate(OPEN, 1))
    path = tmp_path / "a.sh"
    path.write_text(
        f"python3 -m sglang.launch_server --model-path {model} --page-size 48 "
        f"--speculative-algorithm EAGLE {flags}\n",
        encoding="utf-8",
    )
    given = ["--isolated", *(["--gpu", machine] if machine else [])]
    left = {*OPEN, *(["--model-path", "the model", "the draft model"] if model[0] == "$" else [])}
    left |= set() if machine else {"the machine"}

    def words(text: str) -> set[str]:
        return set(text.replace(" and ", ", ").split(", "))

    _, folded, _ = run(capsys, "check", *given, str(path))
    hanging = re.findall(r"statements? hangs? on (.*), which the file does not tell", folded)
    assert hanging or machine is None
    _, whole, _ = run(capsys, "check", *given, "--verbose", str(path))
    _, short, _ = run(capsys, "check", *given, "--verbose", "--output-format", "concise", str(path))
    told = [*hanging, *re.findall(r"^  depends on (.*)$", whole, re.MULTILINE)]
    told += re.findall(r"\[depends on ([^;\]]*)", short)
    for text in told:
        assert words(text) <= left, text
    # Programs are given the names of the rules' own conditions.
    _, out, _ = run(capsys, "check", *given, "--output-format", "json", str(path))
    assert machine is None or any(one.get("depends_on") for one in json.loads(out))
