"""What a checkpoint's configuration says of its quantization, as SGLang reads it."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Any

from .config import Config, Values
from .files import Unreadable, read_object


class Quantization:
    """Reads quantizations as one release does.

    Args:
        plan: `quantization` of section `architectures`.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.plan = plan

    def traits(self, config: Config, path: str | None, *, is_draft: bool) -> Values:
        """Traits of the quantization; `config.quantization_config` is parsed in place."""
        generic = self.plan["generic"]
        own = config.get("quantization_config")
        own = own if isinstance(own, dict) else None
        if own is not None and own.get("quant_method", generic) == generic:
            own = {**own, **(self._parse({"quantization": own}) or {})}
            config.attributes["quantization_config"] = own
        found = own if own is not None else config.get("compression_config")
        if not isinstance(found, dict):
            found = self._beside(path, self.plan["files"]["generic"])
            found = self._parse(found) if found is not None else None
        if not is_draft:
            described = self._beside(path, self.plan["files"]["described"])
            if described is not None:
                found = {**described, "quant_method": self.plan["described"]}
        return {**self._methods(found, own), **self._packed(config, own)}

    def _beside(self, path: str | None, name: str) -> Values | None:
        """A description in a file of its own."""
        if path is None:
            return None
        read = read_object(os.path.join(path, name))  # noqa: PTH118 - hot path
        return None if isinstance(read, Unreadable) else read

    def _parse(self, described: Mapping[str, Any]) -> Values | None:
        """Method and algorithm of a generic description, nested or flat."""
        inner = described.get("quantization", described)
        if not isinstance(inner, dict):
            return None
        if isinstance(inner.get("quantization"), dict):
            inner = inner["quantization"]
        algorithm = inner.get("quant_algo")
        if not isinstance(algorithm, str) or not algorithm:
            return None
        for row in self.plan["algorithms"]:
            if not (row.get("is") == algorithm or row.get("contains", "\0") in algorithm):
                continue
            method = row["method"]
            if "layers" in row and not self._has_layer(inner, row["layers"]):
                method = row["else"]
            return {"quant_method": method, "quant_algo": algorithm}
        return None

    def _has_layer(self, described: Mapping[str, Any], algorithms: list[str]) -> bool:
        layers = described.get("quantized_layers")
        return isinstance(layers, dict) and any(
            str(layer.get("quant_algo", "")).upper() in algorithms
            for layer in layers.values()
            if isinstance(layer, dict)
        )

    def _methods(self, found: Values | None, own: Values | None) -> Values:
        """Traits of the description that holds, and of the one in config.json."""
        config: Values = found if found is not None else {}
        method = str(config.get("quant_method") or "").lower() if found is not None else None
        bits, group = config.get("bits"), config.get("group_size")
        unnamed = "quant_method" not in config and _is_int(bits) and _is_int(group)
        result: Values = {
            "quant_method": method,
            "hf_quant_method": own.get("quant_method") if own is not None else None,
            "quant_algo": str(config.get("quant_algo") or "").upper(),
            "mlx_bits": bits if unnamed else None,
        }
        for name, rows in self.plan["convertible"].items():
            result[name] = any(
                method == row["method"]
                and all(config.get(key) in values for key, values in row.get("in", {}).items())
                and not any(config.get(key) for key in row.get("not", ()))
                and all(config.get(key) is not None for key in row.get("has", ()))
                and all(config.get(key) != value for key, value in row.get("differs", {}).items())
                for row in rows
            )
        int4 = self.plan["int4_group"]
        weights = _path(config, *int4["at"])
        result["quant_is_int4_group32"] = result["hf_quant_method"] == int4["method"] and all(
            weights.get(key) == value for key, value in int4["weights"].items()
        )
        return result

    def _packed(self, config: Config, own: Values | None) -> Values:
        """Formats of packed weights, by group and by layer."""
        plan = self.plan["packed"]
        text = config.get("text_config", config)
        inner = text.get("quantization_config") if isinstance(text, Config) else None
        layers = own.get("quantized_layers") if own is not None else None
        hybrid = self.plan["hybrid"]
        return {
            "quant_is_mxfp4_pack": any(
                plan["mxfp4"] in name for name in _formats(inner, groups_only=True)
            ),
            "quant_is_nvfp4_pack": any(plan["nvfp4"] in name for name in _formats(own)),
            "quant_w4a16_nvfp4_experts": isinstance(layers, dict)
            and any(
                plan["experts"] in name
                and isinstance(layer, dict)
                and str(layer.get("quant_algo")).upper() == plan["expert_algorithm"]
                for name, layer in layers.items()
            ),
            "hybrid_nvfp4_moe": own is not None
            and all(str(own.get(key, "")).upper() == value for key, value in hybrid.items())
            and own.get("group_size") is not None,
        }


def _is_int(value: Any) -> bool:
    return isinstance(value, int)


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
