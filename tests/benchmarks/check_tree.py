"""Prints how fast a tree of mixed files is checked, and the memory that takes.

python -m tests.benchmarks.check_tree [--files 10000]
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures" / "launches"
_WORDS = ("a", "server", "model", "value", "path", "image", "data", "list", "step", "name")


def filler(rng: random.Random, suffix: str) -> str:
    """A file of a kind without any launch in it."""
    lines = [
        f"{rng.choice(_WORDS)}_{number}: {rng.choice(_WORDS)}" if suffix in (".yaml", ".json")
        else f"# {rng.choice(_WORDS)} {rng.choice(_WORDS)} {number}"
        for number in range(rng.randint(20, 120))
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def build(folder: Path, count: int, seed: int) -> int:
    """Write the tree; one file in twenty holds launches. Returns how many do."""
    rng = random.Random(seed)
    inputs = [p for p in FIXTURES.rglob("*") if p.is_file() and ".expected." not in p.name]
    suffixes = (".sh", ".yaml", ".md", ".py", ".json", ".txt", ".go", ".cc", ".toml", ".rst")
    launches = 0
    for number in range(count):
        parent = folder / f"d{number % 97}" / f"e{number % 7}"
        parent.mkdir(parents=True, exist_ok=True)
        if number % 20 == 0:
            source = inputs[(number // 20) % len(inputs)]
            shutil.copy(source, parent / f"{number}-{source.name}")
            launches += 1
        else:
            suffix = rng.choice(suffixes)
            (parent / f"{number}{suffix}").write_text(filler(rng, suffix), encoding="utf-8")
    return launches


def main() -> None:
    """Build the tree, check it, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with_launches = build(folder, given.files, given.seed)
        code = "import sys; from attn_lint.lintcfg.cli import main; main()"
        for command in ("launches", "check"):
            begin, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [sys.executable, "-c", code, command, name, "--isolated", "--output-format",
                 "json"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            wall = time.perf_counter() - begin
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime
            if done.returncode not in (0, 1):
                sys.exit(done.stderr)
            print(
                f"{command}: {given.files} files, {with_launches} with launches: "
                f"{wall:.1f} s wall, {spent:.1f} s CPU, "
                f"{given.files / spent:.0f} files per CPU second, "
                f"{used.ru_maxrss / 1024:.0f} MiB"
            )


if __name__ == "__main__":
    main()
