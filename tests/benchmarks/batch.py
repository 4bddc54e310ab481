"""Batch mode: launches judged a second on one core.

python tests/benchmarks/batch.py [--count N]
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path

from attn_lint.lintcfg.commands.batch import answer_line
from attn_lint.lintcfg.commands.common import read_request
from attn_lint.lintcfg.judge import Judge
from attn_lint.lintcfg.options import BATCH, LAUNCH_OPTIONS
from attn_lint.matrix.loader import load

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance.draw import draw

BAR = 500


def main() -> None:
    """Judge drawn launches over catalogue models and print the rate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    options = parser.parse_args()
    release = load()
    judge = Judge(release)
    models = list(judge.program.archetypes.values())
    platforms = judge.platforms.representatives()
    lines = [
        json.dumps(
            {"id": case.id, "argv": case.argv, "gpu": case.platform, "model": case.model}
        ).encode()
        for case in draw("bench", options.count, judge.flags, platforms, models)
    ]
    request = read_request([], (*LAUNCH_OPTIONS, BATCH))
    out = io.StringIO()
    start = time.process_time()
    for number, line in enumerate(lines, 1):
        answer = answer_line(line, number, judge, request)
        out.write(json.dumps(answer, default=str) + "\n")
    rate = len(lines) / (time.process_time() - start)
    print(f"{rate:.0f} launches a second of CPU time (bar {BAR})")
    sys.exit(0 if rate >= BAR else 1)


if __name__ == "__main__":
    main()
