"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes hangs on what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

#: Seconds of this process's processor time after which a test hangs: work that grew with the square
#: of its input takes longer, and nothing that should be here comes near, on however slow a machine.
HANGS = 300


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """End a test that never would, with the place where it is."""

    def fail(number: int, frame: object) -> None:
        pytest.fail(f"not done after {HANGS} s of processor time")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
