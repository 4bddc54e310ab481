"""Errors of the matrix room.

MatrixError
├── MatrixDataError    a data file is broken or contradicts the schema; the text has the place
├── ReleaseNotFound    no data for the release asked for
└── UnknownName        no backend or family of that name; the text says what there is
"""

from __future__ import annotations


class MatrixError(Exception):
    """Base of everything this room raises on purpose."""


class MatrixDataError(MatrixError):
    """A data file cannot be used; `str()` is one `place: problem` line per problem."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ReleaseNotFound(MatrixError):
    """The engine or release asked for has no data here."""


class UnknownName(MatrixError):
    """A backend or a family that the release does not have."""
