"""The process in which probes run: jobs come in as JSON lines, outcomes go out as JSON lines.

    python -m attn_lint.backends.verify.worker

A process of its own, so that a kernel that ends it or leaves the device unusable costs one probe.
Its standard output belongs to the backends; answers go to the descriptor that was it at the start.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import asdict
from typing import Any, TextIO

from ..interface.capabilities import Refusal, Request
from .outcome import CRASHED, Outcome
from .probes import Probe, Task

#: Exit code of a process whose device can't be used any more.
DEVICE_LOST = 70
#: Seconds between two looks for whoever gives us jobs.
LOOK = 1.0


def task_from_json(data: dict[str, Any]) -> Task:
    """A task as `task_to_json` wrote it."""
    request = dict(data["request"])
    if request["capability"] is not None:
        request["capability"] = tuple(request["capability"])
    refusals = tuple(Refusal(tuple(r["traits"]), r["reason"]) for r in data["refusals"])
    return Task(
        data["backend"], data["family"], Probe(**data["probe"]), Request(**request), refusals
    )


def task_to_json(task: Task) -> dict[str, Any]:
    """A task as plain JSON."""
    return asdict(task)


def main() -> None:
    """Answer jobs until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    import torch

    torch.set_num_threads(int(os.environ.get("ATTN_LINT_VERIFY_THREADS", "1")))
    for module in json.loads(os.environ.get("ATTN_LINT_VERIFY_PLUGINS", "[]")):
        __import__(module)
    from .. import bundled  # noqa: F401  # registers

    _say(answers, {"ready": True})
    served = None
    for line in sys.stdin:
        job = json.loads(line)
        if served not in (None, job["task"]["backend"]):
            _let_go()
        served = job["task"]["backend"]
        _answer(job, answers)


def _end_with(parent: int) -> None:
    """End this process and what it started when the one that started it is gone.

    It may have been killed; a kernel that hangs would keep the device for good.
    """
    while os.getppid() == parent:
        time.sleep(LOOK)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _let_go() -> None:
    """Give back the memory of the device that the last backend left unused."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _answer(job: dict[str, Any], answers: TextIO) -> None:
    from .interpreter import quicken
    from .runs import attempt

    task = task_from_json(job["task"])
    if task.request.device == "cpu":
        quicken()
    for seed in job["seeds"]:
        outcome = attempt(task, seed, job["partners"])
        lost = _device_is_lost(task.request.device)
        if lost:
            outcome = Outcome(CRASHED, outcome.text or lost, outcome.error, outcome.row)
        _say(answers, {"seed": seed, **asdict(outcome)})
        if lost:
            os._exit(DEVICE_LOST)


def _device_is_lost(device: str) -> str | None:
    """Wait for the device; what went wrong there, where something did."""
    if device != "cuda":
        return None
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def _say(answers: TextIO, data: dict[str, Any]) -> None:
    answers.write(json.dumps(data) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
