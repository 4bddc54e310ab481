"""Forward modes and attention types, by SGLang's names."""

from __future__ import annotations

from enum import StrEnum


class ForwardMode(StrEnum):
    """What a forward pass does with the batch."""

    EXTEND = "extend"
    DECODE = "decode"
    TARGET_VERIFY = "target_verify"
    IDLE = "idle"

    def is_extend(self) -> bool:
        return self is ForwardMode.EXTEND

    def is_decode(self) -> bool:
        return self is ForwardMode.DECODE

    def is_target_verify(self) -> bool:
        return self is ForwardMode.TARGET_VERIFY

    def is_idle(self) -> bool:
        return self is ForwardMode.IDLE

    def is_decode_or_idle(self) -> bool:
        return self in (ForwardMode.DECODE, ForwardMode.IDLE)


class AttentionType(StrEnum):
    """Which keys a query may see, before windows and masks."""

    DECODER = "decoder"
    ENCODER_ONLY = "encoder_only"
