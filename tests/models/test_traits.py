"""Traits of models against what the real `ModelConfig` says of the same config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg.models import ModelProblem, ModelTraits, read_model, resolve_model
from attn_lint.matrix.loader import load

from .compare import differences

RELEASE = load()
MODELS = Path(__file__).parents[2] / "fixtures" / "models"
#: Rows of tests/models/truth_child.py, run beside the real release.
TRUTH = [json.loads(line) for line in (MODELS / "traits.jsonl").read_text().splitlines()]


def _name(row: dict[str, Any]) -> str:
    return f"{row['model']}{' as draft' if row['draft'] else ''}"


@pytest.mark.parametrize("row", TRUTH, ids=_name)
def test_traits_are_those_of_the_real_configuration(row: dict[str, Any]) -> None:
    found = read_model(str(MODELS / row["model"]), RELEASE, is_draft=row["draft"])
    assert differences(row, found) == []


def test_every_trait_is_described() -> None:
    found = read_model(str(MODELS / "qwen3-8b"), RELEASE)
    assert isinstance(found, ModelTraits)
    assert found.traits.keys() == RELEASE["architectures"]["traits"].keys()


def _config(**values: Any) -> dict[str, Any]:
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **values}


def _traits(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    found = read_model(config, RELEASE, **options)
    assert isinstance(found, ModelTraits), found
    return found.traits


def test_overrides_reach_into_sub_configurations() -> None:
    config = json.loads((MODELS / "qwen3-vl-8b" / "config.json").read_text())
    plain = _traits(config)
    changed = _traits(config, overrides={"text_config": {"num_key_value_heads": 2}})
    assert (plain["num_kv_heads"], changed["num_kv_heads"]) == (8, 2)


def test_overrides_replace_attributes() -> None:
    found = _traits(_config(), overrides={"architectures": ["Qwen3Model"], "head_dim": 96})
    assert (found["arch"], found["head_dim"]) == ("Qwen3Model", 96)


def test_the_algorithm_chooses_between_two_drafts_of_a_checkpoint() -> None:
    config = json.loads((MODELS / "deepseek-v4-flash" / "config.json").read_text())
    config["dspark_block_size"] = 7
    archs = {
        algorithm: _traits(config, is_draft=True, algorithm=algorithm)["arch"]
        for algorithm in ("EAGLE", "DSPARK", None)
    }
    assert archs["EAGLE"] != archs["DSPARK"] == archs[None]


def test_files_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_config()))
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})
    )
    found = read_model(str(tmp_path), RELEASE)
    assert isinstance(found, ModelTraits)
    assert found.traits["quant_method"] == "modelopt_fp4"
    assert found.traits["hf_quant_method"] is None
    (tmp_path / "quant_model_description.json").write_text("{}")
    target = read_model(str(tmp_path), RELEASE)
    draft = read_model(str(tmp_path), RELEASE, is_draft=True)
    assert isinstance(target, ModelTraits) and isinstance(draft, ModelTraits)
    assert target.traits["quant_method"] == "modelslim"
    assert draft.traits["quant_method"] == "modelopt_fp4"


def test_code_of_its_own_is_not_run(tmp_path: Path) -> None:
    config = _config(model_type="no_such", auto_map={"AutoConfig": "configuration_x.XConfig"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = read_model(str(tmp_path), RELEASE)
    assert isinstance(found, ModelProblem)
    assert "configuration_x.py" in found.message


def test_a_model_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_config()))
    first = resolve_model(str(tmp_path), RELEASE)
    assert resolve_model(str(tmp_path), RELEASE) is first
    assert resolve_model(str(tmp_path), RELEASE, is_draft=True) is not first
