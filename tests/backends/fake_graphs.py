"""CUDA graphs for a CPU: what was captured is called anew. Loaded by name beside bad backends."""

from __future__ import annotations

from collections.abc import Callable

import torch
from attn_lint.backends.verify import runs

_CAPTURING = [False]


def must_not_capture() -> None:
    """Fail as CUDA does where a tensor is copied to the device during a capture."""
    if _CAPTURING[0]:
        raise RuntimeError("operation not permitted when stream is capturing")


def played(
    forward: Callable[[], list[torch.Tensor]],
) -> tuple[list[torch.Tensor], Callable[[], None]]:
    """Outputs of a call, and what calls it again and puts its new outputs into them."""
    _CAPTURING[0] = True
    try:
        outs = forward()
    finally:
        _CAPTURING[0] = False

    def replay() -> None:
        for out, new in zip(outs, forward(), strict=True):
            out.copy_(new)

    return outs, replay


runs.captured = played
