"""The bundled backends; importing this registers them and imports no kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import register_attention_backend
from .torch_native.capabilities import CAPABILITIES as TORCH_NATIVE

if TYPE_CHECKING:
    from .interface.base import AttentionBackend
    from .interface.runner import ModelRunner


@register_attention_backend("torch_native", TORCH_NATIVE)
def create_torch_native_backend(runner: ModelRunner) -> AttentionBackend:
    from .torch_native.backend import TorchNativeAttnBackend

    return TorchNativeAttnBackend(runner)
