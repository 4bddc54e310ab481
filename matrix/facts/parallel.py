"""Facts about parallel layouts, caches and mixture-of-experts settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .registry import fact

_TRUE = frozenset({"true", "1", "yes", "y"})


@fact("linear_attn_decode_backend", "linear_attn_backend")
def linear_decode(split: str | None, base: str | None) -> str | None:
    """The kernel that decodes linear attention."""
    return split or base


@fact("linear_attn_prefill_backend", "linear_attn_backend")
def linear_prefill(split: str | None, base: str | None) -> str | None:
    """The kernel that prefills linear attention."""
    return split or base


@fact("env.SGLANG_AITER_KV_CACHE_LAYOUT")
def aiter_cache_layout(layout: str) -> str:
    """The layout of the KV cache that the variable asks for, in lower case."""
    return layout.lower()


# --- layouts


@fact("attn_dp_size", "attn_cp_size")
def attention_groups(attention_dp: int, attention_cp: int) -> int:
    """Groups that data- and context-parallel attention make together."""
    return attention_dp * attention_cp


@fact("ep_size", "moe_dp_size")
def moe_groups(experts: int, replicas: int) -> int:
    """Ranks that expert parallelism and replicas of experts take together."""
    return experts * replicas


@fact("ep_size", "tp_size")
def experts_whole_or_per_rank(ep_size: int, tp_size: int) -> bool:
    """Experts are not spread at all, or over all ranks."""
    return ep_size in (1, tp_size)


@fact("tp_size", "pp_size")
def ranks_of_replica(tp_size: int, pp_size: int) -> int:
    """Ranks of one replica."""
    return tp_size * pp_size


@fact("model.linear_heads", "tp_size")
def linear_heads_divide(heads: Sequence[int] | None, tp_size: int) -> bool:
    """Every kind of linear-attention head can be spread evenly over the ranks."""
    return all(count % tp_size == 0 for count in heads or ())


def _kv_heads(total: int, ranks: int, context_ranks: int) -> int:
    """KV heads of one rank; ranks of a decode context group hold the same ones."""
    return max(1, total // (ranks // context_ranks))


@fact("model.num_kv_heads", "tp_size", "dcp_size")
def dcp_keeps_kv_heads(total: int, tp_size: int, dcp_size: int) -> bool:
    """Decode context parallelism leaves a rank as many KV heads as it had."""
    return _kv_heads(total, tp_size, dcp_size) == _kv_heads(total, tp_size, 1)


@fact("model.max_attention_heads", "model.num_kv_heads", "tp_size", "dcp_size", "attn_cp_size")
def dcp_query_group(heads: int, kv_heads: int, tp_size: int, dcp_size: int, cp_size: int) -> int:
    """Query heads that share a KV head once a decode context group has gathered them."""
    ranks = tp_size // cp_size
    return max(1, heads // ranks) * dcp_size // _kv_heads(kv_heads, ranks, dcp_size)


# --- tokens


@fact("chunked_prefill_size", "page_size")
def chunk_in_pages(chunk: int, page_size: int) -> int:
    """The prefill chunk rounded up to whole pages."""
    return (chunk + page_size - 1) // page_size * page_size


@fact("prefill_buffer_tokens", "tp_size", "attn_dp_size")
def scattered_prefill_tokens(tokens: int, tp_size: int, attention_dp: int) -> int:
    """Prefill tokens of one rank once a chunk has been scattered over its group."""
    return -(-tokens // max(1, tp_size // attention_dp))


@fact(
    "chunked_prefill_size", "enable_prefill_cp", "attention_dp_enabled", "tp_size",
    "attn_dp_size", "attn_cp_size",
)  # fmt: skip
def aligned_rank_tokens(
    chunk: int, prefill_cp: bool, attention_dp: bool, tp: int, dp: int, cp: int
) -> int:
    """Prefill tokens of one rank, padded to what its group shares out evenly."""
    if prefill_cp:
        return (chunk + cp - 1) // cp
    groups = dp if attention_dp else 1
    chunk //= groups
    width = max(tp // groups // cp, 1)
    return (chunk + width - 1) // width * width


# --- variables and structures


@fact("env.SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE")
def megamoe_combine_dtype(text: str) -> str:
    """The dtype in which expert outputs are combined, as it is compared."""
    return text.strip().lower()


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() in _TRUE


@fact("env.SGLANG_MOE_NVFP4_DISPATCH")
def nvfp4_dispatch_requested(text: str | None) -> bool:
    """The variable asks for FP4 tokens on their way to experts."""
    return _is_true(text)


@fact("env.SGLANG_USE_CUDA_IPC_TRANSPORT")
def cuda_ipc_requested(text: str | None) -> bool:
    """The variable asks for shared GPU memory between tokenizer and scheduler."""
    return _is_true(text)


@fact("radix_eviction_policy_config")
def tail_latency_thresholds_usable(config: Any) -> bool:
    """The threshold lies above the estimate of the next prompt, and both are not negative."""
    config = config or {}
    threshold, estimate = config.get("threshold", 0), config.get("next_prompt_estimate", 0)
    return bool(threshold >= 0 and estimate >= 0 and threshold > estimate)


@fact("default_chat_template_kwargs")
def template_arguments_are_mapping(arguments: Any) -> bool:
    """Arguments of the chat template are an object, if there are any."""
    return arguments is None or isinstance(arguments, Mapping)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        import json

        value = json.loads(value)
    return tuple(value) if isinstance(value, Mapping) else ()


@fact("limit_mm_data_per_request")
def limited_modalities(limits: Any) -> tuple[str, ...]:
    """The kinds of media whose number is limited."""
    return _names(limits)


@fact("preferred_sampling_params")
def preferred_sampling_names(parameters: Any) -> tuple[str, ...]:
    """The sampling parameters that are preset."""
    return _names(parameters)


@fact("served_model_name")
def served_name_key(name: str | None) -> str:
    """The served name in lower case."""
    return (name or "").lower()


@fact("gc_threshold")
def gc_thresholds(values: Sequence[int] | None) -> int:
    """How many thresholds of the garbage collector are given."""
    return len(values or ())


@fact("load_publish_endpoint")
def load_is_published(endpoint: str | None) -> bool:
    """An endpoint for load reports is given and not switched off."""
    return (endpoint or "").strip().lower() not in ("", "off")


# --- adapters


@fact("max_loras_per_batch")
def twice_the_loras_per_batch(adapters: int) -> int:
    """Adapters of two batches: one in use, one being loaded."""
    return adapters * 2


@fact("lora_paths")
def lora_adapters(paths: Sequence[Any] | None) -> int:
    """How many adapters are given."""
    return len(paths or ())


@fact("lora_target_modules")
def lora_modules(modules: Sequence[str] | None) -> int:
    """How many kinds of modules adapters may change."""
    return len(set(modules or ()))


# --- buckets of metrics


def _numbers(words: Sequence[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None


def _bucket_facts(kind: str) -> None:
    """Register the facts about one flag of buckets: a rule's name and its numbers."""

    def rule(words: Sequence[str] | None) -> str | None:
        return words[0] if words else None

    def count(words: Sequence[str] | None) -> int:
        return len(words or ())

    def spread(words: Sequence[str] | None) -> bool:
        values = _numbers((words or ())[1:3])
        if values is None or len(values) != 2 or len(words or ()) < 4:
            return False
        try:
            number = int((words or ())[3])
        except ValueError:
            return False
        return values[0] > 0 and values[1] > 1 and number > 0

    def distinct(words: Sequence[str] | None) -> bool:
        values = _numbers((words or ())[1:])
        return values is not None and len(set(values)) == len(values) and min(values) >= 0

    described: dict[str, tuple[Callable[..., Any], str]] = {
        "rule": (rule, "The rule that buckets follow."),
        "words": (count, "How many words the rule and its numbers take."),
        "spread": (spread, "Middle and count are positive, the base is above one."),
        "values": (distinct, "The values are numbers, distinct and not negative."),
    }
    for name, (function, text) in described.items():
        function.__name__ = f"{kind}_bucket_{name}"
        function.__doc__ = text
        fact(f"{kind}_tokens_buckets")(function)


for _kind in ("prompt", "generation"):
    _bucket_facts(_kind)
