"""Writes a file in one step or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ..errors import InputError


def replace(path: Path, content: bytes, before: bytes) -> None:
    """Put a file's new content in place of what it held, keeping its mode and its owner.

    Of a link, the target is what changes. `before` is what the file held when it was read.

    Raises:
        InputError: the folder or the file cannot be written, or somebody else has changed it.
    """
    import tempfile

    try:
        target = path.resolve()
        if target.read_bytes() != before:
            raise InputError(f"{path}: changed by another program meanwhile; nothing was written")
        if not os.access(target, os.W_OK):
            raise InputError(f"{path}: cannot be written; nothing was changed")
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _copy_rights(target, name)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: {reason}; nothing was changed") from None


def _copy_rights(source: Path, name: str) -> None:
    """Owner, mode and further attributes of a file, as far as they may be given away."""
    info = source.stat()
    with contextlib.suppress(OSError):
        os.chown(name, info.st_uid, info.st_gid)
    shutil.copystat(source, name)
    os.utime(name)
