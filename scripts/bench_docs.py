#!/usr/bin/env python3
"""Time the docs checker against parsing the files that it looks at.

    python scripts/bench_docs.py TREE PAGE… [--runs N] [--whole-tree]

Every measurement is a process of its own, started cold; the shortest of several runs counts.
`--whole-tree` adds what it costs to parse every file of the tree, with ast and with libcst.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_READ = """
import json, sys
from pathlib import Path
from attn_lint.docs_check.commands import read_pages
from attn_lint.docs_check.drift.engine import Checker
from attn_lint.docs_check.source.tree import SourceTree
tree = SourceTree.find(Path(sys.argv[1]))
checker = Checker(tree)
for page in read_pages([Path(path) for path in sys.argv[2:]]).pages:
    checker.check(page)
print(json.dumps([str(tree.root / file) for file in tree.read()]))
"""
_PARSE = """
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


def shortest(command: list[str], runs: int) -> tuple[float, float]:
    """Wall-clock and processor time of the shortest of several runs."""
    best = (float("inf"), float("inf"))
    for _ in range(runs):
        before, start = os.times(), time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        wall, after = time.perf_counter() - start, os.times()
        used = after.children_user + after.children_system
        used -= before.children_user + before.children_system
        best = min(best, (wall, used))
    return best


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, help="an SGLang source tree")
    parser.add_argument("pages", type=Path, nargs="+", help="pages to check")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--whole-tree", action="store_true", help="parse every file as well")
    options = parser.parse_args()
    pages = [str(page) for page in options.pages]
    python = sys.executable
    done = subprocess.run(
        [python, "-c", _READ, str(options.tree), *pages], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        files = json.loads(done.stdout)
        names = Path(folder, "files.json")
        names.write_text(json.dumps(files), encoding="utf-8")
        size = sum(Path(file).stat().st_size for file in files)
        parse = shortest([python, "-c", _PARSE, str(names)], options.runs)
        docs = shortest(
            [python, "-c", _DOCS, "docs", "--isolated", "--source", str(options.tree), *pages],
            options.runs,
        )
        print(f"{len(files)} files with {size / 1e6:.1f} MB were looked at")
        print(f"ast.parse of these   {parse[0]:6.2f} s wall, {parse[1]:6.2f} s processor")
        print(f"attn-lint docs       {docs[0]:6.2f} s wall, {docs[1]:6.2f} s processor")
        print(f"ratio                {docs[0] / parse[0]:6.2f}        {docs[1] / parse[1]:6.2f}")
        if options.whole_tree:
            everything = [str(path) for path in options.tree.rglob("*.py")]
            names.write_text(json.dumps(everything), encoding="utf-8")
            for label, program in (("ast", _PARSE), ("libcst", _LIBCST)):
                wall, used = shortest([python, "-c", program, str(names)], 1)
                print(
                    f"{label:6} of all {len(everything)} files {wall:6.2f} s wall,"
                    f" {used:6.2f} s processor"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
