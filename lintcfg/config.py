"""attn-lint's own configuration: `attn-lint.toml`, or `[tool.attn-lint]` of pyproject.toml.

The nearest file upward from the working folder wins; the command line wins over the file.
"""

from __future__ import annotations

import os
import re
from typing import Any

from ..matrix.record import field, record
from .errors import ConfigError

FILE_NAME = "attn-lint.toml"
_SHARED_NAME = "pyproject.toml"
#: The table of a shared file, and what people write instead.
_TABLE = "attn-lint"
_MISNAMED = ("attn_lint", "attnlint")
#: Without one of these in it, a shared file says nothing to us.
_MENTION = re.compile(rb"attn[-_]?lint|^[ \t]*[\"']?tool[\"']?[ \t]*=", re.MULTILINE)
_HEADER = re.compile(rb"^[ \t]*\[+[^\]\n]*attn-lint", re.MULTILINE)
#: The place in a message of the TOML reader.
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


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
        shared = os.path.join(folder, _SHARED_NAME)
        if os.path.isfile(shared) and _is_ours(shared):
            return shared
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _is_ours(shared: str) -> bool:
    """Whether a shared file has our table, or is too broken to tell and has its header."""
    try:
        with open(shared, "rb") as file:
            content = file.read()
    except OSError:
        return False
    if _MENTION.search(content) is None:
        return False
    import tomllib

    try:
        tool = tomllib.loads(content.decode("utf-8")).get("tool", {})
    except (RecursionError, ValueError):  # neither UTF-8 nor TOML
        return _HEADER.search(content) is not None
    return not isinstance(tool, dict) or not {_TABLE, *_MISNAMED}.isdisjoint(tool)


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
            text = file.read().decode("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise _toml_error(path, str(error)) from None
    source = _Source(path, text)
    if os.path.basename(path) == _SHARED_NAME:
        data = _own_table(data, source)
    return _from_table(data, source)


def _toml_error(path: str, message: str) -> ConfigError:
    """What the TOML reader says, with its place in front."""
    place = _PLACE.search(message)
    if place is None:
        return ConfigError(f"{path}: {message}")
    where = f"{path}:{place[1]}:{place[2]}" if place[1] else f"{path}: at its end"
    return ConfigError(f"{where}: {message[: place.start()]}")


class _Source:
    """A file's text, for the places of what is wrong in it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.within: tuple[str, ...] = ()

    def error(self, message: str, *keys: str) -> ConfigError:
        """An error at the line where the last of nested keys is set."""
        line = self.line(*keys)
        return ConfigError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}")

    def line(self, *keys: str) -> int | None:
        """The line of a key, found by its name behind the names of the tables around it."""
        found = None
        for key in (*self.within, *keys):
            # A key stands in a header or before an equals sign, bare or quoted.
            name = re.compile(
                rf"(?:^|[\s\[.{{,])(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')"
                r"[ \t]*(?:[=\].])"
            )
            start = found or 1
            found = next(
                (
                    number
                    for number, line in enumerate(self.lines[start - 1 :], start)
                    if name.search(line)
                ),
                found,
            )
        return found

    def entry_error(
        self, message: str, tables: tuple[str, ...], number: int, key: str = ""
    ) -> ConfigError:
        """An error at an entry of an array of tables, or at a key of the entry."""
        from .toml_places import entry_line

        line = entry_line("\n".join(self.lines), (*self.within, *tables), number, key)
        return ConfigError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}")

    def unknown(self, key: str, known: tuple[str, ...], *tables: str) -> ConfigError:
        """An unknown key, with what was probably meant."""
        return self.error(_unknown(key, known, *tables), *tables, key)


def _unknown(key: str, known: tuple[str, ...], *tables: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
    place = f" in {'.'.join(tables)}" if tables else ""
    return f"unknown key {key!r}{place}{hint}"


def place(path: str, *keys: str) -> str:
    """Where in a file the last of nested keys is set, for messages."""
    try:
        with open(path, encoding="utf-8") as file:
            source = _Source(path, file.read())
    except (OSError, ValueError):
        return path
    if os.path.basename(path) == _SHARED_NAME:
        source.within = ("tool", _TABLE)
    line = source.line(*keys)
    return f"{path}:{line}" if line else path


def _own_table(data: dict[str, Any], source: _Source) -> dict[str, Any]:
    """Our table of a shared file."""
    tool = data.get("tool", {})
    if not isinstance(tool, dict):
        raise source.error(f"tool is not a table but {_kind(tool)}", "tool")
    for name in _MISNAMED:
        if name in tool and _TABLE not in tool:
            raise source.error(f"[tool.{name}] is called [tool.{_TABLE}]", "tool", name)
    source.within = ("tool", _TABLE)
    table = tool.get(_TABLE, {})
    if not isinstance(table, dict):
        raise source.error(f"[tool.{_TABLE}] is not a table but {_kind(table)}")
    return table


def _kind(value: Any) -> str:
    """A value of TOML by its kind, and itself where it is short."""
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else repr(value)


def _from_table(data: dict[str, Any], source: _Source) -> Config:
    values: dict[str, Any] = {"path": source.path}
    for key, value in data.items():
        if key in _STRINGS:
            values[_STRINGS[key]] = _string(key, value, source)
        elif key in _LISTS:
            values[_LISTS[key]] = _strings(key, value, source)
        elif key == "severity":
            values[key] = _severity(value, source)
        elif key == "require-reason":
            if not isinstance(value, bool):
                raise source.error(f"{key} takes true or false, not {_kind(value)}", key)
            values["require_reason"] = value
        elif key == "per-path":
            if not isinstance(value, dict):
                raise source.error(f"{key} is a table of patterns, not {_kind(value)}", key)
            values["per_path"] = {
                pattern: _path_settings(pattern, given, source) for pattern, given in value.items()
            }
        elif key == "docs":
            if not isinstance(value, dict):
                raise source.error(f"{key} is a table, not {_kind(value)}", key)
            values["docs"] = _docs(value, source)
        elif key in ("tool", _TABLE) and isinstance(value, dict):
            raise source.error(
                f"the keys stand by themselves here; [tool.{_TABLE}] is for {_SHARED_NAME}", key
            )
        else:
            raise source.unknown(key, KEYS)
    return Config(**values)


def _string(key: str, value: Any, source: _Source) -> str:
    if not isinstance(value, str):
        raise source.error(f"{key} takes a string, not {_kind(value)}", key)
    allowed = _CHOICES.get(key)
    if allowed and value not in allowed:
        raise source.error(f"{key} takes {', '.join(allowed)}, not {value!r}", key)
    if not value.strip():
        raise source.error(f"{key} is empty", key)
    return value


def _strings(key: str, value: Any, source: _Source, *tables: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise source.error(f"{key} takes a list of strings, not {_kind(value)}", *tables, key)
    for item in value:
        if not isinstance(item, str) or not item.strip():
            shown = "an empty one" if item == "" else _kind(item)
            raise source.error(f"{key} takes a list of strings, not {shown}", *tables, key)
    return tuple(value)


def _severity(value: Any, source: _Source) -> dict[str, str]:
    levels = ", ".join(_CHOICES["fail-on"])
    if not isinstance(value, dict):
        raise source.error(f"severity maps codes to {levels}; it is {_kind(value)}", "severity")
    for code, level in value.items():
        if not isinstance(level, str) or level not in _CHOICES["fail-on"]:
            raise source.error(
                f"severity of {code} is one of {levels}, not {_kind(level)}", "severity", code
            )
    return dict(value)


def _path_settings(pattern: str, given: Any, source: _Source) -> PathSettings:
    tables = ("per-path", pattern)
    if not isinstance(given, dict):
        raise source.error(f"per-path.{pattern!r} is not a table but {_kind(given)}", *tables)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _PATH_KEYS:
            raise source.unknown(key, _PATH_KEYS, *tables)
        if key == "ignore":
            values[key] = _strings(key, value, source, *tables)
        elif not isinstance(value, str):
            raise source.error(f"{key} takes a string, not {_kind(value)}", *tables, key)
        else:
            values[key] = value
    return PathSettings(**values)


def _docs(table: dict[str, Any], source: _Source) -> dict[str, Any]:
    """The docs checker's table, which every command that reads the file holds to its form."""
    for key in table:
        if key != "accept":
            raise source.unknown(key, ("accept",), "docs")
    entries = table.get("accept", [])
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise source.error("docs.accept is a list of tables", "docs", "accept")
    for number, entry in enumerate(entries, 1):
        _accepted(entry, number, source)
    return table


def _accepted(entry: dict[str, Any], number: int, source: _Source) -> None:
    tables, name = ("docs", "accept"), f"docs.accept {number}"
    for key, value in entry.items():
        if key not in _ACCEPT_KEYS:
            message = _unknown(key, _ACCEPT_KEYS, *tables)
            raise source.entry_error(message, tables, number, key)
        if not isinstance(value, str):
            message = f"{name}: {key} takes a string, not {_kind(value)}"
            raise source.entry_error(message, tables, number, key)
    for key in ("code", "reason"):
        if not entry.get(key, "").strip():
            state = "empty" if key in entry else "missing"
            where = key if key in entry else ""
            raise source.entry_error(f"{name}: {key} is {state}", tables, number, where)
