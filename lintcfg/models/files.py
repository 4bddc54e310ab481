"""Reads the JSON files of a model folder, however broken they are."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from ...matrix.record import record

#: A real config.json has some kilobytes; quantized ones with a list of layers a few megabytes.
LARGEST = 32 << 20


@record
class Unreadable:
    """Why a file gives no JSON object; `missing` where it is not there at all."""

    reason: str
    missing: bool = False


def read_object(path: str) -> dict[str, Any] | Unreadable:
    """The JSON object in a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - hot path
        if not stat.S_ISREG(status.st_mode):
            return Unreadable("is not a plain file")
        size = status.st_size
        if size > LARGEST:
            return Unreadable(f"has {size >> 20} MiB, which no model configuration has")
        with open(path, "rb") as file:  # noqa: PTH123 - hot path
            data = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Unreadable("does not exist", missing=True)
    except ValueError:
        return Unreadable("cannot be a file name")
    except OSError as error:
        return Unreadable(f"cannot be read: {error.strerror or error}")
    if len(data) > LARGEST:
        return Unreadable("is larger than any model configuration")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(f"is not UTF-8 (byte {error.start})")
    try:
        value = json.loads(text)
    except RecursionError:
        return Unreadable("is nested too deeply")
    except ValueError as error:
        return Unreadable(f"is not valid JSON: {error}")
    if not isinstance(value, dict):
        return Unreadable(f"holds {_kind(value)} where a JSON object belongs")
    return value


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
