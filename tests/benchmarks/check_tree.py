"""Prints how fast a tree of mixed files is checked, and the memory that takes.

python -m tests.benchmarks.check_tree [--files 10000]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
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
            text = source.read_text(encoding="utf-8")
            # No two files say the same, so that none is judged on the strength of another.
            text = text.replace("--model-path ", f"--port {20_000 + number} --model-path ")
            (parent / f"{number}-{source.name}").write_text(text, encoding="utf-8")
            launches += 1
        else:
            suffix = rng.choice(suffixes)
            (parent / f"{number}{suffix}").write_text(filler(rng, suffix), encoding="utf-8")
    return launches


def memory(group: int) -> float:
    """Memory of a process and its children in MiB; what they share counts once."""
    total = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if os.getpgid(int(folder.name)) != group:
                continue
            text = (folder / "smaps_rollup").read_text(encoding="ascii")
        except (OSError, ValueError):
            continue
        for line in text.splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def timed(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory of a command."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = 0.0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            time.sleep(0.05)
        if process.returncode not in (0, 1):
            err.seek(0)
            sys.exit(err.read().decode())
    wall = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, peak


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
            wall, spent, peak = timed(
                [sys.executable, "-c", code, command, name, "--isolated", "--output-format",
                 "json"]
            )  # fmt: skip
            print(
                f"{command}: {given.files} files, {with_launches} with launches: "
                f"{wall:.1f} s wall ({given.files / wall:.0f} files a second), {spent:.1f} s CPU "
                f"({given.files / spent:.0f} a second), {peak:.0f} MiB"
            )


if __name__ == "__main__":
    main()
