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
#: More layers than any model has; a longer list is not written out.
MOST_LAYERS = 10_000
_MISSING = object()
#: Keys at the top that a text configuration takes over even where it lets others alone.
_ALWAYS_KNOWN = frozenset(("dtype", "torch_dtype", "rope_parameters", "rope_scaling", "rope_theta"))
#: RoPE types that remember the length they were trained with.
_SCALED = ("llama3", "yarn", "longrope")
#: Those whose check compares it with the present length.
_MEASURED = ("llama3", "yarn")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict,
    "none": type(None),
}  # fmt: skip


class ConfigError(Exception):
    """The configuration class refuses these values; SGLang refuses the launch with it."""


class Config:
    """Attributes of one configuration object, read as `getattr` would."""

    __slots__ = (
        "aliases", "attributes", "constants", "marks", "model_type", "special_layers", "varying",
    )  # fmt: skip

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
        #: Attributes that differ from layer to layer, which may not be read for the whole.
        self.varying: frozenset[str] = frozenset()
        #: Their values in the layers that differ.
        self.special_layers: Values = {}

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
        data: section `config_defaults`: `classes`, the model types that transformers knows
            (`auto`), and the class that SGLang has for some (`registry`).
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.classes: Mapping[str, Values] = data["classes"]
        #: Model types that transformers knows; each has the class of its name.
        self.auto = frozenset(data["auto"])
        self.registry: Mapping[str, str] = data["registry"]
        #: RoPE types with the parameters that each needs.
        self.rope_keys: Mapping[str, list[str]] = data.get("rope_keys", {})
        self.base: Mapping[str, Any] = {"rope_checked": bool(self.rope_keys)}
        self.layer_types = frozenset(
            (*data.get("layer_types", ()), *data.get("old_layer_types", ()))
        )

    def build(self, key: str, values: Mapping[str, Any], depth: int = 0) -> Config:
        """Make the configuration of class `key` from the keys of a config.json.

        Raises:
            ConfigError: the class refuses a value.
        """
        if depth > 8:
            raise ConfigError("its sub-configurations are nested too deeply")
        data = self.classes.get(key)
        if data is None or data.get("unmade"):
            return self.raw(values)
        for name in data.get("required", ()):
            if name not in values:
                raise ConfigError(f"it has no {name}")
        given = _normalised(data, dict(values))
        aliases: Mapping[str, str] = data.get("aliases", {})
        attributes: Values = dict(data.get("fields", {}))
        read_only = data.get("read_only", ())
        for expected, names in data.get("types", {}).items():
            for name in names:
                if name in given:
                    _check_type(name, given[name], expected)
        # What the class names itself is set first; another name for it, given too, then wins.
        for name in sorted(given, key=lambda name: name in aliases or name not in attributes):
            target = aliases.get(name, name)
            if target in read_only:
                raise ConfigError(f"{target} cannot be set for model type {data['type']}")
            attributes[target] = given[name]
        model_type = data["type"]
        if isinstance(given.get("model_type"), str) and not data.get("own_type"):
            model_type = given["model_type"]
        config = Config(
            model_type,
            attributes,
            aliases=aliases,
            constants=data.get("constants"),
            marks=frozenset(data.get("marks", ())),
        )
        _architectures(config, data)
        _dtype(config, given)
        for name, plan in data.get("sub", {}).items():
            self._sub(config, name, plan, given, depth)
        _rope(config, data, given, self.rope_keys)
        for rule in data.get("rules", ()):
            if _holds(config, rule, given):
                _apply(config, rule, given)
        for check in data.get("checks", ()):
            _check(config, check, given, self.layer_types)
        return config

    def raw(self, values: Mapping[str, Any]) -> Config:
        """A configuration of the base class: the keys as they are."""
        config = Config(str(values.get("model_type", "")), dict(values))
        _dtype(config, values)
        _rope(config, self.base, values, self.rope_keys)
        return config

    def _sub(
        self, config: Config, name: str, plan: Mapping[str, Any], given: Values, depth: int
    ) -> None:
        """Make one sub-configuration, or leave out what there is not."""
        value = given.get(name)
        key = plan.get("always")
        if key is not None:
            value = given if not plan["from"] else given.get(plan["from"])
            value = value if isinstance(value, dict) else {}
        elif value is None:
            key = plan.get("default")
            if key is None:
                if plan.get("none"):
                    config.attributes[name] = None
                return
            value = dict(plan.get("values", {}))
            if "flat" in plan:
                value = {k: v for k, v in given.items() if not k.endswith("_config")}
                if plan["flat"] == "known":
                    known = self.classes[key]["fields"]
                    value = {k: v for k, v in value.items() if k in known or k in _ALWAYS_KNOWN}
                if plan["flat"] != "with type":
                    value.pop("model_type", None)
        elif not isinstance(value, dict):
            raise ConfigError(f"{name} is not an object")
        else:
            key = self._sub_class(name, plan, value)
            if plan.get("values_always"):
                value = {**plan["values"], **value}
            if "under" in plan:
                value = {**{k: given[k] for k in plan["under"] if k in given}, **value}
        if key == "raw":
            config.attributes[name] = self.raw(value)
        elif key == "dict":
            config.attributes[name] = value
        else:
            config.attributes[name] = self.build(key, value, depth + 1)

    def _sub_class(self, name: str, plan: Mapping[str, Any], value: Values) -> str:
        if "by_architecture" in plan:
            archs = value.get("architectures")
            arch = archs[0] if isinstance(archs, list) and archs else None
            if arch not in plan["by_architecture"]:
                raise ConfigError(f"{name} has the architecture {arch!r}, which is not supported")
            return str(plan["by_architecture"][arch])
        if plan.get("dict"):
            return "dict"
        if "class" in plan:
            return str(plan["class"])
        model_type = value.get("model_type", plan.get("type"))
        if model_type in plan.get("by_type", ()):
            return str(plan["by_type"][model_type])
        if model_type in self.auto:
            return str(model_type)
        if plan.get("unknown") == "raw":
            return "raw"
        raise ConfigError(f"{name} has an unknown model type {model_type!r}")


