"""`attn-lint verify` itself: it has to tell every way of going wrong from being right."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from attn_lint.backends.interface.capabilities import Capabilities
from attn_lint.backends.torch_native.capabilities import CAPABILITIES
from attn_lint.backends.verify.board import Board, Piece, ends_of, groups_of
from attn_lint.backends.verify.commands import newest
from attn_lint.backends.verify.marks import UNFINISHED_LEGEND
from attn_lint.backends.verify.outcome import Outcome
from attn_lint.backends.verify.pool import Result, Settings, Stopped, Worker, run_all
from attn_lint.backends.verify.probes import Task, catalogue, plan

HERE = Path(__file__).parent
FOUND = catalogue(newest()["bundled"])
ENVIRONMENT = {
    "ATTN_LINT_VERIFY_PLUGINS": '["bad_backends"]',
    "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
}


def tasks_of(name: str, capabilities: Capabilities, *cells: str) -> list[Task]:
    return plan(FOUND, replace(capabilities, name=name), "cpu", None, cells)


def run(tasks: list[Task], seeds: int = 1, timeout: float = 60, jobs: int = 1) -> list[Result]:
    return run_all(
        tasks, Settings(range(seeds), jobs, timeout, environment=ENVIRONMENT), ["triton"]
    )


def first(name: str, cell: str = "decode", timeout: float = 60) -> Outcome:
    own = CAPABILITIES
    if name in ("answers_anyway", "refuses_late"):
        own = replace(own, allows={**own.allows, "window": frozenset({False})})
    tasks = [task for task in tasks_of(name, own, cell) if task.family == "mha"]
    tasks = [task for task in tasks if "many" in task.probe.name or cell != "decode"][:1]
    (result,) = run(tasks, timeout=timeout)
    return result.outcomes[0][1]


@pytest.mark.parametrize(
    ("name", "cell", "kind", "says"),
    [
        ("off_by_a_bit", "decode", "wrong", "off by 1.0e-03 of the norm"),
        ("one_bad_query", "decode", "wrong", "one query is off by 1.5e-04"),
        ("unwritten", "decode", "wrong", "off by inf"),
        ("reads_on", "decode", "wrong", "off by inf"),
        ("crashes", "decode", "crashed", "signal 11"),
        ("raises", "decode", "crashed", "RuntimeError: no kernel image is available"),
        ("answers_anyway", "sliding_window", "wrong", "answers what it declares to refuse"),
        ("refuses_late", "sliding_window", "wrong", "stores keys and values"),
        ("refuses_more", "decode", "wrong", "refuses what it declares to carry: no windows"),
        ("not_built", "decode", "unavailable", "the module is not built"),
        ("talks", "decode", "right", ""),
    ],
)
def test_every_way_of_going_wrong_is_told(name: str, cell: str, kind: str, says: str) -> None:
    outcome = first(name, cell)
    assert (outcome.kind, says in outcome.text) == (kind, True), outcome


def test_a_hang_is_ended_and_told() -> None:
    outcome = first("hangs", timeout=3)
    assert outcome.kind == "crashed"
    assert outcome.text == "no answer after 3 s"


def test_a_crash_costs_one_probe() -> None:
    """The process is made anew; what comes after runs as if nothing had been."""
    tasks = [
        *tasks_of("crashes", CAPABILITIES, "decode"),
        *tasks_of("talks", CAPABILITIES, "decode"),
    ]
    by_backend: dict[str, list[str]] = {}
    for result in run(tasks, jobs=2):
        by_backend.setdefault(result.task.backend, []).append(result.outcomes[0][1].kind)
    assert set(by_backend["crashes"]) == {"crashed"}
    assert set(by_backend["talks"]) == {"right"}


def test_a_bad_outcome_ends_its_seeds_and_refusals_take_one() -> None:
    wrong = run(tasks_of("off_by_a_bit", CAPABILITIES, "decode")[:1], seeds=3)
    assert [outcome.kind for _, outcome in wrong[0].outcomes] == ["wrong"]
    right = run(tasks_of("talks", CAPABILITIES, "decode")[:1], seeds=3)
    assert [outcome.kind for _, outcome in right[0].outcomes] == ["right"] * 3
    refused = run(tasks_of("talks", CAPABILITIES, "logit_cap")[:1], seeds=3)
    assert [outcome.kind for _, outcome in refused[0].outcomes] == ["refused"]


def test_the_bundled_backends_are_right_on_a_fresh_seed() -> None:
    """Two seeds beyond those of the evidence, over cells of every way of running."""
    cells = ("decode", "serving", "hybrid", "mixed_layers", "idle", "bad_input", "cuda_graph")
    tasks = plan(FOUND, CAPABILITIES, "cpu", None, cells)
    partner = ["triton"] if importlib.util.find_spec("triton") else ["flex_attention"]
    settings = Settings(range(7001, 7003), 2, 120)
    results = run_all(tasks, settings, partner)
    assert {o.kind for result in results for _, o in result.outcomes} == {"right", "refused"}
    assert {task.probe.run for task in tasks} == {
        "eager", "life", "hybrid", "layers", "idle", "bad", "graph",
    }  # fmt: skip


def test_a_budget_that_is_spent_is_said_and_evidence_lists_what_was_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Evidence with seeds that were never run would claim more than was seen."""
    import time

    from attn_lint.backends.verify import pool
    from attn_lint.lintcfg.cli import dispatch, guarded
    from attn_lint.matrix import evidence

    now, ended = time.monotonic(), []
    run = pool.Worker.run

    def run_one(self: pool.Worker, *arguments: Any) -> Any:
        ended.append(1e9)
        return run(self, *arguments)

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now + sum(ended)

    monkeypatch.setattr(pool, "time", Clock)
    monkeypatch.setattr(pool.Worker, "run", run_one)
    path = tmp_path / "e.json"
    words = ["--backend", "torch_native", "--cell", "decode", "--cell", "idle", "--jobs", "1"]
    words += ["--device", "cpu", "--budget", "600", "--seeds", "7", "--output-file", str(path)]
    assert guarded(dispatch, ["verify", *words]) == 0
    (made,) = evidence.read(path)
    assert made["seeds"] == [0]
    told = capsys.readouterr()
    assert "the budget is spent: 11 of 12 probes are left out" in told.err
    # What a cell shows is of a part of its probes, and a cell that was not come to is no blank.
    marks = {line.split()[0]: line for line in told.out.splitlines() if "│" in line}
    assert "…" in marks["decode"]
    assert "…" in marks["idle"]
    assert UNFINISHED_LEGEND in told.out


