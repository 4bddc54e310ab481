"""Spreads tasks over worker processes, with a time limit for each probe; imports no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from .outcome import BAD, CRASHED, Outcome
from .probes import Task
from .worker import task_to_json

#: Seconds that a process may take to import what it needs.
START_LIMIT = 300.0
#: A refusal hangs on traits alone; seeds add nothing to it.
REFUSAL_SEEDS = 1


@dataclass(slots=True)
class Result:
    """The outcomes of a task, by seed."""

    task: Task
    outcomes: list[tuple[int, Outcome]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Settings:
    """How tasks are run."""

    seeds: Sequence[int]
    jobs: int
    timeout: float  # seconds for each run of a probe; the first one compiles
    deadline: float | None = None  # of `time.monotonic`; no probe is begun after it
    environment: dict[str, str] = field(default_factory=dict)


class Worker:
    """One process, started again when it is gone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in finish

    def run(self, task: Task, partners: Sequence[str]) -> Result:
        """Run a task over its seeds; the first bad outcome ends it."""
        result = Result(task)
        seeds = list(self._settings.seeds)
        if task.refusals:
            seeds = seeds[:REFUSAL_SEEDS]
        problem = self._start()
        if problem is None:
            job = {"task": task_to_json(task), "seeds": seeds, "partners": list(partners)}
            problem = self._send(job)
        for seed in seeds:
            outcome = problem or self._outcome()
            result.outcomes.append((seed, outcome))
            if outcome.kind in BAD:
                # What is left of the job is of no interest, and it may be stuck.
                self.close()
                break
        return result

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    def finish(self) -> None:
        """End the process for good."""
        self.close()
        self._log.close()

    def _start(self) -> Outcome | None:
        if self._process is not None and self._process.poll() is None:
            return None
        self.close()
        places = [entry for entry in sys.path if entry]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(places),
            **self._settings.environment,
        }
        self._log.seek(0)
        self._log.truncate()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
            bufsize=1,
        )
        line, problem = self._line(START_LIMIT)
        return problem if line is None else None

    def _send(self, job: dict[str, Any]) -> Outcome | None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except OSError:
            return self._dead()
        return None

    def _outcome(self) -> Outcome:
        line, problem = self._line(self._settings.timeout)
        if line is None:
            assert problem is not None
            return problem
        data = json.loads(line)
        return Outcome(data["kind"], data["text"], data["error"], data["row"])

    def _line(self, limit: float) -> tuple[str | None, Outcome | None]:
        """The next answer, or why there is none."""
        process = self._process
        assert process is not None and process.stdout is not None
        hung = threading.Event()

        def give_up() -> None:
            hung.set()
            process.kill()

        timer = threading.Timer(limit, give_up)
        timer.daemon = True
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if line.endswith("\n"):
            return line, None
        if hung.is_set():
            return None, Outcome(CRASHED, f"no answer after {limit:g} s")
        return None, self._dead()

    def _dead(self) -> Outcome:
        assert self._process is not None
        code = self._process.wait()
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 2000))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Outcome(
            CRASHED, f"the process ended with {how}" + (f": {lines[-1]}" if lines else "")
        )


def groups_of(tasks: Sequence[Task], *, by_weight: bool) -> dict[tuple[str, str], deque[Task]]:
    """Tasks by backend and cell; the heaviest first, so that no process ends long after the rest.

    With a deadline they stay in order: what is light and many must not wait for what is heavy.
    """
    groups: dict[tuple[str, str], deque[Task]] = {}
    for task in tasks:
        groups.setdefault((task.backend, task.probe.cell), deque()).append(task)
    if not by_weight:
        return groups
    return dict(sorted(groups.items(), key=lambda item: -sum(map(_weight, item[1]))))


def _weight(task: Task) -> int:
    """What a task costs beside others, roughly: queries and keys both grow with the page."""
    request = task.request
    return 0 if task.refusals else request.q_heads * (request.page_size + 48) ** 2


def run_all(
    tasks: Sequence[Task],
    settings: Settings,
    partners: Sequence[str],
    told: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run tasks over processes; `told` hears of each result as it comes.

    A task that the deadline left out has no result.
    """
    groups = groups_of(tasks, by_weight=settings.deadline is None)
    lock = threading.Lock()
    busy: dict[str, int] = {}
    results: dict[tuple[str, str, str, str], Result] = {}
    failures: list[BaseException] = []

    def next_group(last: str | None) -> tuple[str, deque[Task]] | None:
        """A group of the backend that this process has loaded, else of the least served one."""
        with lock:
            if last is not None:
                busy[last] -= 1
            if not groups or failures:
                return None
            key = min(groups, key=lambda key: (key[0] != last, busy.get(key[0], 0)))
            busy[key[0]] = busy.get(key[0], 0) + 1
            return key[0], groups.pop(key)

    def work() -> None:
        worker = Worker(settings)
        last: str | None = None
        try:
            while (found := next_group(last)) is not None:
                backend, group = found
                if last is not None and backend != last and group[0].request.device != "cpu":
                    worker.close()  # what the last backend left on the device goes with it
                last = backend
                for task in group:
                    if settings.deadline is not None and time.monotonic() > settings.deadline:
                        break
                    result = worker.run(task, [name for name in partners if name != backend])
                    with lock:
                        results[task.key] = result
                        told(result)
        except BaseException as error:
            failures.append(error)
        finally:
            worker.finish()

    jobs = min(settings.jobs, len(groups))  # more would have nothing to do
    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[task.key] for task in tasks if task.key in results]
