"""Builds the attributes of a Hugging Face configuration from a config.json and class defaults.

A configuration class turns the keys of a config.json into attributes: it fills in defaults,
renames, derives and refuses. `config_defaults.yaml` says for each class what it does to the keys
that matter here; this module does it, without transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]
#: Sub-configurations that hold the language model, in the order in which they are looked for.
TEXT_KEYS = ("thinker_config", "llm_config", "language_config", "text_config")
_MISSING = object()
_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict,
    "none": type(None),
}  # fmt: skip


class ConfigError(Exception):
    """The configuration class refuses these values; SGLang refuses the launch with it."""


class Config:
    """Attributes of one configuration object, read as `getattr` would."""

    __slots__ = ("aliases", "attributes", "constants", "marks", "model_type", "varying")

    def __init__(
        self,
        model_type: str,
        attributes: Values,
        *,
        aliases: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        marks: frozenset[str] = frozenset(),
    ) -> None:
        self.model_type = model_type
        self.attributes = attributes
        self.aliases = aliases or {}
        self.constants = constants or {}
        self.marks = marks
        #: Attributes that differ from layer to layer, which SGLang may not read globally.
        self.varying: frozenset[str] = frozenset()

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an attribute, or `default` where the object has none.

        Raises:
            ConfigError: the attribute differs from layer to layer.
        """
        name = self.aliases.get(name, name)
        if name in self.varying:
            raise ConfigError(f"{name} differs from layer to layer and has no single value")
        if name in self.attributes:
            return self.attributes[name]
        return self.constants.get(name, default)

    def has(self, name: str) -> bool:
        """Whether the object has the attribute, be it None."""
        return self.get(name, _MISSING) is not _MISSING

    def set(self, name: str, value: Any) -> None:
        """Set an attribute; what differs by layer stops doing so."""
        name = self.aliases.get(name, name)
        self.attributes[name] = value

    def need(self, name: str) -> Any:
        """Value of an attribute that SGLang reads without a default.

        Raises:
            ConfigError: there is none.
        """
        value = self.get(name, _MISSING)
        if value is _MISSING:
            raise ConfigError(f"the configuration has no {name}")
        return value

    def is_a(self, *names: str) -> bool:
        """Whether the object is an instance of one of the classes."""
        return any(name in self.marks for name in names)


class Library:
    """The configuration classes of a release.

    Args:
        data: section `config_defaults`: `classes`, and which class `auto` and `registry` choose
            for a model type.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.classes: Mapping[str, Values] = data["classes"]
        self.auto: Mapping[str, str] = data["auto"]
        self.registry: Mapping[str, str] = data["registry"]

    def build(self, key: str, values: Mapping[str, Any]) -> Config:
        """Make the configuration of class `key` from the keys of a config.json.

        Raises:
            ConfigError: the class refuses a value.
        """
        data = self.classes.get(key)
        if data is None or data.get("unmade"):
            return self.raw(values)
        given = dict(values)
        ignored = data.get("ignored", ())
        for name in ignored:
            given.pop(name, None)
        aliases: Mapping[str, str] = data.get("aliases", {})
        for name, target in data.get("renamed", {}).items():
            if name in given:
                given.setdefault(target, given.pop(name))
        attributes: Values = dict(data.get("fields", {}))
        constants = data.get("constants", {})
        read_only = data.get("read_only", ())
        types = data.get("types", {})
        for name, value in given.items():
            target = aliases.get(name, name)
            if target in read_only:
                raise ConfigError(f"{target} cannot be set for model type {data['type']}")
            expected = types.get(name)
            if expected is not None:
                _check_type(name, value, expected)
            attributes[target] = value
        config = Config(
            data["type"],
            attributes,
            aliases=aliases,
            constants=constants,
            marks=frozenset(data.get("marks", ())),
        )
        self._subs(config, data, given)
        _rope(config, data, given)
        for rule in data.get("rules", ()):
            _apply(config, rule, given)
        for check in data.get("checks", ()):
            _check(config, check)
        return config

    def raw(self, values: Mapping[str, Any]) -> Config:
        """A configuration of the base class: the keys as they are."""
        config = Config(str(values.get("model_type", "")), dict(values))
        _dtype(config)
        if values.get("rope_scaling") and values.get("rope_theta"):
            _rope(config, {"rope": "theta"}, values)
        elif "rope_scaling" in values or "rope_parameters" in values:
            parameters = values.get("rope_scaling", values.get("rope_parameters"))
            config.attributes["rope_parameters"] = parameters
            config.attributes.pop("rope_scaling", None)
        return config

    def _subs(self, config: Config, data: Mapping[str, Any], given: Values) -> None:
        for name, plan in data.get("sub", {}).items():
            value = given.get(name)
            if value is None:
                key = plan.get("default")
                if key is None:
                    if plan.get("none"):
                        config.attributes[name] = None
                    continue
                value = {}
                if plan.get("flat"):
                    value = {k: v for k, v in given.items() if not k.endswith("_config")}
                    value.pop("model_type", None)
                elif plan.get("values"):
                    value = dict(plan["values"])
            elif not isinstance(value, dict):
                raise ConfigError(f"{name} is not an object")
            else:
                key = plan.get("class")
                if key is None:
                    model_type = value.get("model_type", plan.get("type"))
                    key = self.auto.get(str(model_type))
                    if key is None:
                        if plan.get("unknown") == "raw":
                            config.attributes[name] = self.raw(value)
                            continue
                        raise ConfigError(f"{name} has an unknown model type {model_type!r}")
            config.attributes[name] = self.build(key, value)
        _dtype(config)


def _dtype(config: Config) -> None:
    """`torch_dtype` is the old name of `dtype`."""
    old = config.attributes.pop("torch_dtype", None)
    if config.attributes.get("dtype") is None:
        config.attributes["dtype"] = old


def _check_type(name: str, value: Any, expected: str) -> None:
    for word in expected.split("|"):
        kind = _TYPES[word]
        if isinstance(value, kind) and (word == "bool" or not isinstance(value, bool)):
            return
    shown = repr(value)
    shown = shown if len(shown) < 40 else f"{shown[:40]}…"
    raise ConfigError(f"{name} must be {expected.replace('|', ' or ')}, not {shown}")


def _rope(config: Config, data: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Unite the ways of writing RoPE parameters, as far as the context length hangs on them."""
    kind = data.get("rope")
    if kind is None:
        if "rope_scaling" in config.attributes:
            config.attributes["rope_parameters"] = config.attributes.pop("rope_scaling")
        return
    attributes = config.attributes
    parameters = given.get("rope_scaling") or attributes.get("rope_parameters") or {}
    attributes.pop("rope_scaling", None)
    if not isinstance(parameters, dict):
        raise ConfigError("rope_scaling is not an object")
    parameters = dict(parameters)
    nested = any(isinstance(value, dict) for value in parameters.values())
    if not nested:
        parameters.setdefault("rope_type", parameters.get("type", "default"))
        scaled = parameters["rope_type"] in ("llama3", "yarn", "longrope")
        if scaled and (kind == "field" or "max_position_embeddings" in attributes):
            parameters.setdefault("original_max_position_embeddings", None)
    if nested or data.get("rope_nested"):
        # One set for each layer type: no factor stands for the whole model.
        parameters = {"rope_type": "by layer"}
    attributes["rope_parameters"] = parameters


