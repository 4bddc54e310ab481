"""Models that the Hugging Face cache of this machine holds are read, and nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attn_lint.lintcfg.models import ModelTraits, resolve_model
from attn_lint.lintcfg.models.hub_cache import cache_folder, snapshot
from attn_lint.matrix.loader import load

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 8,
          "num_key_value_heads": 2, "hidden_size": 512}  # fmt: skip


def fill(cache: Path, name: str = "someone/tiny", commit: str = "abc123") -> None:
    root = cache / f"models--{name.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(commit)
    folder = root / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def test_places_in_the_order_of_the_hub_library() -> None:
    assert cache_folder({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == "/a/"
    assert cache_folder({"HF_HOME": "/b"}) == "/b/hub"
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == "/c/huggingface/hub"
    assert cache_folder({}).endswith("/.cache/huggingface/hub")


def test_a_cached_snapshot_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    found = resolve_model("someone/tiny", load())
    assert isinstance(found, ModelTraits)
    assert found.origin == "local Hugging Face cache"
    assert found.traits["num_kv_heads"] == 2


@pytest.mark.parametrize("name", ["../x", "a/b/c", "", "a\0b", "someone/none", "-x/y"])
def test_names_that_are_no_ids(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    assert snapshot(name, {"HF_HUB_CACHE": str(tmp_path)}) is None


def test_a_snapshot_without_config(tmp_path: Path) -> None:
    fill(tmp_path)
    next(tmp_path.rglob("config.json")).unlink()
    assert snapshot("someone/tiny", {"HF_HUB_CACHE": str(tmp_path)}) is None


def test_a_revision(tmp_path: Path) -> None:
    fill(tmp_path)
    environment = {"HF_HUB_CACHE": str(tmp_path)}
    assert snapshot("someone/tiny", environment, "abc123") is not None
    assert snapshot("someone/tiny", environment, "other") is None
