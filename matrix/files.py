"""Writes files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile

#: Names of what this process has open itself.
_NAMED = {"/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; readers see the old content or the new one, never a part.

    Of a link, the target is what changes; a file keeps its mode. What is no file (a pipe, a device)
    is written to, and so is what `/dev/stdout` and its like name: behind what is in it.

    Raises:
        OSError: it cannot be written; nothing is left behind. Its file is the one asked for.
    """
    try:
        if (descriptor := _descriptor(os.fspath(path))) is not None:
            sys.stdout.flush()
            with open(os.dup(descriptor), "w", encoding="utf-8") as file:
                file.write(text)
        elif is_stream(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            _replace(os.path.realpath(path), text)
    except OSError as error:
        # What failed may be the file that was to take its place: a name that nobody knows.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path is written to as it stands, and not replaced."""
    named = _descriptor(os.fspath(path)) is not None
    return named or (os.path.exists(path) and not os.path.isfile(path))


def _descriptor(path: str) -> int | None:
    """The descriptor of this process that a path names, if it is such a path."""
    if path in _NAMED:
        return _NAMED[path]
    found = _NUMBERED.fullmatch(path)
    return int(found[1]) if found else None


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
