"""The CUDA driver's library, for built modules that call it without naming it."""

from __future__ import annotations

import contextlib
import ctypes
import functools


@functools.cache
def share_driver() -> None:
    """Let modules that are loaded from now on find the driver's functions.

    A module that was linked against a stand-in of the driver's library, on a machine that has no
    driver, may have lost its mention of it. Its first call of the driver then ends the process,
    with nothing to catch, unless the library was opened for all to see: torch opens it for itself.
    Where there is no library of this name a module that needs it can't be loaded either, and says
    so.
    """
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
