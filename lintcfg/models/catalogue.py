"""Public model ids and the configurations that they publish.

`models.yaml` holds the keys that matter; an entry may inherit another's. An id that is not in it
may still be a copy of one that is: a mirror, or the same model in another number format.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]


class Catalogue:
    """Looks up ids, whatever their case.

    Args:
        data: section `models`.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.quantizations: Mapping[str, Values] = data["quantizations"]
        self.entries: dict[str, Mapping[str, Any]] = {}
        self.names: dict[str, str] = {}
        self.short: dict[str, str] = {}
        for entry in data["models"]:
            self.entries[entry["id"]] = entry
            for name in (entry["id"], *entry.get("also", ())):
                self.names[name.lower()] = entry["id"]
                self.short.setdefault(name.rpartition("/")[2].lower(), entry["id"])
        assumptions = data["assumptions"]
        self.mirrors = tuple(assumptions["mirrors"])
        self.suffixes = [
            (re.compile(row["suffix"] + r"\Z", re.IGNORECASE), row)
            for row in assumptions["suffixes"]
        ]

    def find(self, name: str) -> tuple[Values, str] | None:
        """The configuration of an id and where it comes from, or None where nothing is known."""
        entry = self.names.get(name.lower())
        if entry is not None:
            return self.configuration(entry), "catalogue"
        return self._assumed(name)

    def _assumed(self, name: str) -> tuple[Values, str] | None:
        owner, _, short = name.lower().rpartition("/")
        if not owner or "/" in owner:
            return None
        if owner in self.mirrors and short in self.short:
            entry = self.short[short]
            return self.configuration(entry), f"assumed from {entry}"
        for pattern, row in self.suffixes:
            stem = pattern.sub("", short)
            if stem == short:
                continue
            entry_name = self.names.get(f"{owner}/{stem}") or self.short.get(stem)
            if entry_name is None:
                continue
            values = self.configuration(entry_name)
            values.pop("quantization_config", None)
            nested = values.get("text_config")
            if isinstance(nested, dict):
                nested.pop("quantization_config", None)
            quant = row.get("owners", {}).get(owner, row.get("quant"))
            if quant is not None:
                values["quantization_config"] = copy.deepcopy(self.quantizations[quant])
            return values, f"assumed from {entry_name}"
        return None

    def configuration(self, name: str) -> Values:
        """The configuration of an entry, everything inherited and expanded."""
        expanded: Values = _expand(self._inherit(name, 0))
        return expanded

    def _inherit(self, name: str, depth: int) -> Values:
        entry = self.entries[name]
        if depth > 16:
            raise ValueError(f"{name} inherits itself")
        if "config" in entry:
            values: Values = copy.deepcopy(dict(entry["config"]))
        else:
            values = self._inherit(entry["base"], depth + 1)
        for path in entry.get("unset", ()):
            place, key = _place(values, path)
            place.pop(key, None)
        for path, value in entry.get("set", {}).items():
            place, key = _place(values, path)
            place[key] = copy.deepcopy(value)
        if "quant" in entry:
            values["quantization_config"] = copy.deepcopy(self.quantizations[entry["quant"]])
        return values


def _place(values: Values, path: str) -> tuple[Values, str]:
    *parents, key = path.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    return values, key


def _expand(value: Any) -> Any:
    """Write out `{cycle: [...], length: N}`."""
    if isinstance(value, dict):
        if value.keys() == {"cycle", "length"}:
            cycle = value["cycle"]
            return [cycle[number % len(cycle)] for number in range(value["length"])]
        return {key: _expand(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner) for inner in value]
    return value
