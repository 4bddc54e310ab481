"""The flag table of the release in the matrix, read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.lintcfg.flags import FlagTable, load_flags

DATA = Path(__file__).resolve().parents[2] / "matrix" / "data" / "sglang" / "0.5.22"


def read(name: str) -> Any:
    """One data file."""
    path = DATA / f"{name}.yaml"
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


@pytest.fixture(scope="session")
def sections() -> dict[str, Any]:
    """The sections the parser reads."""
    return {name: read(name) for name in ("flags", "history", "commands")}


@pytest.fixture(scope="session")
def table(sections: dict[str, Any]) -> FlagTable:
    """The flags of the release."""
    return load_flags(sections)
