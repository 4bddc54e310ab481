"""Schemas of the data files that are carried into the compiled form as they are."""

from __future__ import annotations

from pydantic import BaseModel

from .schema_backends import BackendFile, FeaturesFile
from .schema_flags import CommandsFile, FlagsFile, HistoryFile

#: Section name -> its pydantic model. A section without one is carried over unchecked.
SCHEMAS: dict[str, type[BaseModel]] = {
    "flags": FlagsFile,
    "history": HistoryFile,
    "commands": CommandsFile,
    "features": FeaturesFile,
    "backends": BackendFile,
}
