"""What one run of a probe comes to."""

from __future__ import annotations

from dataclasses import dataclass

RIGHT = "right"
REFUSED = "refused"  # with reasons, as declared
WRONG = "wrong"  # an answer that is off, or one where there should be a refusal
CRASHED = "crashed"  # any other error, a dead process, a hang
UNAVAILABLE = "unavailable"  # something is not installed or built here: no evidence either way
BAD = (WRONG, CRASHED)
OUTCOMES = (RIGHT, REFUSED, WRONG, CRASHED, UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error` is ‖out − ref‖/‖ref‖, `row` the same of the worst single query of a head."""

    kind: str
    text: str = ""
    error: float | None = None
    row: float | None = None
