"""The reader against the real configuration classes, on published and on drawn configurations.

Skipped where the real release is not installed. ATTN_LINT_SEED draws others.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.models import read_model
from attn_lint.lintcfg.models.catalogue import Catalogue
from attn_lint.matrix.loader import load

from .compare import differences
from .drawing import draw

RELEASE = load()
ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("truth_child.py")
#: Architectures that SGLang knows, by the model types that go with them.
ARCHITECTURES = ROOT / "fixtures" / "models" / "architectures.json"
#: Drawn configurations may meet a corner that the rules of a class leave open.
LEAST_AGREEMENT = 0.98


def interpreter() -> Path | None:
    """Python of an installation of the real release, or None."""
    home = Path(os.environ.get("ORACLE_HOME") or Path.home() / ".cache" / "attn-lint-oracle")
    own = Path(os.environ.get("ATTN_LINT_CONFORMANCE_HOME") or "~/.cache/attn-lint-conformance")
    for folder in (home, own.expanduser()):
        python = folder / "venv" / "bin" / "python"
        if python.exists():
            return python
    return None


def ask(configs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the real release for each configuration, as target and as draft."""
    python = interpreter()
    if python is None:
        pytest.skip("the real release is not installed (ATTN_LINT_CONFORMANCE_HOME, ORACLE_HOME)")
    lines = [json.dumps({"model": name, "config": config}) for name, config in configs.items()]
    done = subprocess.run(
        [python, CHILD], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def disagreements(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for row in rows:
        wrong = differences(row, read_model(row["config"], RELEASE, is_draft=row["draft"]))
        if wrong:
            found[f"{row['model']} {'draft' if row['draft'] else 'target'}"] = wrong
    return found


def test_published_configurations() -> None:
    catalogue = Catalogue(RELEASE["models"])
    rows = ask({name: catalogue.configuration(name) for name in catalogue.entries})
    assert len(rows) == 2 * len(catalogue.entries)
    assert disagreements(rows) == {}


def test_configurations_of_class_defaults() -> None:
    pairs = _pairs()
    configs = {
        model_type: {"architectures": archs[:1], "model_type": model_type}
        for model_type, archs in pairs.items()
    }
    assert disagreements(ask(configs)) == {}


def test_drawn_configurations() -> None:
    seed = os.environ.get("ATTN_LINT_SEED", "1")
    configs = dict(draw(seed, RELEASE["config_defaults"], _pairs(), 2))
    rows = ask(configs)
    wrong = disagreements(rows)
    print(json.dumps(wrong, indent=1))
    assert len(rows) == 2 * len(configs)
    assert 1 - len(wrong) / len(rows) >= LEAST_AGREEMENT


def _pairs() -> dict[str, list[str]]:
    """Architectures that go with a model type."""
    catalogue = Catalogue(RELEASE["models"])
    pairs: dict[str, list[str]] = json.loads(ARCHITECTURES.read_text(encoding="utf-8"))
    for name in catalogue.entries:
        config = catalogue.configuration(name)
        known = pairs.setdefault(config["model_type"], [])
        if config["architectures"][0] not in known:
            pairs[config["model_type"]] = [*known, config["architectures"][0]]
    return pairs
