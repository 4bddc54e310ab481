"""`attn-lint verify` itself: it has to tell every way of going wrong from being right."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from attn_lint.backends.interface.capabilities import Capabilities
from attn_lint.backends.torch_native.capabilities import CAPABILITIES
from attn_lint.backends.verify.commands import newest
from attn_lint.backends.verify.outcome import Outcome
from attn_lint.backends.verify.pool import Result, Settings, groups_of, run_all
from attn_lint.backends.verify.probes import Task, catalogue, plan

HERE = Path(__file__).parent
FOUND = catalogue(newest()["bundled"])
ENVIRONMENT = {
    "ATTN_LINT_VERIFY_PLUGINS": '["bad_backends"]',
    "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
}


def tasks_of(name: str, capabilities: Capabilities, *cells: str) -> list[Task]:
    from dataclasses import replace

    return plan(FOUND, replace(capabilities, name=name), "cpu", None, cells)


def run(tasks: list[Task], seeds: int = 1, timeout: float = 60, jobs: int = 1) -> list[Result]:
    return run_all(
        tasks, Settings(range(seeds), jobs, timeout, environment=ENVIRONMENT), ["triton"]
    )


def first(name: str, cell: str = "decode", timeout: float = 60) -> Outcome:
    from dataclasses import replace

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

    def run_one(self: pool.Worker, *arguments: Any) -> Result:
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
    assert "the budget is spent: 11 of 12 probes are left out" in capsys.readouterr().err


def test_a_deadline_leaves_out_what_it_must() -> None:
    tasks = tasks_of("talks", CAPABILITIES, "decode")
    settings = Settings(range(1), 1, 60, deadline=0.0, environment=ENVIRONMENT)
    assert run_all(tasks, settings, []) == []


def test_what_is_heavy_comes_first_but_not_with_a_deadline() -> None:
    """Else one process ends long after the others; with little time what is light must not wait."""
    tasks = tasks_of("talks", CAPABILITIES, "decode", "page_sizes", "logit_cap", "mla_heads")
    cells = [cell for _, cell in groups_of(tasks, by_weight=True)]
    assert cells == ["mla_heads", "page_sizes", "decode", "logit_cap"]
    cells = [cell for _, cell in groups_of(tasks, by_weight=False)]
    assert cells == ["decode", "page_sizes", "logit_cap", "mla_heads"]
