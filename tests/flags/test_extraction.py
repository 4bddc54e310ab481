"""Reading flags from source, on small trees of both layouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from attn_lint.docs_check.flags.collect import ExtractionError, collect
from attn_lint.docs_check.flags.history import build, version_key
from attn_lint.docs_check.flags.render import to_data, to_yaml
from attn_lint.docs_check.flags.rows import FlagSet
from attn_lint.lintcfg.flags import load_flags, parse
from attn_lint.matrix.schema_flags import FlagsFile, HistoryFile

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "extract_flags.py"

CALLS = """
import argparse, dataclasses, json
from typing import List, Optional
from sglang.srt.actions import DeprecatedAction, DeprecatedAliasStoreAction
from sglang.srt.names import NAMES, Kind, Parsers, size

BACKENDS = ["a", "b"]
EXTRA = BACKENDS + ["c"]


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    backend: Optional[str] = None
    tp_size: int = 1
    sizes: Optional[List[int]] = None
    quiet: bool = False
    limit: int = 1024 * 1024
    kind: str = "none"
    hidden: List[str] = dataclasses.field(default_factory=list)

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, required=True, help="x")
        local = list(EXTRA)
        if envs.MORE.get():
            local.append("d")
        parser.add_argument("--backend", choices=local, default=ServerArgs.backend)
        parser.add_argument(
            "--tensor-parallel-size", "--tp-size", dest="tp_size", type=int,
            default=ServerArgs.tp_size,
        )
        group = parser.add_argument_group("more")
        group.add_argument("--sizes", type=size, nargs="+")
        group.add_argument("--quiet", action="store_true")
        group.add_argument("--limit", type=int, default=ServerArgs.limit)
        parser.add_argument("--kind", choices=[k.name.lower() for k in Kind], default="none")
        parser.add_argument("--parser", choices=list(Parsers.table.keys()) + NAMES)
        parser.add_argument("--old", action=DeprecatedAction, error_message="use --kind")
        parser.add_argument(
            "--older", action=DeprecatedAliasStoreAction, dest="kind", new_flag="--kind",
            default=argparse.SUPPRESS, type=str,
        )
        parser.add_argument("--on", action=argparse.BooleanOptionalAction, default=True)
        more(parser)


def more(parser):
    parser.add_argument("--config", type=json.loads)
"""

NAMES = """
from enum import IntEnum

NAMES = [*("x", "y")]


def size(text):
    if text == "huge":
        raise ValueError("no")
    return int(text)


class Kind(IntEnum):
    NONE = 0
    SOME = 1


class Parsers:
    table = {"p": object, "q": object()}
"""

FIELDS = """
import argparse
from typing import List, Literal, Optional

import msgspec

from sglang.srt.arg_groups.arg_utils import A, Arg
from sglang.srt.names import NAMES, size


