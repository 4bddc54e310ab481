"""Writes files whole or not at all."""

from __future__ import annotations

import os
import tempfile


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; readers see the old content or the new one, never a part.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    target = os.fspath(path)
    handle, temporary = tempfile.mkstemp(
        dir=os.path.dirname(target) or ".", prefix=f".{os.path.basename(target)}."
    )
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
