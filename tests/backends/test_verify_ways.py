"""Every way of running a probe finds what it is for: each backend here is right elsewhere."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from attn_lint.backends.interface.capabilities import one_of
from attn_lint.backends.torch_native.capabilities import CAPABILITIES
from attn_lint.backends.verify.commands import newest
from attn_lint.backends.verify.outcome import BAD, Outcome
from attn_lint.backends.verify.probes import Task, catalogue, plan
from attn_lint.backends.verify.worker import task_to_json

HERE = Path(__file__).parent
FP8: dict[str, Any] = {"dtype": "bfloat16", "kv_dtype": "fp8_e4m3"}
GRAPH: dict[str, Any] = {"mode": "decode", "graph": True, "run": "graph"}
#: A probe for each way of running, by a name of its own.
WAYS: dict[str, dict[str, Any]] = {
    "eager": {"mode": "decode"},
    "eager, fp8": {"mode": "decode", **FP8},
    "eager, extend": {"mode": "extend"},
    "layers": {"mode": "extend", "run": "layers", "window": True},
    "layers, fp8": {"mode": "decode", "run": "layers", **FP8},
    "life": {"mode": "extend", "run": "life"},
    "hybrid": {"mode": "decode", "run": "hybrid"},
    "idle": {"mode": "decode", "run": "idle"},
    "graph": GRAPH,
    "graph of verify": {**GRAPH, "mode": "target_verify", "draft_tokens": 4},
    "graph of extend": {**GRAPH, "mode": "extend"},
    "graph, layers": {**GRAPH, "layers": 4},
    "graph, layers, fp8": {**GRAPH, "layers": 4, **FP8},
}
#: What each backend is asked, and what it comes to: kind, and a part of what is said.
EXPECTED: dict[str, dict[str, tuple[str, str]]] = {
    "one_window": {"eager, extend": ("right", ""), "layers": ("wrong", "of the norm")},
    "one_scale": {
        "eager, fp8": ("right", ""), "layers": ("right", ""),
        "layers, fp8": ("wrong", "of the norm"),
    },
    "keeps_plan": {
        "eager": ("right", ""), "life": ("wrong", "of the norm"), "graph": ("wrong", "off by inf"),
    },
    "plans_once": {
        "eager": ("right", ""), "life": ("right", ""), "graph of extend": ("wrong", "of the norm"),
    },
    "counts_itself": {
        "eager": ("right", ""), "life": ("right", ""), "hybrid": ("wrong", "of the norm"),
    },
    "idle_row": {"eager": ("right", ""), "idle": ("wrong", "an idle pass gives [1, ")},
    "idle_sticks": {"eager": ("right", ""), "idle": ("wrong", "off by 1.0e+00")},
    "idle_raises": {"eager": ("right", ""), "idle": ("crashed", "ZeroDivisionError")},
    "makes_late": {
        "eager": ("right", ""), "graph": ("right", ""),
        "graph, layers": ("crashed", "when stream is capturing"),
    },
    "captures": dict.fromkeys(WAYS, ("right", "")),
}  # fmt: skip
CASES = [(name, way) for name, ways in EXPECTED.items() for way in ways]
GRAPHS = ("keeps_plan", "plans_once", "makes_late", "captures")


def planned() -> list[Task]:
    data = copy.deepcopy(newest()["bundled"])
    asked = {"title": "A way", "group": "Ways", "families": ["mha"]}
    data["cells"] = {way: {**asked, "probes": [probe]} for way, probe in WAYS.items()} | {
        "bad": data["cells"]["bad_input"] | {"families": ["mha"]}
    }
    found = catalogue(data)
    tasks = []
    for name, ways in {**EXPECTED, "trusting": {"bad": ()}}.items():
        allows = {**CAPABILITIES.allows}
        if name in GRAPHS:
            allows["graph"] = one_of(False, True)
        own = replace(CAPABILITIES, name=name, allows=allows)
        tasks += plan(found, own, "cpu", None, tuple(ways))
    return tasks


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str, str], Outcome]:
    """Outcomes of all of them by backend, cell and probe.

    From one process, which `verify` itself would start anew after each that is wrong.
    """
    tasks = planned()
    jobs = [
        json.dumps({"task": task_to_json(task), "seeds": [0], "partners": ["torch_native"]})
        for task in tasks
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "attn_lint.backends.verify.worker"],
        input="\n".join(jobs), capture_output=True, text=True, timeout=120, check=True,
        env={
            **os.environ,
            "ATTN_LINT_VERIFY_PLUGINS": '["bad_backends"]',
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        },
    )  # fmt: skip
    _, *answers = map(json.loads, ran.stdout.splitlines())
    return {
        (task.backend, task.probe.cell, task.probe.name): Outcome(answer["kind"], answer["text"])
        for task, answer in zip(tasks, answers, strict=True)
    }


@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_way_of_running_finds_what_it_is_for(
    outcomes: dict[tuple[str, str, str], Outcome], name: str, way: str
) -> None:
    (outcome,) = [found for key, found in outcomes.items() if key[:2] == (name, way)]
    kind, says = EXPECTED[name][way]
    assert (outcome.kind, says in outcome.text) == (kind, True), outcome


def test_all_damage_is_found_where_a_backend_checks_nothing(
    outcomes: dict[tuple[str, str, str], Outcome],
) -> None:
    found = {key[2]: outcome for key, outcome in outcomes.items() if key[:2] == ("trusting", "bad")}
    assert len(found) == 12
    assert {name: o for name, o in found.items() if o.kind not in BAD} == {}
