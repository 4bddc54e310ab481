"""Facts that most stages need: effective backends, heads per rank."""

from __future__ import annotations

from typing import Any

from .registry import fact


@fact("prefill_attention_backend", "attention_backend")
def prefill_backend(split: str | None, base: str | None) -> str | None:
    """The backend that serves prefill: the split flag, else the common one."""
    return split or base


@fact("decode_attention_backend", "attention_backend")
def decode_backend(split: str | None, base: str | None) -> str | None:
    """The backend that serves decode: the split flag, else the common one."""
    return split or base


@fact("prefill_attention_backend", "decode_attention_backend", "attention_backend")
def backends(prefill: str | None, decode: str | None, base: str | None) -> tuple[str | None, ...]:
    """The effective (prefill, decode) pair; use with `contains`."""
    return (prefill or base, decode or base)


@fact("prefill_attention_backend", "decode_attention_backend", "attention_backend")
def named_backends(prefill: Any, decode: Any, base: Any) -> tuple[str | None, ...]:
    """The three backend fields as they stand, unset ones included; use with `contains`."""
    return (base, prefill, decode)


@fact("speculative_eagle_topk", "page_size")
def no_spec_or_topk_one(topk: int | None, page_size: int | None) -> bool:
    """No draft tree: topk is not given, or it is a chain over an unpaged cache."""
    return topk is None or (topk == 1 and page_size in (None, 1))


@fact("model.num_kv_heads", "tp_size")
def kv_heads_per_rank(heads: int | None, tp: int) -> int | None:
    """KV heads that one tensor-parallel rank holds: at least one, for heads are replicated."""
    return None if heads is None else max(1, heads // tp)
