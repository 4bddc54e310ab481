"""Loads a compiled release: plain JSON sections, each read when first asked for.

In a checkout the compiled form is remade when a YAML file is newer; an installed package carries
it and trusts it. pydantic and yaml are imported only when something has to be compiled; paths are
plain strings, for pathlib alone would cost three milliseconds of every start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .errors import MatrixDataError, ReleaseNotFound

ROOM = os.path.dirname(os.path.abspath(__file__))
DEFAULT_ENGINE = "sglang"
DEFAULT_RELEASE = "0.5.22"
#: One of these files makes a folder a release's data: an engine's, or that of our own backends.
MARKERS = ("pipeline.yaml", "bundled.yaml")


class Release:
    """One release of one engine; `release["flags"]` is a section of its data.

    Sections: flags, history, commands, architectures, config_defaults, models, codes, program,
    platforms, sets, features, backends, meta; of the `bundled` engine: bundled, rows, evidence,
    meta. A section that the release lacks is None.
    """

    def __init__(
        self, engine: str, name: str, sections: dict[str, Any] | str | os.PathLike[str]
    ) -> None:
        self.engine = engine
        self.name = name
        self._folder = None if isinstance(sections, dict) else os.fspath(sections)
        self._sections: dict[str, Any] = dict(sections) if isinstance(sections, dict) else {}

    def __getitem__(self, section: str) -> Any:
        if section not in self._sections:
            self._sections[section] = self._read(section)
        return self._sections[section]

    def _read(self, section: str) -> Any:
        if self._folder is None:
            return None
        path = os.path.join(self._folder, f"{section}.json")
        try:
            with open(path, "rb") as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MatrixDataError([f"{path}: {error}"]) from None

    def derived(self, name: str, make: Callable[[], Any]) -> Any:
        """JSON that follows from the data alone: read beside it, or made and left there.

        A folder that cannot be written to costs the making each time, nothing else.
        """
        if self._folder is None:
            return make()
        path = os.path.join(self._folder, f"derived-{name}.json")
        try:
            with open(path, "rb") as file:
                return json.loads(file.read())
        except (OSError, ValueError):
            value = make()
        from .files import write_atomically

        with suppress(OSError):
            write_atomically(path, json.dumps(value, separators=(",", ":")))
        return value


def releases(engine: str = DEFAULT_ENGINE) -> list[str]:
    """Names of the releases that have data, oldest first."""
    found = set()
    for name in _entries(os.path.join(ROOM, "data", engine)):
        if _is_data(os.path.join(ROOM, "data", engine, name)):
            found.add(name)
    prefix = f"{engine}-"
    for name in _entries(os.path.join(ROOM, "compiled")):
        if name.startswith(prefix) and name[len(prefix) :][:1].isdigit():
            found.add(name[len(prefix) :])
    return sorted(found, key=_version_key)


def _is_data(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in MARKERS)


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _version_key(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in name.split(".")]


def data_folder(engine: str = DEFAULT_ENGINE, release: str = DEFAULT_RELEASE) -> str:
    """Folder of a release's YAML."""
    return os.path.join(ROOM, "data", engine, release)


def load(
    engine: str = DEFAULT_ENGINE,
    release: str = DEFAULT_RELEASE,
    *,
    folder: str | os.PathLike[str] | None = None,
) -> Release:
    """Load a release, or the YAML of `folder` where one is given.

    Raises:
        ReleaseNotFound: there is no data for it; the text lists what there is.
        MatrixDataError: the data is broken; the text gives the places.
    """
    if folder is not None:
        return _from_yaml(engine, release, os.fspath(folder))
    if not release or release != os.path.basename(release) or "\0" in release:
        raise ReleaseNotFound(_none(engine, release))
    compiled = os.path.join(ROOM, "compiled", f"{engine}-{release}")
    source = data_folder(engine, release)
    if os.path.exists(os.path.join(ROOM, "..", "pyproject.toml")):  # a checkout
        if not _is_data(source):
            raise ReleaseNotFound(_none(engine, release))
        if _is_stale(source, compiled):
            from pathlib import Path

            from .compile import write_release

            try:
                write_release(Path(source), Path(compiled))
            except OSError:  # a read-only checkout: work from memory
                return _from_yaml(engine, release, source)
        return Release(engine, release, compiled)
    if os.path.exists(os.path.join(compiled, "meta.json")):
        return Release(engine, release, compiled)
    if not os.path.isdir(source):
        raise ReleaseNotFound(_none(engine, release))
    return _from_yaml(engine, release, source)


def _from_yaml(engine: str, release: str, folder: str) -> Release:
    from pathlib import Path

    from .compile import compile_release

    return Release(engine, release, compile_release(Path(folder)))


def _none(engine: str, release: str) -> str:
    there = ", ".join(releases(engine)) or "none"
    return f"no matrix for {engine} {release}; there is: {there}"


def _is_stale(source: str, compiled: str) -> bool:
    try:
        made = os.stat(os.path.join(compiled, "meta.json")).st_mtime_ns
    except OSError:
        return True
    code = max(entry.stat().st_mtime_ns for entry in os.scandir(ROOM) if entry.name.endswith(".py"))
    return max(code, _newest(source)) > made


def _newest(folder: str) -> int:
    """Newest modification time below `folder`, in ns; folders count, for files that vanished."""
    newest = os.stat(folder).st_mtime_ns
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                newest = max(newest, _newest(entry.path))
            else:
                newest = max(newest, entry.stat().st_mtime_ns)
    return newest
