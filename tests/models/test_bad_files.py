"""Whatever stands where a model should be, the answer is a problem with a way out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.models import ModelProblem, ModelTraits, read_model, resolve_model
from attn_lint.lintcfg.models.files import LARGEST
from attn_lint.matrix.loader import load
from hypothesis import example, given, settings
from hypothesis import strategies as st

RELEASE = load()
BROKEN = {
    "empty": b"",
    "cut off": b'{"model_type": "llama"',
    "not UTF-8": b'{"model_type": "\xff"}',
    "NUL bytes": b"\0" * 64,
    "a list": b"[]",
    "a string": b'"llama"',
    "null": b"null",
    "a number": b"1e999",
    "deeply nested": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "lone surrogate": b'{"model_type": "\\ud800"}',
    "no model type": b"{}",
    "an unknown model type": b'{"model_type": "no_such_model", "architectures": ["X"]}',
    "a model type that is a list": b'{"model_type": ["llama"], "architectures": ["X"]}',
    "no architectures": b'{"model_type": "llama"}',
    "architectures of numbers": b'{"model_type": "llama", "architectures": [1]}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_broken_config_is_a_problem(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    found = resolve_model(str(tmp_path), RELEASE)
    assert isinstance(found, ModelProblem)
    assert found.refuses
    assert str(tmp_path) in found.path


def test_huge_config_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    found = resolve_model(str(tmp_path), RELEASE)
    assert isinstance(found, ModelProblem)
    assert "MiB" in found.message


def test_folder_without_config_says_which_file(tmp_path: Path) -> None:
    found = resolve_model(str(tmp_path), RELEASE)
    assert isinstance(found, ModelProblem)
    assert "config.json does not exist" in found.message
    assert found.hint


def test_config_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert isinstance(resolve_model(str(tmp_path), RELEASE), ModelProblem)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    path.chmod(0)
    found = resolve_model(str(tmp_path), RELEASE)
    assert isinstance(found, ModelProblem)
    assert "cannot be read" in found.message


@pytest.mark.parametrize("name", ["\0", "a\0b", "", "/no/such/folder", "./no-such", "x" * 5000])
def test_paths_that_lead_nowhere(name: str) -> None:
    assert not isinstance(resolve_model(name, RELEASE), ModelTraits)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FAMILIES = ("llama", "qwen3_next", "gemma4", "deepseek_v3", "qwen3_omni_moe", "kimi_k25", "dbrx",
            "glm5_next", "internvl_chat", "muse_glimmer", "deepseek_v41", "step3p5", "mamba2",
            "falcon", "granitemoehybrid", "NemotronH_Nano_VL_V2", "iquest_q1")  # fmt: skip
KEYS = ("hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim", "layer_types",
        "rope_scaling", "text_config", "llm_config", "thinker_config", "vision_config", "auto_map",
        "quantization_config", "architectures", "dtype", "linear_attn_config", "attn_config",
        "max_position_embeddings", "attention_other_setting", "sliding_window", "index_topk_freq",
        "indexer_types", "index_topk_pattern", "num_attention_heads_per_layer", "dflash_config",
        "indexer_n_heads", "mtp_hybrid_override_pattern", "hybrid_override_pattern",
        "vision_n_layers", "num_experts", "compression_config")  # fmt: skip


@settings(max_examples=300)
@given(
    st.sampled_from(FAMILIES),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
    st.booleans(),
)
@example("gemma4", {"text_config": {"layer_types": [1], "head_dim": True}}, False)
def test_values_of_any_kind_never_crash(family: str, values: dict[str, Any], draft: bool) -> None:
    config = {"architectures": ["LlamaForCausalLM"], **values, "model_type": family}
    json.dumps(config)
    found = read_model(config, RELEASE, is_draft=draft)
    assert isinstance(found, (ModelTraits, ModelProblem))
