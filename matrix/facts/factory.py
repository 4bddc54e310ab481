"""Facts about the construction of backends."""

from __future__ import annotations
