"""Machine classes: what pages call them, and what the code's questions come to on each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..data import load
from .conditions import Condition, Either, Term

_COMPARISONS: dict[str, Callable[[Any, tuple[Any, ...]], bool]] = {
    "in": lambda actual, values: actual in values,
    "not in": lambda actual, values: actual not in values,
    "<": lambda actual, values: bool(actual < values[0]),
    "<=": lambda actual, values: bool(actual <= values[0]),
    ">": lambda actual, values: bool(actual > values[0]),
    ">=": lambda actual, values: bool(actual >= values[0]),
}

_NONE: Mapping[str, Callable[[int], bool]] = {}
_SM = re.compile(r"\bSM\s?(\d{2,3})(x?)(?!\w|\.\w)", re.I)


class Machines:
    """The machine classes of the data, and judging conditions on them."""

    def __init__(
        self, *, diffusion: bool = False, questions: Mapping[str, Callable[[int], bool]] = _NONE
    ) -> None:
        """Read the data; `questions` are those that the release itself answers by generation."""
        data = load("machines")
        self.classes: dict[str, dict[str, Any]] = data["classes"]
        self.words: dict[str, list[str]] = data["words"]
        self.families: dict[str, list[str]] = data["families"]
        self.generations: list[str] = data["generations"]
        self.predicates: dict[str, list[str]] = dict(data["predicates"])
        if diffusion:
            self.predicates.update(data["diffusion_predicates"])
        for name, holds in questions.items():
            if name in self.predicates:
                self.predicates[name] = [
                    machine
                    for machine in self.classes
                    if self.kind(machine) == "cuda" and holds(self.generation(machine))
                ]
        self.open: set[str] = set(data["open"])
        self.values: dict[str, dict[str, Any]] = data["values"]

    def kind(self, machine: str) -> str:
        """cuda, rocm, …"""
        return str(self.classes[machine]["kind"])

    def generation(self, machine: str) -> int:
        """Major number of a machine's compute capability; 0 where it has none."""
        capability = self.classes[machine].get("capability")
        return int(capability[0]) if capability else 0

    def of_kind(self, kind: str) -> list[str]:
        """Machine classes of a kind."""
        return [name for name in self.classes if self.kind(name) == kind]

    def title(self, machine: str) -> str:
        """How to call it."""
        return str(self.classes[machine]["title"])

    def titles(self, machines: Iterable[str]) -> str:
        """Several, for a sentence."""
        return ", ".join(self.title(machine) for machine in machines)

    def named(self, text: str) -> list[str]:
        """Machine classes that a text names, in the data's order.

        SM numbers make a generation's name more precise; `Blackwell SM100` is SM100.
        """
        found: set[str] = set()
        lowered = text.lower()
        for match in _SM.finditer(text):
            found |= set(self._sm(match[1], bool(match[2])))
        specific = bool(found)
        for word, machines in self.words.items():
            if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w])", lowered):
                continue
            if specific and self.kind(machines[0]) == "cuda":
                continue
            if word in self.generations or not _is_example(lowered, word):
                found |= set(machines)
        return [name for name in self.classes if name in found]

    def _sm(self, number: str, family: bool) -> list[str]:
        if family:
            return [name for name in self.classes if name.startswith(f"sm{number}")]
        return self.families.get(f"sm{number}", [f"sm{number}"] if f"sm{number}" in self.classes
                                 else [])  # fmt: skip

    def predicate(self, name: str, machine: str) -> bool | None:
        """What a question of the code comes to on a machine, or None where it hangs on more."""
        name = name.lstrip("_")
        if name in self.open:
            return None
        if name in self.predicates:
            return machine in self.predicates[name]
        if name.startswith(("is_sm", "is_blackwell", "is_hopper", "is_ampere")):
            return None
        return None

    def where(self, term: Term) -> list[str] | None:
        """Machines on which a platform term holds, or None where it is not about the class."""
        if term.subject == "platform" and term.op in {"true", "false"}:
            name = term.name.lstrip("_")
            if name not in self.predicates:
                return None
            inside = set(self.predicates[name])
            return [m for m in self.classes if (m in inside) is (term.op == "true")]
        return None

    def holds(self, term: Term | Either, machine: str) -> bool | None:
        """Whether a term holds on a machine; None where it does not follow from the class."""
        if isinstance(term, Either):
            results = [self.condition(option, machine) for option in term.options]
            if any(result is True for result in results):
                return True
            return False if all(result is False for result in results) else None
        if term.subject == "platform" and term.op in {"true", "false"}:
            found = self.predicate(term.name, machine)
            return None if found is None else found is (term.op == "true")
        if term.subject == "capability":
            return self._capability(term, machine)
        if term.subject == "device" and term.op in {"in", "not in"}:
            inside = self.kind(machine) in term.values
            return inside is (term.op == "in")
        return None

    def _capability(self, term: Term, machine: str) -> bool | None:
        capability = self.classes[machine].get("capability")
        if capability is None or not term.values:
            return False if capability is None else None
        major, minor = capability
        actual: Any
        first = term.values[0]
        if isinstance(first, tuple):
            actual = (major, minor)
        elif isinstance(first, int) and first >= 50:
            actual = major * 10 + minor
        elif isinstance(first, int):
            actual = major
        else:
            return None
        compare = _COMPARISONS.get(term.op)
        try:
            return compare(actual, term.values) if compare is not None else None
        except TypeError:
            return None

    def condition(self, condition: Condition, machine: str) -> bool | None:
        """Whether a condition holds on a machine."""
        results = [self.holds(term, machine) for term in condition]
        if any(result is False for result in results):
            return False
        return True if all(result is True for result in results) else None


def _is_example(text: str, word: str) -> bool:
    """Whether a word stands only as an example: `(e.g., H100, H200)`."""
    match = re.search(r"\((?:e\.g\.|such as)[^)]*\)", text)
    return bool(match and word in match[0] and word not in text.replace(match[0], ""))
