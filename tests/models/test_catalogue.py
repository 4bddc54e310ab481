"""Public ids, mirrors and number formats find their configuration."""

from __future__ import annotations

import pytest
from attn_lint.lintcfg.models import ModelTraits, read_model, resolve_model
from attn_lint.lintcfg.models.catalogue import Catalogue
from attn_lint.matrix.loader import load

RELEASE = load()
CATALOGUE = Catalogue(RELEASE["models"])
#: Configurations that are code of their own in the repository: SGLang wants --trust-remote-code.
NEEDS_CODE = {
    name for name in CATALOGUE.entries if "auto_map" in CATALOGUE.configuration(name)
}  # fmt: skip


def traits(name: str) -> ModelTraits:
    found = resolve_model(name, RELEASE)
    assert isinstance(found, ModelTraits), found
    return found


def test_the_catalogue_is_large() -> None:
    assert len(CATALOGUE.entries) >= 150


@pytest.mark.parametrize("name", sorted(CATALOGUE.entries))
def test_every_entry_gives_traits(name: str) -> None:
    found = read_model(CATALOGUE.configuration(name), RELEASE)
    if isinstance(found, ModelTraits):
        assert found.traits["num_kv_heads"] is not None
    else:
        # What SGLang itself cannot load without more.
        assert name in NEEDS_CODE or "layer to layer" in found.message


def test_lookup_ignores_case() -> None:
    assert traits("QWEN/qwen3-8b").traits == traits("Qwen/Qwen3-8B").traits
    assert traits("Qwen/Qwen3-8B").origin == "catalogue"


def test_other_ids_of_one_configuration() -> None:
    assert traits("deepseek-ai/DeepSeek-R1").traits["arch"] == "DeepseekV3ForCausalLM"
    assert traits("meta-llama/Llama-3.3-70B-Instruct").traits["num_kv_heads"] == 8


def test_a_mirror_is_assumed_to_be_the_same() -> None:
    found = traits("unsloth/Qwen3-8B")
    assert found.origin == "assumed from Qwen/Qwen3-8B"
    assert found.traits == traits("Qwen/Qwen3-8B").traits


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("nvidia/Qwen3-14B-NVFP4", "modelopt_fp4"),
        ("nvidia/Qwen3-14B-FP8", "modelopt_fp8"),
        ("Qwen/Qwen3-14B-FP8", "fp8"),
        ("Qwen/Qwen3-14B-AWQ", "awq"),
        ("someone/Qwen3-14B-GPTQ-Int4", "gptq"),
        ("RedHatAI/Qwen3-14B-FP8-dynamic", "compressed-tensors"),
    ],
)
def test_an_ending_names_the_number_format(name: str, method: str) -> None:
    found = traits(name)
    assert found.origin.startswith("assumed from Qwen/Qwen3-14B")
    assert found.traits["quant_method"] == method


@pytest.mark.parametrize("name", ["someone/something", "Qwen3-8B-x", "a/b/c", "unsloth/x"])
def test_unknown_ids_are_unknown(name: str) -> None:
    assert resolve_model(name, RELEASE) is None


def test_entries_are_not_shared() -> None:
    first = CATALOGUE.configuration("Qwen/Qwen3-8B")
    first["num_attention_heads"] = 1
    assert CATALOGUE.configuration("Qwen/Qwen3-8B")["num_attention_heads"] == 32
