"""Facts about model overrides."""

from __future__ import annotations

import json

from .registry import fact


@fact("json_model_override_args")
def model_overrides_are_json(text: object) -> bool:
    """Whether the overrides of the model's configuration are a JSON object."""
    if text is None:
        return True
    try:
        return isinstance(json.loads(str(text)), dict)
    except (ValueError, RecursionError):
        return False


@fact("tp_size", "attn_dp_size", "attn_cp_size")
def attention_tp_size(tp: int, attention_dp: int, attention_cp: int) -> int:
    """Ranks that share one group's attention heads."""
    return tp // attention_dp // attention_cp


@fact("page_size", "mamba_chunk_size")
def mamba_chunk_fits_page(page_size: int, chunk: int) -> bool:
    """Whether a page and a chunk of recurrent state divide one another."""
    return max(chunk, page_size) % min(chunk, page_size) == 0


@fact("speculative_algorithm")
def speculative_algorithm_upper(algorithm: object) -> str | None:
    """The algorithm's name in capitals."""
    return None if algorithm is None else str(algorithm).upper()
