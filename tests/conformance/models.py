"""Model folders for the suite: the catalogue written out, or any folder of folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attn_lint.lintcfg.models.catalogue import Catalogue
from attn_lint.matrix.loader import Release

#: Parts of architecture names that mark a draft.
DRAFT_MARKS = ("Eagle", "DFlash", "NextN", "Assistant", "Draft", "MTP")


def write_catalogue(release: Release, target: Path) -> Path:
    """Write every model of the catalogue as a folder with its config.json."""
    catalogue = Catalogue(release["models"])
    for entry in release["models"]["models"]:
        found = catalogue.find(entry["id"])
        if found is None:
            raise LookupError(entry["id"])
        folder = target / entry["id"].replace("/", "--")
        folder.mkdir(parents=True, exist_ok=True)
        config, _ = found
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        tokens = {
            name: config.get(name) or default
            for name, default in (("eos_token_id", 2), ("bos_token_id", 1))
        }
        (folder / "generation_config.json").write_text(json.dumps(tokens), encoding="utf-8")
    return target


class Models:
    """Targets and, for each, the drafts that fit its shape."""

    def __init__(self, folder: Path) -> None:
        configs = {
            str(path.parent): json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(folder.resolve().glob("*/config.json"))
        }
        drafts = {path: config for path, config in configs.items() if _is_draft(config)}
        self.targets = [path for path in configs if path not in drafts]
        self.drafts = {
            path: [
                draft for draft, config in drafts.items() if _width(config) == _width(configs[path])
            ]
            for path in self.targets
        }


def _is_draft(config: dict[str, Any]) -> bool:
    names = " ".join(config.get("architectures") or ())
    return any(mark in names for mark in DRAFT_MARKS)


def _width(config: dict[str, Any]) -> Any:
    return (config.get("text_config") or config).get("hidden_size")
