"""Compares what was read of a model with a row of `truth_child.py`."""

from __future__ import annotations

from typing import Any

from attn_lint.lintcfg.models import ModelProblem, ModelTraits


def differences(row: dict[str, Any], found: ModelTraits | ModelProblem) -> list[str]:
    """What the two do not agree on; an empty list is agreement."""
    if isinstance(found, ModelProblem):
        return [] if "error" in row else [f"refused: {found.message}"]
    if "error" in row:
        return [f"not refused: {row['error']}"]
    result = []
    for name, real in row["traits"].items():
        mine = found.traits[name]
        if name == "qsa_problem":
            mine = mine is not None
        if mine != real:
            result.append(f"{name}: {mine!r}, really {real!r}")
    return result
