"""Facts about speculative decoding."""

from __future__ import annotations

from .registry import fact


@fact("speculative_num_steps")
def chain_width(steps: int) -> int:
    """Tokens that verifying a chain of draft steps takes: the steps and the root."""
    return steps + 1


@fact("speculative_num_draft_tokens")
def tokens_below_root(width: int) -> int:
    """Draft tokens of a verification without its root."""
    return width - 1


@fact("draft_block_gamma")
def block_verify_window(gamma: int) -> int:
    """Tokens that verifying a block of proposed tokens takes."""
    return gamma + 1


@fact("speculative_num_draft_tokens", "speculative_eagle_topk")
def tree_frontier(width: int, topk: int) -> int:
    """Slots that the candidates of every node of a draft tree need."""
    return width * topk


@fact("speculative_num_draft_tokens", "speculative_eagle_topk", "speculative_num_steps")
def tree_capacity(width: int, topk: int, steps: int) -> int:
    """Nodes of the full tree of that depth and branching; counted no further than `width`."""
    capacity = nodes = 1
    for _ in range(steps):
        nodes *= topk
        capacity += nodes
        if capacity >= width:
            break
    return capacity


@fact("speculative_eagle_topk", "speculative_num_steps")
def parent_list_width(topk: int, steps: int) -> int:
    """Parents that the list of a draft tree can name."""
    return topk * max(steps - 1, 0) + 1


@fact("speculative_draft_attention_backend", "decode_attention_backend", "attention_backend")
def draft_decode_backend(draft: str | None, split: str | None, base: str | None) -> str | None:
    """The backend that decodes the steps of a draft: its own, else the target's for decode."""
    return draft or split or base


@fact(
    "speculative_draft_attention_backend", "speculative_attention_mode",
    "prefill_attention_backend", "decode_attention_backend", "attention_backend",
)  # fmt: skip
def draft_extend_backend(
    draft: str | None, mode: str, prefill: str | None, decode: str | None, base: str | None
) -> str | None:
    """The backend that extends a draft: its own, else the target's of the phase asked for."""
    return draft or (decode if mode == "decode" else prefill) or base
