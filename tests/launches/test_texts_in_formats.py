"""Scripts inside of JSON, TOML and YAML texts of every style: read, placed and fixed exactly."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.lintcfg.cli import dispatch, guarded

pytestmark = pytest.mark.usefixtures("shared_judges")

HEAD = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3.2 --tp 8"
SCRIPTS = {
    "a line": f"{HEAD} --page-size 16 --nsa-decode-backend flashmla_kv",
    "lines": f"set -e\n{HEAD} \\\n  --page-size 16 \\\n\t--nsa-decode-backend flashmla_kv # é\n",
    "indented": f"  {HEAD} \\\n    --page-size 16 \\\n\n",
    "quotes": f"{HEAD} --served-model-name 'é \"x\"' --page-size 16 --port 1",
    "backslashes": f"{HEAD} --chat-template a\\ b --page-size 16 --served-model-name \"q\\\"q\"",
    "json": f"{HEAD} --json-model-override-args '{{\"a\": 1}}' --page-size \\\n16\n",
    "beyond the first plane": f"{HEAD} --served-model-name 😀 --page-size 16",
}  # fmt: skip


def block(header: str, text: str, indent: str) -> str:
    return header + "".join(f"\n{indent}{line}" if line else "\n" for line in text.split("\n"))


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


#: How a text is written in each style.
STYLES: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"a": 1, "command": text}),
    "json with slashes": lambda text: json.dumps({"command": text}).replace("/", "\\/"),
    "json in UTF-8": lambda text: json.dumps({"é": 1, "command": text}, ensure_ascii=False),
    "toml": lambda text: f"# {HEAD}\n[x]\ncommand = {json.dumps(text, ensure_ascii=False)}\n",
    "toml in ASCII": lambda text: 'command = "' + "".join(
        one if one.isascii() else f"\\U{ord(one):08x}" for one in quoted(text).replace("\n", "\\n")
    ).replace("\t", "\\t") + '"\n',
    "toml block": lambda text: f'[x.y]\ncommand = """\n{quoted(text)}"""\n',
    "toml block behind a backslash": lambda text: f'command = """\\\n\n  {quoted(text)}"""\n',
    "toml raw block": lambda text: f"command = '''\n{text}'''\n",
    "toml after its table": lambda text: "[b]\nz = 1\n[c]\nz = 'x'\n[b.d]\ncommand = "
                                         f"{json.dumps(text, ensure_ascii=False)}\n",
    "yaml": lambda text: f"command: {json.dumps(text, ensure_ascii=False)}\n",
    "yaml over lines": lambda text: 'command: "'
                                    + quoted(text).replace("\t", "\\t").replace("\n", "\\n\\\n  ")
                                    + '"\n',
    "yaml single quotes": lambda text: "command: '"
                                       + text.replace("'", "''").replace("\n", "\n\n  ") + "'\n",
    "yaml block": lambda text: block("command: |", text, "  ") + "\n",
    "yaml block that is stripped": lambda text: block("x:\n  command: |-", text, "      ") + "\n",
    "yaml block with its indent": lambda text: block("x:\n  command: |2+", text, "    ") + "\n",
}  # fmt: skip
READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


def command_in(data: Any) -> str:
    """The text in a document, however deep."""
    if "command" in data:
        return str(data["command"])
    return next(command_in(value) for value in data.values() if isinstance(value, dict)
                and "command" in json.dumps(value))  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_text_of_any_style(
    style: str, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the format's own reader makes of the fixed file is the text with the new names."""
    suffix = style.split()[0]
    path = tmp_path / f"a.{suffix}"
    content = STYLES[style](SCRIPTS[script])
    try:
        text = command_in(READERS[suffix](content))
        words = shlex.split(text.replace("\\\n", ""), comments=True)
    except (ValueError, yaml.YAMLError):
        pytest.skip("this style cannot hold this text")
    path.write_text(content, encoding="utf-8")
    guarded(dispatch, ["launches", "--isolated", "--output-format", "json", str(path)])
    (one,) = json.loads(capsys.readouterr().out)
    if "x:\n" not in content:
        assert one["argv"] == words[words.index("sglang.launch_server") + 1 :]
    guarded(dispatch, ["check", "--isolated", "--gpu", "h200", "--fix", str(path)])
    wanted = text.replace("--nsa-decode", "--dsa-decode").replace("16", "64")
    assert command_in(READERS[suffix](path.read_text(encoding="utf-8"))) == wanted
    assert len(path.read_text(encoding="utf-8")) == len(content)


def test_the_same_text_in_other_places_of_a_toml_file_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.toml"
    decoy = f'# "{HEAD} --page-size 16"\n[a]\nkey."command" = 1\nnumbers = [1.5, 0x10, 16]\n'
    launch = f'[[jobs]]\nname = "16"\ncommand = [{", ".join(map(json.dumps, HEAD.split()))}, '
    launch += '"--page-size", "16"]\n'
    path.write_text(decoy + launch)
    guarded(dispatch, ["check", "--isolated", "--gpu", "h200", "--fix", str(path)])
    capsys.readouterr()
    assert path.read_text() == decoy + launch.replace('size", "16"', 'size", "64"')
