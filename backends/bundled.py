"""The bundled backends; importing this registers them and imports no kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fa3.capabilities import CAPABILITIES as FA3
from .fa4.capabilities import CAPABILITIES as FA4
from .flashinfer.capabilities import CAPABILITIES as FLASHINFER
from .flashmla.capabilities import CAPABILITIES as FLASHMLA
from .flex_attention.capabilities import CAPABILITIES as FLEX_ATTENTION
from .registry import register_attention_backend
from .torch_native.capabilities import CAPABILITIES as TORCH_NATIVE
from .triton_backend.capabilities import CAPABILITIES as TRITON
from .trtllm_mha.capabilities import CAPABILITIES as TRTLLM_MHA

if TYPE_CHECKING:
    from .interface.base import AttentionBackend
    from .interface.runner import ModelRunner


@register_attention_backend("torch_native", TORCH_NATIVE)
def create_torch_native_backend(runner: ModelRunner) -> AttentionBackend:
    from .torch_native.backend import TorchNativeAttnBackend

    return TorchNativeAttnBackend(runner)


@register_attention_backend("triton", TRITON)
def create_triton_backend(runner: ModelRunner) -> AttentionBackend:
    from .triton_backend.backend import TritonAttnBackend

    return TritonAttnBackend(runner)


@register_attention_backend("flashinfer", FLASHINFER)
def create_flashinfer_backend(runner: ModelRunner) -> AttentionBackend:
    from .flashinfer.backend import FlashInferAttnBackend

    return FlashInferAttnBackend(runner)


@register_attention_backend("fa3", FA3)
def create_fa3_backend(runner: ModelRunner) -> AttentionBackend:
    from .fa3.backend import FlashAttentionBackend

    return FlashAttentionBackend(runner)


@register_attention_backend("fa4", FA4)
def create_fa4_backend(runner: ModelRunner) -> AttentionBackend:
    from .fa4.backend import FlashAttention4Backend

    return FlashAttention4Backend(runner)


@register_attention_backend("trtllm_mha", TRTLLM_MHA)
def create_trtllm_mha_backend(runner: ModelRunner) -> AttentionBackend:
    from .trtllm_mha.backend import TRTLLMHAAttnBackend

    return TRTLLMHAAttnBackend(runner)


@register_attention_backend("flashmla", FLASHMLA)
def create_flashmla_backend(runner: ModelRunner) -> AttentionBackend:
    from .flashmla.backend import FlashMLABackend

    return FlashMLABackend(runner)


@register_attention_backend("flex_attention", FLEX_ATTENTION)
def create_flex_attention_backend(runner: ModelRunner) -> AttentionBackend:
    from .flex_attention.backend import FlexAttnBackend

    return FlexAttnBackend(runner)
