"""Facts about model overrides."""

from __future__ import annotations
