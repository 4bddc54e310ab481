"""Which process runs what next: cells of backends.

With a deadline in rounds of more and more seeds, in the order of the cells, so that all of them
are seen a little before time is up. Without one in a single round of all seeds, the heaviest cells
first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .outcome import RIGHT, Outcome
from .probes import Task

#: A backend and a cell of it: what one process runs without a break.
Key = tuple[str, str]
#: Seeds that each probe has run after the first rounds: all of them a little before any runs many.
STEPS = (1, 4, 10)
#: How many times as many it has after each further round.
GROWTH = 2


@dataclass(slots=True)
class Piece:
    """A task, and how far it is."""

    task: Task
    seeds: Sequence[int]
    #: Seeds that need no run: an earlier evidence has them.
    had: int = 0
    outcomes: list[tuple[int, Outcome]] = field(default_factory=list)

    def until(self, end: int) -> Sequence[int]:
        """The seeds to run for `end` of them to be done; none after an outcome that isn't right."""
        if any(outcome.kind != RIGHT for _, outcome in self.outcomes):
            return ()
        return self.seeds[self.had + len(self.outcomes) : end]


def ends_of(seeds: int, *, in_steps: bool) -> list[int]:
    """How many seeds are done after each round.

    In steps, so that no probe is run many times as often as another, however many are asked for.
    """
    steps = list(STEPS) if in_steps else []
    while steps and steps[-1] < seeds:
        steps.append(steps[-1] * GROWTH)
    return [*(step for step in steps if step < seeds), seeds]


@dataclass(frozen=True, slots=True)
class Turn:
    """What a process is to run: pieces of one group, up to `end` seeds each."""

    key: Key
    round: int
    end: int
    pieces: Sequence[Piece]


class Board:
    """Hands groups of pieces to processes and takes them back for the next round.

    A group goes to the process that had it before, if that asks: its kernels are compiled there.
    No round begins anywhere while a group waits in an earlier one.
    """

    def __init__(self, groups: Mapping[Key, Sequence[Piece]], ends: Sequence[int]) -> None:
        self._ends = ends
        self._waiting: list[dict[Key, Sequence[Piece]]] = [dict(groups), *({} for _ in ends[1:])]
        self._owner: dict[Key, int] = {}
        self._serves: dict[int, str] = {}
        self._out = 0
        self._closed = False
        self._changed = threading.Condition()

    def take(self, process: int) -> Turn | None:
        """The next turn of a process; waits while others may bring more, None if none comes."""
        with self._changed:
            while not self._closed:
                at = next((at for at, groups in enumerate(self._waiting) if groups), None)
                if at is not None:
                    groups = self._waiting[at]
                    key = min(groups, key=lambda key: self._dislike(process, key))
                    self._owner[key] = process
                    self._serves[process] = key[0]
                    self._out += 1
                    return Turn(key, at, self._ends[at], groups.pop(key))
                if not self._out:
                    break
                self._changed.wait()
            self._serves.pop(process, None)
            return None

    def done(self, turn: Turn) -> None:
        """A turn is over; what has more seeds to run waits for the next round."""
        with self._changed:
            self._out -= 1
            for at in range(turn.round + 1, len(self._ends)):
                left = [piece for piece in turn.pieces if piece.until(self._ends[at])]
                if left:
                    self._waiting[at][turn.key] = left
                    break
            self._changed.notify_all()

    def close(self) -> None:
        """Hand nothing out any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _dislike(self, process: int, key: Key) -> tuple[int, bool, int]:
        """Own groups first, then nobody's; of those of its backend, else of the least served."""
        owner = self._owner.get(key, -1)
        rank = 0 if owner == process else 1 if owner < 0 else 2
        serving = sum(backend == key[0] for backend in self._serves.values())
        return rank, key[0] != self._serves.get(process), serving


def groups_of(pieces: Iterable[Piece], *, by_weight: bool) -> dict[Key, list[Piece]]:
    """Pieces by backend and cell; the heaviest first, so that no process ends long after the rest.

    With a deadline they stay in order: what is light and many must not wait for what is heavy.
    """
    groups: dict[Key, list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.task.backend, piece.task.probe.cell), []).append(piece)
    if not by_weight:
        return groups
    return dict(sorted(groups.items(), key=lambda item: -sum(map(_weight, item[1]))))


def _weight(piece: Piece) -> int:
    """What a piece costs beside others, roughly: queries and keys both grow with the page."""
    request = piece.task.request
    return 0 if piece.task.refusals else request.q_heads * (request.page_size + 48) ** 2
