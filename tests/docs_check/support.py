"""What the tests of the docs checker share."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_lint.docs_check.drift.engine import check_pages
from attn_lint.docs_check.drift.findings import DriftFinding, Report
from attn_lint.docs_check.facts.code import CodeFacts
from attn_lint.docs_check.facts.diffusion import DiffusionFacts
from attn_lint.docs_check.features import FAMILIES
from attn_lint.docs_check.generate import between_marks, table
from attn_lint.docs_check.listing import listing
from attn_lint.docs_check.pages.page import Page, parse_page
from attn_lint.docs_check.reporting import as_text
from attn_lint.docs_check.source.tree import SourceTree

_PREPOSITIONS = "apart from|as|at|except|for|if|in|of|on|under|unless|where|with"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "docs"
TREES = FIXTURES / "trees"
MODERN = TREES / "modern"


def source(path: Path = MODERN) -> SourceTree:
    """A source tree of the fixtures."""
    return SourceTree.find(path)


def facts(path: Path = MODERN) -> CodeFacts:
    """Facts of a source tree of the fixtures."""
    return CodeFacts(source(path))


def drift(text: str, path: Path = MODERN, name: str = "page.mdx") -> list[DriftFinding]:
    """Findings of a page given as text."""
    return check_pages(source(path), [parse_page(name, text)])


#: Pages for a generated table: what may stand around its marks.
AROUND = {
    "nothing": "{marks}",
    "its heading": "# Attention\n\n## {family} backends\n\n{marks}",
    "a heading of another family": "## {other} models\n\n{marks}",
    "other headings": "# Kernels\n\nIn the code.\n\n{marks}\n\n## Notes\n\nMore on {other}.\n",
    "the other table": "{marks}\n\n{others}",
}


def generated_pages(own: CodeFacts) -> Iterator[tuple[str, Page]]:
    """Pages that `docs generate` wrote the tables of a tree into."""
    tables = {family: table(own, family) for family in FAMILIES}
    for family, other in (FAMILIES, FAMILIES[::-1]):
        marks, others = (
            f"{{/* attn-lint: table {name} */}}\n{{/* attn-lint: end */}}"
            for name in (family, other)
        )
        for around, template in AROUND.items():
            text = template.format(
                marks=marks, others=others, family=family.upper(), other=other.upper()
            )
            for name in FAMILIES if others in text else (family,):
                text = between_marks(text, name, tables[name], "page.mdx")
            yield f"{family}, {around}", parse_page("page.mdx", text)


def ill_worded(found: list[DriftFinding]) -> list[str]:
    """Findings whose text has a hole, says a name twice, or whose condition is no end of “true …”.

    In a text report the condition stands behind “true”, which most prepositions and no clause
    can follow.
    """
    wrong = []
    for one in found:
        texts = (one.message, one.claim, one.actual, one.condition)
        (line,) = [
            line for line in as_text(Report([one])).split("\n") if line.startswith("  true")
        ] or ["  true  if nothing is said of it"]
        if (
            any(re.search(r"  |\(\)|^\s|\s$|\b(only|unless|except|when) \1\b", t) for t in texts)
            or re.search(r"`([^`]+)` \(\1\)", one.message)
            or not re.match(rf"  true  (?:{_PREPOSITIONS}) \S", line)
        ):
            wrong.append(f"{one.message} / {line}")
    return wrong


def copied(path: Path, target: Path) -> Path:
    """A copy of a source tree that a test may change."""
    shutil.copytree(path, target)
    return target


def statements(path: Path) -> dict[str, Any]:
    """Every fact of a tree without its place, in an order that does not hang on the source's."""
    own = facts(path)
    return {
        topic: _unordered(records)
        for topic, records in listing(own, DiffusionFacts(own)).items()
        if topic != "root"
    }


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _unordered(item)
            for key, item in value.items()
            if key not in {"file", "line", "symbol"}
        }
    if isinstance(value, list):
        return sorted((_unordered(item) for item in value), key=repr)
    return value
