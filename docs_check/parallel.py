"""Runs one task beside others in a process of its own, where the system can fork.

A forked process has everything that was read so far and starts within milliseconds. Where there
is no fork, or one processor only, the task is run when its result is asked for.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
#: More processes than this cost more than they bring.
_MOST = 4


def start(task: Callable[[], T]) -> Callable[[], T]:
    """Start a task and return what waits for its result.

    A task that fails in its own process is run again in this one, so that its exception is raised
    where the result is asked for.
    """
    if not _can_fork():
        return task
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return task
    if child == 0:
        _serve(task, reader, writer)
    os.close(writer)
    return lambda: _collect(task, child, reader)


def _can_fork() -> bool:
    if not hasattr(os, "fork") or sys.platform == "darwin":
        return False
    return _available() > 1


def processors() -> int:
    """How many shares of a task that can be cut at will are worth their processes."""
    return min(_available(), _MOST) if _can_fork() else 1


def _available() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _serve(task: Callable[[], object], reader: int, writer: int) -> None:
    """Run a task in the forked process, send its result and leave without any clean-up."""
    try:
        os.close(reader)
        data = pickle.dumps(task(), pickle.HIGHEST_PROTOCOL)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(data)
    finally:
        os._exit(0)


def _collect(task: Callable[[], T], child: int, reader: int) -> T:
    """The result that came through the pipe; nothing, or a part of it, is a task that failed.

    Another process forked from the same one may be the one to ask: it cannot wait for the child,
    and need not.
    """
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    with suppress(ChildProcessError):
        os.waitpid(child, 0)
    try:
        result: T = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):
        return task()
    return result
