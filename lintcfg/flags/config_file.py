"""Merges a `--config FILE` into the command line, by the release's own rules.

The file's keys become flags in front of what was typed, so that what was typed wins. The release
reads only the exact word `--config`, once; anything wrong with the file stops it before argparse.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..terminal import plain, shown
from .problems import BEFORE, ConfigSpot, ParseProblem
from .table import HELP_NAMES, FlagTable

#: A configuration file beyond this is not read here; SGLang's own are a few kilobytes.
MAX_BYTES = 1_000_000
#: Values that a document may stand for once its aliases are written out.
MAX_NODES = 200_000

_SUFFIXES = (".yaml", ".yml")


@dataclass
class Merged:
    """The words that argparse gets, where each comes from, and what went wrong."""

    words: list[str]
    origins: list[int | ConfigSpot]
    problems: list[ParseProblem] = field(default_factory=list)
    path: str | None = None
    keys: dict[str, ConfigSpot] = field(default_factory=dict)


class _Broken(Exception):
    """The file stops the launch; `refuses` is None where that cannot be told from here."""

    def __init__(
        self, message: str, says: str = "", line: int | None = None, refuses: bool | None = True
    ) -> None:
        super().__init__(message)
        self.message, self.says, self.line, self.refuses = message, says, line, refuses


def merge(
    argv: Sequence[str],
    table: FlagTable,
    directory: Path | None = None,
    content: str | None = None,
) -> Merged:
    """Replace `--config FILE` by what the file says; `content` is that, where it is known."""
    assert table.config is not None
    flag: str = table.config["flag"]
    places = [index for index, word in enumerate(argv) if word == flag]
    first = places[0]
    path = argv[first + 1] if first + 1 < len(argv) else ""
    rest = [*range(first), *range(first + 2, len(argv))]
    out = Merged([argv[index] for index in rest], list(rest))
    try:
        if len(places) > 1:
            raise _Broken(f"{flag} is given {len(places)} times", "Multiple config files specified")
        if first == len(argv) - 1:
            raise _Broken(f"{flag} needs a file", f"No config file specified after {flag} flag")
        if not path:
            return Merged(list(argv), list(range(len(argv))))
        out.path = path
        words, spots, out.keys = _read(path, table, directory, content)
    except _Broken as error:
        spot = ConfigSpot(path, error.line) if out.path else None
        out.problems.append(
            ParseProblem(
                "config-file",
                error.message,
                error.says or error.message,
                refuses=error.refuses,
                flag=flag,
                value=path or None,
                index=places[-1],
                end=min(places[-1] + 2, len(argv)),
                config=spot,
                order=(BEFORE, 0),
            )
        )
        return out
    return Merged([*words, *out.words], [*spots, *out.origins], [], path, out.keys)


def _read(
    path: str, table: FlagTable, directory: Path | None, content: str | None
) -> tuple[list[str], list[int | ConfigSpot], dict[str, ConfigSpot]]:
    """Words of a configuration file, the place of each, and the place of each key."""
    suffix = Path(path).suffix
    if suffix.lower() not in _SUFFIXES:
        raise _Broken(
            f"{plain(path)} must be named .yaml or .yml",
            f"Config file must be YAML format, got: {suffix}",
        )
    document, lines = _load(content if content is not None else _text(path, directory))
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise _Broken(
            f"{plain(path)} holds no mapping", "Config file must contain a dictionary at root level"
        )
    words: list[str] = []
    spots: list[int | ConfigSpot] = []
    keys: dict[str, ConfigSpot] = {}
    rules = _Rules(table)
    for key, value in document.items():
        line = lines.get(key) if isinstance(key, str) else None
        if not isinstance(key, str):
            raise _Broken(f"{plain(path)}: the key {key!r} is not text", line=line)
        spot = ConfigSpot(path, line, key)
        keys[key] = spot
        try:
            added = rules.words(key, value)
        except _Broken as error:
            raise _Broken(f"{plain(path)}: {error.message}", error.says, line) from None
        words += added
        spots += [spot] * len(added)
    return words, spots, keys


def _text(path: str, directory: Path | None) -> str:
    place = Path(path) if directory is None else directory / path
    try:
        mode = place.stat().st_mode
    except (OSError, ValueError):
        raise _Broken(
            f"{plain(path)} does not exist here", f"Config file not found: {plain(path)}"
        ) from None
    if not stat.S_ISREG(mode):
        refuses = True if stat.S_ISDIR(mode) else None
        raise _Broken(f"{plain(path)} is no regular file", refuses=refuses)
    try:
        with place.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _Broken(f"{plain(path)}: {error.strerror or error}") from None
    if len(content) > MAX_BYTES:
        raise _Broken(f"{plain(path)} is too large to be read here", refuses=None)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Broken(f"{plain(path)} is not UTF-8 (byte {error.start})") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _load(text: str) -> tuple[Any, dict[str, int]]:
    """The document, and the line of each key of its mapping."""
    import yaml

    # The release's own loader: the pure Python one, which differs from libyaml in corners.
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            _weigh(node)
            document = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Broken(
            f"not YAML: {error.problem or error.context}",
            line=mark.line + 1 if mark is not None else None,
        ) from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        reason = str(error).splitlines()
        raise _Broken(f"not YAML: {reason[0] if reason else type(error).__name__}") from None
    lines = {}
    if isinstance(node, yaml.MappingNode):
        for key_node, _ in node.value:
            lines[key_node.value] = key_node.start_mark.line + 1
    return document, {key: line for key, line in lines.items() if isinstance(key, str)}


def _weigh(root: Any) -> None:
    """Stop a document whose aliases would unfold to something huge, or to no end."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        known = sizes.get(id(node))
        if known is not None:
            if not known:
                raise _Broken("the document contains itself", refuses=None)
            return known
        sizes[id(node)] = 0
        total = 1
        if isinstance(node.value, list):
            for item in node.value:
                for part in item if isinstance(item, tuple) else (item,):
                    total += size(part)
                    if total > MAX_NODES:
                        raise _Broken("the document is too large to be read here", refuses=None)
        sizes[id(node)] = total
        return total

    size(root)


