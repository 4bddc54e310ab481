"""Facts about parallel layouts, caches and mixture-of-experts settings."""

from __future__ import annotations

from .registry import fact


@fact("linear_attn_decode_backend", "linear_attn_backend")
def linear_decode(split: str | None, base: str | None) -> str | None:
    """The kernel that decodes linear attention."""
    return split or base


@fact("linear_attn_prefill_backend", "linear_attn_backend")
def linear_prefill(split: str | None, base: str | None) -> str | None:
    """The kernel that prefills linear attention."""
    return split or base
