"""Errors of the runnable backends; each lists every reason, not the first one found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .capabilities import Refusal


class BackendError(Exception):
    """Base of all errors that the bundled backends raise on purpose."""


class Refused(BackendError):
    """The backend does not carry what the batch, the layer or the pool asks for.

    Raised before any kernel runs.
    """

    def __init__(self, backend: str, refusals: Sequence[Refusal]) -> None:
        self.backend = backend
        self.refusals = tuple(refusals)
        super().__init__(f"{backend} refuses: " + "; ".join(map(str, self.refusals)))


class InvalidInput(BackendError):
    """A batch, table or tensor that no backend could work on, such as lengths beyond the pool."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class BrokenBackend(BackendError):
    """A backend does not keep to the interface: its author has something to mend."""


class NotInstalled(BackendError):
    """A package that a backend needs is missing; `hint` is the command that brings it."""

    def __init__(self, package: str, hint: str) -> None:
        self.package = package
        self.hint = hint
        super().__init__(f"{package} is not installed: {hint}")


class UnknownBackend(BackendError):
    """No backend of that name is registered."""