def _normalised(data: Mapping[str, Any], given: Values) -> Values:
    """The keys after the translations that some classes begin with."""
    flatten = data.get("flatten")
    if flatten is not None and isinstance(given.get("text_config"), dict):
        text = {k: v for k, v in given.pop("text_config").items() if k != "model_type"}
        given = {**given, **text} if flatten == "text" else {**text, **given}
    vision = given.get("vision_config")
    if isinstance(vision, dict):
        for name, target in data.get("vision_names", {}).items():
            if name in vision:
                given.setdefault(target, vision[name])
    for name, target in data.get("renamed", {}).items():
        if name in given:
            value = given.pop(name)
            if given.get(target) is None:
                given[target] = value
    return given


def _architectures(config: Config, data: Mapping[str, Any]) -> None:
    attributes = config.attributes
    if "architectures" in data:
        plan = data["architectures"]
        if plan["forced"] or attributes.get("architectures") is None:
            attributes["architectures"] = list(plan["names"])
    renames = data.get("rename_architectures")
    names = attributes.get("architectures")
    if renames and isinstance(names, list) and len(names) == 1 and names[0] in renames:
        attributes["architectures"] = [renames[names[0]]]


def _dtype(config: Config, given: Mapping[str, Any]) -> None:
    """`torch_dtype` is the old name of `dtype`."""
    config.attributes.pop("torch_dtype", None)
    if given.get("dtype") is None and given.get("torch_dtype") is not None:
        config.attributes["dtype"] = given["torch_dtype"]
    config.attributes.setdefault("dtype", None)


def _check_type(name: str, value: Any, expected: str) -> None:
    for word in expected.split("|"):
        kind = _TYPES[word]
        if isinstance(value, kind) and (word == "bool" or not isinstance(value, bool)):
            return
    shown = repr(value)
    shown = shown if len(shown) < 40 else f"{shown[:40]}…"
    raise ConfigError(f"{name} must be {expected.replace('|', ' or ')}, not {shown}")


def _rope(
    config: Config,
    data: Mapping[str, Any],
    given: Mapping[str, Any],
    rope_keys: Mapping[str, list[str]],
) -> None:
    """Unite the ways of writing RoPE parameters, as far as the context length hangs on them."""
    kind, checked = data.get("rope"), data.get("rope_checked", False)
    attributes = config.attributes
    united = kind == "always" or (
        kind == "theta" and bool(given.get("rope_scaling") and given.get("rope_theta"))
    )
    if "rope_scaling" in attributes:
        scaling = attributes.pop("rope_scaling")
        if scaling or not united:
            attributes["rope_parameters"] = scaling
    parameters = attributes.get("rope_parameters") or {}
    if not united and not (checked and parameters):
        return
    if not isinstance(parameters, dict):
        raise ConfigError("rope_scaling is not an object")
    parameters = dict(parameters)
    if data.get("rope_nested") or any(isinstance(value, dict) for value in parameters.values()):
        # One set for each layer type: no factor stands for the whole model.
        attributes["rope_parameters"] = {"rope_type": "by layer"}
        return
    rope_type = parameters.setdefault("rope_type", parameters.get("type", "default"))
    has_length = config.has("max_position_embeddings")
    if united and rope_type in _SCALED:
        if has_length or config.has("original_max_position_embeddings"):
            parameters.setdefault("original_max_position_embeddings", None)
        elif "original_max_position_embeddings" not in parameters:
            raise ConfigError("it scales RoPE but has no max_position_embeddings")
    if checked:
        needed = rope_keys.get(rope_type, ()) if isinstance(rope_type, str) else ()
        for name in needed:
            if name not in parameters and not (united and name == "rope_theta"):
                raise ConfigError(f"its RoPE parameters of type {rope_type} lack {name}")
        if rope_type in _MEASURED and not has_length:
            raise ConfigError("it scales RoPE but has no max_position_embeddings")
    attributes["rope_parameters"] = parameters


