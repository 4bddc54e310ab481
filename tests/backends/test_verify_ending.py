"""Ways in which `attn-lint verify` ends early: what it keeps, and whom it leaves behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from attn_lint.backends.torch_native.capabilities import CAPABILITIES
from attn_lint.backends.verify import commands, pool
from attn_lint.backends.verify.commands import newest
from attn_lint.backends.verify.pool import Settings, Worker
from attn_lint.backends.verify.probes import Task, catalogue, plan
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.matrix import evidence

HERE = Path(__file__).parent
WORDS = ["verify", "--backend", "torch_native", "--device", "cpu", "--jobs", "1", "--cell"]
PLUGINS = {
    "ATTN_LINT_VERIFY_PLUGINS": '["bad_backends"]',
    "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
}


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As on a terminal; what starts the tests may have had interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def after(monkeypatch: pytest.MonkeyPatch, name: str, *numbers: int) -> None:
    """Have signals come just before a function of the command is called."""
    function: Callable[..., Any] = getattr(commands, name)

    def interrupted(*arguments: Any) -> Any:
        send(*numbers)
        return function(*arguments)

    monkeypatch.setattr(commands, name, interrupted)


@pytest.mark.parametrize(
    ("numbers", "code"),
    [([signal.SIGINT], 130), ([signal.SIGINT] * 2, 130), ([signal.SIGTERM, signal.SIGHUP], 143)],
    ids=["once", "twice", "two kinds"],
)
def test_a_signal_while_evidence_is_written_costs_none_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, numbers: Sequence[int], code: int
) -> None:
    """An exit code beyond 128 is, in POSIX, that of the signal."""
    after(monkeypatch, "write_atomically", *numbers)
    path = tmp_path / "e.json"
    assert guarded(dispatch, [*WORDS, "idle", "--output-file", str(path)]) == code
    (run,) = evidence.read(path)
    assert run["seeds"] == [0]


def test_one_who_interrupts_twice_keeps_what_is_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counts = []

    class Told(commands._Progress):
        def __call__(self, task: Task, runs: int) -> None:
            counts.append(runs)
            if len(counts) == 2:
                send(signal.SIGINT)

    monkeypatch.setattr(commands, "_Progress", Told)
    after(monkeypatch, "write_atomically", signal.SIGINT)
    path = tmp_path / "e.json"
    words = [*WORDS, "decode", "--seeds", "3000", "--budget", "300", "--output-file", str(path)]
    assert guarded(dispatch, words) == 130
    (run,) = evidence.read(path)
    assert run["backends"]["torch_native"]["mha"]["decode"]


def test_a_signal_before_the_first_probe_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    after(monkeypatch, "plan", signal.SIGTERM)
    assert guarded(dispatch, [*WORDS, "page_sizes", "--seeds", "3000"]) == 143


def test_an_interrupt_ends_the_wait_for_who_reads_a_pipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    write = commands.write_atomically

    def wait(*arguments: Any) -> None:
        threading.Timer(0.5, send, (signal.SIGINT,)).start()
        write(*arguments)

    monkeypatch.setattr(commands, "write_atomically", wait)
    assert guarded(dispatch, [*WORDS, "idle", "--output-file", str(pipe)]) == 130


def test_what_is_printed_as_json_is_not_said_to_be_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Told(commands._Progress):
        def __call__(self, task: Task, runs: int) -> None:
            send(signal.SIGINT)

    monkeypatch.setattr(commands, "_Progress", Told)
    assert guarded(dispatch, [*WORDS, "decode", "--output-format", "json"]) == 130
    told = capsys.readouterr()
    path = tmp_path / "e.json"
    path.write_text(told.out)
    assert evidence.read(path)
    assert "note: stopped: " in told.err and "nothing is kept" not in told.err


def test_what_is_finished_is_kept_where_no_further_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """fork(2): EAGAIN at the limit of processes."""
    run, ran = Worker.run, []

    def limited(self: Worker, *arguments: Any) -> Any:
        if len(ran) == 2:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        ran.append(arguments)
        return run(self, *arguments)

    monkeypatch.setattr(pool.Worker, "run", limited)
    path = tmp_path / "e.json"
    assert guarded(dispatch, [*WORDS, "decode", "--output-file", str(path)]) == 2
    (made,) = evidence.read(path)
    counts = [
        len(probes)
        for cells in made["backends"]["torch_native"].values()
        for probes in cells.values()
    ]
    assert sum(counts) == 2
    told = capsys.readouterr().err
    assert f"--resume {path} goes on" in told
    assert os.strerror(errno.EAGAIN) in told


def bad_task(name: str) -> Task:
    found = catalogue(newest()["bundled"])
    return plan(found, replace(CAPABILITIES, name=name), "cpu", None, ("decode",))[0]


@pytest.mark.parametrize(
    ("name", "timeout", "says"),
    [
        ("crashes_leaving_a_child", 60, "the process ended with signal 11: "),
        ("hangs_leaving_a_child", 20, "no answer after 20 s"),
    ],
)
def test_a_process_that_leaves_a_child_is_not_waited_for(
    name: str, timeout: float, says: str
) -> None:
    settings = Settings(range(1), 1, timeout, environment=PLUGINS)
    worker = Worker(settings)
    try:
        ((_, outcome),) = worker.run(bad_task(name), [0], [])
        assert outcome.text.startswith(says)
        worker._log.seek(0)
        child = int(worker._log.read().split()[-1])
        # It is ended before the answer is told, or by then: on its own it would go on for long.
        assert gone(child)
    finally:
        worker.finish()


def started(folder: Path, *lines: str) -> subprocess.Popen[str]:
    """A process of its own that runs these lines with all that is in this file."""
    script = folder / "run.py"
    script.write_text("\n".join(["from test_verify_ending import *", *lines]))
    return subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, **PLUGINS},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_while_it_is_stopped_no_time_passes(tmp_path: Path) -> None:
    """As by Ctrl-Z and fg: POSIX stops the process, and what it waits for is still on its way."""
    with started(
        tmp_path,
        "worker = Worker(Settings(range(1), 1, 14, environment=PLUGINS))",
        "assert worker._start() is None",
        "print('ready', flush=True)",
        "((_, outcome),) = worker.run(bad_task('takes_its_time'), [0], [])",
        "print(outcome.kind, outcome.text)",
        "worker.finish()",
    ) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == "ready\n"
        time.sleep(1)
        ran.send_signal(signal.SIGSTOP)
        time.sleep(12)
        ran.send_signal(signal.SIGCONT)
        assert ran.stdout.read() == "right \n"


def test_nobody_goes_on_for_a_run_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL can't be caught: who is left behind has to see it."""
    with started(
        tmp_path,
        "worker = Worker(Settings(range(1), 1, 600, environment=PLUGINS))",
        "task = bad_task('hangs_leaving_a_child')",
        "threading.Thread(target=worker.run, args=(task, [0], [])).start()",
        "while not (said := os.pread(worker._log.fileno(), 99, 0)): time.sleep(0.1)",
        "print(worker._process.pid, int(said), flush=True)",
        "time.sleep(600)",
    ) as ran:
        assert ran.stdout is not None
        left = [int(word) for word in ran.stdout.readline().split()]
        assert len(left) == 2
        ran.kill()
    assert all(gone(process) for process in left)


def gone(process: int) -> bool:
    """Whether a process that is not ours ends before long; one that nobody waits for is dead."""
    for _ in range(100):
        try:
            os.kill(process, 0)
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    return False


@pytest.mark.parametrize("module", ["torch", "json"])
def test_nothing_is_imported_from_the_folder_that_it_is_run_in(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a checkout of torch or of a kernel library, whose sources are not what is tested.

    A console script has the folder of the script on its path, not the one that it is run in.
    """
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('of the folder')")
    monkeypatch.chdir(tmp_path)
    assert guarded(dispatch, [*WORDS, "idle"]) == 0


def test_a_terminal_that_takes_nothing_back_is_shown_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """terminfo(5) has no way to erase a line for `dumb`."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for terminal, shows in (("xterm", True), ("dumb", False)):
        monkeypatch.setenv("TERM", terminal)
        progress = commands._Progress(1)
        progress(bad_task("talks"), 1)
        progress.done()
        assert ("\x1b[K" in capsys.readouterr().err) == shows
