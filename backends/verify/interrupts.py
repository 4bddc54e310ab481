"""Signals that end a run early: none is lost, and none costs what is finished."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

#: Of a person at a terminal, a scheduler (some send more than one), and a terminal that closes.
#: Windows has no SIGHUP.
ENDS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupts:
    """Notes signals wherever the main thread is, and raises them where that loses nothing."""

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._heard = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within this a signal is a KeyboardInterrupt that has its number; so is one before it.

        One is raised: what comes while it is dealt with is noted again.
        """
        try:
            self._heard = True
            self._raise()
            yield
        finally:
            self._heard = False

    @property
    def left(self) -> KeyboardInterrupt | None:
        """The first signal that was not raised anywhere."""
        return KeyboardInterrupt(self._noted[0]) if self._noted else None

    def note(self, number: int) -> None:
        """A signal has come."""
        self._noted.append(number)
        self._raise()

    def _raise(self) -> None:
        if self._heard and self._noted:
            self._heard = False
            first = self._noted[0]
            self._noted.clear()
            raise KeyboardInterrupt(first)


@contextmanager
def noted() -> Iterator[Interrupts]:
    """Note signals that end a run; what is ignored, as under nohup, stays so.

    In another thread than the main one, which signals don't reach, there are none.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def note(number: int, frame: object) -> None:
        _forget_closed(terminals)
        interrupts.note(number)

    before = {number: signal.getsignal(number) for number in ENDS}
    # None is a handler that isn't Python's, which could not be put back.
    taken = [number for number in ENDS if before[number] not in (signal.SIG_IGN, None)]
    for number in taken:
        signal.signal(number, note)
    try:
        yield interrupts
    finally:
        for number in taken:
            signal.signal(number, before[number])


def _forget_closed(terminals: Sequence[int]) -> None:
    """Send what goes to terminals that are gone nowhere: writing to one fails."""
    for stream in terminals:
        if not os.isatty(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
