"""Probes, evidence, and the matrix of the bundled backends; nothing here needs torch."""

from __future__ import annotations

import codecs
import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from attn_lint.backends import bundled  # noqa: F401  # registers
from attn_lint.backends.interface.capabilities import NO, Capabilities, Limit, Range, one_of
from attn_lint.backends.registry import CAPABILITIES, unfit
from attn_lint.backends.verify import check, commands, report
from attn_lint.backends.verify.commands import newest
from attn_lint.backends.verify.marks import LEGEND
from attn_lint.backends.verify.probes import SETTINGS, catalogue, plan
from attn_lint.backends.verify.rows import rows_of
from attn_lint.lintcfg.cli import dispatch, guarded
from attn_lint.matrix import evidence
from attn_lint.matrix.errors import MatrixDataError
from attn_lint.matrix.loader import Release, load

RELEASE = newest()
FOUND = catalogue(RELEASE["bundled"])
SUPPORTS = ("yes", "no", "partial", "untested")
TRITON = CAPABILITIES["triton"]


def capability_of(entry: Any) -> tuple[int, int] | None:
    return tuple(entry["capability"]) if entry.get("capability") else None


def changed(rows: Any) -> Release:
    return Release(
        "bundled", RELEASE.name,
        {"bundled": RELEASE["bundled"], "evidence": RELEASE["evidence"], "rows": rows},
    )  # fmt: skip


# Probes


def test_probe_names_are_unique_and_settings_known() -> None:
    for cell in FOUND.cells.values():
        names = [probe.name for probe in cell.probes]
        assert len(names) == len(set(names)), cell.name
        for probe in cell.probes:
            assert set(probe.settings) <= set(SETTINGS)


def test_a_probe_with_a_key_that_is_none_is_refused() -> None:
    data = copy.deepcopy(RELEASE["bundled"])
    data["cells"]["decode"]["probes"] = [{"mode": "decode", "pagesize": 1}]
    with pytest.raises(ValueError, match="'pagesize'"):
        catalogue(data)


def test_a_probe_runs_on_the_first_base_that_carries_it() -> None:
    """A backend with 64-token pages only is asked for its window there, not on the first base."""
    own = replace(TRITON, allows={**TRITON.allows, "page_size": one_of(64), "sinks": NO})
    tasks = [task for task in plan(FOUND, own, "cpu", None) if task.family == "mha"]
    window = [task for task in tasks if task.probe.cell == "sliding_window"]
    assert window and all(task.request.page_size == 64 and not task.refusals for task in window)
    sinks = [task for task in tasks if task.probe.cell == "sinks"]
    assert sinks and all([r.traits for r in task.refusals] == [("sinks",)] for task in sinks)


def test_a_mode_that_is_not_carried_answers_no_other_cell() -> None:
    own = replace(TRITON, allows={**TRITON.allows, "mode": one_of("decode")})
    by_cell: dict[str, set[str]] = {}
    for task in plan(FOUND, own, "cpu", None):
        by_cell.setdefault(task.probe.cell, set()).add(task.probe.mode)
    assert by_cell["page_sizes"] == {"decode"}
    assert by_cell["extend"] == {"extend"}  # the question is the mode itself: it has to refuse
    assert "page_trees" not in by_cell


def test_every_backend_is_asked_something_it_refuses_and_something_it_carries() -> None:
    for name, own in CAPABILITIES.items():
        for entry in RELEASE["bundled"]["architectures"].values():
            capability = tuple(entry["capability"]) if entry.get("capability") else None
            if capability not in ((9, 0), None) or (
                entry["device"] not in own.allows.get("device", {entry["device"]})
            ):
                continue
            tasks = plan(FOUND, own, entry["device"], capability)
            assert {bool(task.refusals) for task in tasks} == {True, False}, name


def test_every_mode_that_is_carried_in_a_graph_is_probed_in_one() -> None:
    carried, probed = set(), set()
    for name, own in CAPABILITIES.items():
        for task in plan(FOUND, own, "cuda", (9, 0)):
            place = name, task.family, task.request.mode
            if task.probe.run == "graph" and not task.refusals:
                probed.add(place)
            elif not own.refusals(replace(task.request, graph=True)):
                carried.add(place)
    assert carried - probed == set()
    assert ("flashinfer", "mla", "extend") in carried


def test_a_backend_has_a_row_where_it_says_nothing_against_the_machine() -> None:
    architectures = RELEASE["bundled"]["architectures"]
    said = {
        (name, architecture): unfit(own, entry["device"], capability_of(entry))
        for name, own in CAPABILITIES.items()
        for architecture, entry in architectures.items()
    }
    rows = {
        (name, architecture): any(architecture in row for row in RELEASE["rows"][name].values())
        for name, architecture in said
    }
    assert rows == {place: why is None for place, why in said.items()}
    assert said["fa3", "cpu"] == "needs cuda"
    assert said["fa3", "sm120"] == "has no kernels for compute capability 12.0"


# Evidence


def probe(**counts: Any) -> dict[str, Any]:
    return {"call": "float32, page 16", **counts}


def run_with(cells: Any, architecture: str = "sm90", **others: Any) -> dict[str, Any]:
    capability = None if architecture == "cpu" else [9, 0]
    run = {
        "date": "2026-01-01T00:00:00Z", "tool": "0.1.0", "probes": "abc",
        "machine": {"architecture": architecture, "device": "A device",
                    "capability": capability, "system": "Linux x86_64"},
        "versions": {"torch": "2.13.0"}, "seeds": [0, 1, 2],
        "backends": {"triton": {"mha": cells}}, "not_run": {},
    }  # fmt: skip
    return {**run, **others}


