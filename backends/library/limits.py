"""Limits that hang on a batch's lengths, beyond what traits say."""

from __future__ import annotations

from ..interface.batch import ForwardBatch
from ..interface.capabilities import Refusal
from ..interface.layer import AttentionLayer
from .masks import MOST_BITS, mask_bits


def too_many_mask_bits(batch: ForwardBatch, layer: AttentionLayer) -> list[Refusal]:
    """A refusal for a mask whose bits FlashInfer can't count in int32."""
    spec = batch.spec_info
    tree = spec is not None and spec.tree_mask is not None
    if not layer.is_causal or not (tree or batch.kv_limit is not None):
        return []
    bits = mask_bits(batch)
    if bits <= MOST_BITS:
        return []
    trait = "tree" if tree else "multimodal"
    return [
        Refusal(
            (trait,),
            f"a mask of {bits} bits (queries times keys, over the batch) is beyond the "
            f"{MOST_BITS} that FlashInfer counts: split the batch",
        )
    ]
