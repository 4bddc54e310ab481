"""Finds the machine that a `--gpu` name means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..matrix.platforms import platform_values
from .errors import UsageError
from .terminal import shown

_NOISE = re.compile(r"[^a-z0-9]+")
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}")
#: Words that say nothing about which card it is.
_VENDOR_WORDS = ("nvidia", "amd", "intel", "instinct", "geforce", "tesla", "gpu", "huawei")


#: Kinds that are not called by their own name.
_KIND_NAMES = {"hip": "ROCm"}


def _key(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _bare(name: str) -> str:
    key = _key(name)
    for word in _VENDOR_WORDS:
        key = key.replace(word, "")
    return key


class Platforms:
    """The machines of a release, by name and by the names that people use."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.rows = list(rows)
        self.by_name = {row["name"]: row for row in self.rows}
        self._index: dict[str, str] = {}
        for row in self.rows:
            for name in (row["name"], *row["synonyms"], row["architecture"]):
                self._index.setdefault(_key(name), row["name"])
        for row in self.rows:
            if row.get("device_name"):
                self._index.setdefault(_key(row["device_name"]), row["name"])
                self._index.setdefault(_bare(row["device_name"]), row["name"])

    def find(self, name: str) -> str:
        """Return the platform's own name for any of its names.

        Raises:
            UsageError: no such machine; the text suggests close names.
        """
        if "," in name:
            raise UsageError(
                f"--gpu takes one machine, not {shown(name)}; --gpu all lists every one"
            )
        for key in (_key(name), _bare(name)):
            if key in self._index:
                return self._index[key]
        # `NVIDIA-H100-80GB-HBM3-MIG-…`, `H200-SXM5-141GB`: the longest known name it starts with.
        bare = _bare(name)
        prefixes = [key for key in self._index if len(key) >= 2 and bare.startswith(key)]
        if prefixes:
            longest = max(prefixes, key=len)
            rest = bare[len(longest) :]
            # `h1000` is no H100: what follows a number must not be another digit.
            if not (longest[-1].isdigit() and rest[:1].isdigit() and not rest.endswith("gb")):
                return self._index[longest]
        import difflib

        close = difflib.get_close_matches(_key(name), self._index, 3, 0.6)
        names = sorted({self._index[key] for key in close}) or [
            row["name"] for row in self.rows if row["representative"]
        ]
        raise UsageError(
            f"unknown GPU {shown(name)}; known ones include {', '.join(names)}; its architecture "
            "does as well (sm86, gfx942, …); attn-lint resolve --gpu all lists every one"
        )

    def values(self, name: str, cuda: str | None = None) -> dict[str, Any]:
        """`platform.*` values of one machine, with another CUDA version where one is given."""
        row = self.by_name[name]
        if cuda is not None:
            if row["kind"] != "cuda":
                raise UsageError(f"--cuda does not apply to {row['title']}")
            if not _VERSION.fullmatch(cuda):
                raise UsageError(f"--cuda takes a version such as 12.8, not {shown(cuda)}")
            row = {**row, "cuda": cuda if "." in cuda else f"{cuda}.0"}
        return {f"platform.{key}": value for key, value in platform_values(dict(row)).items()}

    def representatives(self, kind: str | None = None) -> list[str]:
        """One machine for each class that the release tells apart, of all kinds or of one."""
        return [
            row["name"]
            for row in self.rows
            if row["representative"] and kind in (None, row["kind"])
        ]

    def shared_values(self, kind: str, cuda: str | None = None) -> dict[str, Any]:
        """`platform.*` values that all machines of a kind have in common."""
        several = [
            self.values(row["name"], cuda if kind == "cuda" else None)
            for row in self.rows
            if row["kind"] == kind
        ]
        first = several[0]
        return {
            name: value
            for name, value in first.items()
            if all(other[name] == value for other in several)
        }


def kind_name(kind: str) -> str:
    """What people call a kind of machine."""
    return _KIND_NAMES.get(kind) or kind.upper()