@pytest.mark.parametrize(
    ("probes", "support"),
    [
        ({"decode": [probe(right=20)]}, "yes"),
        ({"decode": [probe(refused=1)]}, "no"),
        ({"decode": [probe(right=1)], "extend": [probe(refused=1)]}, "partial"),
        ({"decode": [probe(unavailable=1)]}, "untested"),
        ({"decode": [probe(right=1)], "extend": [probe(unavailable=1)]}, "yes"),
        ({"decode": [probe(right=19, wrong=1)]}, "bad"),
        ({"decode": [probe(right=1), probe(crashed=1)]}, "bad"),
        ({"decode": [probe(right=1), probe(refused=1)]}, "bad"),  # two machines disagree
    ],
)
def test_cells_follow_from_outcomes(probes: Any, support: str) -> None:
    assert evidence.support(probes, "cpu")["support"] == support


def test_a_partial_cell_says_what_it_carries_in_few_words() -> None:
    modes = ("decode", "extend", "target_verify")
    probes = {
        f"{mode} page_size={size}": [probe(right=1) if size > 5 else probe(refused=1)]
        for mode in modes
        for size in (1, 5, 16, 64)
    }
    cell = evidence.support(probes, "cpu")
    assert cell["when"] in ("page_size=16 64", "not page_size=1 5")
    assert len(cell["refuses"]) == 6
    probes = {mode: [probe(right=mode == "extend", refused=mode != "extend")] for mode in modes}
    assert evidence.support(probes, "cpu")["when"] == "extend"


def test_evidence_is_written_as_it_is_read(tmp_path: Path) -> None:
    runs = [run_with({"decode": {"decode": probe(right=3, error=1e-3, tolerance=0.02)}})]
    path = tmp_path / "e.json"
    path.write_text(evidence.dump(runs), encoding="utf-8")
    assert evidence.read(path) == runs
    assert sum('"right"' in line for line in path.read_text().splitlines()) == 1


def document(probes: Any = None, **others: Any) -> str:
    """A file of one run, with a probe or a key of the run as given."""
    run = run_with({"decode": {"decode": probe(right=1) if probes is None else probes}}, **others)
    return json.dumps({"schema": 1, "runs": [run]})


