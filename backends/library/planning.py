"""Plans of FlashInfer's wrappers, one after another."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch


class Planner:
    """Plans wrappers, none while the copy of its last plan to the device is still queued.

    A wrapper writes every plan into one buffer in pinned memory and queues a copy of it. Were the
    buffer written again before that copy is made, the pass before, its kernels still queued as
    well, would run with the plan of the pass after. The copy lies ahead of those kernels, so that
    it is long made by the time the next pass is planned, and waiting for it returns at once.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copied: WeakKeyDictionary[Any, torch.cuda.Event] = WeakKeyDictionary()

    def plan(self, wrapper: Any, *args: Any, **options: Any) -> None:
        """Call `wrapper.plan`."""
        if self.device.type != "cuda":
            wrapper.plan(*args, **options)
            return
        copied = self._copied.get(wrapper)
        if copied is None:
            copied = self._copied[wrapper] = torch.cuda.Event()
        else:
            copied.synchronize()
        try:
            wrapper.plan(*args, **options)
        finally:  # a plan that fails may have queued its copy
            copied.record(torch.cuda.current_stream(self.device))
