"""What a checkpoint's configuration says of its quantization, as SGLang reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .config import Config
from .files import Unreadable, read_object

Values = dict[str, Any]
#: Group sizes and widths that Marlin kernels take.
_MARLIN_GROUPS = (-1, 32, 64, 128)
_FILES = {"hf_quant_config.json": False, "quant_model_description.json": True}


def quantization_traits(config: Config, path: str | None, *, is_draft: bool) -> Values:
    """Traits of the quantization; `config.quantization_config` is parsed in place."""
    own = config.get("quantization_config")
    own = own if isinstance(own, dict) else None
    if own is not None and own.get("quant_method", "modelopt") == "modelopt":
        own = {**own, **(modelopt({"quantization": own}) or {})}
        config.attributes["quantization_config"] = own
    found = own if own is not None else config.get("compression_config")
    if not isinstance(found, dict):
        found = _standalone(path)
    if path is not None and not is_draft:
        described = read_object(os.path.join(path, "quant_model_description.json"))  # noqa: PTH118
        if not isinstance(described, Unreadable):
            found = {**described, "quant_method": "modelslim"}
    return {**_of(found, own), **_packed(config, own)}


def _standalone(path: str | None) -> Values | None:
    """ModelOpt's description in a file of its own."""
    if path is None:
        return None
    described = read_object(os.path.join(path, "hf_quant_config.json"))  # noqa: PTH118
    return None if isinstance(described, Unreadable) else modelopt(described)


def modelopt(described: Mapping[str, Any]) -> Values | None:
    """Method and algorithm of a ModelOpt description, nested or flat."""
    inner = described.get("quantization", described)
    if not isinstance(inner, dict):
        return None
    if isinstance(inner.get("quantization"), dict):
        inner = inner["quantization"]
    algorithm = inner.get("quant_algo")
    if not isinstance(algorithm, str) or not algorithm:
        return None
    if algorithm == "MIXED_PRECISION":
        layers = inner.get("quantized_layers")
        layers = layers.values() if isinstance(layers, dict) else ()
        fp4 = any(
            str(layer.get("quant_algo", "")).upper() in ("NVFP4", "W4A16_NVFP4")
            for layer in layers
            if isinstance(layer, dict)
        )
        method = "modelopt_mixed" if fp4 else "w4afp8"
    elif "FP4" in algorithm:
        method = "modelopt_fp4"
    elif algorithm == "FP8":
        method = "modelopt_fp8"
    elif algorithm == "MXFP8":
        method = "mxfp8"
    else:
        return None
    return {"quant_method": method, "quant_algo": algorithm}


def _of(found: Any, own: Values | None) -> Values:
    """Traits of the description that holds, and of the one in config.json."""
    config: Values = found if isinstance(found, dict) else {}
    method = str(config.get("quant_method") or "").lower() if found is not None else None
    own_method = own.get("quant_method") if own is not None else None
    bits, group = config.get("bits"), config.get("group_size")
    weights = _path(config, "config_groups", "group_0", "weights")
    return {
        "quant_method": method,
        "hf_quant_method": own_method,
        "quant_algo": str(config.get("quant_algo") or "").upper(),
        "awq_marlin_convertible": bool(
            method == "awq" and bits == 4 and group in _MARLIN_GROUPS and config.get("zero_point")
        ),
        "gptq_marlin_convertible": bool(
            method == "gptq"
            and config.get("checkpoint_format") != "marlin"
            and not config.get("is_marlin_format")
            and bits in (4, 8)
            and config.get("sym") is True
            and config.get("desc_act") is not None
            and group in _MARLIN_GROUPS
        ),
        "moe_wna16_convertible": bool(
            (method == "gptq" and not config.get("desc_act") and bits in (4, 8))
            or (method == "awq" and bits == 4)
        ),
        "mlx_bits": bits
        if isinstance(bits, int) and isinstance(group, int) and "quant_method" not in config
        else None,
        "quant_is_int4_group32": bool(
            own_method == "compressed-tensors"
            and weights.get("num_bits") == 4
            and weights.get("group_size") == 32
            and weights.get("strategy") == "group"
            and weights.get("type") == "int"
        ),
    }


def _packed(config: Config, own: Values | None) -> Values:
    """Formats of packed weights, by group and by layer."""
    text = config.get("text_config", config)
    inner = text.get("quantization_config") if isinstance(text, Config) else None
    layers = own.get("quantized_layers") if own is not None else None
    return {
        "quant_is_mxfp4_pack": any("mxfp4" in name for name in _formats(inner, groups_only=True)),
        "quant_is_nvfp4_pack": any("nvfp4" in name for name in _formats(own)),
        "quant_w4a16_nvfp4_experts": isinstance(layers, dict)
        and any(
            ".experts" in name
            and isinstance(layer, dict)
            and str(layer.get("quant_algo")).upper() == "W4A16_NVFP4"
            for name, layer in layers.items()
        ),
        "hybrid_nvfp4_moe": own is not None
        and str(own.get("quant_algo", "")).upper() == "MIXED_PRECISION"
        and str(own.get("moe_quant_algo", "")).upper() == "NVFP4"
        and own.get("group_size") is not None,
    }


def _formats(described: Any, *, groups_only: bool = False) -> list[str]:
    if not isinstance(described, dict):
        return []
    groups = described.get("config_groups")
    found = [] if groups_only else [str(described.get("format", ""))]
    if isinstance(groups, dict):
        found += [
            str(group.get("format", "")) for group in groups.values() if isinstance(group, dict)
        ]
    return found


def _path(value: Any, *keys: str) -> Values:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
