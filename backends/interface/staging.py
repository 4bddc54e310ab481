"""Copies from the host to a device that nothing waits for."""

from __future__ import annotations

import torch

#: Named wherever a tensor is made on the host: torch's default device is the caller's to choose.
HOST = torch.device("cpu")


def staged(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """`x` on the device, through pinned memory where it comes from the host to CUDA."""
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)