def _apply(config: Config, rule: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    key, operation = rule["key"], rule["op"]
    attributes = config.attributes
    when = rule.get("when", "always")
    if when == "null" and attributes.get(key) is not None:
        return
    if when == "falsy" and attributes.get(key):
        return
    if when == "absent" and key in given:
        return
    of = rule.get("of")
    if operation == "value":
        attributes[key] = rule["value"]
    elif operation == "drop":
        attributes.pop(key, None)
    elif operation == "copy":
        attributes[key] = config.get(of)
    elif operation == "set_if":
        attributes[key] = config.get(of) is not None
    elif operation == "keep_if":
        if not config.get(of):
            attributes[key] = rule.get("else")
    elif operation == "layers":
        attributes[key] = _layers(config, rule)
    elif operation == "window_layers":
        attributes[key] = _window_layers(config, rule)
    else:
        numbers = [config.get(name) for name in of]
        if not all(isinstance(number, int) for number in numbers):
            raise ConfigError(f"{key} is derived from {' and '.join(of)}, of which one is missing")
        if operation == "divide":
            if not numbers[1]:
                raise ConfigError(f"{of[1]} is zero")
            attributes[key] = numbers[0] // numbers[1]
        elif operation == "add":
            attributes[key] = sum(numbers)
        elif operation == "multiply":
            product = 1
            for number in numbers:
                product *= number
            attributes[key] = product
        elif operation == "length":
            attributes[key] = len(config.get(of[0]))


def _layers(config: Config, rule: Mapping[str, Any]) -> list[str] | None:
    """Types of all layers, where the configuration derives them from a pattern."""
    count = config.get(rule.get("count", "num_hidden_layers"))
    if not isinstance(count, int) or not 0 <= count <= 10_000:
        return None
    cycle: list[str] = rule["cycle"]
    period = config.get(rule["period"], len(cycle)) if "period" in rule else len(cycle)
    if not isinstance(period, int) or period <= 0:
        return None
    if period != len(cycle):
        cycle = [cycle[0]] * (period - 1) + [cycle[-1]]
    layers = [cycle[number % period] for number in range(count)]
    if layers and "last" in rule:
        layers[-1] = rule["last"]
    return layers


def _window_layers(config: Config, rule: Mapping[str, Any]) -> list[str] | None:
    """Layer types where the layers from `max_window_layers` on slide, if any do."""
    count, first = config.get("num_hidden_layers"), config.get("max_window_layers")
    full, sliding = rule["cycle"]
    if not isinstance(count, int) or not 0 <= count <= 10_000:
        return None
    if config.get("sliding_window") is None or not isinstance(first, int):
        first = count
    return [sliding if number >= first else full for number in range(count)]


def _check(config: Config, check: Mapping[str, Any]) -> None:
    if check["check"] == "divides":
        whole, part = config.get(check["whole"]), config.get(check["part"])
        if isinstance(whole, int) and isinstance(part, int) and part and whole % part:
            raise ConfigError(f"{check['whole']} {whole} is no multiple of {check['part']} {part}")
    elif check["check"] == "layer_count":
        layers, count = config.get("layer_types"), config.get("num_hidden_layers")
        if isinstance(layers, list) and isinstance(count, int) and len(layers) != count:
            raise ConfigError(f"layer_types has {len(layers)} entries for {count} layers")
