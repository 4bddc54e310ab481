"""Files that nobody keeps on purpose: a finding or a clean skip, never a crash or a hang."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.runner import Options, Runner
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.lintcfg.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).parents[2] / "fixtures" / "launches"
RUNNER = Runner(Options(), Config())
LAUNCH = "python3 -m sglang.launch_server --model-path org/m --attention-backend fa3"
INPUTS = sorted(
    path for path in FIXTURES.rglob("*") if path.is_file() and ".expected." not in path.name
)


def check(path: Path) -> int:
    return guarded(dispatch, ["check", "--isolated", "--exit-zero", str(path)])


BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
CASES: dict[str, tuple[str, bytes]] = {
    "binary": ("a.sh", b"\x7fELF\0\0sglang" + bytes(range(256)) * 40),
    "not utf-8": ("a.sh", b"# sglang \xff\xfe\n"),
    "byte order mark": ("a.sh", b"\xef\xbb\xbf" + LAUNCH.encode()),
    "carriage returns": ("a.sh", LAUNCH.replace(" --", " \\\r\n --").encode()),
    "surrogates": ("a.json", b'{"sglang": "\\ud800", "command": "' + LAUNCH.encode() + b'"}'),
    "unclosed quote": ("a.sh", b'sglang serve "m --attention-backend fa3\n'),
    "deep flow": ("a.yaml", b"sglang: " + b"[" * 20_000 + b"]" * 20_000),
    "deep blocks": (
        "a.yaml",
        "".join(" " * n + f"sglang{n}:\n" for n in range(3000)).encode(),
    ),
    "deep json": ("a.json", b'{"sglang":' * 20_000),
    "deep python": ("a.py", b"import sglang\nx = " + b"(" * 5000 + b")" * 5000),
    "deep shell": ("a.sh", b"sglang " + b"$(" * 5000 + b")" * 5000),
    "deep ifs": ("a.sh", b"if sglang; then\n" * 2000 + b"fi\n" * 2000),
    "many branches": (
        "a.sh",
        ("".join(f'if [ "$X{n}" ]; then A{n}="--tp {n}"; else A{n}=""; fi\n' for n in range(60))
         + LAUNCH + " $A1 $A59\n").encode(),
    ),
    "recursion": ("a.sh", b"f() { f; sglang serve m --attention-backend fa3; f; }\nf\n"),
    "bomb": ("a.yaml", f"# sglang\n{BOMB}".encode()),
    "cycle": ("a.yaml", b"sglang: &a\n  attention-backend: fa3\n  page-size: 1\n  self: *a\n"),
    "duplicate keys": ("a.yaml", f"command: {LAUNCH}\ncommand: {LAUNCH}\n".encode()),
    "tabs": ("a.yaml", b"sglang:\n\t- a\n"),
    "long line": ("a.sh", LAUNCH.encode() + b" --x" * 100_000),
    "many words": ("a.yaml", b"# sglang\n" + b"a: b\n" * 50_000),
    "carriage returns alone": ("a.py", b"\r\rimport sglang\rx = [\r'" + LAUNCH.encode() + b"']"),
    "empty": ("a.sh", b""),
    "open fence": ("a.md", b"```bash\n" + LAUNCH.encode()),
    "notebook without cells": ("a.ipynb", b'{"x": "sglang"}'),
    "notebook of numbers": ("a.ipynb", b'{"cells": [1, "sglang", {"cell_type": 3, "source": 4}]}'),
    "broken toml": ("a.toml", b"sglang = [\n"),
    "broken python": ("a.py", b"import sglang\ndef (:\n"),
    "nul": ("a.yaml", b"sglang: a\0b\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_odd_content_neither_crashes_nor_hangs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content = CASES[name]
    path = tmp_path / file
    path.write_bytes(content)
    assert check(path) == 0, capsys.readouterr().err
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["binary", "not utf-8", "nul", "duplicate keys", "broken toml", "tabs"]
)
def test_what_cannot_be_read_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content = CASES[name]
    (tmp_path / file).write_bytes(content)
    check(tmp_path / file)
    assert "ATT901" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["byte order mark", "carriage returns", "carriage returns alone", "open fence", "surrogates"],
)
def test_what_is_merely_odd_is_read(name: str) -> None:
    file, content = CASES[name]
    text = RUNNER.decode(file, content).text
    assert text is not None
    assert len(RUNNER.extract(file, text).launches) == 1


def test_a_huge_file_is_told_and_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sh"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert check(path) == 0
    assert "ATT901" in capsys.readouterr().out


def test_links_that_lead_in_circles_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.sh").symlink_to(tmp_path / "b.sh")
    (tmp_path / "b.sh").symlink_to(tmp_path / "a.sh")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "c.sh").write_text(LAUNCH, encoding="utf-8")
    assert check(tmp_path) == 0
    assert "1 launch in 1 file" in capsys.readouterr().out
    assert check(tmp_path / "a.sh") == 0
    assert "ATT901" in capsys.readouterr().out


def test_what_is_no_file_is_told_and_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    os.mkfifo(tmp_path / "pipe.sh")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.sh"))
        for name in ("pipe.sh", "socket.sh", "/dev/zero", "/dev/null"):
            assert check(tmp_path / name) == 0
            assert "ATT901" in capsys.readouterr().out, name
            assert guarded(dispatch, ["launches", "--isolated", str(tmp_path / name)]) == 0
            capsys.readouterr()
    # In a folder they are passed over.
    (tmp_path / "a.sh").write_text(LAUNCH, encoding="utf-8")
    assert check(tmp_path) == 0
    assert "1 launch in 1 file" in capsys.readouterr().out


def test_settings_that_are_pipes_are_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("attn-lint.toml", "pyproject.toml", ".gitignore"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "a.sh").write_text(LAUNCH, encoding="utf-8")
    assert guarded(dispatch, ["check", str(tmp_path)]) == 0
    assert guarded(
        dispatch, ["check", "--lint-config", str(tmp_path / "pyproject.toml"), str(tmp_path)]
    ) == 2  # fmt: skip


def test_a_file_that_may_not_be_read_is_told_and_the_others_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.sh", "b.sh"):
        (tmp_path / name).write_text(LAUNCH, encoding="utf-8")
    ask = os.open

    def refusing(path: object, *more: object, **named: object) -> int:
        if str(path).endswith("a.sh"):  # root may read anything, so the refusal is played
            raise PermissionError(13, "Permission denied", str(path))
        return ask(path, *more, **named)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", refusing)
    assert guarded(dispatch, ["check", "--isolated", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "a.sh:1:1: error[ATT901] Permission denied" in out
    assert "1 launch in 2 files" in out


def test_a_folder_that_may_not_be_listed_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "a.sh").write_text(LAUNCH, encoding="utf-8")
    ask = os.scandir

    def refusing(path: object) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return ask(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refusing)
    assert check(tmp_path) == 0
    assert "1 launch in 1 file" in capsys.readouterr().out


MANY = 10_000
LONG = {
    "a.sh": "".join(f"{LAUNCH} --port {n}\n" for n in range(MANY)),
    "a.md": "".join(f"```bash\n{LAUNCH} --port {n}\n```\n" for n in range(MANY)),
    "a.json": "[" + ",\n".join(f'{{"command": "{LAUNCH} --port {n}"}}' for n in range(MANY)) + "]",
    "a.py": "".join(f"run('{LAUNCH} --port {n}')\n" for n in range(MANY)),
    "a.yaml": "".join(f"---\ncommand: {LAUNCH} --port {n}\n" for n in range(MANY)),
    "comments.sh": "".join(f"# attn-lint: gpu=h100\n{LAUNCH}\n" for _ in range(MANY // 4)),
    "ignored.sh": "".join(f"# attn-lint: ignore[ATT1]\n{LAUNCH} --x\n" for _ in range(MANY // 4)),
}


@pytest.mark.parametrize("name", LONG)
def test_ten_thousand_launches_in_one_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Work that grew with the square of the launches would take minutes here."""
    path = tmp_path / name
    path.write_text(LONG[name], encoding="utf-8")
    code = guarded(dispatch, ["check", "--isolated", "--exit-zero", "--gpu", "h100", str(path)])
    assert code == 0, capsys.readouterr().err
    count = LONG[name].count("launch_server")
    assert f"{count} launches in 1 file" in capsys.readouterr().out


