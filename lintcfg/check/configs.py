"""Which configuration speaks for a file: the nearest one upward from it."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..config import Config, PathSettings, find_config, load_config
from .discover import matches


class Configs:
    """Finds, reads and keeps configuration files."""

    def __init__(
        self,
        *,
        explicit: str | None = None,
        isolated: bool = False,
    ) -> None:
        """Take one file for all (`explicit`), none at all (`isolated`), or look for them."""
        #: Called with each configuration that is read from now on.
        self.verify: Callable[[Config], None] | None = None
        self._by_folder: dict[str, Config] = {}
        self._by_path: dict[str, Config] = {}
        self._fixed: Config | None = None
        if isolated:
            self._fixed = Config()
        elif explicit is not None:
            self._fixed = self._read(explicit)

    def for_folder(self, folder: str) -> Config:
        """The configuration that speaks for files of a folder."""
        if self._fixed is not None:
            return self._fixed
        try:
            folder = os.path.abspath(folder)
        except OSError:  # the working folder is gone
            return Config()
        known = self._by_folder.get(folder)
        if known is None:
            found = find_config(folder)
            known = Config() if found is None else self._read(found)
            self._by_folder[folder] = known
        return known

    def for_file(self, name: str) -> Config:
        """The configuration that speaks for a file."""
        return self.for_folder(os.path.dirname(name) or ".")

    def _read(self, path: str) -> Config:
        known = self._by_path.get(path)
        if known is None:
            known = load_config(path)
            if self.verify is not None:
                self.verify(known)
            self._by_path[path] = known
        return known


def within(name: str, config: Config) -> str:
    """A file's path as patterns of a configuration see it: from the folder of its file."""
    if config.path is None:
        return name
    try:
        base = os.path.dirname(os.path.abspath(config.path))
        full = os.path.abspath(name)
    except OSError:
        return name
    if full.startswith(base.rstrip(os.sep) + os.sep):
        return full[len(base.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
    return name


def settings_for(name: str, config: Config) -> PathSettings:
    """Settings of a configuration for a path; later patterns lie over earlier ones."""
    merged = PathSettings()
    if config.per_path:
        shown = within(name, config)
        for pattern, given in config.per_path.items():
            if matches(shown, pattern):
                merged = merged.updated(given)
    return merged


def is_excluded(name: str, config: Config) -> bool:
    """Whether a configuration leaves a file out."""
    if not config.exclude:
        return False
    shown = within(name, config)
    return any(matches(shown, pattern) for pattern in config.exclude)
