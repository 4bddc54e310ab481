"""Errors of the docs room; like every error of the matrix they end a command with exit code 2."""

from __future__ import annotations

from ..matrix.errors import MatrixError


class InputError(MatrixError):
    """A page or a source tree that was given cannot be read."""
