"""Draws configurations that nobody published, to compare the reader with the real classes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

Values = dict[str, Any]
SUBS = ("text_config", "llm_config", "language_config", "thinker_config")
_QUANTIZATIONS: tuple[Values, ...] = (
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    {"quant_algo": "FP8"},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
     "quantized_layers": {"model.layers.0.mlp.experts.0": {"quant_algo": "W4A16_NVFP4"}}},
    {"quant_method": "modelopt", "quant_algo": "MXFP8"},
    {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
     "config_groups": {"group_0": {"format": "nvfp4-pack-quantized"}}},
    {"quant_method": "mxfp4"},
    {"bits": 4, "group_size": 64},
)  # fmt: skip
_ROPE: tuple[Values, ...] = (
    {"type": "linear", "factor": 4.0},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8192},
    {"type": "mrope", "mrope_section": [16, 24, 24]},
)  # fmt: skip
_FLAGS = (True, False)
#: What a key may be given.
CHOICES: dict[str, tuple[Any, ...]] = {
    "num_attention_heads": (8, 16, 32, 40, 64),
    "num_key_value_heads": (1, 2, 4, 8),
    "num_kv_heads": (1, 2, 8),
    "n_head_kv": (1, 8),
    "multi_query_group_num": (2,),
    "num_attention_groups": (1, 8),
    "head_dim": (64, 80, 96, 128, 192, 256),
    "v_head_dim": (64, 128, 256),
    "swa_head_dim": (128, 192),
    "swa_v_head_dim": (128, 192),
    "num_hidden_layers": (4, 12, 24, 48),
    "vocab_size": (32000, 152064),
    "max_position_embeddings": (2048, 32768, 131072),
    "seq_length": (8192,),
    "max_seq_len": (16384,),
    "model_max_length": (8192, 131072),
    "sliding_window_size": (512,),
    "sliding_window": (128, 512, 4096),
    "window_size": (128, 1024),
    "kv_lora_rank": (256, 512),
    "qk_nope_head_dim": (64, 128, 192),
    "qk_rope_head_dim": (32, 64),
    "index_topk": (512, 2048),
    "index_head_dim": (128,),
    "index_kpool": (1, 4),
    "index_topk_freq": (1, 4),
    "mamba_chunk_size": (64, 128, 256),
    "num_experts": (8, 128),
    "n_routed_experts": (64, 256),
    "linear_key_head_dim": (64, 128),
    "linear_value_head_dim": (64, 128),
    "short_conv_kernel_size": (4,),
    "max_window_layers": (0, 12, 28),
    "num_nextn_predict_layers": (0, 1),
    "sliding_window_pattern": (2, 4, 6),
    "block_size": (8, 16),
    "dspark_block_size": (7,),
    "multi_query": _FLAGS,
    "learnable_sink": _FLAGS,
    "is_hybrid_swa": _FLAGS,
    "add_swa_attention_sink_bias": _FLAGS,
    "add_full_attention_sink_bias": _FLAGS,
    "use_mla": _FLAGS,
    "use_mla_nope": _FLAGS,
    "use_sliding_window": _FLAGS,
    "use_bidirectional_attention": _FLAGS,
    "language_model_only": _FLAGS,
    "prefix_lm": _FLAGS,
    "is_causal": _FLAGS,
    "torch_dtype": ("bfloat16", "float16", "float32"),
    "dtype": ("bfloat16", "float16", "float32"),
    "layer_types": (["full_attention"] * 12, ["sliding_attention"] * 12,
                    ["linear_attention", "full_attention"] * 6, ["full_attention"] * 4),
    "rope_scaling": _ROPE,
    "quantization_config": _QUANTIZATIONS,
}  # fmt: skip
#: Keys that any configuration may carry, whether or not its class knows them.
ANYWHERE = (
    "sliding_window", "head_dim", "mamba_chunk_size", "index_topk", "learnable_sink",
    "rope_scaling", "v_head_dim", "torch_dtype", "dtype", "quantization_config", "multi_query",
    "is_causal", "block_size", "dspark_block_size", "index_kpool", "index_topk_freq", "layer_types",
)  # fmt: skip


def draw(
    seed: str, classes: Mapping[str, Any], pairs: Mapping[str, list[str]], each: int
) -> Iterator[tuple[str, Values]]:
    """Yield names and configurations: `each` for every model type.

    Args:
        seed: the same seed draws the same.
        classes: section `config_defaults`.
        pairs: architectures that go with a model type.
        each: how many for each model type.
    """
    source = random.Random(seed)
    for model_type in sorted(pairs):
        if model_type not in classes["auto"]:
            continue
        key = classes["registry"].get(model_type, model_type)
        for number in range(each):
            values = _values(source, classes, key, 0)
            values["model_type"] = model_type
            values["architectures"] = [source.choice(pairs[model_type])]
            yield f"{model_type}-{number}", values


def _values(source: random.Random, classes: Mapping[str, Any], key: str, depth: int) -> Values:
    data = classes["classes"].get(key, {})
    values: Values = {}
    names = {*data.get("fields", ()), *data.get("aliases", ()), *data.get("renamed", ())}
    for name in sorted(names & CHOICES.keys()):
        if source.random() < 0.4:
            values[name] = None if source.random() < 0.06 else source.choice(CHOICES[name])
    for name in ANYWHERE:
        if source.random() < 0.06:
            values[name] = source.choice(CHOICES[name])
    heads = values.get("num_attention_heads") or data.get("fields", {}).get("num_attention_heads")
    if isinstance(heads, int) and source.random() < 0.5:
        values["hidden_size"] = heads * source.choice((64, 80, 128))
    for name in SUBS:
        plan = data.get("sub", {}).get(name, {})
        inner = plan.get("class") or plan.get("default")
        if inner in classes["classes"] and depth < 2 and source.random() < 0.6:
            values[name] = _values(source, classes, inner, depth + 1)
            values[name]["model_type"] = classes["classes"][inner]["type"]
    return values
