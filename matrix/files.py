"""Writes files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; readers see the old content or the new one, never a part.

    Of a link, the target is what changes; a file keeps its mode. What is no file (a pipe, a device)
    is written to.

    Raises:
        OSError: it cannot be written; nothing is left behind. Its file is the one asked for.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            _replace(os.path.realpath(path), text)
    except OSError as error:
        # What failed may be the file that was to take its place: a name that nobody knows.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _replace(target: str, text: str) -> None:
    folder, name = os.path.split(target)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name[:80]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mode = 0o644
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(target).st_mode & 0o7777
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
