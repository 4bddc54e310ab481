"""What ends a verification before it starts."""

from __future__ import annotations

from ..interface.errors import BackendError


class VerifyError(BackendError):
    """The command line, the environment or a file does not allow it; the text has a way out."""
