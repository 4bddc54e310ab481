"""Runs inside an installation of the real SGLang: prints the traits of model folders.

    truth_child.py FOLDER…   # a JSON line for each role: {"model", "draft", "traits" | "error"}

Without folders, stdin gives one a line, or {"model": name, "config": {…}} for one to be made up.
Each is read twice, as a target and as a draft. Values are read off the real `ModelConfig`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from simulated_machine import pretend

MACHINE = {"kind": "cuda", "capability": [9, 0], "cuda": "12.8", "memory_mib": 81559,
           "device_name": "NVIDIA H100 80GB HBM3", "sms": 132}  # fmt: skip


def plain(value: Any) -> Any:
    """The value in JSON."""
    return json.loads(json.dumps(value, default=str))


def traits(mc: Any, quant: Any, hf_quant: Any) -> dict[str, Any]:
    """What the real configuration says, under the names of the traits."""
    from sglang.srt.arg_groups import model_override_base
    from sglang.srt.arg_groups.model_overrides import cohere2_moe
    from sglang.srt.configs import hybrid_arch as HA
    from sglang.srt.configs import model_config as MC
    from sglang.srt.configs.linear_attn_model_registry import get_linear_attn_config
    from sglang.srt.layers.attention.qsa.config import parse_qsa_profile
    from sglang.srt.speculative.dflash_utils import (
        get_dflash_layer_types,
        parse_dflash_draft_config,
    )
    from sglang.srt.speculative.dspark_components import dspark_config

    hf, tx = mc.hf_config, mc.hf_text_config
    q = quant if isinstance(quant, dict) else {}
    method = None if quant is None else str(q.get("quant_method") or "").lower()
    group, bits = q.get("group_size"), q.get("bits")
    w = ((q.get("config_groups") or {}).get("group_0") or {}).get("weights") or {}
    hq = getattr(hf, "quantization_config", None) or {}
    t: dict[str, Any] = {
        "arch": hf.architectures[0], "model_type": hf.model_type, "text_model_type": tx.model_type,
        "hidden_size": getattr(hf, "hidden_size", None),
        "attention_arch": MC.AttentionArch(mc.attention_arch).name,
        "mla": mc.attention_arch == MC.AttentionArch.MLA,
        "kv_lora_rank": getattr(mc, "kv_lora_rank", None),
        "qk_nope_head_dim": getattr(mc, "qk_nope_head_dim", None),
        "qk_rope_head_dim": getattr(mc, "qk_rope_head_dim", None),
        "has_attention_scaling": hasattr(mc, "scaling"),
        "head_dim": mc.head_dim, "v_head_dim": mc.v_head_dim,
        "swa_head_dim": mc.swa_head_dim, "swa_v_head_dim": mc.swa_v_head_dim,
        "has_asymmetric_kv": bool(mc.has_asymmetric_kv),
        "has_attention_sinks": bool(mc.has_attention_sinks),
        "num_attention_heads": mc.num_attention_heads,
        "max_attention_heads": mc.get_max_num_attention_heads(),
        "num_hidden_layers": mc.num_hidden_layers,
        "quant_method": method, "hf_quant_method": hf_quant,
        "quant_algo": str(q.get("quant_algo") or "").upper(),
        "awq_marlin_convertible": bool(method == "awq" and bits == 4 and group in (-1, 32, 64, 128)
                                       and q.get("zero_point")),
        "moe_wna16_convertible": bool(
            (method == "gptq" and not q.get("desc_act") and bits in (4, 8))
            or (method == "awq" and bits == 4)),
        "quant_is_int4_group32": bool(
            hf_quant == "compressed-tensors" and w.get("num_bits") == 4
            and w.get("group_size") == 32 and w.get("strategy") == "group"
            and w.get("type") == "int"),
        "quant_is_mxfp4_pack": bool(model_override_base._is_mxfp4_pack_quantized(hf)),
        "quant_is_nvfp4_pack": bool(cohere2_moe._is_nvfp4_pack_quantized(hf)),
        "quant_w4a16_nvfp4_experts": isinstance(hq, dict) and any(
            ".experts" in name and str(layer.get("quant_algo")).upper() == "W4A16_NVFP4"
            for name, layer in (hq.get("quantized_layers") or {}).items()),
        "hybrid_nvfp4_moe": mc.nvfp4_moe_meta is not None,
        "fp4_experts": bool(mc.is_fp4_experts),
        "dtype": str(getattr(tx, "dtype", None) or "float32").replace("torch.", ""),
        "derived_context_length": MC.get_context_length(tx),
        "dsa": MC.is_deepseek_dsa(hf), "deepseek_v4": MC.is_deepseek_v4(hf),
        "minimax_sparse": MC.is_minimax_sparse(hf),
        "index_topk": getattr(hf, "index_topk", None), "index_kpool": getattr(hf, "index_kpool", 1),
        "dsa_topk_sharing": bool(
            (getattr(hf, "index_topk_freq", 1) or 1) > 1
            or "S" in (getattr(hf, "index_topk_pattern", None) or "")
            or "shared" in (getattr(hf, "indexer_types", None) or [])),
        "learnable_sink": bool(getattr(hf, "learnable_sink", False)),
        "decision_mode": None if mc.decision_config is None
        else mc.decision_config.get("attention_mode", "causal"),
        "joint_head": mc.joint_head_config is not None,
        "has_mamba_layers": any(x == "mamba" for x in (getattr(hf, "layer_types", None) or [])),
        "mamba_chunk_size": getattr(tx, "mamba_chunk_size", None),
        "has_sliding_window_pattern": hasattr(hf, "sliding_window_pattern"),
        "sliding_window_pattern": getattr(hf, "sliding_window_pattern", None),
        "attention_projection_layout": getattr(hf, "attention_projection_layout", None),
        "minicpm_sparse": bool(getattr(hf, "has_minicpm_sparse_attention", False)),
        "has_lightning_layers": bool(getattr(hf, "has_lightning_layers", False)),
        "prefix_lm": getattr(hf, "prefix_lm", True),
        "is_embedding_gemma": bool(mc.is_embedding_gemma),
        "multimodal": bool(MC.is_multimodal_model(hf.architectures) or hf is not tx or (
            hf.model_type == "deepseek_v41" and hf.vision_n_layers > 0)),
        "is_multimodal": bool(mc.is_multimodal), "is_encoder_decoder": mc.is_encoder_decoder,
        "is_generation": bool(mc.is_generation),
        "has_media_config": hasattr(hf, "vision_config") or hasattr(hf, "audio_config"),
        "language_model_only": bool(mc.is_lm_only),
        "multimodal_chunked_prefill":
            MC.is_multimodal_chunked_prefill_supported(hf.architectures),
        "num_experts": getattr(getattr(hf, "text_config", hf), "num_experts", None),
        "sliding_window_size": mc.sliding_window_size,
        "attention_chunk_size": mc.attention_chunk_size,
        "hybrid_swa": MC.is_hybrid_swa_model(hf.architectures, tx),
        "uses_kda": MC.uses_kda_attention(hf),
        "bundles_dspark_draft": dspark_config.checkpoint_bundles_dspark_draft(hf),
        "num_target_layers": getattr(hf, "num_target_layers", None),
        "num_draft_slots": getattr(hf, "num_draft_slots", None),
        "vocab_size": tx.vocab_size,
        "canvas_length": getattr(hf, "canvas_length", None),
        "block_size": getattr(hf, "block_size", None),
        "delete_token_id": getattr(hf, "delete_token_id", None),
        "split_token_id": getattr(hf, "split_token_id", None),
        "has_experts": any(
            (getattr(c, k, None) or 0) > 0 for c in (tx, hf)
            for k in ("num_experts", "num_local_experts", "n_routed_experts")),
    }  # fmt: skip
    act = tx if t["arch"] == "NemotronH_Omni_Reasoning_V3" else hf
    t["mlp_hidden_act"] = getattr(act, "mlp_hidden_act", None)
    t["num_kv_heads"] = mc.get_total_num_kv_heads()
    try:
        t["qsa"], t["qsa_problem"] = parse_qsa_profile(hf) is not None, False
    except ValueError:
        t["qsa"], t["qsa_problem"] = False, True
    try:
        t["fused_qkv_tp_size"] = MC.get_mimo_v2_fused_qkv_expected_tp_size(hf)
    except ValueError:
        t["fused_qkv_tp_size"] = None
    try:
        t["dflash_block_size"] = parse_dflash_draft_config(draft_hf_config=hf).resolve_block_size(
            default=None
        )
    except Exception:
        t["dflash_block_size"] = None
    try:
        t["dspark_gamma"] = dspark_config.parse_dspark_draft_config(draft_hf_config=hf).gamma
    except Exception:
        t["dspark_gamma"] = None
    inner = getattr(hf, "text_config", None) or hf
    try:
        layers = get_dflash_layer_types(hf)
    except ValueError:
        layers = None
    t["dflash_sliding_or_causal"] = bool(
        (
            layers
            and len(layers) == getattr(inner, "num_hidden_layers", None)
            and set(layers) == {"sliding_attention"}
        )
        or getattr(inner, "is_causal", False) is True
    )
    gdn = HA.hybrid_gdn_config(mc)
    t["linear_key_head_dim"] = getattr(gdn, "linear_key_head_dim", None)
    t["linear_value_head_dim"] = getattr(gdn, "linear_value_head_dim", None)
    t["attention_wrapper"] = wrapper(mc, HA, MC, get_linear_attn_config)
    kda = HA.hybrid_kda_config(mc)
    bound = getattr(kda, "kda_lower_bound", None)
    if bound is None and kda is not None:
        linear = getattr(kda, "linear_attn_config", None)
        bound = linear.get("gate_lower_bound") if isinstance(linear, dict) else None
    t["kda_gate_lower_bound"] = bound
    return plain(t)


def wrapper(mc: Any, HA: Any, MC: Any, registered: Any) -> str | None:
    """The branch of `attn_backend_wrapper` that this configuration takes."""
    from sglang.srt.configs import (
        InklingMMConfig,
        InklingModelConfig,
        Lfm2Config,
        Lfm2MoeConfig,
        Lfm2VlConfig,
        ZayaConfig,
    )
    from sglang.srt.configs.dots3 import Dots3Config

    if isinstance(mc.hf_text_config, Dots3Config):
        return "dots3"
    if MC.is_minimax_sparse(mc.hf_config):
        return "minimax_sparse"
    if not HA.mambaish_config(mc):
        return None
    if isinstance(mc.hf_config, (InklingModelConfig, InklingMMConfig)):
        return "inkling"
    if HA.hybrid_gdn_config(mc) is not None:
        return "gdn"
    mamba = HA.mamba2_config(mc)
    if mamba is not None:
        short = (ZayaConfig, Lfm2Config, Lfm2MoeConfig, Lfm2VlConfig)
        return "short_conv" if isinstance(mamba, short) else "mamba2"
    if HA.kimi_linear_config(mc) is not None:
        return "kda"
    if HA.glm5_next_config(mc) is not None:
        return "glm5_next"
    if HA.hybrid_lightning_config(mc) is not None:
        return "lightning"
    found = registered(mc.hf_config)
    if found is None:
        return None
    return (
        "registered_gdn" if found[0].backend_class_name.endswith("GDNAttnBackend") else "registered"
    )


def main() -> None:
    """Print the traits of each folder, as target and as draft."""
    os.environ["PYTHONWARNINGS"] = "ignore"
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    pretend(MACHINE)
    import sglang.srt.server_args  # noqa: F401
    from sglang.srt.configs import model_config as MC
    from sglang.srt.utils.common import get_quantization_config
    from sglang.srt.utils.hf_transformers_utils import get_config

    logging.disable(logging.CRITICAL)
    kept: dict[str, Any] = {}

    def verify(self: Any) -> None:
        kept["quant"] = self._find_quant_modelslim_config() or self._parse_quant_hf_config()

    MC.ModelConfig._verify_quantization = verify
    # Sizes of its caches hang on a running server; that it has some does not.
    from sglang.srt.configs import InklingModelConfig

    InklingModelConfig.mamba2_cache_params = property(lambda self: True)
    names = sys.argv[1:] or [line.strip() for line in sys.stdin if line.strip()]
    for name in names:
        config = None
        folder = tempfile.mkdtemp()
        if name.startswith("{"):
            asked = json.loads(name)
            name, config = asked["model"], asked["config"]
            Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
        for draft in (False, True):
            row: dict[str, Any] = {"model": name, "draft": draft}
            if config is not None:
                row["config"] = config
            try:
                path = name if config is None else folder
                mc = MC.ModelConfig(path, trust_remote_code=False, is_draft_model=draft)
                kept["model_type"] = get_config(path, trust_remote_code=False).model_type
                row["traits"] = traits(mc, kept["quant"], get_quantization_config(mc.hf_config))
                row["traits"]["model_type"] = kept["model_type"]
            except BaseException as error:
                row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            output.write(json.dumps(row) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
