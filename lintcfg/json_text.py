"""JSON that every reader takes: what users type may be a number that JSON does not have."""

from __future__ import annotations

import json
import math
from typing import Any


def dumps(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON; infinite, undefined and endless numbers become texts."""
    try:
        return json.dumps(value, indent=indent, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_representable(value), indent=indent, default=str)


def _representable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _representable(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_representable(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int):
        try:
            str(value)
        except ValueError:  # more digits than Python writes out
            return "a huge number"
    return value
