"""Prints how long a warm `pre-commit run` of the hook takes on one file, beside yamllint's.

python -m tests.benchmarks.pre_commit [--rounds 5]      (needs pre-commit on the path)
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = """\
repos:
- repo: local
  hooks:
  - id: attn-lint
    name: attn-lint
    entry: attn-lint check --exit-zero
    language: python
    additional_dependencies: ['{root}']
    require_serial: true
    files: \\.yaml$
  - id: yamllint
    name: yamllint
    entry: yamllint -d relaxed
    language: python
    additional_dependencies: ['yamllint']
    files: \\.yaml$
"""


def cpu() -> float:
    """CPU seconds of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Set both hooks up in one repository and time them by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    tool = shutil.which("pre-commit")
    if tool is None:
        sys.exit("pre-commit is not on the path")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = ROOT / "fixtures" / "launches" / "kubernetes" / "deployment.yaml"
        (folder / "deployment.yaml").write_bytes(source.read_bytes())
        (folder / ".pre-commit-config.yaml").write_text(CONFIG.format(root=ROOT), "utf-8")
        for command in (["git", "init", "-q"], ["git", "add", "-A"], [tool, "install-hooks"]):
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        best: dict[str, tuple[float, float]] = {}
        for _ in range(rounds):
            for hook in ("attn-lint", "yamllint"):
                begin, spent = time.perf_counter(), cpu()
                subprocess.run(
                    [tool, "run", hook, "--files", "deployment.yaml"],
                    cwd=folder, check=False, stdout=subprocess.DEVNULL,
                )  # fmt: skip
                wall, used = time.perf_counter() - begin, cpu() - spent
                known = best.get(hook, (wall, used))
                best[hook] = min(known[0], wall), min(known[1], used)
    for hook, (wall, used) in best.items():
        print(f"{hook}: {wall:.2f} s wall, {used:.2f} s CPU")
    ours, theirs = best["attn-lint"], best["yamllint"]
    print(f"ratio: {ours[0] / theirs[0]:.2f} wall, {ours[1] / theirs[1]:.2f} CPU (limit 3)")


if __name__ == "__main__":
    main()
