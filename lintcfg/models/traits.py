"""The traits that rules read, derived from a configuration as SGLang's `ModelConfig` does it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .config import Config, ConfigError, Values
from .drafts import DraftPlan, block_size, gamma, sliding_or_causal
from .files import Unreadable, read_object
from .hf_config import Parser
from .quantization import Quantization

CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length",
                "max_position_embeddings")  # fmt: skip
WINDOW_KEYS = ("sliding_window_size", "sliding_window", "window_size")
KV_HEAD_KEYS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num",
                "num_attention_groups")  # fmt: skip
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")
DSPARK_KEYS = ("dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id",
               "dspark_target_layer_ids")  # fmt: skip
QSA_KEYS = ("indexer_n_heads", "indexer_kv_heads", "indexer_head_dim", "indexer_budget",
            "indexer_compress_ratio")  # fmt: skip
_DTYPES = ("bfloat16", "float16", "float32")


class Deriver:
    """Derives traits as one release does.

    Args:
        parser: makes configurations.
        architectures: section `architectures`.
    """

    def __init__(self, parser: Parser, architectures: Mapping[str, Any]) -> None:
        self.parser = parser
        self.shapes: list[Mapping[str, Any]] = architectures["shapes"]
        self.wrappers = architectures["wrappers"]
        self.special = architectures["special"]
        self.sets = {name: frozenset(row["members"]) for name, row in architectures["sets"].items()}
        self.quantization = Quantization(architectures["quantization"])
        self.drafts = DraftPlan(architectures["drafts"])

    def traits(
        self,
        values: Values,
        *,
        path: str | None = None,
        is_draft: bool = False,
        algorithm: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Values:
        """All traits of a model.

        Args:
            values: the keys of its config.json.
            path: its folder, for the files beside it.
            is_draft: it is loaded as a draft.
            algorithm: the speculative algorithm, which chooses between the drafts of a checkpoint.
            overrides: keys of `--json-model-override-args`.

        Raises:
            ConfigError: SGLang refuses to load it.
        """
        if algorithm in self.special["algorithms_without_draft"]:
            is_draft = False
        try:
            return self._traits(values, path, is_draft, algorithm, overrides)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A number where an object belongs, say: SGLang and transformers stop at it, too.
            raise ConfigError(f"a value in it is of the wrong kind ({error})") from None

    def _traits(
        self,
        values: Values,
        path: str | None,
        is_draft: bool,
        algorithm: str | None,
        overrides: Mapping[str, Any] | None,
    ) -> Values:
        top = self.parser.parse(values, path)
        _override(top, overrides)
        text = self.parser.text(top)
        decision_mode = self._decision(top, path)
        joint_head = self._joint_head(top, path)
        published = list(top.get("architectures") or [])
        by_default = self._by_default(top)
        model_type = top.model_type
        if is_draft:
            top, text = self.drafts.apply(top, text, algorithm)
        archs = top.get("architectures")
        if not isinstance(archs, list) or not archs or not isinstance(archs[0], str):
            raise ConfigError("it names no architectures")
        sets = {name: not members.isdisjoint(archs) for name, members in self.sets.items()}
        found: Values = {
            "known": True,
            "arch": archs[0],
            "architectures": published,
            "model_type": model_type,
            "text_model_type": text.model_type,
            "decision_mode": decision_mode,
            "joint_head": joint_head,
        }
        found.update(self._shapes(top, text, archs))
        found.update(self._modalities(top, text, sets, by_default))
        found.update(self._sparse(top, text, archs[0]))
        found.update(self._hybrid(top, text, sets, archs, is_draft=is_draft))
        found.update(self.quantization.traits(top, path, is_draft=is_draft))
        found.update(self._details(top, text, sets, archs[0]))
        found["fp4_experts"] = self._fp4_experts(top, sets, archs[0])
        found.update(_speculation(top, text))
        return found

    # --- files beside config.json

    def _decision(self, top: Config, path: str | None) -> str | None:
        plan = self.special["decision"]
        if top.get("architectures") != [plan["from"]] or path is None:
            return None
        read = read_object(os.path.join(path, plan["file"]))  # noqa: PTH118
        if isinstance(read, Unreadable):
            return None
        top.attributes["architectures"] = [plan["to"]]
        mode = read.get("attention_mode", "causal")
        return mode if isinstance(mode, str) else "causal"

    def _joint_head(self, top: Config, path: str | None) -> bool:
        plan = self.special["joint_head"]
        if top.get("architectures") != [plan["arch"]] or path is None:
            return False
        return not isinstance(read_object(os.path.join(path, plan["file"])), Unreadable)  # noqa: PTH118

    # --- shapes

    def _shapes(self, top: Config, text: Config, archs: list[str]) -> Values:
        stateful = not self.sets["pure-ssm-archs"].isdisjoint(archs)
        heads = text.get("num_attention_heads")
        head_dim = text.get("head_dim")
        if head_dim is None:
            if stateful:
                head_dim = 0
            else:
                hidden, heads = text.need("hidden_size"), text.need("num_attention_heads")
                if not isinstance(hidden, int) or not isinstance(heads, int) or heads == 0:
                    raise ConfigError("head_dim is not given and cannot be derived")
                head_dim = hidden // heads
                text.attributes["head_dim"] = head_dim
        v_head_dim = text.get("v_head_dim") or head_dim
        text.attributes["v_head_dim"] = v_head_dim
        swa_head_dim = _or(text.get("swa_head_dim"), head_dim)
        swa_v_head_dim = _or(text.get("swa_v_head_dim"), swa_head_dim)
        text.attributes["swa_head_dim"] = swa_head_dim
        text.attributes["swa_v_head_dim"] = swa_v_head_dim
        found: Values = {
            "attention_arch": "SSM" if stateful else "MHA",
            "kv_lora_rank": None,
            "qk_nope_head_dim": None,
            "qk_rope_head_dim": None,
            "has_attention_scaling": False,
        }
        shape = self._shape(top, text, archs)
        if shape is not None:
            source = top if shape.get("from") == "top" else text
            for name in shape.get("needs", ()):
                value = source.need(name)
                if name in found:
                    found[name] = value
                elif name == "v_head_dim":
                    v_head_dim = value
            found["attention_arch"] = shape["arch"]
            found["has_attention_scaling"] = shape.get("scaling", False)
            if shape.get("no_rope_if") and text.get(shape["no_rope_if"]):
                found["qk_rope_head_dim"] = 0
            if "head_dim" in shape:
                head_dim = shape["head_dim"]
            elif "head_dim_sum" in shape:
                head_dim = sum(source.need(name) for name in shape["head_dim_sum"])
            elif shape.get("head_dim_of"):
                head_dim = text.need("head_dim")
            if shape.get("compressed"):
                head_dim = v_head_dim = source.need("head_dim")
                found["qk_nope_head_dim"] = head_dim - found["qk_rope_head_dim"]
            elif shape.get("v_is_head_dim"):
                v_head_dim, swa_v_head_dim = head_dim, swa_head_dim
            if shape.get("index_head_dim") and self._is_dsa(text):
                text.need("index_head_dim")
            if shape.get("scaling") and not all(
                isinstance(found[name], int) for name in ("qk_nope_head_dim", "qk_rope_head_dim")
            ):
                raise ConfigError("qk_nope_head_dim or qk_rope_head_dim is missing")
        found.update(
            mla=found["attention_arch"] == "MLA",
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            swa_head_dim=swa_head_dim,
            swa_v_head_dim=swa_v_head_dim,
            has_asymmetric_kv=head_dim != v_head_dim or swa_head_dim != swa_v_head_dim,
            num_attention_heads=text.get("num_attention_heads"),
            hidden_size=top.get("hidden_size"),
            vocab_size=text.need("vocab_size"),
            num_hidden_layers=text.need("num_hidden_layers"),
        )
        text.need("hidden_size")
        found["num_kv_heads"] = self._kv_heads(top, text, stateful=stateful)
        per_layer = text.get("num_attention_heads_per_layer")
        found["max_attention_heads"] = (
            max(per_layer)
            if isinstance(per_layer, list) and per_layer
            else found["num_attention_heads"]
        )
        return found

    def _shape(self, top: Config, text: Config, archs: list[str]) -> Mapping[str, Any] | None:
        shape: Mapping[str, Any]
        for shape in self.shapes:
            if not any(arch in shape["any"] for arch in archs):
                continue
            if any(text.get(name) is None for name in shape.get("text", ())):
                continue
            if any(not text.get(name, value) for name, value in shape.get("text_true", {}).items()):
                continue
            return shape
        return None

    def _kv_heads(self, top: Config, text: Config, *, stateful: bool) -> Any:
        special = self.special
        new_falcon = top.model_type in special["falcon_types"] and top.get(
            "new_decoder_architecture", False
        )
        if not new_falcon and text.get("multi_query", False):
            return 1
        if top.model_type in (*special["mpt_types"], *special["dbrx_types"]):
            inner = top.get("attn_config")
            kv_heads = inner.get("kv_n_heads") if isinstance(inner, (dict, Config)) else None
            return _or(kv_heads, top.get("num_attention_heads"))
        for name in KV_HEAD_KEYS:
            value = text.get(name)
            if value is not None:
                return value
        return 0 if stateful else text.get("num_attention_heads")

    # --- what goes in and out

    def _by_default(self, top: Config) -> Values:
        """Why media are not taken although the architecture could; as a target's, drafts too."""
        arch = (top.get("architectures") or [None])[0]
        towers = top.has("vision_config") and top.has("audio_config")
        return {
            "multimodal_off_by_default": arch in self.sets["multimodal-off-by-default-archs"],
            "multimodal_lacks_towers": arch in self.sets["mimo-v2-multimodal-archs"] and not towers,
        }

    def _modalities(
        self, top: Config, text: Config, sets: Mapping[str, bool], by_default: Values
    ) -> Values:
        vision_by_layers = (
            self.special["vision_by_layers"]["model_type"] == top.model_type
            and (top.get("vision_n_layers") or 0) > 0
        )
        multimodal = sets["multimodal-archs"] or top is not text or vision_by_layers
        text_only = bool(top.get("language_model_only", False))
        gemma = self._is_embedding_gemma(text)
        return {
            "multimodal": bool(multimodal),
            **by_default,
            "has_media_config": top.has("vision_config") or top.has("audio_config"),
            "language_model_only": text_only,
            "is_multimodal": bool(multimodal and not any(by_default.values()) and not text_only),
            "is_audio": sets["audio-archs"],
            "is_encoder_decoder": sets["encoder-decoder-archs"],
            "multimodal_chunked_prefill": not sets["no-multimodal-chunked-prefill-archs"],
            "is_embedding_gemma": gemma,
            "is_generation": not gemma and not sets["not-generating-archs"],
            "is_local_attention": sets["local-attention-archs"],
        }

    def _is_embedding_gemma(self, text: Config) -> bool:
        return bool(
            text.model_type == self.special["embedding_gemma"]["model_type"]
            and text.get("use_bidirectional_attention", False)
        )

    # --- sparse attention

    def _is_dsa(self, config: Config) -> bool:
        archs = config.get("architectures") or [None]
        return archs[0] in self.sets["deepseek-dsa-archs"] and config.get("index_topk") is not None

    def _sparse(self, top: Config, text: Config, arch: str) -> Values:
        profile, problem = _qsa(top, self.special["qsa_blocks"])
        types = top.get("indexer_types") or ()
        dsa = self._is_dsa(top)
        return {
            "dsa": dsa,
            "is_deepseek_dsa": dsa,
            "deepseek_v4": arch in self.sets["deepseek-v4-archs"],
            "minimax_sparse": arch in self.sets["minimax-sparse-archs"],
            "qsa": profile,
            "is_qwen_qsa": profile,
            "qsa_problem": problem,
            "index_topk": top.get("index_topk"),
            "index_kpool": top.get("index_kpool", 1),
            "dsa_topk_sharing": bool(
                (top.get("index_topk_freq", 1) or 1) > 1
                or "S" in (top.get("index_topk_pattern") or "")
                or "shared" in types
            ),
            "learnable_sink": bool(top.get("learnable_sink", False)),
            "minicpm_sparse": bool(top.get("has_minicpm_sparse_attention", False)),
            "has_minicpm_sparse_attention": top.is_a(*self.special["sparse_wrapper"])
            and bool(top.get("has_minicpm_sparse_attention", False)),
        }

    # --- layers that are not plain attention

    def _hybrid(
        self,
        top: Config,
        text: Config,
        sets: Mapping[str, bool],
        archs: list[str],
        *,
        is_draft: bool,
    ) -> Values:
        found: Values = {"attention_wrapper": None, "kda_gate_lower_bound": None}
        found["linear_key_head_dim"] = found["linear_value_head_dim"] = None
        for plan in self.wrappers:
            config = self._wrapped(plan, top, text, archs[0], is_draft=is_draft)
            if config is None:
                continue
            wrapper = plan["wrapper"]
            found["attention_wrapper"] = wrapper
            if plan.get("gives") == "head sizes":
                found["linear_key_head_dim"] = config.get("linear_key_head_dim")
                found["linear_value_head_dim"] = config.get("linear_value_head_dim")
            elif plan.get("gives") == "gate bound":
                inner = config.get("linear_attn_config")
                inner = inner.get("gate_lower_bound") if isinstance(inner, dict) else None
                found["kda_gate_lower_bound"] = _or(config.get("kda_lower_bound"), inner)
            break
        hybrid_swa = sets["hybrid-swa-archs"] or bool(text.get("is_hybrid_swa", False))
        if any(arch in self.special["hybrid_swa_needs_window"] for arch in archs):
            hybrid_swa = bool(text.get("sliding_window", 0))
        if hybrid_swa:
            self._swa_layers(text, archs)
        found.update(
            hybrid_swa=hybrid_swa,
            is_hybrid_swa=hybrid_swa,
            has_attention_sinks=self._sinks(text, sets),
            uses_kda=_uses_kda(top) or (text is not top and _uses_kda(text)),
            has_mamba_layers="mamba" in (_list(top.get("layer_types"))),
            has_lightning_layers=bool(top.get("has_lightning_layers", False)),
            mamba_chunk_size=text.get("mamba_chunk_size"),
        )
        return found

    def _wrapped(
        self, plan: Mapping[str, Any], top: Config, text: Config, arch: str, *, is_draft: bool
    ) -> Config | None:
        """The configuration by which the wrapper applies, or None."""
        found: Config | None = None
        if "set" in plan:
            return top if arch in self.sets[plan["set"]] else None
        if "model_type" in plan:
            applies = top.model_type == plan["model_type"] and plan.get("draft", True) >= is_draft
            return text if applies else None
        nested = top.get("text_config")
        if "nested" in plan:
            inner = nested if isinstance(nested, Config) else top
            found = inner if inner.is_a(*plan["nested"]) else None
        elif top.is_a(*plan.get("top", ())):
            found = top
        elif text.is_a(*plan.get("text", ())):
            found = text
        elif isinstance(nested, Config) and nested.is_a(*plan.get("text_config", ())):
            found = nested
        if found is None:
            return None
        if "flag" in plan and not found.get(plan["flag"]):
            return None
        if "flag_off" in plan and found.get(plan["flag_off"]):
            return None
        if "layer" in plan and plan["layer"] not in _list(found.get("layer_types")):
            return None
        if is_draft and "draft_pattern" in plan:
            pattern = found.get("mtp_hybrid_override_pattern")
            if isinstance(pattern, str) and plan["draft_pattern"] not in pattern:
                return None
        return found

    def _sinks(self, text: Config, sets: Mapping[str, bool]) -> bool:
        if sets["swa-sink-archs"]:
            return True
        if sets["mimo-v2-archs"]:
            names = ("add_swa_attention_sink_bias", "add_full_attention_sink_bias")
            return any(bool(text.get(name, False)) for name in names)
        return bool(text.get("learnable_sink", False))

    def _swa_layers(self, text: Config, archs: list[str]) -> None:
        """Refuse what the split into sliding and full layers cannot read."""
        for rule in self.special["swa_layers"]:
            if not any(arch in rule["archs"] for arch in archs):
                continue
            for name in rule.get("lists", ()):
                if not isinstance(text.get(name), list):
                    raise ConfigError(f"{name} is not a list of layers")
            return

    # --- the rest

    def _fp4_experts(self, top: Config, sets: Mapping[str, bool], arch: str) -> bool:
        own = top.get("quantization_config")
        own = own if isinstance(own, dict) else {}
        plan = self.special["fp4_experts"]
        routed = own.get("routed_experts_quant_method")
        if routed == plan["method"]:
            return True
        if arch in plan["stored"]:
            return bool(str(own.get("store_dtype") or "").lower() == plan["method"])
        return arch in self.sets["deepseek-v4-archs"] and routed is None

    def _details(self, top: Config, text: Config, sets: Mapping[str, bool], arch: str) -> Values:
        nested = top.get("text_config")
        window = next((text.get(key) for key in WINDOW_KEYS if text.get(key) is not None), None)
        act = text if arch in self.special["text_hidden_act"] else top
        layout = top.get("attention_projection_layout")
        return {
            "dtype": _dtype(text),
            "derived_context_length": context_length(text),
            "sliding_window_size": window,
            "attention_chunk_size": text.get("attention_chunk_size"),
            "has_sliding_window_pattern": top.has("sliding_window_pattern"),
            "sliding_window_pattern": top.get("sliding_window_pattern"),
            "attention_projection_layout": layout,
            "fused_qkv_tp_size": _fused_qkv(top, nested) if layout == "fused_qkv" else None,
            "mlp_hidden_act": act.get("mlp_hidden_act"),
            "prefix_lm": top.get("prefix_lm", True),
            "num_experts": (nested if isinstance(nested, Config) else top).get("num_experts"),
            "has_experts": any(
                isinstance(value := config.get(key), int) and value > 0
                for config in (text, top)
                for key in EXPERT_KEYS
            ),
            "linear_heads": _linear_heads(text if text.has("linear_attn_config") else top),
            "ties_word_embeddings": bool(top.get("tie_word_embeddings"))
            and (not isinstance(nested, Config) or bool(nested.get("tie_word_embeddings"))),
            "canvas_length": top.get("canvas_length"),
            "expert_capacity": top.get("expert_capacity"),
            "delete_token_id": top.get("delete_token_id"),
            "split_token_id": top.get("split_token_id"),
            "block_size": top.get("block_size"),
            "dual_chunk_attention": top.has("dual_chunk_attention_config"),
        }


