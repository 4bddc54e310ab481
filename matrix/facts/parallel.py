"""Facts about parallel layouts, caches and mixture-of-experts settings."""

from __future__ import annotations
