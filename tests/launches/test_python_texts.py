"""Commands that programs put together as texts: what is read is what Python makes of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.runner import Options, Runner
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.config import Config

pytestmark = pytest.mark.usefixtures("shared_judges")

RUNNER = Runner(Options(), Config())
PROGRAMS = {
    "sum": 'os.system("{0} " + "--tp 2")',
    "sum in a name": 'cmd = "{0} " + "--tp " + "2"\nos.system(cmd)',
    "sum over lines": 'cmd = ("{0} "\n    + "--tp 2 "\n    + "--page-size 64")\nos.system(cmd)',
    "sum with a number": 'tp = 2\nos.system("{0} --tp " + str(tp))',
    "grown": 'cmd = "{0} "\ncmd += "--tp 2"\nos.system(cmd)',
    "grown by a sum": 'tp = 2\ncmd = "{0} " + "--page-size 64 --tp " + str(tp)\n'
                      'cmd += " --port " + "1"\nos.system(cmd)',
    "from a name": 'BASE = "{0}"\nos.system(BASE + " --tp 2")',
    "from two names": 'BASE = "{0}"\nMORE = " --tp 2"\ncmd = BASE + MORE\nos.system(cmd)',
    "of functions": 'def command(more):\n    return "{0} " + "--tp 2"\nos.system(command(""))',
    "formatted text": 'tp = 2\nos.system("{0} " + f"--tp {{tp}}")',
    "a name in a formatted text": 'BASE = "{0}"\nos.system(f"{{BASE}} --tp 2")',
    "stripped": 'os.system("""\n  {0}\n  --tp 2\n""".replace("\\n", " ").strip())',
    "joined": 'os.system(" ".join(["{0}", "--tp 2"]))',
    "joined list": 'cmd = "{0}".split()\ncmd += ["--tp", "2"]\nos.system(" ".join(cmd))',
    "list in front": 'os.system(" ".join("{0}".split() + ["--tp", "2"]))',
}  # fmt: skip
LAUNCH = "python3 -m sglang.launch_server --model-path a/b"


def listed(capsys: pytest.CaptureFixture[str], path: Path) -> list[list[str]]:
    guarded(dispatch, ["launches", "--isolated", "--output-format", "json", str(path)])
    return [one["argv"] for one in json.loads(capsys.readouterr().out)]


def really(program: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that the program starts its server with."""
    commands: list[str] = []
    monkeypatch.setattr(os, "system", commands.append)
    exec(compile(program, "program", "exec"), {"os": os, "sys": sys})
    (command,) = commands
    return shlex.split(command)[3:]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_command_in_several_texts(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = f"import os\n{PROGRAMS[name].format(LAUNCH)}\n"
    path = tmp_path / "a.py"
    path.write_text(program)
    assert listed(capsys, path) == [really(program, monkeypatch)]


@pytest.mark.parametrize(
    "line",
    [
        'os.system("{0} --tp %s --port %d" % (tp, 3))',
        'os.system("{0} --tp %(tp)s" % {{"tp": tp}})',
        'os.system("{0} --tp %02d --served-model-name 100%%" % tp)',
        'os.system("{0} --tp {{}}".format(tp))',
        'os.system("{0} --tp " + str(tp))',
        'os.system("{0}" + (" --tp 2" if tp else ""))',
        'os.system("{0} --tp " + 2 * str(tp) + " --port 1")',
    ],
)
def test_what_is_filled_in_is_not_known(
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a value that the launch has, and nothing that is wrong with it."""
    program = f"import os\ntp = int('2')\n{line.format(LAUNCH)}\n"
    really(program, monkeypatch)  # Python runs it
    path = tmp_path / "a.py"
    path.write_text(program)
    assert guarded(dispatch, ["check", "--isolated", str(path)]) == 0
    assert re.search(r"^1 launch in", capsys.readouterr().out, re.MULTILINE)


BASE = 'base = ["python3", "-m", "sglang.launch_server", "--tp", "2"]\n'
LISTS = {
    "sums": BASE + 'run(base + ["--model-path", "a"])\nrun([*base, "--model-path", "b"])',
    "copies": BASE + 'c = base.copy()\nc.extend(["--model-path", "a"])\nrun(c)\n'
                     'c = list(base)\nc += ["--model-path", "b"]\nrun(c)\n'
                     'c = [*base]\nc.append("--model-path=c")\nrun(c)\n'
                     'c = base[:]\nc.append("--model-path=d")\nrun(c)',
    "grown by turns": BASE + 'base += ["--model-path", "a"]\nrun(base)',
    "put in": BASE + 'base.insert(3, "--model-path")\nbase.insert(4, "a")\nrun(base)',
    "alone and more": BASE + 'base += ["--model-path", "a"]\nrun(base)\n'
                      'run(base + ["--port", "1"])',
    "of a class": 'class A:\n    base = ["python3", "-m", "sglang.launch_server"]\n'
                  '    def go(self):\n        run(self.base + ["--model-path", "a"])\nA().go()',
    "returned": 'def f():\n    return ["python3", "-m", "sglang.launch_server", "--tp", "2"]\n'
                'run(f())',
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_what_only_begins_a_launch_is_none(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the program runs is read, and nothing is missed in what it makes commands of."""
    really: list[list[str]] = []
    exec(compile(LISTS[name], "program", "exec"), {"run": lambda words: really.append([*words])})
    path = tmp_path / "a.py"
    path.write_text(LISTS[name])
    report = RUNNER.check_text("a.py", LISTS[name])
    read = [
        [word.text for word in variant.words]
        for found in report.launches
        for variant in found.variants
    ]
    assert sorted(read) == sorted(words[3:] for words in really)
    assert guarded(dispatch, ["check", "--isolated", str(path)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("line", ['raise OSError(CMD + " failed")', 'print(CMD + " --x")'])
def test_what_is_said_of_a_command_is_no_part_of_it(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.py"
    path.write_text(f'CMD = "{LAUNCH}"\n{line}\n')
    assert listed(capsys, path) == [LAUNCH.split()[3:]]
