"""Facts about the construction of backends: how heads are spread over ranks."""

from __future__ import annotations

from .registry import fact


@fact("prefill_attention_backend", "decode_attention_backend", "attention_backend")
def split_backends(prefill: str | None, decode: str | None, base: str | None) -> bool:
    """Prefill and decode are served by two different backends."""
    return (prefill or base) != (decode or base)


def _attention_ranks(tp: int, dp: int, cp: int) -> int:
    """Ranks that attention heads are spread over: what data and context parallelism leave."""
    return tp // dp // cp


@fact("tp_size", "attn_dp_size", "attn_cp_size")
def attention_ranks(tp: int, dp: int, cp: int) -> int:
    """Ranks that share the attention heads of a model."""
    return _attention_ranks(tp, dp, cp)


@fact("model.num_attention_heads", "model.num_kv_heads", "tp_size", "attn_dp_size", "attn_cp_size")
def heads_divide(heads: int, kv_heads: int, tp: int, dp: int, cp: int) -> bool:
    """Query heads can be shared out evenly, and so can KV heads, or else be repeated evenly."""
    ranks = _attention_ranks(tp, dp, cp)
    if ranks < 1 or kv_heads < 1:
        return True  # refused for itself
    evenly = ranks % kv_heads == 0 if ranks >= kv_heads else kv_heads % ranks == 0
    return heads % ranks == 0 and evenly


@fact("worker.num_attention_heads", "tp_size", "attn_dp_size", "attn_cp_size")
def worker_heads_per_rank(heads: int, tp: int, dp: int, cp: int) -> int:
    """Query heads that one attention rank computes."""
    return heads // _attention_ranks(tp, dp, cp)


@fact(
    "worker.num_attention_heads", "worker.num_kv_heads", "tp_size", "attn_dp_size", "attn_cp_size"
)
def worker_gqa_ratio(heads: int, kv_heads: int, tp: int, dp: int, cp: int) -> int:
    """Query heads per KV head on one attention rank; KV heads are replicated, never split."""
    ranks = _attention_ranks(tp, dp, cp)
    return (heads // ranks) // max(1, kv_heads // ranks)


def _tensor_rank_heads(heads: int, kv_heads: int, tp: int) -> tuple[int, int]:
    return heads // tp, max(1, kv_heads // tp)


@fact("worker.num_attention_heads", "worker.num_kv_heads", "tp_size")
def worker_heads_per_tensor_rank(heads: int, kv_heads: int, tp: int) -> list[int]:
    """Query and KV heads of one tensor-parallel rank, data parallelism left aside."""
    return list(_tensor_rank_heads(heads, kv_heads, tp))


@fact("worker.num_attention_heads", "worker.num_kv_heads", "tp_size")
def worker_tensor_rank_gqa_ratio(heads: int, kv_heads: int, tp: int) -> int:
    """Query heads per KV head of one tensor-parallel rank."""
    query, key = _tensor_rank_heads(heads, kv_heads, tp)
    return query // key


@fact("page_size")
def page_size_is_power_of_two(page_size: int) -> bool:
    """The page size is a power of two."""
    return page_size & (page_size - 1) == 0
