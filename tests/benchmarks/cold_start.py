"""Cold start: CPU time of one verdict, against an import of typer and against SGLang itself.

    python tests/benchmarks/cold_start.py [--rounds N] [--sglang PYTHON]

Rounds are interleaved and the least CPU time of each command counts, so that a busy machine does
not decide. Only ratios of one run mean something.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

LAUNCH = ["--attention-backend", "trtllm_mha", "--speculative-eagle-topk", "4"]
#: What the ratio to `import typer` must not exceed, and the least ratio of SGLang to us.
TYPER_BAR, SGLANG_BAR = 1.8, 25.0

ASK_SGLANG = """
import sys
from sglang.srt.server_args import prepare_server_args
try:
    prepare_server_args(["--model-path", "dummy", *sys.argv[1:]]).resolve_once()
except BaseException as error:
    print(type(error).__name__, error)
"""


def cpu_seconds(command: list[str], environment: dict[str, str] | None = None) -> float:
    """User and system time of a command and its children, in seconds."""
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime


def own_command() -> list[str]:
    """The installed console script, else the module."""
    script = Path(sys.executable).with_name("attn-lint")
    if script.exists():
        return [str(script)]
    found = shutil.which("attn-lint")
    if found:
        return [found]
    return [sys.executable, "-c", "from attn_lint.lintcfg.cli import main; main()"]


def main() -> None:
    """Measure and print the ratios; exit 1 where one misses its bar."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sglang", help="python of an environment with SGLang, no GPU needed")
    options = parser.parse_args()
    commands = {
        "python3 -c pass": [sys.executable, "-c", "pass"],
        "import typer": [sys.executable, "-c", "import typer"],
        "attn-lint": [*own_command(), *LAUNCH],
    }
    least: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, command in commands.items():
            least[name] = min(least.get(name, 1e9), cpu_seconds(command))
    if options.sglang:
        environment = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
        least["SGLang"] = min(
            cpu_seconds([options.sglang, "-c", ASK_SGLANG, *LAUNCH], environment) for _ in range(2)
        )
    for name, seconds in least.items():
        print(f"{name:18} {1000 * seconds:9.1f} ms CPU")
    ratio = least["attn-lint"] / least["import typer"]
    print(f"attn-lint / import typer: {ratio:.2f} (bar {TYPER_BAR})")
    failed = ratio > TYPER_BAR
    if "SGLang" in least:
        gain = least["SGLang"] / least["attn-lint"]
        print(f"SGLang / attn-lint: {gain:.1f} (bar {SGLANG_BAR:.0f})")
        failed = failed or gain < SGLANG_BAR
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
