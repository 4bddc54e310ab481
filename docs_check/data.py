"""Loads what the checker knows beforehand: where facts stand, and what pages call things."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..matrix.compile import read_yaml
from ..matrix.loader import ROOM

FOLDER = ROOM / "data" / "docs"


@cache
def load(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """One data file, by its name without suffix.

    Raises:
        MatrixDataError: it is missing or broken.
    """
    content = read_yaml(folder / f"{name}.yaml")
    return content if isinstance(content, dict) else {}
