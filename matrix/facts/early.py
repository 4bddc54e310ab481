"""Facts of the early stages: CUDA graph configuration, memory, platform defaults."""

from __future__ import annotations