class Model(msgspec.Struct):
    _NS_PATH = "model"
    derived = Derived(fn="x")
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    backend: A[Optional[str], Arg(help="x", choices=NAMES, resolvable=True)] = None
    tp_size: A[int, Arg(help="x", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 1
    sizes: A[Optional[List[int]], "many"] = None
    tags: A[List[str], Arg(nargs="*")] = msgspec.field(default_factory=list)
    quiet: A[bool, "text"] = False
    mode: A[Literal["on", "off"], "text" "more"] = "on"
    width: A[int | None, Arg(type_parser=size, fallback=3)] = None
    on: A[Optional[bool], Arg(action=argparse.BooleanOptionalAction)] = None
    inner: A[float, Arg(no_cli=True)] = 0.5
    plain: Optional[str] = None
"""

SERVER = """
import logging
from sglang.srt.arg_groups.arg_utils import add_cli_args_from_dataclass
from sglang.srt.arg_groups.fields import collect_input_fields
from sglang.srt.arg_groups.fields.model import Model


class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--plain", default=_declared_default("plain"))


_SPACES = [Model]
_annotations, _defaults = collect_input_fields(_SPACES)
ServerArgs = defstruct("ServerArgs")


def prepare_server_args(argv):
    seen = any(arg == "--backend" or arg.startswith("--backend=") for arg in argv)
    raw_args = parser.parse_args(argv)
    raw_args.inner = seen
    logging.basicConfig(level=getattr(logging, raw_args.mode.upper()))
"""


def tree(folder: Path, files: dict[str, str]) -> Path:
    """Write a small release."""
    for name, text in {"version.py": '__version__ = "1.2.3"', **files}.items():
        path = folder / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def calls(tmp_path: Path) -> FlagSet:
    """A release that calls `add_argument` for each flag."""
    files = {"srt/server_args.py": CALLS, "srt/names.py": NAMES}
    return collect(tree(tmp_path / "calls", files))


@pytest.fixture
def fields(tmp_path: Path) -> FlagSet:
    """A release that annotates fields of several records."""
    files = {
        "srt/server_args.py": SERVER,
        "srt/names.py": NAMES,
        "srt/arg_groups/fields/__init__.py": "from sglang.srt.arg_groups.field_order import "
        "POSITIONAL_FIELD_ORDER\ndef collect_input_fields(sources): ...\n",
        "srt/arg_groups/fields/model.py": FIELDS,
        "srt/arg_groups/field_order.py": 'POSITIONAL_FIELD_ORDER = ("quiet", "model_path", "gone")',
    }
    return collect(tree(tmp_path / "fields", files))


def test_calls(calls: FlagSet) -> None:
    assert calls.release == "1.2.3"
    assert calls.problems == []
    rows = {row.names[0]: row for row in calls.flags if row.names}
    assert rows["--model-path"].names == ["--model-path", "--model"]
    assert rows["--model-path"].required
    assert rows["--backend"].choices == ["a", "b", "c"]
    assert rows["--backend"].choices_env == {"MORE": ["d"]}
    assert (rows["--tensor-parallel-size"].field, rows["--tensor-parallel-size"].default) == (
        "tp_size",
        1,
    )
    assert (rows["--sizes"].type, rows["--sizes"].nargs) == ("size", "+")
    assert calls.converters["size"]["rejects"] == ["huge"]
    assert (rows["--quiet"].action, rows["--quiet"].default) == ("store_true", False)
    assert rows["--limit"].default == 1024 * 1024
    assert rows["--kind"].choices == ["none", "some"]
    assert rows["--parser"].choices == ["p", "q", "x", "y"]
    assert (rows["--old"].action, rows["--old"].error_message) == ("deprecated", "use --kind")
    assert (rows["--older"].action, rows["--older"].field) == ("deprecated_store", "kind")
    assert rows["--older"].new_flag == "--kind"
    assert (rows["--on"].action, rows["--on"].default) == ("boolean_optional", True)
    assert rows["--config"].type == "json"
    hidden = next(row for row in calls.flags if row.field == "hidden")
    assert (hidden.no_cli, hidden.default) == (True, [])
    assert rows["--quiet"].source["file"] == "srt/server_args.py"
    assert rows["--quiet"].source["symbol"] == "ServerArgs.add_cli_args"


def test_annotated_fields(fields: FlagSet) -> None:
    assert fields.problems == []
    assert fields.field_order[:3] == ["quiet", "model_path", "backend"]
    rows = {row.field: row for row in fields.flags}
    assert (rows["model_path"].names, rows["model_path"].required) == (
        ["--model-path", "--model"],
        True,
    )
    assert (rows["backend"].choices, rows["backend"].resolvable) == (["x", "y"], True)
    assert rows["tp_size"].names == ["--tensor-parallel-size", "--tp-size"]
    assert (rows["sizes"].type, rows["sizes"].nargs) == ("int", "+")
    assert (rows["tags"].nargs, rows["tags"].default) == ("*", [])
    assert rows["quiet"].action == "store_true"
    assert (rows["mode"].choices, rows["mode"].default) == (["on", "off"], "on")
    assert (rows["width"].type, rows["width"].fallback) == ("size", 3)
    assert rows["on"].action == "boolean_optional"
    assert (rows["inner"].no_cli, rows["inner"].default) == (True, 0.5)
    assert rows["plain"].names == ["--plain"]
    assert fields.explicit[0]["field"] == "inner"
    assert fields.explicit[0]["flag"] == "--backend"
    assert fields.checks[0]["field"] == "mode"


def test_what_is_written_can_be_read_and_used(calls: FlagSet) -> None:
    data = yaml.safe_load(to_yaml(calls))
    assert data == to_data(calls)
    FlagsFile.model_validate(data)
    table = load_flags({"flags": data})
    launch = parse(["--model", "m", "--tp-size", "2", "--no-on", "--sizes", "huge"], table)
    assert (launch.values["tp_size"], launch.values["on"]) == (2, False)
    assert [problem.kind for problem in launch.problems] == ["bad-type"]
    retired = parse(["--model", "m", "--old"], table)
    assert retired.refusal is not None
    assert retired.refusal.says == "use --kind"
    alias = parse(["--model", "m", "--older", "v"], table)
    assert (alias.refusal, alias.values["kind"]) == (None, "v")


def test_history_of_two_releases(tmp_path: Path) -> None:
    older = CALLS.replace(
        '"--quiet", action="store_true"', '"--silent", dest="quiet", action="store_true"'
    )
    older = older.replace('BACKENDS = ["a", "b"]', 'BACKENDS = ["a", "b", "gone"]')
    sets = [
        collect(tree(tmp_path / "b", {"srt/server_args.py": CALLS, "srt/names.py": NAMES})),
        collect(tree(tmp_path / "a", {"version.py": '__version__ = "1.2.2.post1"',
                                      "srt/server_args.py": older, "srt/names.py": NAMES})),
    ]  # fmt: skip
    kept = {"flags": [{"name": "--silent", "note": "kept", "last_seen": "0"}]}
    data = build(sets, kept)
    HistoryFile.model_validate(data)
    assert data["sampled"] == ["1.2.2.post1", "1.2.3"]
    assert data["flags"] == [
        {
            "name": "--silent",
            "first_seen": "1.2.2.post1",
            "last_seen": "1.2.2.post1",
            "removed_in": "1.2.3",
            "values": False,
            "replacement": ["--quiet"],
            "note": "kept",
        }
    ]
    assert [(entry["value"], entry["flags"]) for entry in data["values"]] == [
        ("gone", ["--backend"])
    ]


def test_versions_are_ordered() -> None:
    names = ["0.5.10", "0.5.9", "0.5.9.post1", "0.4.10"]
    assert sorted(names, key=version_key) == ["0.4.10", "0.5.9", "0.5.9.post1", "0.5.10"]


@pytest.mark.parametrize("text", [None, "x = 1", "class ServerArgs: pass", "def ("])
def test_a_tree_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    files = {} if text is None else {"srt/server_args.py": text}
    with pytest.raises(ExtractionError):
        collect(tree(tmp_path, files))


def test_the_script(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"srt/server_args.py": CALLS, "srt/names.py": NAMES})
    output = tmp_path / "flags.yaml"

    def run(*words: object) -> int:
        command = [sys.executable, str(SCRIPT), *map(str, words)]
        return subprocess.run(command, check=False, capture_output=True).returncode

    assert run(root, "--output", output) == 0
    assert run(root, "--check", "--output", output) == 0
    output.write_text(output.read_text(encoding="utf-8").replace("--quiet", "--loud"), "utf-8")
    assert run(root, "--check", "--output", output) == 1
    assert run(tmp_path / "nowhere", "--output", output) == 2
