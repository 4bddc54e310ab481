"""Loads what the checker knows beforehand: where facts stand, and what pages call things."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ..matrix.errors import MatrixDataError
from ..matrix.loader import ROOM

FOLDER = Path(ROOM, "data", "docs")
#: The matrix's own reader brings pydantic along, which takes longer than a whole check.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load(name: str) -> dict[str, Any]:
    """One data file of the checker, by its name without suffix.

    Raises:
        MatrixDataError: it is missing or broken.
    """
    return read(FOLDER / f"{name}.yaml")


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        MatrixDataError: it is missing, broken or no mapping.
    """
    try:
        content = yaml.load(path.read_bytes(), Loader=_Loader)
    except OSError as error:
        raise MatrixDataError([f"{path}: {error.strerror or error}"]) from None
    except yaml.YAMLError as error:
        raise MatrixDataError([f"{path}: {error}"]) from None
    if not isinstance(content, dict):
        raise MatrixDataError([f"{path}: not a mapping"])
    return content
