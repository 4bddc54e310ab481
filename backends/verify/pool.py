"""Spreads tasks over worker processes, with a time limit for each probe; imports no torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any

from .board import Board, Piece, ends_of, groups_of
from .outcome import BAD, CRASHED, Outcome
from .probes import Task
from .worker import task_to_json

#: Seconds that a process may take to import what it needs.
START_LIMIT = 300.0
#: A refusal hangs on traits alone; seeds add nothing to it.
REFUSAL_SEEDS = 1
#: Seconds between two looks of the main thread for an interrupt: where a signal is handed to
#: another thread, Python notes it there and wakes nobody.
LOOK = 0.1
#: Seconds of a limit that are counted at once.
TICK = 0.5

TaskKey = tuple[str, str, str, str]


@dataclass(slots=True)
class Result:
    """The outcomes of a task, by seed."""

    task: Task
    outcomes: list[tuple[int, Outcome]] = field(default_factory=list)


class Stopped(Exception):
    """The run ended early; `results` is what was finished, `why` what ended it."""

    def __init__(self, results: list[Result], why: BaseException) -> None:
        super().__init__("stopped")
        self.results = results
        self.why = why


@dataclass(frozen=True, slots=True)
class Settings:
    """How tasks are run."""

    seeds: Sequence[int]
    jobs: int
    timeout: float  # seconds for each run of a probe; the first one compiles
    deadline: float | None = None  # of `time.monotonic`; no probe is begun after it
    environment: dict[str, str] = field(default_factory=dict)
    #: GPUs to share the processes out over, as CUDA_VISIBLE_DEVICES names them; none: as they are.
    gpus: Sequence[str] = ()


class Worker:
    """One process, started again when it is gone."""

    def __init__(self, settings: Settings, number: int = 0) -> None:
        self._settings = settings
        self._environment = dict(settings.environment)
        if settings.gpus:
            gpu = settings.gpus[number % len(settings.gpus)]
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu
        self._process: subprocess.Popen[str] | None = None
        self.stopped = False
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in finish

    def run(
        self, task: Task, seeds: Sequence[int], partners: Sequence[str]
    ) -> list[tuple[int, Outcome]]:
        """Run a task over seeds; the first bad outcome ends it."""
        outcomes: list[tuple[int, Outcome]] = []
        problem = self._start()
        if problem is None:
            job = {"task": task_to_json(task), "seeds": list(seeds), "partners": list(partners)}
            problem = self._send(job)
        for seed in seeds:
            outcome = problem or self._outcome()
            if self.stopped:  # what it died of is we
                break
            outcomes.append((seed, outcome))
            if outcome.kind in BAD:
                # What is left of the job is of no interest, and it may be stuck.
                self.close()
                break
        return outcomes

    def stop(self) -> None:
        """End the process, from another thread; what it was at has no outcome."""
        self.stopped = True
        process = self._process  # which its own thread may end meanwhile
        if process is not None:
            _end(process)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            _end(self._process)
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
            **self._environment,
        }
        self._log.seek(0)
        self._log.truncate()
        self._process = subprocess.Popen(
            # Of the folder that we stand in nothing is imported: it may be a library's own source.
            [sys.executable, "-P", "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
            bufsize=1,
            # Keys that interrupt go to us, and we decide what comes of the process.
            start_new_session=True,
        )
        threading.Thread(target=_bury, args=(self._process,), daemon=True).start()
        if self.stopped:
            _end(self._process)
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
        hung, answered = threading.Event(), threading.Event()

        def give_up() -> None:
            if not _comes(answered, limit):
                hung.set()
                _end(process)

        threading.Thread(target=give_up, daemon=True).start()
        try:
            line = process.stdout.readline()
        finally:
            answered.set()
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


def _comes(event: threading.Event, limit: float) -> bool:
    """Whether an event comes within so many seconds in which we run.

    Counted in short waits: while we are stopped, as by Ctrl-Z, nobody can hear of it.
    """
    while limit > 0:
        if event.wait(min(limit, TICK)):
            return True
        limit -= TICK
    return False


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process that leads a group, and the group: compilers that it started, say."""
    if process.returncode is None:
        _end_group(process.pid)
        process.kill()


def _bury(process: subprocess.Popen[str]) -> None:
    """Wait for a process to end, and end what it leaves behind.

    That would go on without it, and who of them holds its pipe keeps us waiting for an answer.
    """
    process.wait()
    _end_group(process.pid)


def _end_group(leader: int) -> None:
    if hasattr(os, "killpg"):  # Windows has no groups
        with suppress(ProcessLookupError, PermissionError):  # nobody left but the dead
            os.killpg(leader, signal.SIGKILL)


def run_all(
    tasks: Sequence[Task],
    settings: Settings,
    partners: Sequence[str],
    told: Callable[[Task, int], None] = lambda task, runs: None,
    had: Mapping[TaskKey, int] = MappingProxyType({}),
    heard: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[Result]:
    """Run tasks over processes; `told` hears of each turn of a task, and how many runs it was.

    `had` says of how many seeds of a task an earlier evidence tells. With a deadline every task
    runs one seed before any runs a second; what the deadline left out has no result. `heard` is
    entered to wait, where an interrupt is expected.

    Raises:
        Stopped: someone interrupted, or there is no room for another process, say; it has the
            results until then.
    """
    pieces = [
        Piece(task, settings.seeds[:REFUSAL_SEEDS] if task.refusals else settings.seeds,
              had.get(task.key, 0))
        for task in tasks
    ]  # fmt: skip
    in_time = settings.deadline is not None
    left = [piece for piece in pieces if piece.until(len(piece.seeds))]
    groups = groups_of(left, by_weight=not in_time)
    board = Board(groups, ends_of(len(settings.seeds), in_steps=in_time))
    failures: list[BaseException] = []
    workers = [Worker(settings, process) for process in range(min(settings.jobs, len(groups)))]

    def work(process: int, worker: Worker) -> None:
        try:
            while (turn := board.take(process)) is not None:
                for piece in turn.pieces:
                    if settings.deadline is not None and time.monotonic() > settings.deadline:
                        board.close()
                        break
                    seeds = piece.until(turn.end)
                    if seeds and not worker.stopped:
                        others = [name for name in partners if name != piece.task.backend]
                        piece.outcomes += worker.run(piece.task, seeds, others)
                        told(piece.task, len(seeds))
                board.done(turn)
        except BaseException as error:
            failures.append(error)
            board.close()
        finally:
            worker.finish()
            ended.append(process)
            if len(ended) == len(workers):
                over.set()

    ended: list[int] = []
    over = threading.Event()
    if not workers:
        over.set()
    for each in enumerate(workers):
        threading.Thread(target=work, args=each, daemon=True).start()
    # Not by joining the threads: a join that was interrupted takes its thread for ended.
    stopped: BaseException | None = None
    while not over.is_set():
        try:
            with heard():
                _wait(over)
        except KeyboardInterrupt as interrupt:
            stopped = stopped or interrupt
            board.close()
            for worker in workers:
                worker.stop()
    results = [Result(piece.task, piece.outcomes) for piece in pieces if piece.outcomes]
    stopped = stopped or next(iter(failures), None)
    if stopped is not None:
        raise Stopped(results, stopped)
    return results


def _wait(over: threading.Event) -> None:
    """Wait for it, and let every interrupt come through."""
    while not over.wait(LOOK):
        pass
