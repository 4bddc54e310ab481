"""Pages of the finding codes: one Markdown page per code, kept beside each other as data.

A page has fixed headings (What it does, Why is this bad?, Example, Use instead); its examples are
run by the tests, so that page and behaviour cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGES = Path(__file__).parent / "pages"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its first sentence, and all of it."""

    summary: str
    text: str


def page(code: str) -> Page:
    """Return the page of a code; a code without one has an empty page."""
    path = PAGES / f"{code}.md"
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return Page("", "")
    first = next((line for line in text.splitlines() if line and not line.startswith("#")), "")
    return Page(first.rstrip("."), text)
