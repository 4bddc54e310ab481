"""Asks the real SGLang about launches, one process for each simulated machine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .draw import Case
from .install import interpreter

CHILD = Path(__file__).with_name("real_child.py")


class RealSGLang:
    """A pool of judges, started when their machine is first asked about.

    `child` is the script that answers, `options` what it takes after the machine.
    """

    def __init__(
        self,
        machines: dict[str, dict[str, Any]],
        child: Path = CHILD,
        options: Sequence[str] = (),
    ) -> None:
        self._machines = machines
        self._child = child
        self._options = options
        self._children: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> RealSGLang:
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self._children.values():
            self._end(child)
        self._children.clear()

    @staticmethod
    def _end(child: subprocess.Popen[str]) -> None:
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()
        child.wait()

    def ask(self, platform: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """Verdicts on launches for one machine, in order."""
        child = self._children.get(platform)
        if child is None:
            machine = json.dumps(self._machines[platform])
            command = [interpreter(), self._child, machine, *self._options]
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._children[platform] = child
        assert child.stdin is not None and child.stdout is not None
        stdin = child.stdin

        def feed() -> None:
            for case in cases:
                line = {
                    "id": case.id, "argv": ["--model-path", case.model, *case.argv],
                    "env": case.environment,
                }  # fmt: skip
                stdin.write(json.dumps(line) + "\n")
            stdin.flush()

        feeder = threading.Thread(target=feed)
        feeder.start()
        verdicts = [json.loads(child.stdout.readline() or "null") for _ in cases]
        feeder.join()
        if None in verdicts:
            raise RuntimeError(f"the judge of {platform} ended early")
        return verdicts

    def forget(self, platform: str) -> None:
        """End the judge of a machine, to give its memory back."""
        child = self._children.pop(platform, None)
        if child is not None:
            self._end(child)


def main() -> None:
    """Say where the installation is; for people who look for it."""
    print(interpreter(), file=sys.stderr)
