"""Loads a compiled release: plain JSON sections, each read when first asked for.

In a checkout the compiled form is remade when a YAML file is newer; an installed package carries
it and trusts it. pydantic and yaml are imported only when something has to be compiled.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .errors import MatrixDataError, ReleaseNotFound

ROOM = Path(__file__).parent
DEFAULT_ENGINE = "sglang"
DEFAULT_RELEASE = "0.5.22"


class Release:
    """One release of one engine; `release["flags"]` is a section of its data.

    Sections: flags, history, commands, architectures, config_defaults, models, codes, program,
    platforms, sets, backends, meta. A section that the release lacks is None.
    """

    def __init__(self, engine: str, name: str, sections: dict[str, Any] | Path) -> None:
        self.engine = engine
        self.name = name
        self._folder = sections if isinstance(sections, Path) else None
        self._sections: dict[str, Any] = {} if isinstance(sections, Path) else dict(sections)

    def __getitem__(self, section: str) -> Any:
        if section not in self._sections:
            self._sections[section] = self._read(section)
        return self._sections[section]

    def _read(self, section: str) -> Any:
        if self._folder is None:
            return None
        path = self._folder / f"{section}.json"
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MatrixDataError([f"{path}: {error}"]) from None


def releases(engine: str = DEFAULT_ENGINE) -> list[str]:
    """Names of the releases that have data, oldest first."""
    found = {path.parent.name for path in ROOM.glob(f"data/{engine}/*/pipeline.yaml")}
    prefix = f"{engine}-"
    found |= {
        path.parent.name[len(prefix) :] for path in ROOM.glob(f"compiled/{prefix}*/meta.json")
    }
    return sorted(found, key=_version_key)


def _version_key(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in name.split(".")]


def load(
    engine: str = DEFAULT_ENGINE, release: str = DEFAULT_RELEASE, *, folder: Path | None = None
) -> Release:
    """Load a release, or the YAML of `folder` where one is given.

    Raises:
        ReleaseNotFound: there is no data for it; the text lists what there is.
        MatrixDataError: the data is broken; the text gives the places.
    """
    if folder is not None:
        from .compile import compile_release

        return Release(engine, release, compile_release(folder))
    compiled = ROOM / "compiled" / f"{engine}-{release}"
    source = ROOM / "data" / engine / release
    if _in_checkout() and source.is_dir():
        if _is_stale(source, compiled):
            from .compile import compile_release, write_release

            try:
                write_release(source, compiled)
            except OSError:  # a read-only checkout: work from memory
                return Release(engine, release, compile_release(source))
        return Release(engine, release, compiled)
    if not (compiled / "meta.json").exists():
        if source.is_dir():
            from .compile import compile_release

            return Release(engine, release, compile_release(source))
        raise ReleaseNotFound(
            f"no matrix for {engine} {release}; there is: {', '.join(releases(engine)) or 'none'}"
        )
    return Release(engine, release, compiled)


def _in_checkout() -> bool:
    return (ROOM.parent / "pyproject.toml").exists()


def _is_stale(source: Path, compiled: Path) -> bool:
    try:
        made = os.stat(compiled / "meta.json").st_mtime_ns  # noqa: PTH116 - hot path
    except OSError:
        return True
    code = max(entry.stat().st_mtime_ns for entry in os.scandir(ROOM) if entry.name.endswith(".py"))
    return max(code, _newest(source)) > made


def _newest(folder: Path | str) -> int:
    """Newest modification time below `folder`, in ns; folders count, for files that vanished."""
    newest = os.stat(folder).st_mtime_ns  # noqa: PTH116
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                newest = max(newest, _newest(entry.path))
            else:
                newest = max(newest, entry.stat().st_mtime_ns)
    return newest
