"""Compiles the data of the bundled backends: cells, rows and evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import evidence
from .errors import MatrixDataError
from .schema_bundled import BundledBackendFile, BundledFile, BundledSupport

Json = Any


def compile_bundled(folder: Path) -> dict[str, Json]:
    """The JSON sections of a release of the `bundled` engine.

    Raises:
        MatrixDataError: every problem found, each with its place.
    """
    from .compile import read_model

    asked = read_model(folder / "bundled.yaml", BundledFile)
    problems: list[str] = []
    files: dict[str, list[Json]] = {}
    for path in sorted((folder / "evidence").glob("*.json"), key=lambda path: path.stem):
        try:
            files[path.stem] = evidence.read(path)
        except MatrixDataError as error:
            problems += error.problems
    rows: dict[str, Json] = {}
    for path in sorted((folder / "backends").glob("*.yaml")):
        try:
            row = read_model(path, BundledBackendFile)
        except MatrixDataError as error:
            problems += error.problems
            continue
        if row.name != path.stem:
            problems.append(f"{path}: the row of {row.name!r} belongs into {row.name}.yaml")
        problems += [f"{path}: {problem}" for problem in _unknown(asked, row, files)]
        rows[row.name] = row.model_dump(exclude_none=True)["rows"]
    if problems:
        raise MatrixDataError(problems)
    return {
        "bundled": asked.model_dump(exclude_none=True),
        "rows": rows,
        "evidence": files,
        "meta": {"engine": asked.engine, "release": asked.release},
    }


def _unknown(asked: BundledFile, row: BundledBackendFile, files: dict[str, Json]) -> list[str]:
    """What a row names that is not there."""
    problems = []
    for family, architectures in row.rows.items():
        if family not in asked.families:
            problems.append(f"{family}: no such family")
        for architecture, cells in architectures.items():
            place = f"{family}.{architecture}"
            if architecture not in asked.architectures:
                problems.append(f"{place}: no such architecture")
            if isinstance(cells, str):
                continue
            for name, cell in cells.items():
                problems += _unknown_in(asked, f"{place}.{name}", family, name, cell, files)
    return problems


def _unknown_in(
    asked: BundledFile,
    place: str,
    family: str,
    name: str,
    cell: BundledSupport,
    files: dict[str, Json],
) -> list[str]:
    known = asked.cells.get(name)
    if known is None:
        return [f"{place}: no such cell"]
    problems = []
    if known.families is not None and family not in known.families:
        problems.append(f"{place}: the cell is not for {family}")
    problems += [
        f"{place}: no evidence file {name}.json" for name in cell.probe or () if name not in files
    ]
    return problems
