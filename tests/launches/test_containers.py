"""Mappings with a command, its arguments, or several commands."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.lintcfg.cli import dispatch, guarded

pytestmark = pytest.mark.usefixtures("shared_judges")

SERVER = "python3 -m sglang.launch_server"
ONE = f"{SERVER} --model-path a/b --tp-size 2"
TWO = f"{SERVER} --model-path a/b --page-size 64"
THREE = f"{SERVER} --model-path a/b --port 1"
FLAGS = "--model-path a/b --tp-size 2"
MORE = "--page-size 64"
Table = dict[str, Any]


def as_toml(table: Table) -> str:
    return "[a]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


#: How each format is written, and what its own reader makes of it.
FORMATS: dict[str, tuple[Callable[[Table], str], Callable[[str], Any]]] = {
    "a.json": (lambda table: json.dumps({"a": table}, indent=1), json.loads),
    "a.toml": (as_toml, tomllib.loads),
    "a.yaml": (lambda table: yaml.safe_dump({"a": table}, sort_keys=False), yaml.safe_load),
}
#: Values, and the keys of those that make up each launch.
TABLES: dict[str, tuple[Table, list[list[str]]]] = {
    "two commands": ({"cmd": ONE, "args": TWO}, [["cmd"], ["args"]]),
    "two other names": ({"command": ONE, "arguments": TWO}, [["command"], ["arguments"]]),
    "two names of a command": ({"command": ONE, "cmd": TWO}, [["command"], ["cmd"]]),
    "entrypoint and command": ({"entrypoint": ONE, "cmd": TWO}, [["entrypoint"], ["cmd"]]),
    "three commands": (
        {"entrypoint": ONE, "command": TWO, "args": THREE}, [["entrypoint"], ["command"], ["args"]]
    ),
    "the first without arguments": ({"cmd": SERVER, "args": TWO}, [["args"]]),
    "the second with arguments of its own": (
        {"entrypoint": ONE, "command": SERVER, "args": MORE}, [["entrypoint"], ["command", "args"]]
    ),
    "a command and its arguments": ({"cmd": SERVER, "args": FLAGS}, [["cmd", "args"]]),
    "further arguments": ({"command": ONE, "args": MORE}, [["command", "args"]]),
    "as an image has them": ({"Entrypoint": SERVER, "Cmd": FLAGS}, [["Entrypoint", "Cmd"]]),
    "three parts of one": (
        {"entrypoint": SERVER, "command": FLAGS, "args": MORE}, [["entrypoint", "command", "args"]]
    ),
    "a program that runs the other": (
        {"entrypoint": "/entry.sh", "command": TWO}, [["entrypoint", "command"]]
    ),
    "two launchers": (
        {"cmd": "python3 -m dynamo.sglang --tp-size 2", "args": TWO}, [["cmd"], ["args"]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("split", [False, True], ids=["texts", "lists"])
def test_values_that_are_commands_and_values_that_go_on(
    name: str, table: str, split: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of each launch are those that the format's reader and a shell's rules give."""
    values, groups = TABLES[table]
    given = {key: shlex.split(value) if split else value for key, value in values.items()}
    write, read = FORMATS[name]
    path = tmp_path / name
    path.write_text(write(given))
    read_back = read(path.read_text())["a"]
    want = []
    for keys in groups:
        words: list[str] = []
        for key in keys:
            value = read_back[key]
            words += value if isinstance(value, list) else shlex.split(value)
        module = words.index("-m") + 1
        want.append(words[module + 1 :])
    guarded(dispatch, ["launches", "--isolated", "--output-format", "json", str(path)])
    found = [one["argv"] for one in json.loads(capsys.readouterr().out)]
    assert [argv for argv in found if argv] == want


def test_what_runs_as_one_command_is_judged_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kubernetes and Compose put the two lists one behind the other, whatever is in them."""
    lines = [f"    command: {shlex.split(ONE)}", f"    args: {shlex.split(TWO)}"]
    pod = "\n".join(
        ["apiVersion: v1", "kind: Pod", "metadata: {name: a}", "spec:", "  containers:",
         "  - name: a", *lines, ""]
    )  # fmt: skip
    path = tmp_path / "pod.yaml"
    path.write_text(pod)
    assert guarded(dispatch, ["check", "--isolated", str(path)]) == 1
    out = capsys.readouterr().out
    assert "pod.yaml:8:13: error[ATT109]" in out
    assert "1 launch in 1 file" in out


def test_a_list_of_commands_beside_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"cmd": ONE, "args": [TWO.split(), THREE.split()]}))
    guarded(dispatch, ["launches", "--isolated", "--output-format", "json", str(path)])
    found = [one["argv"] for one in json.loads(capsys.readouterr().out)]
    assert found == [one.split()[3:] for one in (ONE, TWO, THREE)]


def test_arguments_of_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`bash -c SCRIPT NAME ARGUMENTS…`, and a dollar that Kubernetes is to leave alone."""
    script = f'exec {SERVER} --model-path a/b "$@"'
    words = ["bash", "-c", script, "server", "--tp-size", "2", "--served-model-name", "$$(TP)"]
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "spec": {"containers": [
            {"name": "a", "env": [{"name": "TP", "value": "8"}], "command": words[:4],
             "args": words[4:]},
        ]},
    }  # fmt: skip
    stub = tmp_path / "python3"
    stub.write_text('#!/bin/bash\nshift 2; printf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    # What Kubernetes runs: two dollars are one (its documentation of `args`).
    given = [word.replace("$$", "$") for word in words]
    done = subprocess.run(
        given, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod, sort_keys=False))
    (tmp_path / "a.sh").write_text(shlex.join(given) + "\n")
    for name in ("pod.yaml", "a.sh"):
        path = str(tmp_path / name)
        guarded(dispatch, ["launches", "--isolated", "--output-format", "json", path])
        (one,) = json.loads(capsys.readouterr().out)
        assert one["argv"] == done.stdout.splitlines()