def test_a_deadline_leaves_out_what_it_must() -> None:
    tasks = tasks_of("talks", CAPABILITIES, "decode")
    settings = Settings(range(1), 1, 60, deadline=0.0, environment=ENVIRONMENT)
    assert run_all(tasks, settings, []) == []


def test_what_is_heavy_comes_first_but_not_with_a_deadline() -> None:
    """Else one process ends long after the others; with little time what is light must not wait."""
    tasks = tasks_of("talks", CAPABILITIES, "decode", "page_sizes", "logit_cap", "mla_heads")
    pieces = [Piece(task, range(1)) for task in tasks]
    cells = [cell for _, cell in groups_of(pieces, by_weight=True)]
    assert cells == ["mla_heads", "page_sizes", "decode", "logit_cap"]
    cells = [cell for _, cell in groups_of(pieces, by_weight=False)]
    assert cells == ["decode", "page_sizes", "logit_cap", "mla_heads"]


def board(*names: str, seeds: int = 20) -> Board:
    tasks = tasks_of("talks", CAPABILITIES, "decode")
    pieces = [Piece(replace(tasks[0], backend=name), range(seeds)) for name in names]
    return Board(groups_of(pieces, by_weight=False), ends_of(seeds, in_steps=True))


def test_rounds_go_up_and_a_group_goes_back_to_its_process() -> None:
    """A kernel is compiled once; nobody runs a second seed while another waits for its first."""
    of = board("a", "b", "c")
    taken = [(process, of.take(process)) for process in (0, 1, 0)]
    assert [turn and (turn.key[0], turn.end) for _, turn in taken] == [("a", 1), ("b", 1), ("c", 1)]
    for _, turn in taken:
        assert turn is not None
        turn.pieces[0].outcomes.append((0, Outcome("right")))
        of.done(turn)
    second = [of.take(process) for process in (1, 0, 0)]
    assert [turn and (turn.key[0], turn.end) for turn in second] == [("b", 4), ("c", 4), ("a", 4)]


@pytest.mark.parametrize("seeds", [1, 2, 4, 5, 20, 21, 500, 10_000])
def test_wherever_time_is_up_probes_have_run_about_as_often(seeds: int) -> None:
    """A step to all of the seeds at once would leave the budget to the first probe."""
    ends = ends_of(seeds, in_steps=True)
    assert ends[0] == 1 and ends[-1] == seeds
    assert all(before < after <= 4 * before for before, after in pairwise(ends))
    assert ends_of(seeds, in_steps=False) == [seeds]