H100 = {"architecture": "sm90", "device": "H100", "capability": [9, 0], "system": "Linux"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"schema": 1, "runs": [], "runs": []}', "'runs' is there twice"),
        ('{"schema": 1, "runs": []}', "runs: List should have at least 1 item"),
        ('{"schema": 9, "runs": []}', "evidence of schema 9; this reads 1: a newer attn-lint"),
        ('{"schema": 0, "runs": []}', "evidence of schema 0; this reads 1: run attn-lint verify"),
        ('{"schema": "new", "runs": []}', "evidence of schema 'new'"),
        (document(probe(right=1, skipped=3)), "skipped: Extra inputs are not permitted"),
        (document(fingerprint="abc"), "fingerprint: Extra inputs are not permitted"),
        (document(backends={"triton": {"sparse": {}}}), "backends.triton.sparse"),
        (document(date="yesterday"), "runs.0.date"),
        (document(seeds=[-1]), "runs.0.seeds.0"),
        (document(seeds=["0"]), "runs.0.seeds.0: Input should be a valid integer"),
        (document(seeds=[0, 10**25]), "runs.0.seeds.1: Input should be less than"),
        (document(seeds=[0, 0]), "runs.0.seeds: .*seeds go up by one"),
        (document(seeds=[1, 0]), "runs.0.seeds: .*seeds go up by one"),
        (document(seeds=[0, 2**31]), "runs.0.seeds: .*seeds go up by one"),
        (document(seeds=[]), r"triton.mha.decode.decode: more outcomes \(1\) than seeds \(0\)"),
        (document(probe(right=4)), r"runs.0: .*more outcomes \(4\) than seeds \(3\)"),
        (document(probe(right=3, refused=1)), r"more outcomes \(4\) than seeds \(3\)"),
        (document(date="9999-99-99T99:99:99Z"), "runs.0.date"),
        (document(date="2026-02-30T00:00:00Z"), "runs.0.date"),
        (document(probe(right="1")), "decode.decode.right: Input should be a valid integer"),
        (document(probe(right=1.0)), "decode.decode.right: Input should be a valid integer"),
        (document(probe(right=True)), "decode.decode.right: Input should be a valid integer"),
        (document(probe(right=1, error="1e-7", tolerance=0.02)), "decode.decode.error"),
        (document(machine={**H100, "capability": ["9", "0"]}), "runs.0.machine.capability.0"),
        (document({"call": "\ud800", "right": 1}), "hex escape at line 1 column"),
        (document(not_run={"x\x1b[2J": "x"}), "control characters"),
        (document(probe(refused=1, text="a\rb")), "decode.decode.text: .*control characters"),
        (document(versions={"torch": "2\n"}), "versions.torch: .*control characters"),
        (document(not_run={"\ud800": "x"}), "hex escape at line 1 column"),
        ('{"schema": true, "runs": []}', "evidence of schema True; this reads 1"),
        ('{"schema": 1.0, "runs": []}', "evidence of schema 1.0; this reads 1"),
        (document(probe(right=1, error=1e5, tolerance=1e300)), "tolerance: Input should be less"),
        (document(machine={**H100, "capability": [8, 0]}),
         "architecture sm90 with the capability of sm80"),
        (document(machine={**H100, "capability": None}),
         "architecture sm90 with the capability of cpu"),
        (document(probe(right=1, error=1e-3)), "an error comes with the tolerance"),
        (document(probe(right=1, error=1.0, tolerance=0.02)), "nothing is counted as wrong"),
        (document(probe(right=1, error=float("nan"), tolerance=0.02)), "error"),
        (document(probe(right=1, error=0.0, tolerance=0)), "tolerance"),
        ('{"schema": 1}', "runs: Field required"),
        ("[]", "document"),
        ('{"schema": 1, "runs": [{}]}', "runs.0.date: Field required"),
        (json.dumps({"schema": 1, "runs": [run_with({"decode": {"decode": probe()}})]}),
         "no outcome is counted"),
        (json.dumps({"schema": 1, "runs": [run_with({"decode": {"decode": probe(right=-1)}})]}),
         "greater than or equal to 0"),
    ],
)  # fmt: skip
def test_what_is_no_evidence_is_refused_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = tmp_path / "e.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MatrixDataError, match=says):
        evidence.read(path)
    assert guarded(dispatch, ["verify", "--check", "--evidence", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
    assert guarded(dispatch, ["verify", "merge", str(path), "-o", str(tmp_path / "all.json")]) == 2
    assert str(path) in capsys.readouterr().err


def test_evidence_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    path.write_bytes(codecs.BOM_UTF8 + document().encode())
    assert evidence.read(path) == json.loads(document())["runs"]


def test_runs_that_disagree_are_named_and_make_no_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same device with other versions: one run carries what the other refuses."""
    older = copy.deepcopy(RELEASE["evidence"]["cpu"][0])
    newer = copy.deepcopy(older)
    newer["versions"]["torch"], newer["date"] = "9.9.9", "2027-01-01T00:00:00Z"
    cell = newer["backends"]["triton"]["mha"]["sinks"]
    cell["decode sinks"] = {"call": "as ever", "refused": 1, "text": "no sinks any more"}
    paths = [tmp_path / "older.json", tmp_path / "newer.json", tmp_path / "both.json"]
    for path, run in zip(paths, (older, newer), strict=False):
        path.write_text(evidence.dump([run]), encoding="utf-8")
    assert guarded(dispatch, ["verify", "merge", *map(str, paths[:2]), "-o", str(paths[2])]) == 0
    told = capsys.readouterr().out
    assert f"2 runs in {paths[2]}" in told
    assert f"torch {older['versions']['torch']}" in told and "torch 9.9.9" in told
    words = ["verify", "--check", "--evidence", str(paths[2]), "--cell", "sinks"]
    assert guarded(dispatch, words) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("triton cpu mha sinks [decode sinks]: runs disagree: right on ")
    assert f"torch {older['versions']['torch']}" in line and "refused on" in line
    assert "torch 9.9.9" in line
    rows = rows_of({"cpu": [older, newer]}, TRITON, FOUND, RELEASE["bundled"]["architectures"])
    assert rows["mha"]["cpu"]["sinks"] == {"support": "bad"}


def test_evidence_of_other_probes_is_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy.deepcopy(RELEASE["evidence"]["cpu"][0])
    run["probes"], run["tool"] = "0123456789ab", "0.0.9"
    path = tmp_path / "e.json"
    path.write_text(evidence.dump([run]), encoding="utf-8")
    note = f"is of other probes (0123456789ab, by attn-lint 0.0.9; now {FOUND.digest})"
    assert guarded(dispatch, ["verify", "--check", "--evidence", str(path)]) == 0
    assert note in capsys.readouterr().err
    assert guarded(dispatch, ["verify", "merge", str(path), "-o", str(tmp_path / "all.json")]) == 0
    assert note in capsys.readouterr().err


def test_what_probes_are_called_does_not_make_them_others() -> None:
    data = copy.deepcopy(RELEASE["bundled"])
    for entry in data["cells"].values():
        entry["title"] += " (renamed)"
    assert catalogue(data).digest == FOUND.digest
    assert {run["probes"] for runs in RELEASE["evidence"].values() for run in runs} == {
        FOUND.digest
    }
    data["cells"]["sinks"]["probes"][0]["sinks"] = [True, False]
    assert catalogue(data).digest != FOUND.digest


def test_evidence_of_things_that_there_are_not_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy.deepcopy(RELEASE["evidence"]["cpu"][0])
    run["backends"]["another"] = {"mha": {"decode": {"decode": probe(right=1)}}}
    run["backends"]["triton"]["mha"]["telepathy"] = {"decode": probe(right=1)}
    machine = {**H100, "architecture": "sm99", "capability": [9, 9]}
    new = run_with({"decode": {"decode": probe(right=1)}}, machine=machine)
    path = tmp_path / "e.json"
    path.write_text(evidence.dump([run, new]), encoding="utf-8")
    assert guarded(dispatch, ["verify", "--check", "--evidence", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [
        "another cpu: evidence of a backend that is not bundled",
        "sm99: the data of the bundled backends has no such architecture yet",
        "triton cpu mha telepathy [decode]: evidence of a probe that is no more; "
        "run verify there again",
    ]


def merged(folder: Path, *runs: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of `verify merge` of files with a run each."""
    paths = []
    for number, run in enumerate(runs):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(evidence.dump([run]), encoding="utf-8")
    out = folder / "all.json"
    assert guarded(dispatch, ["verify", "merge", *map(str, paths), "-o", str(out)]) == 0
    found = evidence.read(out)
    # Merging what is merged changes nothing.
    assert guarded(dispatch, ["verify", "merge", str(out), str(out), "-o", str(out)]) == 0
    assert evidence.read(out) == found
    return found


NEWER = "2026-02-01T00:00:00Z"


def test_merging_keeps_machines_apart_and_the_newer_of_the_same(tmp_path: Path) -> None:
    first = run_with({"decode": {"decode": probe(right=1)}, "extend": {"extend": probe(right=1)}})
    newer = run_with({"decode": {"decode": probe(right=3)}}, date=NEWER)
    other = run_with({"decode": {"decode": probe(right=2)}}, versions={"torch": "2.11.0"})
    cpu = run_with({"decode": {"decode": probe(right=3)}}, architecture="cpu")
    runs = merged(tmp_path, newer, first, other, cpu)
    assert [run["machine"]["architecture"] for run in runs] == ["cpu", "sm90", "sm90"]
    joined = next(run for run in runs if run["date"] == NEWER)
    cells = joined["backends"]["triton"]["mha"]
    assert cells["decode"]["decode"]["right"] == 3
    assert cells["extend"]["extend"]["right"] == 1


BOTH = {"decode": {"decode": probe(right=2)}, "extend": {"extend": probe(right=3)}}


@pytest.mark.parametrize(
    ("older", "newer", "seeds"),
    [
        # More seeds of everything, and fewer: what was replaced leaves no seeds behind.
        ((BOTH, [0, 1, 2]), ({"decode": {"decode": probe(right=5)}}, [0, 1, 2, 3, 4]),
         [[0, 1, 2, 3, 4]]),
        (({"decode": {"decode": probe(right=3)}}, [0, 1, 2]),
         ({"decode": {"decode": probe(right=1)}}, [0]), [[0]]),
        ((BOTH, [0, 1, 2]), ({"extend": {"extend": probe(right=1)}}, [0]), [[0, 1]]),
        # Counts of other seeds are not added to one list: which would they be of?
        ((BOTH, [0, 1, 2]), ({"decode": {"decode": probe(right=2)}}, [1, 2]),
         [[0, 1, 2], [1, 2]]),
        ((BOTH, [0, 1, 2]), ({"extend": {"extend": probe(right=2)}}, [7, 8]), [[0, 1], [7, 8]]),
        ((BOTH, [0, 1, 2]), (BOTH, [7, 8, 9]), [[7, 8, 9]]),
        ((BOTH, [0, 1, 2]), ({}, []), [[0, 1, 2]]),
    ],
)  # fmt: skip
def test_a_merged_run_lists_the_seeds_that_its_probes_ran(
    tmp_path: Path, older: Any, newer: Any, seeds: list[list[int]]
) -> None:
    old = run_with(older[0], seeds=older[1], not_run={"fa3": "needs cuda"})
    new = run_with(newer[0], seeds=newer[1], date=NEWER)
    runs = merged(tmp_path, old, new)
    assert [run["seeds"] for run in runs] == seeds
    # Each cell is there once, as the newest run to have it has it.
    found = [item for run in runs for item in run["backends"]["triton"]["mha"].items()]
    assert sorted(found) == sorted({**older[0], **newer[0]}.items())
    assert {"fa3": "needs cuda"} in [run["not_run"] for run in runs]


@pytest.mark.parametrize("seeds", [[0, 1, 2], [0, 1, 2, 3], [7, 8, 9]])
def test_runs_of_one_date_are_merged_alike_in_any_order(tmp_path: Path, seeds: list[int]) -> None:
    some = run_with({"decode": {"decode": probe(right=3)}}, seeds=[0, 1, 2])
    others = run_with(BOTH, seeds=seeds)
    third = run_with({"decode": {"decode": probe(refused=1)}}, seeds=[0])
    orders = [merged(tmp_path, *order) for order in permutations([some, others, third])]
    assert all(evidence.dump(runs) == evidence.dump(orders[0]) for runs in orders)


def test_of_one_date_the_run_of_more_seeds_counts(tmp_path: Path) -> None:
    few = run_with({"decode": {"decode": probe(right=1)}}, seeds=[0])
    many = run_with({"decode": {"decode": probe(right=3)}})
    for order in permutations([few, many]):
        (run,) = merged(tmp_path, *order)
        assert run["backends"]["triton"]["mha"]["decode"]["decode"]["right"] == 3


def test_committed_evidence_is_merged_to_itself(tmp_path: Path) -> None:
    committed = [run for runs in RELEASE["evidence"].values() for run in runs]
    assert {run["date"]: run for run in merged(tmp_path, *committed)} == {
        run["date"]: run for run in committed
    }


# The matrix


def test_matrix_and_evidence_agree() -> None:
    assert check.committed(RELEASE, FOUND, CAPABILITIES) == []


def test_the_matrix_has_evidence() -> None:
    assert any(run["machine"]["architecture"] == "cpu" for run in RELEASE["evidence"]["cpu"])


def every_cell() -> Iterator[tuple[str, str, str, str | None]]:
    for backend, families in RELEASE["rows"].items():
        for family, architectures in families.items():
            for architecture, cells in architectures.items():
                if isinstance(cells, str):
                    yield backend, family, architecture, None
                for cell in () if isinstance(cells, str) else cells:
                    yield backend, family, architecture, cell


def bumped(text: str, number: re.Match[str]) -> str:
    """A text with one of its numbers made larger by one."""
    return f"{text[: number.start()]}{int(number.group()) + 1}{text[number.end() :]}"


def flips(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A cell changed in one thing: its support, its condition, its list of probes, its evidence."""
    for support in SUPPORTS:
        if support != cell["support"]:
            flipped: dict[str, Any] = {"support": support}
            if support != "untested":
                flipped["probe"] = cell.get("probe", ["cpu"])
            if support == "partial":
                flipped |= {"when": "decode", "refuses": ["extend"]}
            yield flipped
    if cell["support"] == "partial":
        yield {**cell, "when": cell["when"] + " mostly"}
        for number in re.finditer(r"\d+", cell["when"]):
            yield {**cell, "when": bumped(cell["when"], number)}
        refuses = cell["refuses"]
        yield {**cell, "refuses": [*refuses, "decode page_size=3"]}
        for place, name in enumerate(refuses):
            yield {**cell, "refuses": refuses[:place] + refuses[place + 1 :]}
            for number in re.finditer(r"\d+", name):
                changed_name = bumped(name, number)
                yield {**cell, "refuses": [*refuses[:place], changed_name, *refuses[place + 1 :]]}
    if "probe" in cell:
        yield {**cell, "probe": [*cell["probe"], "elsewhere"]}


def test_flipping_any_cell_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Comparing with declarations is the slow part, and flips don't touch it.
    monkeypatch.setattr(check, "_evidence", lambda *arguments: [])

    def found(rows: Any, backend: str) -> list[str]:
        return check.committed(changed(rows), FOUND, CAPABILITIES, check.Scope([backend]))

    count = 0
    for backend, family, architecture, cell in every_cell():
        rows = {**RELEASE["rows"], backend: copy.deepcopy(RELEASE["rows"][backend])}
        place = f"{backend} {family} {architecture}"
        here = rows[backend][family]
        if cell is None:
            here[architecture] = {"decode": {"support": "yes", "probe": ["cpu"]}}
            assert any(p.startswith(place) for p in found(rows, backend))
            count += 1
            continue
        original = here[architecture][cell]
        for flipped in flips(original):
            here[architecture][cell] = flipped
            problems = found(rows, backend)
            assert [p for p in problems if p.startswith(f"{place} {cell}:")], (place, cell, flipped)
            count += 1
        del here[architecture][cell]
        problems = found(rows, backend)
        assert [p for p in problems if p.startswith(f"{place} {cell}:")], (place, cell, "left out")
    assert count > 100


def moved(allowed: Any) -> Iterator[Any]:
    """What a declaration allows of a number, with one of its limits elsewhere."""
    if isinstance(allowed, Range):
        yield replace(allowed, low=allowed.low + 1)
        if allowed.high is not None:
            yield replace(allowed, high=allowed.high - 1)
            yield replace(allowed, high=allowed.high + 1)
    elif all(type(value) is int for value in allowed):
        for value in allowed:
            yield allowed - {value}
            yield allowed - {value} | {value + 1}
        yield allowed | {max(allowed) * 2}


def moved_declarations(own: Capabilities) -> Iterator[Capabilities]:
    for trait, allowed in own.allows.items():
        for other in moved(allowed):
            yield replace(own, allows={**own.allows, trait: other})
    for place, limit in enumerate(own.limits):
        for trait, allowed in limit.when.items():
            for other in moved(allowed):
                changed_limit = replace(limit, when={**limit.when, trait: other})
                limits = (*own.limits[:place], changed_limit, *own.limits[place + 1 :])
                yield replace(own, limits=limits)


@pytest.mark.parametrize("name", CAPABILITIES)
def test_moving_any_number_that_a_probe_meets_is_found(name: str) -> None:
    """Page sizes, head dims, drafts: where a call is judged otherwise, or for other numbers."""
    own = CAPABILITIES[name]

    def judged(capabilities: Capabilities) -> list[Any]:
        return [
            (task.key, [refusal.reason for refusal in task.refusals])
            for architecture, entry in RELEASE["bundled"]["architectures"].items()
            if any(
                name in run["backends"] and run["machine"]["architecture"] == architecture
                for runs in RELEASE["evidence"].values()
                for run in runs
            )
            for task in plan(FOUND, capabilities, entry["device"], capability_of(entry))
        ]

    before, scope, met = judged(own), check.Scope([name]), 0
    for other in moved_declarations(own):
        if judged(other) != before:
            met += 1
            problems = check.committed(RELEASE, FOUND, {name: other}, scope)
            assert problems, (other.allows, other.limits)
    page_sizes = own.allows.get("page_size")
    assert met >= (len(page_sizes) if isinstance(page_sizes, frozenset) and before else 0)


def test_the_wording_of_a_reason_may_change() -> None:
    own = CAPABILITIES["trtllm_mha"]
    limits = tuple(replace(each, reason=f"{each.reason}, alas") for each in own.limits)
    declared = {**CAPABILITIES, own.name: replace(own, limits=limits)}
    assert check.committed(RELEASE, FOUND, declared) == []


def test_a_row_too_many_or_too_few_is_found() -> None:
    rows = copy.deepcopy(RELEASE["rows"])
    rows["another"] = rows.pop("triton")
    problems = check.committed(changed(rows), FOUND, CAPABILITIES)
    assert any(p.startswith("another: the matrix has a row") for p in problems)
    assert "triton: the matrix has no row" in problems
    rows = copy.deepcopy(RELEASE["rows"])
    rows["triton"]["mha"]["sm80"] = rows["triton"]["mha"].pop("cpu")
    assert check.committed(changed(rows), FOUND, CAPABILITIES)


def test_a_change_of_what_is_declared_makes_evidence_stale() -> None:
    limit = Limit({"window": one_of(True)}, "no windows any more")
    declared = {**CAPABILITIES, "triton": replace(TRITON, limits=(*TRITON.limits, limit))}
    problems = check.committed(RELEASE, FOUND, declared)
    assert any("triton cpu mha sliding_window" in p and "refused as declared by now" in p
               for p in problems)  # fmt: skip
    wider = {**TRITON.allows, "kv_dtype": one_of("float32", "bfloat16", "fp4_e2m1", "float16")}
    declared = {**CAPABILITIES, "triton": replace(TRITON, allows=wider)}
    problems = check.committed(RELEASE, FOUND, declared)
    assert any("kv_fp4_block16" in p and "carried as declared by now" in p for p in problems)


def test_a_new_probe_makes_evidence_stale() -> None:
    data = copy.deepcopy(RELEASE["bundled"])
    data["cells"]["page_sizes"]["probes"].append({"mode": "decode", "page_size": 48})
    release = Release(
        "bundled", RELEASE.name, {**changed(RELEASE["rows"])._sections, "bundled": data}
    )
    problems = check.committed(release, catalogue(data), CAPABILITIES)
    assert any("no evidence of 1 probe: decode page_size=48;" in p for p in problems)


def test_missing_probes_are_told_a_cell_at_a_time() -> None:
    files = copy.deepcopy(RELEASE["evidence"])
    release = Release(
        "bundled", RELEASE.name, {**changed(RELEASE["rows"])._sections, "evidence": files}
    )
    cells = files["cpu"][0]["backends"]["torch_native"]["mha"]
    (first, *rest) = cells["page_sizes"]
    assert len(rest) > 3
    for name in rest:
        del cells["page_sizes"][name]
    (told,) = [
        problem
        for problem in check.committed(release, FOUND, CAPABILITIES, check.Scope(["torch_native"]))
        if "no evidence of" in problem
    ]
    assert told.startswith(f"torch_native cpu mha page_sizes: no evidence of {len(rest)} probes: ")
    assert rest[0] in told
    assert first not in told.replace(", ", " ").split()


def test_evidence_with_a_wrong_probe_never_passes(tmp_path: Path) -> None:
    runs = copy.deepcopy(RELEASE["evidence"]["cpu"])
    cells = runs[0]["backends"]["triton"]["mha"]
    cells["decode"]["decode ragged"] |= {"right": 19, "wrong": 1, "text": "seed 3: off by 1.0"}
    problems = check.files_given(runs, RELEASE, FOUND, CAPABILITIES)
    assert any("[decode ragged]: wrong: seed 3: off by 1.0" in p for p in problems)
    rows = rows_of({"cpu": runs}, TRITON, FOUND, RELEASE["bundled"]["architectures"])
    assert rows["mha"]["cpu"]["decode"] == {"support": "bad"}


def test_other_versions_are_said_and_no_disagreement() -> None:
    run = copy.deepcopy(RELEASE["evidence"]["cpu"][0])
    run["versions"]["torch"] = "9.9.9"
    assert any(note.startswith("torch 9.9.9 here") for note in check.notes(run, RELEASE))
    assert check.run_made(run, RELEASE, FOUND, CAPABILITIES) == []


def test_committed_evidence_passes_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(load.__code__.co_filename).parent / "data" / "bundled" / RELEASE.name / "evidence"
    files = sorted(folder.glob("*.json"))
    arguments = [word for path in files for word in ("--evidence", str(path))]
    assert guarded(dispatch, ["verify", "--check", *arguments]) == 0, capsys.readouterr().out


# The command line


def without(modules: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run attn-lint in a fresh interpreter that has some modules not installed."""
    code = (
        "import sys\n"
        f"for name in {modules.split()!r}: sys.modules[name] = None\n"
        "from attn_lint.lintcfg.cli import dispatch, guarded\n"
        f"code = guarded(dispatch, {list(arguments)!r})\n"
        "loaded = {m.split('.')[0] for m, v in sys.modules.items() if v is not None}\n"
        "print('LOADED', *sorted(loaded), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    places = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": places},
    )  # fmt: skip


def test_without_torch_it_says_what_to_install() -> None:
    done = without("torch triton", "verify")
    assert done.returncode == 2
    assert "attn-lint[run]" in done.stderr and "attn-lint[gpu]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "--calls", "sm90"],
        ["verify", "--help"],
        ["matrix", "show", "--engine", "bundled"],
        ["matrix", "show", "--engine", "bundled", "--backend", "triton"],
        ["matrix", "show", "--backend", "fa3"],
        ["--gpu", "h100", "--attention-backend", "fa3"],
        ["rule"],
    ],
    ids=" ".join,
)
def test_nothing_but_a_run_needs_torch(arguments: list[str]) -> None:
    done = without("torch triton flashinfer numpy", *arguments)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    done = without("", *arguments)
    loaded = set(done.stderr.rpartition("LOADED")[2].split())
    assert not loaded & {"torch", "triton", "flashinfer", "flash_mla", "numpy"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--backend", "tritn"], "did you mean triton"),
        (["--cell", "page_sise"], "did you mean page_sizes"),
        (["--device", "tpu"], "cuda"),
        (["--seeds", "0"], "0"),
        (["--evidence", "x.json"], "--check"),
        (["--check", "--evidence", "nowhere.json"], "nowhere.json"),
        (["--output-file", "nowhere/x.json"], "no such folder"),
        (["--output-file", "."], "is a folder"),
        (["--calls", "sm1"], "no architecture 'sm1'"),
        (["--calls", "t4"], "no architecture 'sm75'"),
        (["--calls", "cpu", "--check"], "--calls runs nothing"),
        (["--check", "--evidence", "x.json", "--seeds", "3"], "--seeds has no use"),
        (["--check", "--evidence", "x.json", "--backend", "tritn"], "did you mean triton"),
        (["--check", "--evidence", "x.json", "--cell", "page_sise"], "did you mean page_sizes"),
        (["merge", "nowhere.json", "-o", "x.json"], "nowhere.json"),
        (["merge", "nowhere.json", "-o", "/nowhere/at/all/x.json"], "/nowhere/at/all; make it"),
        (["--budget", "nan"], "nan is no number of seconds"),
        (["--budget", "inf"], "inf is not in the range"),
        (["--budget", "-1"], "-1.0 is not in the range"),
        (["--budget", "0"], "0.0 is not in the range"),
        (["--timeout", "nan"], "nan is no number of seconds"),
        (["--timeout", "inf"], "inf is not in the range"),
        (["--seeds", "99999999999999999999"], "99999999999999999999 is not in the range"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--jobs", "1000000"], "1000000 is not in the range"),
    ],
)
def test_bad_input_ends_with_two(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert guarded(dispatch, ["verify", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_cell_is_found_by_the_name_of_what_it_is_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert guarded(dispatch, ["verify", "--cell", "page_size", "--calls", "cpu"]) == 0
    assert {line.split()[2] for line in capsys.readouterr().out.splitlines()} == {"page_sizes"}


@pytest.mark.parametrize(("name", "same"), [("h200", "sm90"), ("NVIDIA-GB200", "sm100")])
def test_calls_are_those_of_a_gpus_architecture(
    name: str, same: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = []
    for one in (name, same):
        assert guarded(dispatch, ["verify", "--cell", "decode", "--calls", one]) == 0
        listed.append(capsys.readouterr().out)
    assert listed[0] == listed[1] != ""


def test_a_check_of_evidence_is_narrowed_by_backend_and_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy.deepcopy(RELEASE["evidence"]["cpu"][0])
    cells = run["backends"]["triton"]["mha"]
    page_16 = cells["page_sizes"]["decode page_size=16"]
    page_16 |= {"right": page_16["right"] - 1, "wrong": 1, "text": "seed 19: off by 1.0"}
    del cells["sinks"]
    path = tmp_path / "e.json"
    path.write_text(evidence.dump([run]), encoding="utf-8")

    def problems(*narrowed: str) -> set[str]:
        code = guarded(dispatch, ["verify", "--check", "--evidence", str(path), *narrowed])
        lines = capsys.readouterr().out.splitlines()
        assert code == bool(lines)
        return {line.split("[")[0].split(":")[0].strip() for line in lines}

    both = {"triton cpu mha page_sizes", "triton cpu mha sinks", "triton mha cpu sinks"}
    assert problems() == both == problems("--backend", "triton")
    assert problems("--backend", "torch_native") == set()
    assert problems("--cell", "page_size") == {"triton cpu mha page_sizes"}
    assert problems("--cell", "sinks", "--backend", "triton") == both - {
        "triton cpu mha page_sizes"
    }
    assert problems("--cell", "decode", "--cell", "extend") == set()
    # Where there is nothing to hold against the matrix, nothing is borne out.
    words = ["verify", "--check", "--evidence", str(path), "--backend", "flashinfer"]
    assert guarded(dispatch, words) == 2
    assert "no evidence of flashinfer" in capsys.readouterr().err


def test_a_part_of_a_cell_contradicts_nothing() -> None:
    """What a budget leaves out is no evidence against a cell that hangs on it."""
    run = copy.deepcopy(RELEASE["evidence"]["cpu"][0])
    cells = run["backends"]["triton"]["mha"]
    assert RELEASE["rows"]["triton"]["mha"]["cpu"]["bidirectional"]["support"] == "partial"
    for name in list(cells["bidirectional"]):
        if not cells["bidirectional"][name].get("refused"):
            del cells["bidirectional"][name]
    assert cells["bidirectional"]
    assert check.run_made(run, RELEASE, FOUND, CAPABILITIES) == []


def test_a_link_is_looked_through_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a link leads to is what is written; found out afterwards, the evidence is lost."""
    monkeypatch.setattr(commands, "_run", lambda *_: pytest.fail("the run has begun"))
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "nowhere" / "e.json")
    for words in (["--output-file", str(link)], ["merge", "e.json", "-o", str(link)]):
        assert guarded(dispatch, ["verify", *words]) == 2
        assert f"{link}: no such folder: {tmp_path / 'nowhere'}" in capsys.readouterr().err
    # A link to a file that is not there yet is as good as that file.
    source = tmp_path / "e.json"
    source.write_text(evidence.dump(RELEASE["evidence"]["cpu"]), encoding="utf-8")
    (tmp_path / "nowhere").mkdir()
    assert guarded(dispatch, ["verify", "merge", str(source), "-o", str(link)]) == 0
    assert evidence.read(tmp_path / "nowhere" / "e.json") == evidence.read(source)


def test_a_link_to_itself_is_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(link)
    for words in (["--output-file", str(link)], ["merge", "e.json", "-o", str(link)]):
        assert guarded(dispatch, ["verify", *words]) == 2
        assert f"{link}: a link that leads to itself" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_what_is_open_is_written_on_and_not_replaced(tmp_path: Path, name: str) -> None:
    """As `cat FILE > /dev/stdout` does within a `>> LOG` of the shell."""
    if not Path(name).exists():
        pytest.skip(f"no {name} here")
    source, log = tmp_path / "e.json", tmp_path / "log"
    source.write_text(evidence.dump(RELEASE["evidence"]["cpu"]), encoding="utf-8")
    log.write_text("before\n")
    with log.open("a") as out:
        subprocess.run(
            [sys.executable, "-m", "attn_lint.lintcfg", "verify", "merge", source, "-o", name],
            stdout=out, check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
    first, *rest = log.read_text(encoding="utf-8").partition("before\n")
    made = evidence.dump(evidence.merge([evidence.read(source)]))
    assert (first, rest[0], rest[1][: len(made)]) == ("", "before\n", made)
    assert rest[1][len(made) :].startswith(f"1 run in {name}\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("there", [False, True])
def test_a_place_that_cannot_be_written_to_is_named(
    tmp_path: Path, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if there:  # a file is replaced, which its folder has to allow
        (tmp_path / "x.json").touch()
    tmp_path.chmod(0o500)
    source = tmp_path.parent / "e.json"
    source.write_text(evidence.dump(RELEASE["evidence"]["cpu"]), encoding="utf-8")
    assert guarded(dispatch, ["verify", "merge", str(source), "-o", str(tmp_path / "x.json")]) == 2
    assert f"{tmp_path / 'x.json'}: not writable for you" in capsys.readouterr().err


def test_a_write_that_fails_names_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk is not seen before: the file that was to take the other's place is nobody's."""
    source, target = tmp_path / "e.json", tmp_path / "x.json"
    source.write_text(evidence.dump(RELEASE["evidence"]["cpu"]), encoding="utf-8")

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", str(arguments[0]))

    monkeypatch.setattr(os, "replace", full)
    assert guarded(dispatch, ["verify", "merge", str(source), "-o", str(target)]) == 2
    text = capsys.readouterr().err
    assert f"error: {target}: No space left on device; name another file" in text
    assert [path.name for path in tmp_path.iterdir()] == ["e.json"]


def test_evidence_goes_into_what_is_no_file_and_through_links(tmp_path: Path) -> None:
    source = tmp_path / "e.json"
    source.write_text(evidence.dump(RELEASE["evidence"]["cpu"]), encoding="utf-8")
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "x.json", tmp_path / "x.json"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    assert guarded(dispatch, ["verify", "merge", str(source), "-o", str(link)]) == 0
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o640
    assert evidence.read(target) == evidence.read(source)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert guarded(dispatch, ["verify", "merge", str(source), "-o", str(pipe)]) == 0
        out, _ = reader.communicate()
    assert json.loads(out)["runs"]
    assert pipe.is_fifo()


def test_the_bundled_matrix_is_shown_with_its_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(dispatch, ["matrix", "show", "--engine", "bundled", "--backend", "triton"]) == 0
    text = capsys.readouterr().out
    run = RELEASE["evidence"]["cpu"][0]
    assert run["date"][:10] in text and f"torch {run['versions']['torch']}" in text
    assert guarded(
        dispatch, ["matrix", "show", "--engine", "bundled", "--output-format", "json"]
    ) == 0  # fmt: skip
    data = json.loads(capsys.readouterr().out)
    cell = next(row for row in data["rows"] if row["architecture"] == "cpu")["cells"]["decode"]
    assert cell["evidence"]["machines"][0]["versions"]["torch"]
    worst = max(
        (one for seen in cell["evidence"]["probes"].values() for one in seen if "error" in one),
        key=lambda one: one["error"] / one["tolerance"],
    )
    assert (cell["evidence"]["error"], cell["evidence"]["tolerance"]) == (
        worst["error"], worst["tolerance"],
    )  # fmt: skip
    assert data["not_bundled"]
    assert guarded(dispatch, ["matrix", "show", "--engine", "bundled"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  cpu: ")]
    assert (
        f"{run['machine']['device']}, {run['date'][:10]} (torch {run['versions']['torch']}" in line
    )
    assert "probes of up to 20 seeds, the worst error " in line and "evidence/cpu.json" in line
    assert (
        guarded(dispatch, ["matrix", "show", "--engine", "bundled", "--backend", "trtllm_mla"]) == 2
    )
    assert "not bundled" in capsys.readouterr().err


def test_runs_and_the_matrix_are_told_in_the_same_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run that bore the matrix out cell by cell prints the marks that the matrix prints."""
    run = RELEASE["evidence"]["cpu"][0]
    report.text(run, FOUND, [], verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert guarded(dispatch, ["matrix", "show", "--engine", "bundled"]) == 0
    matrix = capsys.readouterr().out.splitlines()
    assert LEGEND in lines and LEGEND in matrix
    of_run = {}
    backends, families = (
        [word.strip() for word in line.split("┃")] for line in lines if line.count("┃") > 3
    )
    for line in lines:
        name, *marks = (word.strip() for word in line.split("│"))
        for column in range(1, len(backends) - 1) if name in FOUND.cells else ():
            if marks[column - 1]:
                of_run[backends[column], families[column], name] = marks[column - 1]
    of_matrix: dict[tuple[str, str, str], str] = {}
    header: list[str] = []
    for line in matrix:
        words = re.split(r" {2,}", line.strip())
        if words[0] == "backend":
            header = words
        elif words[2:3] == ["cpu"] and len(words) == len(header):  # no blanks in it
            for name, mark in zip(header[3:], words[3:], strict=True):
                of_matrix[words[0], words[1], name] = mark
    assert len(of_matrix) > 50
    assert of_matrix.items() <= of_run.items()
    listed = matrix[matrix.index("Cells") + 1 :]
    assert [line.split()[0] for line in listed[: listed.index("")]] == list(FOUND.cells)


def test_the_bundled_matrix_is_markdown_that_a_parser_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from markdown_it import MarkdownIt

    words = ["matrix", "show", "--engine", "bundled", "--output-format", "markdown"]
    assert guarded(dispatch, words) == 0
    tokens = MarkdownIt().enable("table").parse(capsys.readouterr().out)
    tables = sum(token.type == "table_open" for token in tokens)
    assert tables == len({entry["group"] for entry in RELEASE["bundled"]["cells"].values()})
    items = [
        tokens[place + 2].content
        for place, token in enumerate(tokens)
        if token.type == "list_item_open"
    ]
    assert {item.split("`")[1] for item in items if item.startswith("`")} == set(FOUND.cells)
    assert any(item.startswith("cpu: ") for item in items)


def test_claims_are_held_against_runs_and_never_contradicted_by_a_refusal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert guarded(
        dispatch, ["matrix", "show", "--backend", "torch_native", "--output-format", "json"]
    ) == 0  # fmt: skip
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert claims
    statuses = {claim["cell"]: claim["status"] for claim in claims if claim["family"] == "mha"}
    assert "contradicted" not in statuses.values()
    assert statuses["kv_bf16"] == "confirmed"
    assert statuses["cuda_graph"] == "not testable here"
    machines = {machine for claim in claims for machine in claim["machines"]}
    assert guarded(dispatch, ["matrix", "show", "--backend", "torch_native"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert machines
    for machine in machines:  # once for each family, and not with every claim
        assert text.count(f"Run on {machine}") == len({claim["family"] for claim in claims})
