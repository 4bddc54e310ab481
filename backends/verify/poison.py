"""Fills memory that will be handed out next with NaN, so that what is not written is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned_memory(device: torch.device, elements: int) -> Iterator[None]:
    """Within this, uninitialised tensors hold NaN as far as torch's allocator can see to it.

    On CPU torch itself fills what `empty` makes. CUDA's caching allocator gives freed blocks out
    again, so blocks of the sizes to come are filled and freed; captured graphs draw from a pool
    of their own, where outputs are filled before each replay instead.
    """
    if device.type == "cuda":
        for size in (elements * 2, elements * 4, elements * 8):
            blocks = [
                torch.full((max(size, 1),), 0xFF, dtype=torch.uint8, device=device)
                for _ in range(3)
            ]
            del blocks
        yield
        return
    was = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    # The module makes a property of it that type checkers don't see.
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was, warn_only=warns)