class _Rules:
    """Which keys the release accepts, and how a value becomes words."""

    def __init__(self, table: FlagTable) -> None:
        assert table.config is not None
        by_names = table.config["keys"] == "names"
        own = {table.config["flag"], *HELP_NAMES}
        self.switches: set[str] = set()
        supported: set[str] = set()
        refused: dict[str, str] = {}
        for row in table.rows:
            names = row.get("names")
            if not names or own.intersection(names):
                continue
            action = row.get("action", "store")
            keys = {row["field"]}
            if by_names:
                keys |= {name[2:].replace("-", "_") for name in _all_names(row)}
            takes_one = by_names and row.get("nargs") is None and _takes_value(row, action)
            if action == "store_true":
                self.switches |= keys
                supported |= keys
            elif action == "store" or takes_one:
                supported |= keys
            else:
                refused.update(dict.fromkeys(keys, action))
        if not table.config.get("checks_actions", True):
            refused = {}
        elif by_names:
            refused = {key: action for key, action in refused.items() if key not in supported}
        self.refused: Mapping[str, str] = refused

    def words(self, key: str, value: Any) -> list[str]:
        """The words that one key stands for."""
        normal = key.replace("-", "_")
        if normal in self.refused:
            raise _Broken(
                f"{plain(key)} cannot be set in a configuration file, only on the command line",
                f"Unsupported config option {shown(normal)}",
            )
        if isinstance(value, bool):
            if normal in self.switches:
                return [f"--{key}"] if value else []
            return [f"--{key}", str(value).lower()]
        try:
            if isinstance(value, list):
                return [f"--{key}", *(str(item) for item in value)] if value else []
            if isinstance(value, dict):
                return [f"--{key}", json.dumps(value)]
            return [f"--{key}", str(value)]
        except (TypeError, ValueError, RecursionError) as error:
            raise _Broken(f"{plain(key)}: {error}") from None


def _takes_value(row: Mapping[str, Any], action: str) -> bool:
    return bool(row.get("takes_value")) or action in {"deprecated_store", "lora_paths"}


def _all_names(row: Mapping[str, Any]) -> list[str]:
    names = [name for name in row["names"] if name.startswith("--")]
    if row.get("action") == "boolean_optional":
        names += ["--no-" + name[2:] for name in names]
    return names
