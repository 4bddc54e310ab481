"""Corrections of a page: what has one right value, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from attn_lint.docs_check.drift.findings import DriftFinding, PageFix
from attn_lint.docs_check.fixes import difference, fixed, write

from .support import FIXTURES, drift

RIGHT = (FIXTURES / "right.mdx").read_text(encoding="utf-8")
WRONG = (
    RIGHT.replace("16, 32, 64 or 128", "16, 32 or 64")
    .replace("| n/a | ❌ | ❌ | ✅ |", "| n/a | ❌ | ✅ | ❌ |")
    .replace("--attention-backend beta_mla ", "--attention-backend omega ")
)


def finding(line: int, column: int, old: str, new: str) -> DriftFinding:
    """A finding with a fix."""
    fix = PageFix(line, column, old, new)
    return DriftFinding("DOC1", "n", "k", "error", "p", line, column, "m", "c", "a", fix=fix)


def test_a_wrong_page_becomes_right_but_for_what_has_no_one_answer() -> None:
    found = drift(WRONG)
    text, made = fixed(WRONG, found)
    assert len(made) == 3
    assert text == RIGHT.replace("--attention-backend beta_mla ", "--attention-backend omega ")
    assert [one.code for one in drift(text)] == ["DOC112"]
    assert fixed(text, drift(text)) == (text, [])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_stay(end: str) -> None:
    page = WRONG.replace("\n", end)
    text, _ = fixed(page, drift(page))
    assert text == fixed(WRONG, drift(WRONG))[0].replace("\n", end)


def test_several_in_a_line() -> None:
    text, made = fixed(
        "a b c\nd\n", [finding(1, 1, "a", "aaa"), finding(1, 5, "c", ""), finding(1, 3, "b", "B")]
    )
    assert (text, len(made)) == ("aaa B \nd\n", 3)


def test_what_does_not_fit_is_left() -> None:
    text, made = fixed(
        "abc", [finding(1, 1, "x", "y"), finding(2, 1, "a", "b"), finding(1, 2, "bc", "d"),
                finding(1, 2, "b", "e")],
    )  # fmt: skip
    assert (text, len(made)) == ("ad", 1)


def test_a_difference() -> None:
    assert difference("p", "a\nb", "a\nc") == (
        "--- p\n+++ p\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n"
        "+c\n\\ No newline at end of file\n"
    )
    assert difference("p", "a", "a") == ""


def test_writing_keeps_mode_and_link(tmp_path: Path) -> None:
    page, link = tmp_path / "page.md", tmp_path / "link.md"
    page.write_text("old")
    page.chmod(0o640)
    link.symlink_to(page)
    write(link, "new")
    assert page.read_text() == "new"
    assert page.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "page.md"]
