"""What is nested, called or added up very often: it is read, or the report says that it is not."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from attn_lint.lintcfg.cli import dispatch, guarded

pytestmark = pytest.mark.usefixtures("shared_judges")

LAUNCH = "python3 -m sglang.launch_server --model-path a/b --no-such-flag"


def read_or_told(capsys: pytest.CaptureFixture[str], path: Path) -> bool:
    """Whether the launch was read; where it was not, the file has not passed."""
    code = guarded(dispatch, ["check", "--isolated", str(path)])
    out = capsys.readouterr().out
    assert code == 1, out
    if "ATT101" in out:
        return True
    assert "error[ATT901] nested too deeply to be read here" in out
    return False


def in_ifs(depth: int, body: str) -> str:
    head = "".join(f'if [ "$X{n}" ]; then\n' for n in range(depth))
    return f"{head}{body}\n" + "fi\n" * depth


def in_functions(depth: int, body: str) -> str:
    head = "".join(f"f{n}() {{ f{n + 1}; }}\n" for n in range(depth))
    return f"{head}f{depth}() {{ {body}; }}\nf0\n"


def in_quotes(depth: int, body: str) -> str:
    for _ in range(depth):
        body = f"bash -c {shlex.quote(body)}"
    return body + "\n"


def in_heredocs(depth: int, body: str) -> str:
    for number in range(depth):
        body = f"bash <<'E{number}'\n{body}\nE{number}"
    return body + "\n"


def in_loops(depth: int, body: str) -> str:
    return "while true; do\n" * depth + body + "\n" + "break; done\n" * depth


SHELLS = {"ifs": in_ifs, "functions": in_functions, "quotes": in_quotes, "documents": in_heredocs,
          "loops": in_loops}  # fmt: skip


@pytest.mark.parametrize("nest", SHELLS)
@pytest.mark.parametrize("depth", [0, 2, 5, 6, 7, 9, 40, 99, 100, 101, 300])
def test_scripts(nest: str, depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if nest == "quotes" and depth > 12:
        return  # each level doubles the quotes
    text = SHELLS[nest](depth, LAUNCH)
    path = tmp_path / "a.sh"
    path.write_text(text)
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    read = read_or_told(capsys, path)
    assert read or depth > 5


@pytest.mark.parametrize("depth", [0, 24, 26, 60, 95, 100, 200])
def test_a_call_within_conditionals(
    depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sh"
    path.write_text(f'serve() {{\n  {LAUNCH} "$@"\n}}\n' + in_ifs(depth, "serve --tp 4"))
    told = not read_or_told(capsys, path)
    guarded(dispatch, ["launches", "--isolated", str(path)])
    listed = "--tp-size 4" in capsys.readouterr().out
    guarded(dispatch, ["check", "--isolated", str(path)])
    assert listed or told or "ATT901" in capsys.readouterr().out


def test_calls_and_values_that_are_not_followed_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sh"
    calls = "".join(f"serve --tp {n}\n" for n in range(300))
    path.write_text(f'serve() {{ {LAUNCH} "$@"; }}\n{calls}')
    guarded(dispatch, ["check", "--isolated", "--verbose", str(path)])
    assert capsys.readouterr().out.count("skipped serve: further calls") == 1
    pages = " ".join(str(2**n) for n in range(12))
    path.write_text(f"for page in {pages}; do {LAUNCH} --page-size $page; done\n")
    guarded(dispatch, ["check", "--isolated", "--verbose", str(path)])
    assert "skipped $page: values of a loop beyond the first 8" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", ["json", "yaml", "toml"])
@pytest.mark.parametrize("depth", [10, 59, 61, 150, 199, 201, 390])
def test_mappings(
    suffix: str, depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data: dict[str, object] = {"command": LAUNCH}
    for _ in range(depth):
        data = {"a": data}
    text = json.dumps(data)
    if suffix == "yaml":
        lines = [" " * n + "a:" for n in range(depth)]
        text = "\n".join([*lines, f"{' ' * depth}command: {LAUNCH}"]) + "\n"
    elif suffix == "toml":
        text = f"[{'.'.join('a' * depth)}]\ncommand = {json.dumps(LAUNCH)}\n"
    path = tmp_path / f"a.{suffix}"
    path.write_text(text)
    assert read_or_told(capsys, path) == (depth < 200)


@pytest.mark.parametrize("count", [2, 21, 90, 500])
@pytest.mark.parametrize("as_list", [True, False])
def test_sums(
    count: int, as_list: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--no{n}" for n in range(count)]
    if as_list:
        added = " + ".join(f'["{word}"]' for word in words)
        head = str(LAUNCH.split())
    else:
        added = " + ".join(f'" {word}"' for word in words)
        head = repr(LAUNCH)
    path = tmp_path / "a.py"
    path.write_text(f"import subprocess\nsubprocess.run({head} + {added})\n")
    guarded(dispatch, ["launches", "--isolated", "--output-format", "json", str(path)])
    (one,) = json.loads(capsys.readouterr().out)
    assert one["argv"] == [*LAUNCH.split()[3:], *words]
