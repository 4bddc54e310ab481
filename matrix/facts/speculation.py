"""Facts about speculative decoding."""

from __future__ import annotations
