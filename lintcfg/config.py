"""attn-lint's own configuration: `attn-lint.toml`, or `[tool.attn-lint]` of pyproject.toml.

The nearest file upward from the working folder wins; the command line wins over the file.
"""

from __future__ import annotations

import os
from typing import Any

from ..matrix.record import field, record
from .errors import ConfigError

FILE_NAME = "attn-lint.toml"
_TABLE_MARK = b"[tool.attn-lint"


@record
class PathSettings:
    """Settings for the files that fit a pattern."""

    gpu: str | None = None
    cuda: str | None = None
    sglang: str | None = None
    ignore: tuple[str, ...] = ()

    def updated(self, other: PathSettings) -> PathSettings:
        """These settings with those that the other has put over them."""
        return PathSettings(
            other.gpu or self.gpu,
            other.cuda or self.cuda,
            other.sglang or self.sglang,
            (*self.ignore, *other.ignore),
        )


@record
class Config:
    """Settings of one configuration file; what is absent is None or empty.

    Attributes:
        gpu, cuda, sglang, fail_on, output_format: defaults of the options of that name.
        select, ignore: codes or prefixes of codes.
        severity: code -> severity to report it with.
        exclude: patterns of files that a folder's check leaves out.
        require_reason: whether an explicit backend wants a reason beside it.
        per_path: pattern -> settings for the files that fit it.
        docs: the table of the docs checker, as it stands.
        path: the file, for messages.
    """

    gpu: str | None = None
    cuda: str | None = None
    sglang: str | None = None
    fail_on: str | None = None
    output_format: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: dict[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    require_reason: bool = False
    per_path: dict[str, PathSettings] = field(default_factory=dict)
    docs: dict[str, Any] = field(default_factory=dict)
    path: str | None = None


FORMATS = ("text", "concise", "json", "github", "gitlab", "sarif", "junit")
_STRINGS = {
    "gpu": "gpu", "cuda": "cuda", "sglang": "sglang", "fail-on": "fail_on",
    "output-format": "output_format",
}  # fmt: skip
_LISTS = {"select": "select", "ignore": "ignore", "exclude": "exclude"}
_PATH_KEYS = ("gpu", "cuda", "sglang", "ignore")
_ACCEPT_KEYS = ("code", "page", "match", "reason")
_CHOICES = {"fail-on": ("error", "warning", "info"), "output-format": FORMATS}
KEYS = (*_STRINGS, *_LISTS, "severity", "require-reason", "per-path", "docs")


def find_config(start: str) -> str | None:
    """Return the nearest configuration file upward from a folder."""
    try:
        folder = os.path.abspath(start)
    except OSError:  # the working folder is gone
        return None
    while True:
        own = os.path.join(folder, FILE_NAME)
        if os.path.isfile(own):
            return own
        shared = os.path.join(folder, "pyproject.toml")
        try:
            if os.path.isfile(shared):
                with open(shared, "rb") as file:
                    if _TABLE_MARK in file.read():
                        return shared
        except OSError:
            pass
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def load_config(path: str | os.PathLike[str] | None) -> Config:
    """Read a configuration file; None gives the defaults.

    Raises:
        ConfigError: unreadable, not TOML, an unknown key (with a suggestion) or a wrong type.
    """
    if path is None:
        return Config()
    import tomllib

    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"{path}: not a plain file")
    try:
        with open(path, "rb") as file:
            data = tomllib.loads(file.read().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if os.path.basename(path) == "pyproject.toml":
        tool = data.get("tool", {})
        data = tool.get("attn-lint", {}) if isinstance(tool, dict) else {}
        if not isinstance(data, dict):
            raise ConfigError(f"{path}: [tool.attn-lint] is not a table")
    return _from_table(data, path)


def _from_table(data: dict[str, Any], path: str) -> Config:
    values: dict[str, Any] = {"path": path}
    for key, value in data.items():
        if key in _STRINGS:
            if not isinstance(value, str):
                raise ConfigError(f"{path}: {key} takes a string, not {value!r}")
            allowed = _CHOICES.get(key)
            if allowed and value not in allowed:
                raise ConfigError(f"{path}: {key} takes {', '.join(allowed)}, not {value!r}")
            values[_STRINGS[key]] = value
        elif key in _LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{path}: {key} takes a list of strings, not {value!r}")
            values[_LISTS[key]] = tuple(value)
        elif key == "severity":
            levels = _CHOICES["fail-on"]
            if not isinstance(value, dict) or not all(v in levels for v in value.values()):
                raise ConfigError(f"{path}: severity maps codes to {', '.join(levels)}")
            values["severity"] = dict(value)
        elif key == "require-reason":
            if not isinstance(value, bool):
                raise ConfigError(f"{path}: {key} takes true or false, not {value!r}")
            values["require_reason"] = value
        elif key == "per-path":
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: per-path is a table of patterns")
            values["per_path"] = {
                pattern: _path_settings(pattern, given, path) for pattern, given in value.items()
            }
        elif key == "docs":
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: docs is a table")
            values["docs"] = _docs(value, path)
        else:
            raise _unknown_key(key, KEYS, path)
    return Config(**values)


def _path_settings(pattern: str, given: Any, path: str) -> PathSettings:
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: per-path.{pattern!r} is not a table")
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _PATH_KEYS:
            raise _unknown_key(key, _PATH_KEYS, path)
        if key == "ignore":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{path}: {key} takes a list of codes, not {value!r}")
            values[key] = tuple(value)
        elif not isinstance(value, str):
            raise ConfigError(f"{path}: {key} takes a string, not {value!r}")
        else:
            values[key] = value
    return PathSettings(**values)


def _docs(table: dict[str, Any], path: str) -> dict[str, Any]:
    """The docs checker's table, which every command that reads the file holds to its form."""
    for key in table:
        if key != "accept":
            raise _unknown_key(key, ("accept",), f"{path}: docs")
    entries = table.get("accept", [])
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise ConfigError(f"{path}: docs.accept is a list of tables")
    for number, entry in enumerate(entries, 1):
        place = f"{path}: docs.accept {number}"
        for key, value in entry.items():
            if key not in _ACCEPT_KEYS:
                raise _unknown_key(key, _ACCEPT_KEYS, place)
            if not isinstance(value, str):
                raise ConfigError(f"{place}: {key} takes a string, not {value!r}")
        for key in ("code", "reason"):
            if not entry.get(key, "").strip():
                raise ConfigError(f"{place}: {key} is missing")
    return table


def _unknown_key(key: str, known: tuple[str, ...], path: str) -> ConfigError:
    import difflib

    close = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
    return ConfigError(f"{path}: unknown key {key!r}{hint}")