def test_ten_thousand_fixes_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.sh"
    text = "".join(f"{LAUNCH} --cuda-graph-max-bs 4 --port {n}\n" for n in range(MANY // 4))
    path.write_text(text, encoding="utf-8")
    arguments = ["check", "--isolated", "--exit-zero", "--fix", "--gpu", "h100", str(path)]
    assert guarded(dispatch, arguments) == 0, capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == text.replace("-bs 4", "-bs-decode 4")


def run_apart(
    folder: Path, *arguments: str, stdout: object = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run attn-lint as a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from attn_lint.lintcfg.cli import main; main()", *arguments],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout or subprocess.PIPE,  # type: ignore[arg-type]
        stderr=subprocess.PIPE, env={**os.environ, **environment}, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    "environment",
    [
        {"NO_COLOR": "1", "FORCE_COLOR": "1"},
        {"COLUMNS": "1"},
        {"COLUMNS": "none"},
        {"TERM": "dumb", "FORCE_COLOR": ""},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"HOME": "/nonexistent"},
        {"PATH": "/nonexistent"},
    ],
)
def test_environments_that_have_little(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "é.sh").write_text(f"{LAUNCH} --nö\n", encoding="utf-8")
    done = run_apart(tmp_path, "check", "--isolated", ".", **environment)
    assert done.returncode == 1, done.stderr
    assert b"ATT101" in done.stdout and b"\x1b" not in done.stdout and not done.stderr


def test_colour_where_it_is_forced(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(f"{LAUNCH} --no\n", encoding="utf-8")
    environment = {"FORCE_COLOR": "1", "NO_COLOR": ""}
    assert b"\x1b[31;1m" in run_apart(tmp_path, "check", "a.sh", **environment).stdout


def test_nobody_reads_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(f"{LAUNCH} --no\n" * 2000, encoding="utf-8")
    read, write = os.pipe()
    os.close(read)
    try:
        done = run_apart(tmp_path, "check", "--isolated", "a.sh", stdout=write)
    finally:
        os.close(write)
    assert done.returncode in (0, 1) and not done.stderr


def test_a_folder_that_is_gone_or_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(f"{LAUNCH} --no\n", encoding="utf-8")
    away = tmp_path / "away"
    away.mkdir()
    away.chmod(0o555)
    done = run_apart(away, "check", "../a.sh")
    assert done.returncode == 1 and not done.stderr
    script = f'rmdir "{away}"; exec "$@"'
    gone = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-c",
         "from attn_lint.lintcfg.cli import main; main()", "check", str(tmp_path / "a.sh")],
        cwd=away, capture_output=True, check=False, timeout=120,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    assert gone.returncode == 1 and b"internal" not in gone.stderr, gone.stderr


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(INPUTS), st.data())
def test_mutilated_files_never_crash(path: Path, data: st.DataObject) -> None:
    text = path.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    filling = data.draw(st.sampled_from(["", '"', "'", "$(", "{{", "\n", "\\", "[", "```", "é"]))
    mutilated = text[:start] + filling + text[end:]
    report = RUNNER.extract(path.relative_to(FIXTURES).as_posix(), mutilated)
    for found in report.launches:
        assert 0 <= found.start <= len(mutilated)
        for variant in found.variants:
            for word in variant.words:
                assert all(0 <= place <= len(mutilated) for place in word.places)