def _override(top: Config, overrides: Mapping[str, Any] | None) -> None:
    """Apply `--json-model-override-args`; an object is merged into a sub-configuration."""
    for name, value in (overrides or {}).items():
        current = top.get(name)
        if isinstance(value, dict) and isinstance(current, Config):
            for key, inner in value.items():
                current.set(key, inner)
        elif name == "model_type" and isinstance(value, str):
            top.model_type = value
        else:
            top.set(name, value)


def context_length(text: Config) -> int:
    """The context length that the configuration allows."""
    scaling = text.get("rope_parameters")
    factor: Any = 1
    if isinstance(scaling, dict) and scaling:
        factor = scaling.get("factor", 1)
        if "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3":
            factor = 1
    for key in CONTEXT_KEYS:
        value = text.get(key)
        if value is not None:
            try:
                return int(factor * value)
            except (TypeError, ValueError, OverflowError):
                raise ConfigError(f"{key} is not a number of tokens: {value!r}") from None
    return 2048


def _dtype(text: Config) -> str:
    value = text.get("dtype")
    names = {"half": "float16", "float": "float32"}
    if isinstance(value, str):
        value = value.removeprefix("torch.")
        return names.get(value, value)
    return "float32"


def _fused_qkv(top: Config, nested: Any) -> Any:
    value = top.get("num_key_value_heads")
    if value is None and isinstance(nested, Config):
        value = nested.get("num_key_value_heads")
    return value


