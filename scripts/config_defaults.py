#!/usr/bin/env python3
"""Write what configuration classes do to a config.json, as YAML, by trying them out.

Run it with the Python of an installation of the release (the conformance suite makes one); it
takes some ten minutes:

    …/venv/bin/python scripts/config_defaults.py > config_defaults.yaml

For every class that SGLang or transformers knows, its defaults, aliases, types and sub-configs are
read off; how one attribute follows from others (a head size from the hidden size, say) is found by
making many configurations and choosing the rule that explains all of them. The rules are those of
`lintcfg/models/config.py`, which is asked for its answer in each case. Classes that no rule
explains are listed on stderr; `config_rules.yaml` has what was written for them by hand.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import importlib.util
import inspect
import itertools
import json
import logging
import os
import random
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: Attributes that decide anything for attention; all others are left out.
KEYS = (
    "hidden_size", "num_attention_heads", "num_key_value_heads", "num_kv_heads", "n_head_kv",
    "multi_query", "multi_query_group_num", "num_attention_groups", "new_decoder_architecture",
    "head_dim", "v_head_dim", "swa_head_dim", "swa_v_head_dim", "swa_num_key_value_heads",
    "num_attention_heads_per_layer", "num_hidden_layers", "vocab_size", "max_sequence_length",
    "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings",
    "sliding_window_size", "sliding_window", "window_size", "attention_chunk_size",
    "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "index_topk", "index_head_dim",
    "index_kpool", "index_topk_freq", "index_topk_pattern", "indexer_types", "layer_types",
    "is_hybrid_swa", "learnable_sink", "add_swa_attention_sink_bias",
    "add_full_attention_sink_bias", "sliding_window_pattern", "mamba_chunk_size",
    "linear_attn_config", "linear_num_heads", "linear_head_dim", "use_mla", "use_mla_nope",
    "use_kda", "kda_lower_bound", "has_minicpm_sparse_attention", "has_lightning_layers",
    "indexer_n_heads", "indexer_kv_heads", "indexer_head_dim", "indexer_budget",
    "indexer_compress_ratio", "compress_ratios", "use_ngram_embedding", "ngram_embedding_n",
    "dual_chunk_attention_config", "language_model_only", "use_bidirectional_attention",
    "prefix_lm", "attention_projection_layout", "mtp_hybrid_override_pattern", "block_size",
    "is_causal", "num_experts", "mlp_hidden_act", "vision_n_layers", "linear_key_head_dim",
    "linear_value_head_dim", "num_target_layers", "num_draft_slots", "num_local_experts",
    "n_routed_experts", "num_nextn_predict_layers", "is_encoder_decoder", "dspark_block_size",
    "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids", "dflash_config",
    "hybrid_layer_pattern", "local_layer_ids", "mtp_local_layer_ids", "use_sliding_window",
    "swa_kv_lora_rank", "swa_qk_nope_head_dim", "swa_qk_rope_head_dim", "swa_num_attention_heads",
    "global_head_dim", "num_global_key_value_heads", "attn_config", "kv_n_heads",
    "max_window_layers",
)  # fmt: skip
#: Classes by which SGLang tells kinds of models apart.
MARKS = (
    "Qwen3NextConfig", "Qwen3_5Config", "Qwen3_5MoeConfig", "InternS2PreviewConfig",
    "JetNemotronConfig", "JetVLMConfig", "FalconH1Config", "NemotronHConfig", "Lfm2Config",
    "Lfm2MoeConfig", "Lfm2VlConfig", "ZayaConfig", "Mamba2Config", "MambaConfig",
    "FalconMambaConfig", "InklingModelConfig", "InklingMMConfig", "NemotronH_Nano_VL_V2_Config",
    "GraniteMoeHybridConfig", "KimiLinearConfig", "BailingHybridConfig", "MiniCPMHybridConfig",
    "Dots3Config", "GigaChat35Config", "IQuestQ1MTPConfig", "DeepseekV41Config",
)  # fmt: skip
SUBS = ("thinker_config", "llm_config", "language_config", "text_config", "vision_config",
        "audio_config", "sound_config")  # fmt: skip
ABSENT = "<absent>"
#: What classes without defaults need to be made at all.
NEEDED: dict[str, dict[str, Any]] = {
    "NemotronHPuzzleConfig": {"block_configs": [{"block_type": "mamba"}]}
}
SAMPLES = 60


def load_engine() -> Any:
    """The module that will read what is written here."""
    path = ROOT / "lintcfg" / "models" / "config.py"
    spec = importlib.util.spec_from_file_location("config_engine", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["config_engine"] = module
    spec.loader.exec_module(module)
    return module


def import_sglang() -> tuple[Any, Any]:
    """transformers' mapping of model types and SGLang's registry, on a simulated H100."""
    sys.path.insert(0, str(ROOT / "tests" / "conformance"))
    from simulated_machine import pretend

    pretend({"kind": "cuda", "capability": [9, 0], "cuda": "12.8", "memory_mib": 81559,
             "device_name": "NVIDIA H100 80GB HBM3", "sms": 132})  # fmt: skip
    import sglang.srt.server_args  # noqa: F401
    from sglang.srt.utils.hf_transformers import common
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    logging.disable(logging.CRITICAL)
    return CONFIG_MAPPING, common._CONFIG_REGISTRY


def read(config: Any, key: str) -> Any:
    """An attribute in plain JSON, or ABSENT."""
    try:
        value = getattr(config, key)
    except AttributeError:
        return ABSENT
    except BaseException as error:
        return f"<{type(error).__name__}>"
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"


def make(cls: type, values: dict[str, Any]) -> tuple[Any, str | None]:
    """An instance, or why there is none."""
    try:
        return cls(**copy.deepcopy({**NEEDED.get(cls.__name__, {}), **values})), None
    except BaseException as error:
        return None, f"{type(error).__name__}: {error}"


def parameters(cls: type) -> dict[str, Any]:
    """Everything that the class takes by name, with its default."""
    found: dict[str, Any] = {}
    own_init = "__init__" in cls.__dict__ and not dataclasses.is_dataclass(cls)
    for base in cls.__mro__:
        init = base.__dict__.get("__init__")
        if init is None or base.__name__ in ("PreTrainedConfig", "object"):
            continue
        with contextlib.suppress(TypeError, ValueError):
            for name, parameter in inspect.signature(init).parameters.items():
                if name == "self" or parameter.kind in (
                    parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL,
                ):  # fmt: skip
                    continue
                default = None if parameter.default is parameter.empty else parameter.default
                found.setdefault(name, default)
    if dataclasses.is_dataclass(cls) and not own_init:
        for field in dataclasses.fields(cls):
            value: Any = None
            if field.default is not dataclasses.MISSING:
                value = field.default
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            found.setdefault(field.name, value)
    return found


def type_word(annotation: Any) -> str | None:
    """`int|none` and the like; None where it is not that simple."""
    simple = {int: "int", float: "float", str: "str", bool: "bool", type(None): "none",
              None: "none", list: "list", dict: "dict"}  # fmt: skip
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        words = [type_word(part) for part in typing.get_args(annotation)]
        return None if None in words else "|".join(sorted(set(filter(None, words))))
    if origin is typing.Literal:
        words = {simple.get(type(value)) for value in typing.get_args(annotation)}
        return None if None in words else "|".join(sorted(filter(None, words)))
    if origin in (list, dict):
        return simple[origin]
    try:
        return simple.get(annotation)
    except TypeError:
        return None


class Prober:
    """Finds out what one class does."""

    def __init__(self, engine: Any, key: str, cls: type, names: dict[type, str]) -> None:
        self.engine, self.key, self.cls, self.names = engine, key, cls, names
        self.random = random.Random(key)
        self.unexplained: list[str] = []
        self.drivers: list[str] = []

    def entry(self) -> dict[str, Any] | None:
        """The class as data, or None where it cannot be made without values."""
        cls = self.cls
        plain, error = make(cls, NEEDED.get(cls.__name__, {}))
        entry: dict[str, Any] = {"type": getattr(cls, "model_type", "")}
        marks = [base.__name__ for base in cls.__mro__ if base.__name__ in MARKS
                 and base.__module__.startswith("sglang.")]  # fmt: skip
        if marks:
            entry["marks"] = marks
        for name in NEEDED.get(cls.__name__, ()):
            entry.setdefault("required", []).append(name)
        if plain is None:
            self.unexplained.append(f"cannot be made: {str(error)[:90]}")
            entry["unmade"] = True
            return entry
        aliases = {
            name: target
            for name, target in (getattr(cls, "attribute_map", {}) or {}).items()
            if name in KEYS or target in KEYS
        }
        if aliases:
            entry["aliases"] = dict(aliases)
        targets = list(dict.fromkeys([*KEYS, *aliases.values()]))
        given = parameters(cls)
        strict = (
            hasattr(cls, "__validators__")
            and "__init__" in dir(cls)
            and dataclasses.is_dataclass(cls)
        )
        entry["strict"] = bool(strict and not _custom_init(cls))
        fields: dict[str, Any] = {}
        constants: dict[str, Any] = {}
        base = {name: read(plain, name) for name in targets}
        for name, value in base.items():
            if name in aliases or value == ABSENT:
                continue
            if name in vars(plain):
                default = given.get(name, value)
                default = json.loads(json.dumps(default, default=str)) if name in given else value
                fields[name] = default
            else:
                constants[name] = value
        renamed = {}
        if entry["strict"]:
            words = {field.name: type_word(field.type) for field in dataclasses.fields(cls)}
            entry["types"] = {name: words[name] for name in sorted(fields) if words.get(name)}
        for name in sorted({*targets, *given}):
            if name in fields or name in aliases or name in SUBS:
                continue
            default = given.get(name)
            value = (
                36
                if not isinstance(default, int) or isinstance(default, bool)
                else default * 2 or 36
            )
            other, _ = make(cls, {name: value})
            if other is None:
                continue
            same = [key for key in fields if read(other, key) == value and base[key] != value]
            if len(same) == 1 and name not in KEYS:
                renamed[name] = same[0]
        if renamed:
            entry["renamed"] = renamed
        read_only = [name for name in constants
                     if isinstance(getattr(cls, name, None), property)
                     and getattr(cls, name).fset is None]  # fmt: skip
        if read_only:
            entry["read_only"] = read_only
        dtype = read(plain, "dtype")
        if dtype not in (None, ABSENT):
            fields["dtype"] = str(plain.dtype).replace("torch.", "")
        own = read(plain, "architectures")
        other, _ = make(cls, {"architectures": ["Other"]})
        kept = read(other, "architectures")
        if isinstance(own, list) or (other is not None and kept != ["Other"]):
            entry["architectures"] = {"names": own, "forced": kept != ["Other"]}
        entry["fields"] = fields
        entry["constants"] = constants
        self._subs(entry, plain)
        self._rope(entry, plain)
        if (
            "vocab_size" in fields
            or "vocab_size" in constants
            or "text_config" in entry.get("sub", {})
        ):
            self._rules(entry, base, given)
        self._copied(entry, plain)
        return {name: value for name, value in entry.items() if value not in ({}, [], False)}

    def _subs(self, entry: dict[str, Any], plain: Any) -> None:
        found: dict[str, Any] = {}
        for name in SUBS:
            value = getattr(plain, name, ABSENT)
            if isinstance(value, str):
                continue
            plan: dict[str, Any] = {}
            if value is None:
                plan["none"] = True
            elif type(value) in self.names:
                plan["default"] = self.names[type(value)]
                usual, _ = make(type(value), {})
                own = {
                    key: read(value, key) for key in KEYS if read(value, key) != read(usual, key)
                }
                own = {
                    key: number
                    for key, number in own.items()
                    if number is None or isinstance(number, (int, bool))
                }
                if own:
                    if "hidden_size" in own and read(value, "head_dim") not in (None, ABSENT):
                        own["head_dim"] = read(value, "head_dim")
                    plan["values"] = own
                    other, _ = make(self.cls, {name: {"rms_norm_eps": 1e-4}})
                    kept = getattr(other, name, None)
                    plan["values_always"] = all(
                        read(kept, key) == number for key, number in own.items()
                    )
            elif isinstance(value, dict):
                plan["default_dict"] = True
            chosen = set()
            for model_type, extra in (("llama", {"num_attention_heads": 4}), ("qwen2", {})):
                other, _ = make(self.cls, {name: {"model_type": model_type, **extra}})
                sub = getattr(other, name, None)
                chosen.add(self.names.get(type(sub), type(sub).__name__))
            if len(chosen) == 1 and not chosen & {"NoneType", "dict"}:
                plan["class"] = chosen.pop()
            elif "dict" in chosen:
                plan["dict"] = True
            else:
                other, _ = make(self.cls, {name: {"num_attention_heads": 4}})
                sub = getattr(other, name, None)
                if sub is not None and hasattr(sub, "model_type"):
                    plan["type"] = sub.model_type
                other, _ = make(self.cls, {name: {"model_type": "no_such_type"}})
                if other is not None:
                    plan["unknown"] = "raw"
            if name == "text_config" and plan.get("default"):
                probe = {"hidden_size": 1344, "num_attention_heads": 21, "num_hidden_layers": 9}
                other, _ = make(self.cls, {**probe, "model_type": "given"})
                if getattr(getattr(other, name, None), "hidden_size", None) == 1344:
                    takes_type = other.text_config.model_type == "given"
                    plan["flat"] = "with type" if takes_type else "without type"
                    # Some leave out what the text class does not name.
                    probe["not_a_key"] = 1
                    other, _ = make(self.cls, probe)
                    if not hasattr(getattr(other, name, None), "not_a_key"):
                        plan["flat"] = "known"
            if plan:
                found[name] = plan
        if found:
            entry["sub"] = found

    def _rope(self, entry: dict[str, Any], plain: Any) -> None:
        text = {"text_config": {}} if "flat" in entry.get("sub", {}).get("text_config", {}) else {}
        _, error = make(self.cls, {"rope_scaling": {"rope_type": "linear"}, **text})
        entry["rope_checked"] = "Missing required keys in `rope" in str(error)
        for kind, extra in (("always", {}), ("theta", {"rope_theta": 10000.0})):
            other, _ = make(self.cls, {"rope_scaling": {"type": "dynamic", "factor": 2.0}, **extra})
            value = getattr(other, "rope_parameters", None)
            if isinstance(value, dict) and "rope_theta" in value:
                entry["rope"] = kind
                if any(isinstance(part, dict) for part in value.values()):
                    entry["rope_nested"] = True
                return
            if isinstance(value, dict) and any(isinstance(part, dict) for part in value.values()):
                entry["rope"], entry["rope_nested"] = kind, True
                return

    def _copied(self, entry: dict[str, Any], plain: Any) -> None:
        """Attributes that repeat one of a sub-configuration."""
        values = {**entry["fields"], **entry["constants"]}
        for name, sub in itertools.product(values, SUBS[1:4]):
            inner = getattr(plain, sub, None)
            if inner is None or isinstance(inner, dict) or not isinstance(values[name], int):
                continue
            when = {}
            if name in entry.get("read_only", ()):
                copied = read(inner, name) == values[name]
            else:
                other, _ = make(self.cls, {sub: {name: 5376, "num_attention_heads": 21}})
                both, _ = make(self.cls, {sub: {name: 5376, "num_attention_heads": 21},
                                          name: 2688})  # fmt: skip
                copied = read(other, name) == 5376
                when = {} if read(both, name) == 5376 else {"when": "absent"}
            if copied:
                entry.setdefault("rules", []).append(
                    {"key": name, "op": "copy_sub", "of": [sub, name], **when})  # fmt: skip

    # --- rules

    def _rules(self, entry: dict[str, Any], base: dict[str, Any], given: dict[str, Any]) -> None:
        drivers = self.drivers = self._drivers(entry, base, given)
        samples = self._samples(drivers)
        entry["rules"] = []
        entry["checks"] = []
        order = [
            "num_hidden_layers",
            "hidden_size",
            "num_attention_heads",
            "num_key_value_heads",
            "num_kv_heads",
            "head_dim",
            "v_head_dim",
            "swa_head_dim",
            "swa_v_head_dim",
        ]
        keys = [*order, *(key for key in sorted(KEYS) if key not in order)]
        for key in keys:
            if key in entry.get("aliases", {}) or self._explained(entry, key, samples):
                continue
            for rules in self._candidates(entry, key, samples, base):
                trial = {**entry, "rules": [*entry["rules"], *rules]}
                if self._explained(trial, key, samples):
                    entry["rules"] = trial["rules"]
                    if rules[0]["op"] != "value" and key not in entry["fields"]:
                        entry["constants"].pop(key, None)
                    break
            else:
                self.unexplained.append(key)
        self._layer_check(entry, base)
        for heads in (7, 11, 13):
            _, error = make(self.cls, {"num_attention_heads": heads, "num_key_value_heads": heads})
            if "multiple of" in str(error):
                entry["checks"].append({"check": "divides", "whole": "hidden_size",
                                        "part": "num_attention_heads"})  # fmt: skip
                break

    def _layer_check(self, entry: dict[str, Any], base: dict[str, Any]) -> None:
        """Whether the list of layer types is compared with the number of layers."""
        count = base.get("num_hidden_layers")
        if not isinstance(count, int) or isinstance(count, bool):
            return
        usual = base.get("layer_types")
        kind = usual[-1] if isinstance(usual, list) and usual else "full_attention"
        fitting, longer, shorter = (
            make(self.cls, {"layer_types": [kind] * length})[0]
            for length in (count, count + 2, count - 1)
        )
        if fitting is None or (longer is not None and shorter is not None):
            return
        check: dict[str, Any] = {"check": "layer_count"}
        if longer is not None:
            check["at_least"] = True
        other, _ = make(self.cls, {"layer_types": [kind] * (count + 2),
                                   "num_nextn_predict_layers": 2})  # fmt: skip
        if other is not None:
            check["with_next"] = True
        entry["checks"].append(check)

    def _drivers(
        self, entry: dict[str, Any], base: dict[str, Any], given: dict[str, Any]
    ) -> list[str]:
        """Names whose value changes any attribute of interest other than their own."""
        found = []
        for name in sorted({*given, *entry["fields"], *entry.get("renamed", ()), *KEYS}):
            if name in SUBS or name in ("architectures", "dtype", "torch_dtype"):
                continue
            default = given.get(name, base.get(name))
            for value in _variants(name, default):
                other, _ = make(self.cls, {name: value})
                if other is None:
                    continue
                changed = [key for key in KEYS if read(other, key) != base.get(key, ABSENT)]
                own = entry.get("aliases", {}).get(name, name)
                if [key for key in changed if key not in (name, own)] or read(other, name) != value:
                    found.append(name)
                    break
        return found

    def _samples(self, drivers: list[str]) -> list[tuple[dict[str, Any], Any]]:
        samples: list[tuple[dict[str, Any], Any]] = []
        pool = {"hidden_size": [2048, 3072, 1536], "num_attention_heads": [16, 32, 24],
                "num_key_value_heads": [4, 8], "num_hidden_layers": [6, 12, 13]}  # fmt: skip
        singles: list[dict[str, Any]] = [{}]
        # Whether a value that is given stands, for every attribute.
        singles += [
            {name: value}
            for name in KEYS
            if name not in drivers
            for value in _variants(name, None)[:1]
        ]
        for name in drivers:
            for value in [*pool.get(name, []), *_variants(name, None), None]:
                singles.append({name: value})
        for values in singles:
            self._sample(samples, values)
        for _ in range(SAMPLES):
            values = {}
            for name in drivers:
                if self.random.random() < 0.5:
                    values[name] = self.random.choice([*pool.get(name, []), *_variants(name, None)])
            self._sample(samples, values)
        return samples

    def _sample(self, samples: list[tuple[dict[str, Any], Any]], values: dict[str, Any]) -> None:
        other, error = make(self.cls, values)
        if other is None:
            samples.append(({**values, "<error>": error}, None))
        else:
            samples.append((values, {key: read(other, key) for key in KEYS}))

    def _explained(self, entry: dict[str, Any], key: str, samples: list[Any]) -> bool:
        library = self.engine.Library(
            {"classes": {"x": {**entry, "sub": {}}}, "auto": [], "registry": {}}
        )
        for values, actual in samples:
            if actual is None:
                continue
            try:
                config = library.build("x", values)
                mine = config.get(key, ABSENT)
            except self.engine.ConfigError:
                return False
            if mine != actual[key]:
                return False
        return True

    def _candidates(
        self, entry: dict[str, Any], key: str, samples: list[Any], base: dict[str, Any]
    ) -> Any:
        names = [
            name
            for name in [*KEYS, *entry.get("renamed", {}).values()]
            if name != key and (name in entry["fields"] or name in entry.get("aliases", {}))
        ]
        whens = ("null", "absent", "falsy", "always")
        known = not str(base.get(key)).startswith("<")
        if known:
            yield [{"key": key, "op": "value", "value": base.get(key), "when": "always"}]
        if known and base.get(key) is not None:
            yield [{"key": key, "op": "value", "value": base[key], "when": "null"}]
            yield [{"key": key, "op": "value", "value": base[key], "when": "falsy"}]
        if base.get(key) == ABSENT:
            yield [{"key": key, "op": "drop"}]
        for when in whens:
            yield [{"key": key, "op": "divide", "of": ["hidden_size", "num_attention_heads"],
                    "when": when}]  # fmt: skip
            for name in names:
                yield [{"key": key, "op": "copy", "of": name, "when": when}]
            yield [{"key": key, "op": "add", "of": ["qk_nope_head_dim", "qk_rope_head_dim"],
                    "when": when}]  # fmt: skip
            yield [{"key": key, "op": "add", "of": ["swa_qk_nope_head_dim", "swa_qk_rope_head_dim"],
                    "when": when}]  # fmt: skip
        for flag in self.drivers:
            for other in (None, 0):
                yield [{"key": key, "op": "keep_if", "of": flag, "else": other}]
        for flag, when in itertools.product(self.drivers, ("absent", "always")):
            yield [{"key": key, "op": "set_if", "of": flag, "when": when}]
        if key.endswith("_types"):
            yield from self._layer_candidates(key, samples, base)

    def _layer_candidates(self, key: str, samples: list[Any], base: dict[str, Any]) -> Any:
        default = base.get(key)
        if not isinstance(default, list) or not default:
            return
        for when in ("null", "always"):
            for cycle in (["full_attention", "sliding_attention"],):
                yield [{"key": key, "op": "window_layers", "cycle": cycle, "when": when}]
        cycles = []
        for length in range(1, min(len(default), 12) + 1):
            cycle = default[:length]
            for last in (None, default[-1]):
                layers = [cycle[number % length] for number in range(len(default))]
                if last is not None:
                    layers[-1] = last
                if layers == default:
                    cycles.append((cycle, last))
        for (cycle, last), when in itertools.product(cycles, ("null", "always", "absent")):
            rule: dict[str, Any] = {"key": key, "op": "layers", "cycle": cycle, "when": when}
            if last is not None:
                rule["last"] = last
            yield [rule]
            for period in (
                "sliding_window_pattern",
                "_sliding_window_pattern",
                "global_attn_every_n_layers",
                "full_attention_interval",
                "no_rope_layer_interval",
            ):
                yield [{**rule, "period": period}]


def _custom_init(cls: type) -> bool:
    for base in cls.__mro__:
        if base.__name__ == "PreTrainedConfig":
            return False
        if "__init__" in base.__dict__ and base.__module__.startswith("sglang.srt.configs"):
            code = getattr(inspect.unwrap(base.__dict__["__init__"]), "__code__", None)
            if code is not None and "sglang" in code.co_filename:
                return True
    return False


def _variants(name: str, default: Any) -> list[Any]:
    if isinstance(default, bool) or name.startswith(("use_", "is_", "enable_")):
        return [True, False]
    if isinstance(default, (list, dict, str)):
        return []
    if "dim" in name:
        return [48, 96]
    if "layers" in name or "window" in name or "pattern" in name or "interval" in name:
        return [6, 12]
    if "heads" in name:
        return [16, 32]
    return [1536, 3072] if "size" in name or "embd" in name or "model" in name else [36, 24]


def classes(mapping: Any, registry: Any) -> dict[str, type]:
    """Every class with the name under which it is written."""
    found: dict[str, type] = {}
    for model_type in sorted(mapping.keys()):
        with contextlib.suppress(Exception):
            found[model_type] = mapping[model_type]
    for model_type, cls in registry.items():
        if found.get(model_type) is not cls:
            found[f"sglang.{model_type}"] = cls
    return found


def main() -> None:
    """Probe every class and print the YAML."""
    engine = load_engine()
    mapping, registry = import_sglang()
    found = classes(mapping, registry)
    names = {cls: key for key, cls in reversed(found.items())}
    only = sys.argv[1:]
    # Classes that are used only inside others.
    queue = list(found.items())
    seen = set(found)
    output: dict[str, Any] = {}
    for key, cls in queue:
        if only and key not in only:
            continue
        for name in SUBS:
            with contextlib.suppress(BaseException):
                sub = type(getattr(cls(), name))
                if sub.__name__ not in ("NoneType", "dict", "str") and sub not in names:
                    label = f"{sub.__module__.split('.')[-1]}.{sub.__name__}"
                    names[sub] = label
                    if label not in seen:
                        seen.add(label)
                        queue.append((label, sub))
                        if only:
                            only.append(label)
        prober = Prober(engine, key, cls, names)
        entry = prober.entry()
        if entry is not None:
            output[key] = entry
        if prober.unexplained:
            print(f"{key}: {prober.unexplained}", file=sys.stderr)
    import transformers
    import yaml
    from transformers.configuration_utils import (
        _LEGACY_LAYER_TYPE_REMAP,
        ALLOWED_ATTN_LAYER_TYPES,
    )

    rules = ROOT / "matrix" / "data" / "sglang" / _version() / "config_rules.yaml"
    for key, extra in yaml.safe_load(rules.read_text(encoding="utf-8")).items():
        if not only or key in output:
            merge(output.setdefault(key, {}), extra)
    own = {names[cls] for cls in registry.values()}
    data = {
        "made_from": {"transformers": transformers.__version__, "sglang": _version()},
        "layer_types": list(ALLOWED_ATTN_LAYER_TYPES),
        "old_layer_types": dict(_LEGACY_LAYER_TYPE_REMAP),
        "rope_keys": rope_keys(transformers.PreTrainedConfig),
        "auto": sorted(mapping),
        "registry": {key: names[cls] for key, cls in sorted(registry.items())},
        "classes": {
            key: compact(entry)
            for key, entry in output.items()
            if key in own or "marks" in entry or _has_language(entry)
        },
    }
    print(
        "# Made by scripts/config_defaults.py; do not edit. Hand-written rules: config_rules.yaml."
    )
    yaml.safe_dump(data, sys.stdout, sort_keys=False, width=120, default_flow_style=None)


def rope_keys(base: type) -> dict[str, list[str]]:
    """What each type of RoPE needs, from the refusals."""
    found: dict[str, list[str]] = {}
    for name in dir(base):
        match = re.fullmatch(r"_validate_(\w+)_rope_parameters", name)
        if match is None:
            continue
        try:
            getattr(base, name)(base(), {"rope_type": match[1]})
        except KeyError as error:
            missing = ast.literal_eval(str(error.args[0]).rpartition(": ")[2])
            found[match[1]] = sorted(missing)
        except BaseException:
            continue
    return found


def _has_language(entry: dict[str, Any]) -> bool:
    """Whether a class describes a language model, or holds one."""
    parts = {**entry.get("fields", {}), **entry.get("constants", {}), **entry.get("aliases", {})}
    return "vocab_size" in parts or not {*SUBS[:4]}.isdisjoint(entry.get("sub", {}))


def compact(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry in its final form: types by word, fields in order, nothing that is not read."""
    entry = {name: value for name, value in entry.items() if name not in ("strict",)}
    if "types" in entry:
        words: dict[str, list[str]] = {}
        for name, word in entry["types"].items():
            words.setdefault(word, []).append(name)
        entry["types"] = dict(sorted(words.items()))
    entry["fields"] = {name: entry["fields"][name] for name in sorted(entry.get("fields", {}))}
    return entry


def merge(entry: dict[str, Any], extra: dict[str, Any]) -> None:
    """Add what was written by hand to what was found out."""
    for name, value in copy.deepcopy(extra).items():
        if name in ("fields", "renamed", "constants"):
            entry[name] = {**entry.get(name, {}), **value}
        elif name == "sub":
            for key, plan in value.items():
                entry.setdefault("sub", {})[key] = {**entry["sub"].get(key, {}), **plan}
        elif name == "rules":
            found = [
                rule
                for rule in entry.get("rules", [])
                if rule["key"] not in {row["key"] for row in value if row["op"] != "by_layer"}
            ]
            first = [row for row in value if row.pop("first", False)]
            entry["rules"] = [*first, *found, *(row for row in value if row not in first)]
        elif name == "checks":
            entry["checks"] = [*entry.get("checks", []), *value]
        else:
            entry[name] = value
    entry.pop("unmade", None)


def _version() -> str:
    from importlib.metadata import version

    return version("sglang")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
