"""Prints how long the docs checker takes, beside parsing the files that it looks at.

    python -m tests.benchmarks.docs --source TREE PAGE… [--rounds N] [--whole-tree]

Every measurement is a process of its own that starts cold, and rounds are interleaved: the least
time of each counts, so that a busy machine does not decide. Only ratios of one run mean something.
`--whole-tree` adds what it takes to parse every file of the tree with ast and with libcst.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

#: What the ratio of wall-clock times must not exceed.
BAR = 3.0

_FILES = """
import json, sys
from pathlib import Path
from attn_lint.docs_check.commands import read_pages
from attn_lint.docs_check.drift.engine import Checker
from attn_lint.docs_check.source.tree import SourceTree
tree = SourceTree.find(Path(sys.argv[1]))
checker = Checker(tree)
for page in read_pages([Path(path) for path in sys.argv[2:]]).pages:
    checker.check(page)
read = [str(tree.root / file) for file in tree.read()]
print(json.dumps([read, [str(tree.root / file) for file in tree.files()]]))
"""
_AST = """
import ast, json, sys, warnings
warnings.simplefilter("ignore")
for file in json.load(open(sys.argv[1])):
    with open(file, "rb") as stream:
        try:
            ast.parse(stream.read())
        except (SyntaxError, ValueError):
            pass
"""
_LIBCST = """
import json, sys
import libcst
for file in json.load(open(sys.argv[1])):
    with open(file, "rb") as stream:
        try:
            libcst.parse_module(stream.read())
        except Exception:
            pass
"""
_DOCS = "from attn_lint.lintcfg.cli import main; main()"


@dataclass
class Time:
    """The least wall-clock and processor time of several runs."""

    wall: float = float("inf")
    cpu: float = float("inf")

    def run(self, command: list[str]) -> None:
        """Run a command once more; its own children's time counts as well."""
        # An installed package has its byte code; so has this one, from the second run on.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        before, start = os.times(), time.perf_counter()
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
            check=False,
        )  # fmt: skip
        self.wall = min(self.wall, time.perf_counter() - start)
        after = os.times()
        used = after.children_user + after.children_system
        self.cpu = min(self.cpu, used - before.children_user - before.children_system)


def main() -> None:
    """Measure and print; exit 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="an SGLang source tree")
    parser.add_argument("pages", type=Path, nargs="+", help="pages to check")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--whole-tree", action="store_true", help="parse every file as well")
    options = parser.parse_args()
    python, pages = sys.executable, [str(page) for page in options.pages]
    done = subprocess.run(
        [python, "-c", _FILES, str(options.source), *pages],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    read, everything = json.loads(done.stdout)
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder, "files.json")
        names.write_text(json.dumps(read), encoding="utf-8")
        parse, docs = Time(), Time()
        for _ in range(options.rounds):
            parse.run([python, "-c", _AST, str(names)])
            docs.run([python, "-c", _DOCS, "docs", "--isolated", "--source", str(options.source),
                      *pages])  # fmt: skip
        size = sum(Path(file).stat().st_size for file in read) / 1e6
        print(f"{len(everything)} files in the tree; {len(read)} ({size:.1f} MB) are looked at")
        _tell(f"ast.parse of {len(read)} files", parse)
        _tell("attn-lint docs", docs)
        ratio = docs.wall / parse.wall
        print(f"attn-lint docs / ast.parse: {ratio:.2f} wall (bar {BAR:.0f}),"
              f" {docs.cpu / parse.cpu:.2f} processor")  # fmt: skip
        if options.whole_tree:
            names.write_text(json.dumps(everything), encoding="utf-8")
            for label, program in (("ast", _AST), ("libcst", _LIBCST)):
                whole = Time()
                whole.run([python, "-c", program, str(names)])
                _tell(f"{label} of all {len(everything)} files", whole)
                print(f"{label} of the tree / attn-lint docs: {whole.wall / docs.wall:.1f}")
    sys.exit(ratio > BAR)


def _tell(label: str, measured: Time) -> None:
    print(f"{label:28} {measured.wall:7.2f} s wall {measured.cpu:7.2f} s processor")


if __name__ == "__main__":
    main()
