"""Files that nobody keeps on purpose: a finding or a clean skip, never a crash or a hang."""

from __future__ import annotations

import os
import time
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
    begin = time.process_time()
    assert check(path) == 0, capsys.readouterr().err
    assert time.process_time() - begin < 10
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["not utf-8", "duplicate keys", "broken toml", "tabs"])
def test_what_cannot_be_read_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content = CASES[name]
    (tmp_path / file).write_bytes(content)
    check(tmp_path / file)
    assert "ATT901" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["byte order mark", "carriage returns", "open fence", "surrogates"]
)
def test_what_is_merely_odd_is_read(name: str) -> None:
    file, content = CASES[name]
    text, problem = RUNNER.decode(file, content)
    assert problem is None and text is not None
    assert len(RUNNER.extract(file, text).launches) == 1


def test_a_huge_file_is_told_and_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sh"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    begin = time.process_time()
    assert check(path) == 0
    assert "ATT901" in capsys.readouterr().out
    assert time.process_time() - begin < 5


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


def test_a_pipe_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "a.sh")
    assert check(tmp_path) in (0, 2)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
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
