"""FlashAttention-4 over the paged pool."""

from __future__ import annotations

from ..library.engine import Engine, EngineBackend
from .capabilities import CAPABILITIES
from .engine import CuteKernel


class FlashAttention4Backend(EngineBackend):
    """One variable-length kernel for extend, decode and verify."""

    capabilities = CAPABILITIES

    def _new_engine(self) -> Engine:
        return CuteKernel(self.runner)
