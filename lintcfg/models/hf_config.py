"""From a config.json to the configuration that SGLang's `get_config` returns.

SGLang lets transformers choose a class by `model_type`, copies what only the text part has to the
top, and parses again with a class of its own where it has one. Each step may refuse.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .config import TEXT_KEYS, Config, ConfigError, Library, Values


class Parser:
    """Parses configurations as one release does.

    Args:
        library: the configuration classes.
        plan: `get_config` of section `architectures`.
    """

    def __init__(self, library: Library, plan: Mapping[str, Any]) -> None:
        self.library = library
        self.plan = plan
        self._longcat = frozenset(plan["longcat"]["archs"])
        self._two_shapes = frozenset(plan["two_shapes"])

    def parse(self, values: Values, path: str | None = None) -> Config:
        """The top-level configuration for the keys of a config.json.

        Raises:
            ConfigError: SGLang refuses to load it.
        """
        plan = self.plan
        registry = self.library.registry
        if not self._longcat.isdisjoint(_architectures(values)):
            config = self.library.build(registry[plan["longcat"]["class"]], values)
        elif raw := self._raw_mamba(values):
            config = self.library.build(registry[plan["raw_mamba"]["class"]], raw)
        else:
            config = self._auto(values, path)
        text = self.text(config)
        if config.varying:
            names = ", ".join(sorted(config.varying))
            raise ConfigError(f"{names} differs from layer to layer, which SGLang does not read")
        if text is not config:
            for name, value in text.attributes.items():
                if value is not None and not config.has(name):
                    config.attributes[name] = value
        config = self._parse_again(config, values)
        model_type = config.model_type
        if model_type in plan["copied_llm"]:
            inner = config.get("llm_config")
            if isinstance(inner, Config):
                for name, value in inner.attributes.items():
                    config.attributes.setdefault(name, value)
        if model_type in self._two_shapes:
            _two_shapes(config)
        forced = plan["forced_architectures"].get(model_type)
        if forced is not None:
            config.attributes["architectures"] = [forced]
        return config

    def _parse_again(self, config: Config, values: Values) -> Config:
        """SGLang's own class for the model type, if it has one."""
        ocr = self.plan["ocr"]
        remote = values.get("auto_map")
        module = remote.get("AutoModel") if isinstance(remote, dict) else None
        is_ocr = isinstance(module, str) and module in ocr["modules"]
        registry = self.library.registry
        if is_ocr and ocr["modules"][module] in (None, config.model_type):
            config = self.library.build(registry[ocr["class"]], values)
        elif config.model_type in registry and not config.is_a(*self.plan["parsed_once"]):
            config = self.library.build(registry[config.model_type], values)
        if is_ocr:
            for key in ("text_config", "language_config"):
                inner = config.get(key)
                if isinstance(inner, Config) and inner.get("v_head_dim") == 0:
                    inner.attributes["v_head_dim"] = ocr["v_head_dim"]
            config.attributes["architectures"] = [ocr["architecture"]]
        return config

    def _auto(self, values: Values, path: str | None) -> Config:
        model_type = values.get("model_type")
        remote = values.get("auto_map")
        known = isinstance(model_type, str) and model_type in self.library.auto
        if isinstance(remote, dict) and "AutoConfig" in remote and not known:
            raise ConfigError(_remote_code(remote["AutoConfig"], path))
        if model_type is None:
            raise ConfigError("it names no model_type")
        if "layer_types" in values:
            model_type = self.plan["by_layers"].get(model_type, model_type)
        if not isinstance(model_type, str) or model_type not in self.library.auto:
            raise ConfigError(f"transformers does not know the model type {model_type!r}")
        return self.library.build(model_type, values)

    def _raw_mamba(self, values: Values) -> Values | None:
        """Keys of the original state-space checkpoints, under their usual names."""
        if values.get("model_type") or values.get("architectures"):
            return None
        if "d_model" not in values or "ssm_cfg" not in values:
            return None
        return {
            "hidden_size": values["d_model"],
            "num_hidden_layers": values.get("n_layer"),
            "architectures": [self.plan["raw_mamba"]["architecture"]],
        }

    def text(self, config: Config) -> Config:
        """The configuration of the language model, which may be the whole one.

        Raises:
            ConfigError: it has no attention heads.
        """
        flat = self.plan["flat"]
        name = (_architectures(config.attributes) or [""])[0]
        if name.startswith(flat["prefix"]) and name.endswith(flat["suffix"]):
            config.attributes["dtype"] = flat["dtype"]
            return config
        parent = config.get("dtype")
        for key in TEXT_KEYS:
            value = config.get(key)
            if isinstance(value, dict):
                value = self.library.raw(value)
                config.attributes[key] = value
            if isinstance(value, Config) and parent is not None and value.get("dtype") is None:
                value.attributes["dtype"] = parent
        for key in TEXT_KEYS:
            if not config.has(key):
                continue
            value = config.get(key)
            if key == "thinker_config":
                if isinstance(value, Config) and isinstance(value.get("text_config"), Config):
                    inner: Config = value.get("text_config")
                    inner.attributes["dtype"] = value.get("dtype")
                    return inner
            elif key in ("llm_config", "text_config") and not (
                isinstance(value, Config) and value.has("num_attention_heads")
            ):
                raise ConfigError(f"its {key} has no num_attention_heads")
            return value if isinstance(value, Config) else config
        return config


def _architectures(values: Mapping[str, Any]) -> list[str]:
    names = values.get("architectures")
    if not isinstance(names, list):
        return []
    return [name for name in names if isinstance(name, str)]


def _remote_code(reference: Any, path: str | None) -> str:
    module = str(reference).split(".")[0]
    if path is not None and os.path.isfile(os.path.join(path, f"{module}.py")):  # noqa: PTH113, PTH118
        return f"its configuration is code of its own ({module}.py), which is not run here"
    return f"its configuration needs code ({module}.py) that is not in the folder"


def _two_shapes(config: Config) -> None:
    """Tell full and sliding attention apart where their head sizes or KV heads differ."""
    text = config.get("text_config")
    if not isinstance(text, Config):
        raise ConfigError("it has no text_config")
    attributes = text.attributes
    sliding = {name: attributes.get(name) for name in ("head_dim", "num_key_value_heads")}
    full = {**sliding, **text.special_layers}
    if "sliding_attention" not in (attributes.get("layer_types") or ()) or not text.varying:
        full = sliding if not text.varying else full
        sliding = full
    text.varying = frozenset()
    attributes.update(full)
    attributes["swa_head_dim"] = attributes["swa_v_head_dim"] = sliding["head_dim"]
    attributes["swa_num_key_value_heads"] = sliding["num_key_value_heads"]
    attributes.setdefault("v_head_dim", full["head_dim"])