VAST = {
    "a.json": '{"a": [' + '{"k": "v"},' * 100_000 + f'1], "command": "{LAUNCH}"}}',
    "a.py": f"x = {{{', '.join(f'{n}: 1' for n in range(100_000))}}}\nrun('{LAUNCH}')\n",
    "é.py": f"x = [{', '.join(repr('é') for _ in range(100_000))}]\nrun('{LAUNCH}')\n",
    "a.toml": "".join(f'k{n} = "v"\n' for n in range(50_000)) + f"command = '{LAUNCH}'\n",
    "a.sh": f"A=({'w ' * 100_000})\n{LAUNCH} ${{A[@]}}\n",
    "b.sh": "cat <<EOF\n" + "$X sglang\n" * 20_000 + f"EOF\n{LAUNCH}\n",
    "Makefile": "".join(f"V{n} = x\n" for n in range(50_000)) + f"all:\n\t{LAUNCH}\n",
    "a.env": "A='x\n" * 50_000 + 'SGLANG_ARGS="--model-path m --tp 2"\n',
}


@pytest.mark.parametrize("name", VAST)
def test_vast_lines_and_files(name: str) -> None:
    """Work that grew with the square of what a file holds would take minutes here."""
    assert RUNNER.extract(name, VAST[name]).launches


def test_fixes_of_which_none_can_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report tries what it promises, and gives up where nothing holds."""
    path = tmp_path / "a.sh"
    lines = [f"{LAUNCH} --port {n} --nsa-decode-backend fa3 x y\n" for n in range(MANY // 20)]
    path.write_text("".join(lines), encoding="utf-8")
    assert guarded(dispatch, ["check", "--isolated", "--gpu", "h100", str(path)]) == 1
    assert "fixable" not in capsys.readouterr().out
