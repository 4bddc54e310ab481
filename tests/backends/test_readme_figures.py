"""What the README says of runs on the H200 is what the data beside the matrix say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "matrix" / "data" / "bundled" / "0.1.0"
README = (ROOT / "README.md").read_text(encoding="utf-8")
KINDS = {"decode": "decode", "causal extend": "extend", "MLA decode": "mla_decode"}
ROW = re.compile(r"\| (decode|causal extend|MLA decode) (\d+) x ([\d,]+)[^|]*\|(.*)\|")


def bench(name: str) -> list[dict[str, Any]]:
    rows = json.loads((DATA / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if "us" in row]


def figures() -> Iterator[tuple[str, int, int, str, str]]:
    """(workload, batch, context, column, text) of each filled cell of the table."""
    head = next(line for line in README.splitlines() if line.startswith("| bf16, 32/8 heads"))
    columns = [column.strip() for column in head.strip("|").split("|")[1:]]
    for kind, batch, context, rest in ROW.findall(README):
        for column, text in zip(columns, rest.split("|"), strict=True):
            if text.strip():
                yield KINDS[kind], int(batch), int(context.replace(",", "")), column, text.strip()


FIGURES = list(figures())


def test_the_table_is_found() -> None:
    assert len(FIGURES) > 20
    assert {workload for workload, *_ in FIGURES} == set(KINDS.values())


@pytest.mark.parametrize(("workload", "batch", "context", "column", "text"), FIGURES)
def test_a_figure(workload: str, batch: int, context: int, column: str, text: str) -> None:
    name = "h200-sglang-kernel" if "sgl_kernel" in column else "h200"
    backend = column.split("`")[1]
    here = {"workload": workload, "batch": batch, "context": context, "backend": backend}
    row = next(row for row in bench(name) if here.items() <= row.items())
    number, *rest = re.findall(r"[\d,.]*\d", text)
    shown = float(number.replace(",", ""))
    measured = row["tflop_s"] if workload == "extend" else row["us"]
    digits = len(number.partition(".")[2])
    assert shown == round(measured, digits)
    if rest:
        assert int(rest[0]) == round(100 * row["of_read_only"])


def test_the_spread_of_adapters() -> None:
    said = re.search(r"adapters take ([\d.]+) to ([\d.]+) times", README)
    assert said
    rows = [*bench("h200"), *bench("h200-sglang-kernel")]
    ratios = [row["times_bare"] for row in rows if "times_bare" in row]
    assert float(said[1]) == pytest.approx(min(ratios), abs=0.01)
    assert float(said[2]) == pytest.approx(max(ratios), abs=0.01)
    assert max(ratios) <= 1.03  # what an adapter may cost


def test_the_ceiling() -> None:
    said = re.search(r"read-only\s+ceiling ([\d,]+) GB/s", README)
    data = json.loads((DATA / "benchmarks" / "h200.json").read_text(encoding="utf-8"))
    assert said
    assert int(said[1].replace(",", "")) == round(data["ceilings"]["read_only_gb_s"])


def probes_of(name: str) -> list[dict[str, Any]]:
    return [
        probe
        for run in json.loads((DATA / "evidence" / f"{name}.json").read_text("utf-8"))["runs"]
        for families in run["backends"].values()
        for cells in families.values()
        for each in cells.values()
        for probe in each.values()
    ]


def test_the_counts_of_runs() -> None:
    said = re.search(
        r"H200 \(([\d,]+) runs of\s+([\d,]+)\s+probes\s+right, (\d+)\s+probes\s+refused", README
    )
    assert said
    probes = probes_of("h200")
    right = [probe["right"] for probe in probes if "right" in probe]
    counts = [sum(right), len(right), sum("refused" in probe for probe in probes)]
    assert [int(number.replace(",", "")) for number in said.groups()] == counts
    assert not [probe for probe in probes if "wrong" in probe or "crashed" in probe]


def test_the_runs_with_sgl_kernel() -> None:
    said = re.search(r"`fa3` takes where it is\s+installed \(([\d,]+) runs right\)", README)
    assert said
    right = sum(probe.get("right", 0) for probe in probes_of("h200-sglang-kernel"))
    assert int(said[1].replace(",", "")) == right


def test_what_preparing_a_pass_keeps_the_host() -> None:
    said = re.search(r"host (\d+) to (\d+) us for `triton`, and ([\d.]+) to ([\d.]+) ms", README)
    assert said
    low, high, planned_low, planned_high = map(float, said.groups())
    times: dict[str, list[float]] = {}
    for row in bench("h200"):
        if "plan_us" in row:
            times.setdefault(row["backend"], []).append(row["plan_us"])
    assert (low, high) == (round(min(times["triton"])), round(max(times["triton"])))
    planned = [*times["flashinfer"], *times["fa3"]]
    assert planned_low * 1e3 == pytest.approx(min(planned), abs=50)
    assert planned_high * 1e3 == pytest.approx(max(planned), abs=50)
