"""Files that are not UTF-8: read as their programs read them, written back to the byte."""

from __future__ import annotations

import ast
import codecs
import io
import subprocess
import sys
from pathlib import Path

import pytest
from attn_lint.lintcfg.cli import dispatch, guarded

pytestmark = pytest.mark.usefixtures("shared_judges")

OLD = "python3 -m sglang.launch_server --model-path a/b --nsa-decode-backend flashmla_kv"
PROGRAM = """\
# -*- coding: {encoding} -*-
# {remark}
import subprocess
NOTE = "{remark}"
subprocess.run("OLD --served-model-name '{remark}'".split())
""".replace("OLD", OLD)
#: What each encoding can say that ASCII can't.
REMARKS = {
    "latin-1": "h\xe9", "cp1252": "\u20ac", "koi8-r": "\u0449", "shift_jis": "\u8868",
    "euc-kr": "\uac00", "gb18030": "\u4e2d", "utf-8": "\u2713", "utf8": "\u2713",
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = guarded(dispatch, [arguments[0], "--isolated", *arguments[1:]])
    out, err = capsys.readouterr()
    return code, out, err


def fixed(content: bytes) -> bytes:
    """The content with its old names made new, whatever its encoding."""
    return content.replace(b"--nsa-", b"--dsa-").replace(
        "nsa".encode("utf-16-le"), "dsa".encode("utf-16-le")
    ).replace(
        "nsa".encode("utf-32-le"), "dsa".encode("utf-32-le")
    )  # fmt: skip


@pytest.mark.parametrize("encoding", REMARKS)
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["plain", "marked"])
def test_a_program_in_the_encoding_that_it_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str, mark: bytes
) -> None:
    """Python reads the file as its comment says (PEP 263), or refuses it; so is it here."""
    text = PROGRAM.format(encoding=encoding, remark=REMARKS[encoding])
    content = mark + text.encode(encoding)
    path = tmp_path / "a.py"
    path.write_bytes(content)
    code, out, _ = run(capsys, "check", "--fix", str(path))
    try:
        tree = ast.parse(content)
    except SyntaxError:
        assert (code, path.read_bytes()) == (1, content)
        assert "ATT901" in out
        return
    assert path.read_bytes() == fixed(content) != content
    assert ast.dump(ast.parse(fixed(content))) == ast.dump(tree).replace("--nsa-", "--dsa-")


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "utf-8", "ascii", "hex"])
def test_a_program_that_is_not_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str
) -> None:
    content = PROGRAM.format(encoding=encoding, remark="h\xe9").encode("latin-1")
    with pytest.raises((SyntaxError, LookupError)):
        ast.parse(content)
    (tmp_path / "a.py").write_bytes(content)
    code, out, _ = run(capsys, "check", str(tmp_path / "a.py"))
    assert code == 1
    assert "a.py:1:1: error[ATT901] not " in out


def test_columns_are_those_of_the_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = f"# coding: shift_jis\nx = '\u8868\u8868', '{OLD}'\n"
    (tmp_path / "a.py").write_bytes(text.encode("shift_jis"))
    column = text.splitlines()[1].index("--nsa") + 1
    assert f"a.py:2:{column}: error[ATT105]" in run(capsys, "check", str(tmp_path / "a.py"))[1]


