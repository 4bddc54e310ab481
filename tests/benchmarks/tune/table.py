"""Put what the tuner measured into the backend's table of launches.

    python -m tests.benchmarks.tune.table tuned.json [more.json …]

For each shape and batch size the launch is taken that comes closest to the best one of every
context length, since the host, which picks the launch, doesn't know the lengths of a captured
graph. Entries of the table that the files say nothing about stay.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import defaultdict
from pathlib import Path
from pprint import pformat
from typing import Any

from attn_lint.backends.triton_backend import tuned
from attn_lint.backends.triton_backend.launch import shape_key, split_key

from .works import Work

Launch = tuple[int | bool, ...]
_FIELDS = {
    "extend": ("block_m", "block_n", "warps", "stages", "pack"),
    "split": ("block_m", "block_n", "warps", "stages", "per_sm", "overlap"),
}


def chosen(times: dict[str, dict[Launch, float]]) -> tuple[Launch, float] | None:
    """Of work → launch → microseconds, the launch nearest to the best of each; and how near."""
    common = set.intersection(*(set(of) for of in times.values()))
    if not common:
        return None
    best = {name: min(of.values()) for name, of in times.items()}

    def loss(launch: Launch) -> float:
        return sum(math.log(of[launch] / best[name]) for name, of in times.items()) / len(times)

    launch = min(common, key=loss)
    return launch, math.exp(loss(launch))


def launches(
    measured: dict[str, Any],
) -> dict[tuple[str, Any, int], dict[str, dict[Launch, float]]]:
    """(kind, shape, batch) → work → launch → microseconds; the final time of a launch counts."""
    works = {name: Work(**fields) for name, fields in measured["works"].items()}
    found: dict[tuple[str, Any, int], dict[str, dict[Launch, float]]] = defaultdict(dict)
    for row in sorted(
        (r for r in measured["rows"] if "us" in r), key=lambda r: bool(r.get("final"))
    ):
        work = works[row["work"]]
        if work.kind == "extend":
            key: tuple[str, Any, int] = ("extend", shape_key(work.shape), 0)
        else:
            key = ("split", split_key(work.shape, work.rows), work.batch)
        launch = tuple(row[field] for field in _FIELDS[key[0]])
        found[key].setdefault(work.name, {})[launch] = row["us"]
    return found


def merged(files: list[dict[str, Any]]) -> tuple[dict[Any, Any], dict[Any, Any], list[str]]:
    """The table's two parts with the files' launches put in, and a line for each of these."""
    split = {c: {k: dict(b) for k, b in of.items()} for c, of in tuned.TUNED_SPLIT.items()}
    extend = {c: dict(of) for c, of in tuned.TUNED_EXTEND.items()}
    lines = []
    for measured in files:
        capability = tuple(measured["capability"])
        for (kind, shape, batch), times in launches(measured).items():
            pick = chosen(times)
            if pick is None:
                lines.append(f"{kind} {shape} x{batch}: no launch was timed in all of {[*times]}")
                continue
            launch, loss = pick
            if kind == "extend":
                extend.setdefault(capability, {})[shape] = launch
            else:
                split.setdefault(capability, {}).setdefault(shape, {})[batch] = launch
            us = ", ".join(f"{name}: {of[launch]:.1f} us" for name, of in times.items())
            lines.append(f"{kind} {shape} x{batch}: {launch} ({us}; {loss:.3f} x best)")
    return split, extend, lines


def written(source: str, split: dict[Any, Any], extend: dict[Any, Any]) -> str:
    """The text of the table's module with its two tables replaced."""
    for name, table in (("TUNED_SPLIT", split), ("TUNED_EXTEND", extend)):
        pattern = rf"^({name}: \w+ = ){{.*?}}( +# fmt: skip)?$"
        found = re.search(pattern, source, flags=re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"no table {name}")
        text = pformat(table, width=70)
        source = source[: found.start()] + f"{found[1]}{text}  # fmt: skip" + source[found.end() :]
    return source


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.tune.table", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("file", nargs="+", type=Path)
    options = parser.parse_args()
    try:
        files = [json.loads(path.read_text()) for path in options.file]
        split, extend, lines = merged(files)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"not what the tuner writes: {error!r}")
    print(*lines, sep="\n")
    path = Path(tuned.__file__)
    path.write_text(written(path.read_text(), split, extend))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
