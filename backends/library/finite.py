"""Stored values that are not finite: a weight of 0 does not take them out, since 0 * NaN is NaN."""

from __future__ import annotations

import torch

#: The least byte, but for its sign, that is no finite number.
_NOT_FINITE = {torch.float8_e4m3fn: 0x7F, torch.float8_e5m2: 0x7C}


def raw(values: torch.Tensor) -> torch.Tensor:
    """The values as they can be indexed: bytes, where torch can't index the dtype itself."""
    return values.view(torch.uint8) if values.element_size() == 1 else values


def finite(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A copy of rows of `raw` values of a dtype, with 0 for what is not finite."""
    if dtype in _NOT_FINITE:
        return rows.masked_fill((rows & 0x7F) >= _NOT_FINITE[dtype], 0)
    return rows.nan_to_num(0.0, 0.0, 0.0)
