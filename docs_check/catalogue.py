"""The codes of the docs checker and of the audit, with the pages that explain them.

A rule's page is the docstring of its module.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from .audit import codes as audit
from .drift import holes
from .drift.context import RuleInfo
from .drift.diffusion import RULES as DIFFUSION_RULES
from .drift.rules import RULES

_HEADINGS = {
    "What it does": "What it does",
    "Why": "Why is this bad?",
    "Example": "Example",
    "Fix": "Use instead",
}
_PART = re.compile(rf"^({'|'.join(_HEADINGS)}): ", re.M)


@dataclass(frozen=True, slots=True)
class Entry:
    """A code: its name, its severity, one sentence about it and its page."""

    code: str
    name: str
    severity: str
    summary: str
    text: str


@cache
def entries() -> dict[str, Entry]:
    """Every code, in order."""
    found: dict[str, Entry] = {}
    for module in (*RULES, *DIFFUSION_RULES):
        for info in _own(module):
            found.setdefault(info.code, _entry(info, inspect.getdoc(module) or ""))
    for module in (holes, audit):
        for info, doc in module.PAGES:
            found[info.code] = _entry(info, doc)
    return dict(sorted(found.items()))


def _own(module: ModuleType) -> list[RuleInfo]:
    return [value for value in vars(module).values() if isinstance(value, RuleInfo)]


def _entry(info: RuleInfo, doc: str) -> Entry:
    summary = doc.partition("\n")[0].rstrip(".")
    return Entry(info.code, info.name, info.severity, summary, _page(doc))


def _page(doc: str) -> str:
    """A docstring as a page with headings."""
    parts = _PART.split(doc)
    text = [parts[0].strip()]
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        words = " ".join(body.split())
        text.append(f"## {_HEADINGS[heading]}\n\n{words[:1].upper()}{words[1:]}")
    return "\n\n".join(text)


def describe(code: str) -> tuple[str, str]:
    """A code's summary and severity."""
    entry = entries().get(code)
    return (entry.summary, entry.severity) if entry is not None else (code, "warning")