def test_what_went_wrong_has_no_further_round() -> None:
    of = board("a", "b")
    for kind in ("wrong", "right"):
        turn = of.take(0)
        assert turn is not None
        turn.pieces[0].outcomes.append((0, Outcome(kind)))
        of.done(turn)
    turn = of.take(0)
    assert turn is not None and turn.key[0] == "b"
    of.close()
    assert of.take(0) is None


def test_seeds_that_an_earlier_evidence_has_are_not_run() -> None:
    task = tasks_of("talks", CAPABILITIES, "decode")[0]
    piece = Piece(task, range(20), had=4)
    assert [list(piece.until(end)) for end in (1, 4, 6)] == [[], [], [4, 5]]


def test_processes_share_the_gpus() -> None:
    settings = Settings(range(1), 3, 60, gpus=("2", "5"))
    workers = [Worker(settings, number) for number in range(3)]
    seen = [worker._environment["CUDA_VISIBLE_DEVICES"] for worker in workers]
    for worker in workers:
        worker.finish()
    assert seen == ["2", "5", "2"]


def test_a_run_that_goes_on_is_one_that_was_never_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from attn_lint.lintcfg.cli import dispatch, guarded
    from attn_lint.matrix import evidence

    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    words = ["verify", "--backend", "torch_native", "--cell", "decode", "--cell", "logit_cap"]
    words += ["--cell", "idle", "--device", "cpu", "--jobs", "1", "--output-file"]
    assert guarded(dispatch, [*words, str(whole), "--seeds", "5"]) == 0
    assert guarded(dispatch, [*words, str(part), "--seeds", "2"]) == 0
    words.remove("--output-file")
    # One of the cells only: the other one is of fewer seeds, and says so.
    alone = [word for word in words if word not in ("--cell", "decode", "logit_cap")]
    alone.insert(alone.index("idle"), "--cell")
    capsys.readouterr()
    assert guarded(dispatch, [*alone, "--seeds", "5", "--resume", str(part)]) == 0
    told = capsys.readouterr().out
    marks = {line.split()[0]: "…" in line for line in told.splitlines() if "│" in line}
    assert marks == {"decode": True, "logit_cap": False, "idle": False}
    assert UNFINISHED_LEGEND in told
    assert guarded(dispatch, [*words, "--seeds", "5", "--resume", str(part)]) == 0
    assert UNFINISHED_LEGEND not in capsys.readouterr().out
    (expected,), (made,) = evidence.read(whole), evidence.read(part)
    assert made["seeds"] == [0, 1, 2, 3, 4]
    assert made["backends"] == expected["backends"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"probes": "other"}, "other probes 'other', here '"),
        ({"versions": {}, "tool": "9"}, "no run in it is of what is here: other versions and tool"),
        ({"seeds": [3]}, "began with seed 3: give --seed 3"),
    ],
)
def test_another_run_is_not_gone_on_from(
    change: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from attn_lint.lintcfg.cli import dispatch, guarded
    from attn_lint.matrix import evidence

    path = tmp_path / "e.json"
    words = ["verify", "--backend", "torch_native", "--cell", "idle", "--device", "cpu"]
    assert guarded(dispatch, [*words, "--jobs", "1", "--output-file", str(path)]) == 0
    path.write_text(evidence.dump([{**run, **change} for run in evidence.read(path)]))
    assert guarded(dispatch, [*words, "--resume", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_what_went_wrong_before_is_run_anew() -> None:
    from attn_lint.backends.verify import resume

    def run_with(probe: dict[str, Any]) -> dict[str, Any]:
        return {"seeds": [0], "backends": {"b": {"mha": {"decode": {"p": probe}}}}}

    wrong = run_with({"call": "c", "right": 3, "wrong": 1, "error": 0.5, "tolerance": 0.1})
    assert resume.had(wrong, range(20)) == {}
    right = {"call": "c", "right": 20, "error": 0.01, "tolerance": 0.1}
    made = {**run_with(right), "not_run": {}}
    assert resume.joined(wrong, made)["backends"]["b"]["mha"]["decode"]["p"] == right


def _shown_until(terminal: int, what: bytes | None) -> bytes:
    """What a program shows on a terminal until it shows that; None: until it is gone."""
    shown = b""
    while what is None or what not in shown:
        try:
            shown += os.read(terminal, 1000)
        except OSError:  # EIO: nobody has the other side
            assert what is None
            break
    return shown


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_run_that_is_ended_keeps_what_is_finished(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """As a person at a terminal and a scheduler do it; a process that it killed is no crash."""
    import pty

    from attn_lint.matrix import evidence

    path = tmp_path / "e.json"
    # The budget has every probe run one seed first.
    words = ["--backend", "torch_native", "--cell", "sinks", "--jobs", "1"]
    words += ["--seeds", "3000", "--budget", "300"]
    command = [sys.executable, "-m", "attn_lint.lintcfg", "verify", *words, "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*command, "--output-file", str(path)], env=environment, stdout=subprocess.DEVNULL,
        stdin=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as ran:  # fmt: skip
        os.close(theirs)
        _shown_until(ours, b" probes, ")
        ran.send_signal(number)
        said = _shown_until(ours, None).decode()
        os.close(ours)
        assert ran.wait(60) == code
    assert "note: stopped: " in said and f"--resume {path} goes on" in said
    (run_,) = evidence.read(path)
    kinds = {
        kind
        for families in run_["backends"].values()
        for cells in families.values()
        for probes in cells.values()
        for probe in probes.values()
        for kind in ("right", "refused", "wrong", "crashed")
        if kind in probe
    }
    assert "right" in kinds and kinds <= {"right", "refused"}


def test_a_run_that_is_ended_before_it_has_anything_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from attn_lint.lintcfg.cli import dispatch, guarded

    def ended(worker: Worker, task: Task, seeds: object, partners: object) -> list[Any]:
        if not worker.stopped:
            os.kill(os.getpid(), signal.SIGINT)
        while not worker.stopped:
            time.sleep(0.01)
        return []

    monkeypatch.setattr(Worker, "run", ended)
    path = tmp_path / "e.json"
    words = ["verify", "--backend", "torch_native", "--cell", "idle", "--device", "cpu"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert guarded(dispatch, [*words, "--output-file", str(path)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    told = capsys.readouterr()
    assert (told.out, path.exists()) == ("", False)
    assert told.err.startswith("note: stopped before any probe had ended")


def test_what_a_process_has_said_counts_though_the_rest_of_its_job_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All seeds of a probe are one job of one process, which is killed in its midst."""
    answers = []
    answer = Worker._outcome

    def counted(worker: Worker) -> Outcome:
        answers.append(answer(worker))
        if len(answers) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return answers[-1]

    monkeypatch.setattr(Worker, "_outcome", counted)
    tasks = [task for task in tasks_of("torch_native", CAPABILITIES, "decode") if not task.refusals]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Stopped) as stopped:
            run_all(tasks[:1], Settings(range(100_000), jobs=1, timeout=60), [])
    finally:
        signal.signal(signal.SIGINT, before)
    (result,) = stopped.value.results
    assert {outcome.kind for _, outcome in result.outcomes} == {"right"}
    assert 5 <= len(result.outcomes) < 100_000


def test_an_interrupt_that_another_thread_takes_is_none_the_less_one() -> None:
    """As a kernel hands it over when the main thread sleeps and another is about to wake."""
    taken = threading.Event()

    def told(task: Task, runs: int) -> None:
        if not taken.is_set():
            taken.set()
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    tasks = tasks_of("torch_native", CAPABILITIES, "decode")
    settings = Settings(range(3000), jobs=1, timeout=60, deadline=time.monotonic() + 100)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Stopped) as stopped:
            run_all(tasks, settings, [], told)
    finally:
        signal.signal(signal.SIGINT, before)
    assert taken.is_set()
    assert {outcome.kind for r in stopped.value.results for _, outcome in r.outcomes} == {"right"}
    assert sum(len(result.outcomes) for result in stopped.value.results) < 3000


@pytest.mark.parametrize("stays", [False, True], ids=["ends", "nohup"])
def test_a_run_whose_terminal_closes_keeps_what_is_finished(stays: bool, tmp_path: Path) -> None:
    """As when a connection drops: the kernel sends SIGHUP, and writing to the terminal fails."""
    import fcntl
    import pty
    import termios

    from attn_lint.matrix import evidence

    def lead() -> None:
        """Take the terminal as one's own, as a login shell does."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if stays else signal.SIG_DFL)

    path = tmp_path / "e.json"
    words = ["--backend", "torch_native", "--cell", "decode", "--cell", "page_sizes"]
    words += ["--jobs", "1", "--seeds", "3" if stays else "3000", "--budget", "300"]
    command = [sys.executable, "-m", "attn_lint.lintcfg", "verify", *words, "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*command, "--output-file", str(path)], env=environment, start_new_session=True,
        preexec_fn=lead, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as ran:  # fmt: skip
        os.close(theirs)
        _shown_until(ours, b" probes, ")
        os.close(ours)
        code = ran.wait(60)
    (run_,) = evidence.read(path)
    ((_, probe), *_) = run_["backends"]["torch_native"]["mha"]["decode"].items()
    if stays:
        assert probe["right"] == len(run_["seeds"]) == 3
    else:
        assert code == 128 + signal.SIGHUP and probe["right"] >= 1
