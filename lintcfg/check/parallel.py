"""Looks at many files with as many processes as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from .result import Told

#: Fewer files than this are done sooner by one process.
_WORTHWHILE = 300
#: Files that a process takes at a time.
_SHARE = 40
#: The part of all files that is looked at before others join in: what is compiled and judged
#: then, all of them know.
_ALONE = 16
#: More processes than this cost more memory than they save time.
_MOST = 8

Look = Callable[[Path], Told]


def each(paths: Sequence[Path], look: Look, notes: list[str]) -> list[Told]:
    """What `look` tells of each file, in their order; `notes` gathers what it wrote to them."""
    processes = min(_MOST, _processors(), len(paths) // (_WORTHWHILE // 2))
    if len(paths) < _WORTHWHILE or processes < 2 or not hasattr(os, "fork"):
        return [one for one in map(look, paths) if _says(one)]
    return _shared(paths, look, notes, processes)


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _says(one: Told) -> bool:
    return bool(one.launches or one.located or one.skipped)


#: What a forked process finds of its parent's; nothing of it can be sent.
_inherited: list[tuple[Sequence[Path], Look, list[str]]] = []


def _share(start: int) -> tuple[list[Told], list[str]]:
    paths, look, notes = _inherited[-1]
    told = [one for one in map(look, paths[start : start + _SHARE]) if _says(one)]
    said = list(notes)
    notes.clear()
    return told, said


def _shared(paths: Sequence[Path], look: Look, notes: list[str], processes: int) -> list[Told]:
    alone = len(paths) // _ALONE
    found = [one for one in map(look, paths[:alone]) if _says(one)]
    return found + _apart(paths[alone:], look, notes, processes)


def _apart(paths: Sequence[Path], look: Look, notes: list[str], processes: int) -> list[Told]:
    import gc
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    _inherited.append((paths, look, notes))
    found: list[Told] = []
    # What exists by now lives on in every process: looking through it would only copy it.
    gc.freeze()
    try:
        with ProcessPoolExecutor(processes, get_context("fork")) as pool:
            for told, said in pool.map(_share, range(0, len(paths), _SHARE)):
                found += told
                notes += [note for note in said if note not in notes]
    finally:
        gc.unfreeze()
        _inherited.pop()
    return found