WIDE = {
    "a.sh": f"#!/bin/bash\n# h\xe9 \U0001f600\n{OLD}\n",
    "a.yaml": f"# h\xe9\nservices:\n  s:\n    command: {OLD}\n",
    "a.json": f'{{"note": "h\xe9", "command": "{OLD}"}}\n',
    "a.md": f"h\xe9\n\n```bash\n{OLD}\n```\n",
    "a.service": f"# h\xe9\n[Service]\nExecStart=/usr/bin/{OLD}\n",
}
ENCODINGS = {
    "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE, "utf-32-be": codecs.BOM_UTF32_BE,
}  # fmt: skip


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_wide_text_behind_a_byte_order_mark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, encoding: str, ending: str
) -> None:
    """As editors and PowerShell write it on Windows."""
    text = WIDE[name].replace("\n", ending)
    path = tmp_path / name
    path.write_bytes(ENCODINGS[encoding] + text.encode(encoding))
    assert run(capsys, "launches", str(path))[1].count("--nsa-decode-backend") == 1
    assert run(capsys, "check", "--fix", str(path))[0] == 0
    want = text.replace("--nsa-", "--dsa-")
    assert path.read_bytes() == ENCODINGS[encoding] + want.encode(encoding)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_wide_text_that_nothing_marks_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "a.sh"
    content = OLD.encode(encoding)
    path.write_bytes(content)
    code, out, _ = run(capsys, "check", "--fix", str(path))
    assert (code, path.read_bytes()) == (1, content)
    assert "a.sh:1:1: error[ATT901] holds NUL characters" in out and "save it as UTF-8" in out
    code, _, err = run(capsys, "launches", str(path))
    assert code == 0 and "NUL characters" in err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"{OLD}\n".encode() + bytes(4096), "NUL characters"),
        (bytes(512) + f"{OLD}\n".encode(), "NUL characters"),
        (codecs.BOM_UTF16_LE + f"{OLD}\0".encode("utf-16-le"), "NUL characters"),
        (codecs.BOM_UTF16_LE + f"{OLD}".encode("utf-16-le") + b"\0", "not UTF-16-LE"),
        (codecs.BOM_UTF16_LE + f"{OLD}".encode("utf-16-le") + b"\0\xd8", "not UTF-16-LE"),
        (codecs.BOM_UTF8 + f"{OLD} \xe9".encode("latin-1"), "not UTF-8"),
        (f"{OLD} # h\xe9\n".encode("latin-1"), "name its encoding in the first line"),
    ],
)
def test_what_is_no_text_is_told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    content: bytes,
    says: str,
) -> None:
    path = tmp_path / "a.sh"
    path.write_bytes(content)
    code, out, _ = run(capsys, "check", "--fix", str(path))
    assert (code, path.read_bytes()) == (1, content)
    assert "a.sh:1:1: error[ATT901]" in out and says in out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, err = run(capsys, "check", "-")
    assert (code, out) == (2, "") and says in err


def test_what_is_no_text_and_holds_no_launch_is_passed_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.sh").write_bytes(b"#!/bin/sh\n" + bytes(range(256)))
    (tmp_path / "b.png").write_bytes(b"\x89PNG\0 sglang")
    assert run(capsys, "check", str(tmp_path))[:2] == (
        0, "0 launches in 2 files: nothing to report\n"
    )  # fmt: skip


def test_a_script_whose_encoding_editors_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A shell runs it, whatever its comments are written in."""
    text = f"#!/bin/bash\n# -*- coding: latin-1 -*-\n# h\xe9\n{OLD}\n"
    path = tmp_path / "a.sh"
    path.write_bytes(text.encode("latin-1"))
    assert run(capsys, "check", "--fix", str(path))[0] == 0
    assert path.read_bytes() == fixed(text.encode("latin-1"))


def test_standard_input_is_passed_on_as_it_is_written(tmp_path: Path) -> None:
    for content in (
        codecs.BOM_UTF16_LE + WIDE["a.sh"].encode("utf-16-le"),
        codecs.BOM_UTF8 + WIDE["a.sh"].encode(),
        b"# coding: latin-1\n# h\xe9\n" + OLD.encode(),
        b"echo h\xe9 \0",
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from attn_lint.lintcfg.cli import main; main()", "check",
             "--isolated", "--fix", "-"],
            input=content, capture_output=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.stdout == fixed(content), done.stderr


def test_text_that_would_not_come_back_the_same_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Escapes that change nothing are lost when text is read: a fix would take them away."""
    text = PROGRAM.format(encoding="iso-2022-jp", remark="\u8868").encode("iso-2022-jp")
    path = tmp_path / "a.py"
    content = text.replace(b"import", b"\x1b(B\x1b(Bimport", 1)
    path.write_bytes(content)
    ast.parse(content)
    code, out, _ = run(capsys, "check", "--fix", str(path))
    assert (code, path.read_bytes()) == (1, content)
    assert "ATT105" in out and "fixable" not in out
    path.write_bytes(text)
    assert run(capsys, "check", "--fix", str(path))[0] == 0
    assert path.read_bytes() == fixed(text)


def test_files_beside_are_read_in_their_encodings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "lib.sh").write_bytes(codecs.BOM_UTF16_LE + "PAGE=64 # h\xe9\n".encode("utf-16-le"))
    (tmp_path / "a.sh").write_text(f"source lib.sh\n{OLD} --page-size $PAGE\n")
    assert "--page-size 64" in run(capsys, "launches", str(tmp_path / "a.sh"))[1]