def _holds(config: Config, rule: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a rule applies."""
    key, when = rule["key"], rule.get("when", "always")
    if when == "null" and config.attributes.get(key) is not None:
        return False
    if when == "falsy" and config.attributes.get(key):
        return False
    if when == "absent" and key in given:
        return False
    if "if" in rule and not config.get(rule["if"]):
        return False
    return not ("if_null" in rule and config.get(rule["if_null"]) is not None)


def _apply(config: Config, rule: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    key: str = rule["key"]
    operation: str = rule["op"]
    of: Any = rule.get("of")
    attributes = config.attributes
    if operation == "value":
        attributes[key] = rule["value"]
    elif operation == "drop":
        attributes.pop(key, None)
    elif operation == "copy":
        attributes[key] = config.get(of)
    elif operation == "copy_sub":
        inner = config.get(of[0])
        value = inner.get(of[1]) if isinstance(inner, Config) else None
        if value is not None or not rule.get("if_set"):
            attributes[key] = value
    elif operation == "spread":
        inner = config.get(key)
        for name in of if isinstance(inner, Config) else ():
            if inner.has(name):
                attributes[name] = inner.get(name)
    elif operation == "set_if":
        attributes[key] = any(config.get(name) is not None for name in (of, rule.get("or", of)))
    elif operation == "keep_if":
        if not config.get(of):
            attributes[key] = rule.get("else")
    elif operation == "layers":
        attributes[key] = _layers(config, rule)
    elif operation == "window_layers":
        attributes[key] = _window_layers(config, rule)
    elif operation == "by_layer":
        _by_layer(config, rule, given)
    elif operation == "kda_layers":
        attributes[key] = _kda_layers(config, rule)
    elif operation == "length":
        attributes[key] = len(config.get(of) or ())
    elif operation == "cut":
        old, count = attributes.get(key), config.get(of)
        if isinstance(old, list) and isinstance(count, int):
            attributes[key] = old[:count]
    elif operation == "map":
        old = attributes.get(key)
        if isinstance(old, list):
            attributes[key] = [rule["names"].get(name, name) for name in old]
    elif operation == "half_plus_one":
        attributes[key] = _number(config, key) // 2 + 1
    elif operation == "multiply":
        product = 1
        for name in of:
            product *= _number(config, name)
        if "plus_one" in rule:
            product *= _number(config, rule["plus_one"]) + 1
        attributes[key] = product
    elif operation == "divide":
        part = _number(config, of[1])
        if not part:
            raise ConfigError(f"{of[1]} is zero")
        attributes[key] = _number(config, of[0]) // part
    elif operation == "add":
        attributes[key] = sum(_number(config, name) for name in of)


def _number(config: Config, name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int):
        raise ConfigError(f"{name} is not a number: {value!r}")
    return value


def _count(config: Config, name: str = "num_hidden_layers") -> int | None:
    count = config.get(name)
    return count if isinstance(count, int) and 0 <= count <= MOST_LAYERS else None


def _layers(config: Config, rule: Mapping[str, Any]) -> list[str] | None:
    """Types of all layers, where the configuration derives them from a pattern."""
    count = _count(config)
    if count is None:
        return None
    cycle: list[str] = rule["cycle"]
    period = config.get(rule["period"], len(cycle)) if "period" in rule else len(cycle)
    if period == 0 and count:
        raise ConfigError(f"{rule['period']} is zero, so the layers' types cannot be derived")
    if not isinstance(period, int) or period <= 0:
        return None
    if period != len(cycle):
        cycle = [cycle[0]] * (period - 1) + [cycle[-1]]
    first: list[str] = rule.get("first", [])
    layers = (first + [cycle[number % period] for number in range(count)])[:count]
    if layers and "last" in rule:
        layers[-1] = rule["last"]
    return layers


def _window_layers(config: Config, rule: Mapping[str, Any]) -> list[str] | None:
    """Layer types where the layers from `max_window_layers` on slide, if any do."""
    count, first = _count(config), config.get("max_window_layers")
    full, sliding = rule["cycle"]
    if count is None:
        return None
    if config.get("sliding_window") is None or not isinstance(first, int):
        first = count
    return [sliding if number >= first else full for number in range(count)]


def _kda_layers(config: Config, rule: Mapping[str, Any]) -> Values:
    """The description of linear layers, from layer types or a period."""
    layers, period = config.get("layer_types"), rule["period"]
    if isinstance(layers, list):
        linear = [number for number, kind in enumerate(layers) if kind == "linear_attention"]
    else:
        linear = [n for n in range(_count(config) or 0) if n % period != period - 1]
    bound = config.get("gate_lower_bound")
    bound = config.get("linear_lower_bound") if bound is None else bound
    heads = config.get("linear_num_heads")
    return {"kda_layers": linear, "gate_lower_bound": bound, "num_heads": heads}


def _by_layer(config: Config, rule: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Values of one layer type that differ from the others."""
    layers = config.get(rule["key"])
    if not isinstance(layers, list) or not layers:
        return
    if "last" in rule:
        layers = [*layers[:-1], rule["last"]]
        config.attributes[rule["key"]] = layers
    special: Values = {}
    for name, plan in rule["set"].items():
        value: Any = given
        for part in plan["from"].split("."):
            value = value.get(part, _MISSING) if isinstance(value, dict) else _MISSING
        if value is _MISSING:
            value = plan.get("default")
        if "gate" in plan and not config.get(plan["gate"], True):
            value = None
        config.attributes.pop(plan["from"], None)
        usual = config.get(name)
        special[name] = usual if value is None and "default" not in plan else value
    here = rule["layers"] in layers
    count = config.get("num_hidden_layers")
    if isinstance(count, int) and rule["layers"] in layers[count:]:
        raise ConfigError(f"layer_types describes more layers than the {count} that there are")
    config.special_layers = special
    config.varying = frozenset(
        name for name, value in special.items() if here and value != config.attributes.get(name)
    )


def _check(
    config: Config, check: Mapping[str, Any], given: Mapping[str, Any], layer_types: frozenset[str]
) -> None:
    """Refuse what the class refuses."""
    kind = check["check"]
    if kind == "divides":
        whole, part = config.get(check["whole"]), config.get(check["part"])
        if isinstance(whole, int) and isinstance(part, int) and part and whole % part:
            raise ConfigError(f"{check['whole']} {whole} is no multiple of {check['part']} {part}")
    elif kind == "layer_count":
        _check_layers(config, check, layer_types)
    elif kind == "members":
        for name in config.get(check["of"]) or ():
            if name not in check["among"]:
                raise ConfigError(f"{check['of']} has {name!r}, which it does not know")
    elif kind == "truthy":
        if not config.get(check["of"]):
            raise ConfigError(f"{check['of']} must be set")
    elif kind == "equals":
        if given.get(check["of"], check["value"]) != check["value"]:
            raise ConfigError(f"{check['of']} must be {check['value']}")
    elif kind == "object":
        if given.get(check["with"]) is not None and not isinstance(given.get(check["of"]), dict):
            raise ConfigError(f"{check['of']} is not an object")
    elif kind == "product":
        left, right = _product(config, check["left"]), _product(config, check["right"])
        if left is not None and right is not None and left != right:
            raise ConfigError(
                f"{' x '.join(check['left'])} is {left}, {' x '.join(check['right'])} is {right}"
            )
    elif kind == "blocks":
        blocks = [config.get(name) for name in check["lists"]]
        times = config.get(check["times"])
        if config.get(check["if"]) and isinstance(times, int):
            first, block, last = (len(b) if isinstance(b, list) else 0 for b in blocks)
            count = config.get("num_hidden_layers")
            if first + block * times + last != count:
                raise ConfigError(f"the pattern of its layers does not make up {count} layers")


def _check_layers(config: Config, check: Mapping[str, Any], layer_types: frozenset[str]) -> None:
    layers, count = config.get("layer_types"), config.get("num_hidden_layers")
    if not isinstance(layers, list) or not isinstance(count, int):
        return
    unknown = [kind for kind in layers if not isinstance(kind, str) or kind not in layer_types]
    if unknown:
        raise ConfigError(f"layer_types has {unknown[0]!r}, which transformers does not know")
    if len(layers) != count and not (check.get("at_least") and len(layers) > count):
        extra = config.get("num_nextn_predict_layers") if check.get("with_next") else None
        if not isinstance(extra, int) or not extra or len(layers) != count + extra:
            raise ConfigError(f"layer_types has {len(layers)} entries for {count} layers")


def _product(config: Config, names: list[str]) -> int | None:
    product = 1
    for name in names:
        value = config.get(name)
        if not isinstance(value, int):
            return None
        product *= value
    return product
