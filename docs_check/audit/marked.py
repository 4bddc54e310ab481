"""Reads YAML with the line of every key, so that a finding can name its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ...matrix.errors import MatrixDataError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Marked(dict[str, Any]):
    """A mapping that knows its line (1-based), and that of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.line = 0
        self.lines: dict[str, int] = {}


def read(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        MatrixDataError: it is missing or broken.
    """
    try:
        text = path.read_text(encoding="utf-8")
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return _value(loader, node) if node is not None else None
        finally:
            loader.dispose()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise MatrixDataError([f"{path}: {error}"]) from None


def _value(loader: Any, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        found = Marked()
        found.line = node.start_mark.line + 1
        for key, value in node.value:
            name = str(loader.construct_object(key))
            found[name] = _value(loader, value)
            found.lines[name] = key.start_mark.line + 1
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item) for item in node.value]
    return loader.construct_object(node)


_LABELS = ("id", "name", "field", "stage", "family", "backend")


def sources(content: Any, label: str = "") -> Iterator[tuple[Marked, int, str]]:
    """Every `source` of a file: itself, its line, and what it belongs to."""
    if isinstance(content, Marked):
        own = next(
            (str(content[key]) for key in _LABELS if isinstance(content.get(key), str)), None
        )
        label = own or label
        for key, value in content.items():
            if key == "source" and isinstance(value, Marked):
                yield value, content.lines[key], label
            elif isinstance(value, (Marked, list)):
                inner = key if own is None and isinstance(value, Marked) else label
                yield from sources(value, f"{label} {key}".strip() if own else inner)
    elif isinstance(content, list):
        for item in content:
            yield from sources(item, label)