def _uses_kda(config: Config) -> bool:
    linear = config.get("linear_attn_config")
    if isinstance(linear, dict) and linear.get("kda_layers"):
        return True
    return (
        "linear_attention" in _list(config.get("layer_types"))
        and config.get("linear_num_heads") is not None
        and config.get("linear_head_dim") is not None
    )


def _qsa(top: Config, blocks: Sequence[int]) -> tuple[bool, str | None]:
    """Whether the compressed sparse indexer is described, and what is wrong with it."""
    config = top.get("text_config", top)
    if not isinstance(config, Config) or config.get("indexer_n_heads") is None:
        return False, None
    values = {name: config.get(name) for name in QSA_KEYS}
    missing = [name for name, value in values.items() if not isinstance(value, int)]
    if missing:
        return False, f"the QSA indexer lacks {', '.join(missing)}"
    ratio, budget = values["indexer_compress_ratio"], values["indexer_budget"]
    if min(values.values()) <= 0:
        return False, "the QSA indexer's sizes must be positive"
    if values["indexer_kv_heads"] != 1:
        return False, "the QSA indexer takes one KV head"
    if ratio < 2:
        return False, "indexer_compress_ratio must be at least 2"
    if budget % ratio:
        return False, "indexer_budget must be a multiple of indexer_compress_ratio"
    if budget // ratio not in blocks:
        known = " or ".join(str(number) for number in blocks)
        return False, f"indexer_budget / indexer_compress_ratio must be {known}"
    return True, None


def _linear_heads(config: Config) -> list[int] | None:
    """Heads of the linear layers."""
    if config.get("linear_num_key_heads") is not None:
        return [config.get("linear_num_key_heads"), config.get("linear_num_value_heads")]
    linear = config.get("linear_attn_config")
    if isinstance(linear, dict) and linear.get("num_heads") is not None:
        return [linear["num_heads"]]
    return None


def _speculation(top: Config, text: Config) -> Values:
    return {
        "bundles_dspark_draft": any(top.get(key) is not None for key in DSPARK_KEYS),
        "dflash_block_size": block_size(top),
        "dflash_sliding_or_causal": sliding_or_causal(top),
        "dspark_gamma": gamma(top),
        "num_target_layers": top.get("num_target_layers"),
        "num_draft_slots": top.get("num_draft_slots"),
        "num_nextn_predict_layers": text.get("num_nextn_predict_layers"),
    }


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
