"""Nothing that stands on a command line makes the parser raise, or takes it long."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from attn_lint.lintcfg.flags import FlagTable, load_flags, parse, strip_command
from hypothesis import given, settings
from hypothesis import strategies as st

from .conftest import read

SECTIONS = {name: read(name) for name in ("flags", "history", "commands")}
TABLE = load_flags(SECTIONS)

#: Any text at all: lone surrogates and NUL bytes included.
ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=30)
NAMES = st.sampled_from(list(TABLE.names))
WORDS = st.one_of(
    NAMES,
    ANYTHING,
    st.builds(lambda name, cut: name[: cut % len(name) + 1], NAMES, st.integers(0, 99)),
    st.builds(lambda name, value: f"{name}={value}", NAMES, ANYTHING),
    st.builds(lambda value: "-" + value, ANYTHING),
    st.sampled_from(["--", "-", "-h", "-1", "--config", "{}", "[1]", "sglang", "serve", "python"]),
)


@settings(max_examples=400)
@given(st.lists(WORDS, max_size=25), st.dictionaries(ANYTHING, ANYTHING, max_size=2))
def test_parsing_never_raises(argv: list[str], env: dict[str, str]) -> None:
    launch = parse(argv, TABLE, env)
    assert launch.values.keys() == TABLE.defaults.keys()
    for problem in launch.problems:
        assert problem.message
        assert problem.says
        problem.message.encode()
        assert isinstance(problem.suggestions, tuple)
        if problem.index is not None and problem.end is not None:
            assert 0 <= problem.index < problem.end <= len(argv)


@settings(max_examples=300)
@given(st.lists(WORDS, max_size=12))
def test_stripping_never_raises(argv: list[str]) -> None:
    command = strip_command(argv, SECTIONS["commands"])
    assert len(command.origins) == len(command.argv)
    (command.other_program or "").encode()
    for problem in command.problems:
        problem.message.encode()
    parse(command.argv, TABLE, before=command.problems, unknown=command.unknown)


@settings(max_examples=300)
@given(st.text(st.sampled_from(" \n\t'\"\\|&;<>()$`{}#=-aM0"), max_size=60))
def test_splitting_never_raises(text: str) -> None:
    strip_command(["sglang serve " + text], SECTIONS["commands"])


LONG: dict[str, Callable[[int], list[str]]] = {
    "known flags": lambda n: ["--tp-size", "2"] * n,
    "abbreviated flags": lambda n: ["--tp", "2"] * n,
    "unknown flags": lambda n: [f"--bogus-{i}" for i in range(n)],
    "ambiguous flags": lambda n: ["--speculative-draft"] * n,
    "stray words": lambda n: ["stray"] * n,
    "strays and flags": lambda n: ["stray", "--trust-remote-code"] * n,
    "missing values": lambda n: ["--tp-size"] * n,
    "bad values": lambda n: ["--tp-size", "x"] * n,
    "removed flags": lambda n: ["--nsa-prefill-backend", "x"] * n,
    "values of one flag": lambda n: ["--cuda-graph-bs-decode", *["1"] * n],
    "after a double dash": lambda n: ["--", *["--tp-size"] * n],
    "double dashes": lambda n: ["--"] * n,
    "lists and dashes": lambda n: ["--cuda-graph-bs-decode", "1", "--"] * n,
}


@pytest.mark.parametrize("name", LONG)
def test_ten_thousand_words_take_no_more_than_their_share(name: str) -> None:
    make = LONG[name]

    def calls(count: int) -> int:
        """How many calls parsing makes, of functions in Python and in C."""
        argv = make(count)
        made = 0

        def count_one(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count_one)
        try:
            parse(argv, TABLE)
        finally:
            sys.setprofile(before)
        return made

    # A parser that looks at all words for each of them would make a hundred times as many.
    assert calls(10_000) < 12 * calls(1_000)


HUGE: dict[str, list[str]] = {
    "text": ["--served-model-name", "x" * 1_000_000],
    "number": ["--tp-size", "9" * 1_000_000],
    "size": ["--context-length", "9" * 1_000_000 + "k"],
    "binary size": ["--context-length", "9" * 1_000_000 + "Ki"],
    "float": ["--mem-fraction-static", "9" * 1_000_000],
    "choice": ["--attention-backend", "x" * 1_000_000],
    "flag": ["--" + "x" * 1_000_000],
    "json": ["--mm-process-config", "[" * 1_000_000],
    "strict json": ["--sidecar-args", "[" * 1_000_000],
    "flat json": ["--sidecar-args", "[" + "1," * 500_000 + "1]"],
    "adapter": ["--lora-paths", "{" + "x" * 1_000_000 + "}"],
    "explicit": ["--disable-radix-cache=" + "x" * 1_000_000],
    "stray": ["x" * 1_000_000],
    "level": ["--log-level", "x" * 1_000_000],
}


@pytest.mark.parametrize("name", HUGE)
def test_a_value_of_a_megabyte(name: str) -> None:
    start = time.process_time()
    launch = parse(["--model-path", "m", *HUGE[name]], TABLE)
    for problem in launch.problems:
        assert len(problem.message) < 1_000
        assert len(problem.says) < 2_000
        assert problem.suggestions is not None
    assert time.process_time() - start < 2


def test_a_pasted_megabyte(table: FlagTable) -> None:
    start = time.process_time()
    for tail in ("$a" * 90_000, "a " * 90_000, "'" * 99_999, "<a>" * 60_000, "(" * 90_000):
        strip_command(["sglang serve m " + tail], SECTIONS["commands"])
    strip_command(["x " * 500_000], SECTIONS["commands"])
    assert time.process_time() - start < 20


def test_loading_and_parsing_are_cheap() -> None:
    """Generous bounds: they catch a blunder, not a slow machine."""

    def best(action: Callable[[], Any]) -> float:
        times = []
        for _ in range(20):
            start = time.process_time()
            action()
            times.append(time.process_time() - start)
        return min(times)

    argv = [
        "--model-path", "m", "--tp", "8", "--attention-backend", "fa3", "--page-size", "64",
        "--kv-cache-dtype", "fp8_e4m3", "--speculative-algorithm", "EAGLE",
        "--speculative-eagle-topk", "4", "--speculative-num-steps", "3", "--disable-radix-cache",
        "--trust-remote-code",
    ]  # fmt: skip
    assert best(lambda: load_flags(SECTIONS)) < 0.003
    assert best(lambda: parse(argv, TABLE)) < 0.0005


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; import attn_lint.lintcfg.flags as f; "
        "t = f.FlagTable([{'field': 'a_b', 'names': ['--a-b']}]); "
        "f.parse(['--a-b', '1', '--a', '2'], t); f.strip_command(['--a-b', '1']); "
        "print([m for m in ('argparse', 'yaml', 'pydantic', 'difflib', 'shlex', 'decimal', "
        "'libcst', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
