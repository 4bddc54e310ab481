"""The engine: order of effects, last writer wins, refusals, and what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.lintcfg.resolver.engine import Outcome, Program
from attn_lint.lintcfg.resolver.values import Unknown
from attn_lint.matrix.compile import compile_release
from attn_lint.matrix.errors import MatrixDataError
from attn_lint.matrix.loader import Release

SOURCE = {"file": "srt/x.py", "symbol": "f"}
FLAGS = ["backend", "page", "dtype", "topk"]


def write_release(folder: Path, rules: list[Any], library: dict[str, Any] | None = None) -> Path:
    """A release with one stage of these rules."""
    (folder / "stages").mkdir(parents=True)
    files: dict[str, Any] = {
        "pipeline.yaml": {
            "engine": "test", "release": "1", "stages": ["one"], "source": SOURCE,
        },
        "platforms.yaml": {
            "platforms": [
                {
                    "name": "gpu", "title": "GPU", "kind": "cuda", "vendor": "V",
                    "architecture": "sm90", "capability": [9, 0], "cuda": "12.8", "memory_mib": 1,
                },
            ]
        },
        "facts.yaml": {
            "definitions": {"big_page": {"when": {"page": {"gt": 64}}, "source": SOURCE}},
            "environment": {"FLAG": {"type": "bool", "default": False, "source": SOURCE}},
        },
        "stages/one.yaml": {
            "stage": "one", "label": "resolve", "summary": "One.", "source": SOURCE,
            "rules": rules, "library": library or {},
        },
        "codes.yaml": {"codes": {}},
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


@pytest.fixture
def resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("attn_lint.matrix.sections.SCHEMAS", {})
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "flags.yaml").write_text(
        yaml.safe_dump({"flags": [{"field": name, "names": [f"--{name}"]} for name in FLAGS]}),
        encoding="utf-8",
    )

    def run(
        rules: list[Any],
        values: dict[str, Any],
        library: dict[str, Any] | None = None,
        **known: Any,
    ) -> Outcome:
        folder = write_release(tmp_path / "r", rules, library)
        program = Program(Release("test", "1", compile_release(folder)))
        return program.run({**dict.fromkeys(FLAGS), **values}, **known)

    return run


def refuse(code: str = "ATT201", **more: Any) -> dict[str, Any]:
    return {"code": code, "message": "no {backend}", **more}


def test_the_last_writer_wins_and_the_trace_has_both(resolve: Any) -> None:
    outcome = resolve(
        [{"set": {"page": 64}}, {"when": {"page": 64}, "set": {"page": 128}}], {"page": 1}
    )
    assert outcome.state["page"] == 128
    assert [(step.before, step.after) for step in outcome.trace] == [(1, 64), (64, 128)]
    assert outcome.startup == "starts"


def test_writes_of_one_rule_read_the_state_before_it(resolve: Any) -> None:
    outcome = resolve([{"set": {"page": "$topk", "topk": "$page"}}], {"page": 1, "topk": 2})
    assert (outcome.state["page"], outcome.state["topk"]) == (2, 1)


def test_the_first_refusal_decides_and_the_others_are_kept(resolve: Any) -> None:
    outcome = resolve(
        [
            {"id": "first", "when": {"backend": "x"}, "refuse": refuse()},
            {"id": "second", "refuse": refuse("ATT202")},
        ],
        {"backend": "x"},
    )
    assert outcome.startup == "refuses"
    assert [(event.rule.id, event.first) for event in outcome.events] == [
        ("first", True),
        ("second", False),
    ]
    assert outcome.events[0].text == "no x"


def test_choose_takes_the_first_branch_that_holds(resolve: Any) -> None:
    rules = [
        {
            "choose": [
                {"when": {"page": 1}, "set": {"backend": "a"}},
                {"when": {"page": {"lt": 9}}, "set": {"backend": "b"}},
                {"set": {"backend": "c"}},
            ]
        }
    ]
    assert resolve(rules, {"page": 1}).state["backend"] == "a"


def test_stop_leaves_the_stage(resolve: Any) -> None:
    outcome = resolve(
        [{"when": {"page": 1}, "rules": [{"stop": True}]}, {"set": {"backend": "late"}}],
        {"page": 1},
    )
    assert outcome.state["backend"] is None


def test_an_unknown_condition_keeps_both_possibilities(resolve: Any) -> None:
    outcome = resolve(
        [
            {"when": {"platform.kind": "cuda"}, "set": {"page": 64}},
            {"id": "r", "when": {"page": 64}, "refuse": refuse()},
        ],
        {"page": 1},
    )
    assert outcome.startup == "depends"
    assert outcome.state["page"].candidates == (1, 64)
    assert outcome.events[0].certain is False
    assert outcome.reads_unknown("platform.")


def test_branches_that_exclude_one_another_do_not_mix(resolve: Any) -> None:
    outcome = resolve(
        [
            {
                "choose": [
                    {"when": {"platform.kind": "cuda"}, "set": {"page": 64, "backend": "a"}},
                    {"set": {"page": 32, "backend": "b"}},
                ]
            }
        ],
        {"page": 1},
    )
    page = outcome.state["page"]
    assert isinstance(page, Unknown)
    assert set(page.candidates or ()) == {64, 32}
    assert outcome.startup == "starts"


def test_a_possible_early_return_makes_the_rest_possible(resolve: Any) -> None:
    outcome = resolve(
        [{"when": {"platform.kind": "cuda"}, "stop": True}, {"set": {"page": 64}}], {"page": 1}
    )
    assert set(outcome.state["page"].candidates) == {1, 64}


def test_known_facts_leave_nothing_open(resolve: Any) -> None:
    rules = [{"id": "r", "when": {"platform.kind": "cuda"}, "refuse": refuse()}]
    outcome = resolve(rules, {"page": 1}, platform={"platform.kind": "cuda"})
    assert outcome.startup == "refuses"


def test_bindings_run_the_rules_once_each_with_the_worker_s_traits(resolve: Any) -> None:
    library = {
        "build": [
            {
                "id": "no-mla",
                "when": {"each.b": "mla_only", "worker.mla": False},
                "refuse": refuse(phase="{each.phase}"),
            }
        ]
    }
    rules = [
        {
            "each": [
                {"b": "$backend", "phase": "prefill", "worker": "model"},
                {
                    "b": "$dtype",
                    "phase": "decode",
                    "worker": "draft",
                    "when": {"dtype": {"set": True}},
                },
            ],
            "use": "build",
        }
    ]
    outcome = resolve(
        rules, {"backend": "mla_only", "dtype": "mla_only"}, library,
        model={"mla": True}, draft={"mla": False},
    )  # fmt: skip
    assert [event.phase for event in outcome.events] == ["decode"]


def test_definitions_environment_and_typed_values(resolve: Any) -> None:
    rules = [
        {
            "when": {"big_page": True, "env.FLAG": True, "typed.page": True},
            "set": {"page": "$raw.topk"},
        }
    ]
    outcome = resolve(rules, {"page": 128, "topk": 4}, typed=["page"], environment={"FLAG": "yes"})
    assert outcome.state["page"] == 4


def test_unchecked_launches_are_not_judged(resolve: Any) -> None:
    outcome = resolve([{"when": {"page": 1}, "unchecked": "beyond"}], {"page": 1})
    assert outcome.startup == "unchecked"


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ([{"when": {"bakend": 1}, "set": {"page": 1}}], "did you mean 'backend'"),
        ([{"set": {"nothing": 1}}], "no field named 'nothing'"),
        ([{"when": {"platform.sizes": 1}, "set": {"page": 1}}], "unknown name"),
        ([{"when": {"fact.nothing": 1}, "set": {"page": 1}}], "unknown name"),
        ([{"use": "missing"}], "no library named 'missing'"),
        ([{"refuse": {"code": "ATT201", "message": "x"}}], "needs an id"),
        ([{"id": "a", "stop": True}, {"id": "a", "stop": True}], "the id is taken"),
        ([{"when": {"page": 1}}, {}], "needs a `doc`"),
        ([{"id": "x", "refuse": {"code": "X1", "message": "x"}}], "string_pattern|pattern"),
        ([{"unknown_key": 1}], "Extra inputs"),
    ],
)
def test_broken_rules_are_refused_with_their_place(
    resolve: Any, rules: list[Any], complaint: str
) -> None:
    with pytest.raises(MatrixDataError, match=complaint):
        resolve(rules, {})


def test_rules_of_a_library_stand_where_it_is_asked_for(resolve: Any) -> None:
    asking = {"file": "srt/x.py", "symbol": "g"}
    library = {
        "one": [{"id": "inside", "refuse": refuse()}],
        "own": [{"id": "own", "source": SOURCE, "refuse": refuse()}],
        "two": [{"id": "shared", "refuse": refuse()}],
    }
    outcome = resolve(
        [
            {"source": asking, "rules": [{"use": "one"}, {"use": "own"}, {"use": "two"}]},
            {"use": "two"},
        ],
        {"backend": "x"},
        library,
    )
    sources = {event.rule.id: event.rule.source for event in outcome.events}
    assert sources == {"inside": asking, "own": SOURCE, "shared": SOURCE}
