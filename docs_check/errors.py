"""Errors of the docs room; both end a command with exit code 2.

MatrixError
└── DocsError
    ├── InputError    a tree, a page or a file that was given cannot be read or written
    └── UsageError    the arguments do not fit each other
"""

from __future__ import annotations

from ..matrix.errors import MatrixError


class DocsError(MatrixError):
    """Base of everything this room raises on purpose."""


class InputError(DocsError):
    """A tree, a page or a file that was given cannot be read or written."""


class UsageError(DocsError):
    """The arguments do not fit each other."""
