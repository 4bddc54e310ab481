"""Schemas of the data files that are carried into the compiled form as they are."""

from __future__ import annotations

from pydantic import BaseModel

from .schema_backends import BackendFile, FeaturesFile
from .schema_codes import CodesFile
from .schema_flags import CommandsFile, FlagsFile, HistoryFile
from .schema_models import ArchitecturesFile, ConfigDefaultsFile, ModelsFile

#: Section name -> its pydantic model. A section without one is carried over unchecked.
SCHEMAS: dict[str, type[BaseModel]] = {
    "flags": FlagsFile,
    "history": HistoryFile,
    "commands": CommandsFile,
    "architectures": ArchitecturesFile,
    "config_defaults": ConfigDefaultsFile,
    "models": ModelsFile,
    "codes": CodesFile,
    "features": FeaturesFile,
    "backends": BackendFile,
}
