"""Tables that `docs generate` wrote, and pages that do not say which models a table is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from attn_lint.docs_check.commands import run_generate
from attn_lint.docs_check.drift.engine import Checker
from attn_lint.docs_check.errors import UsageError
from attn_lint.docs_check.generate import table

from .support import FIXTURES, MODERN, TREES, copied, drift, facts, generated_pages, source

#: `alpha` takes topk > 1 with one family of models only.
REFUSAL = """

def _more_spec_checks(view):
    if {question} and view.attention_backend == "alpha" and view.speculative_eagle_topk > 1:
        raise ValueError("alpha takes topk = 1 here.")
"""
TABLE = """| Backend | Spec topk=1 | Spec topk>1 |
|---------|-------------|-------------|
| **Alpha** | ✅ | ✅ |
"""
HTML = """<table>
{caption}<thead><tr><th>Backend</th><th>Spec topk=1</th><th>Spec topk>1</th></tr></thead>
<tbody><tr><td>Alpha</td><td>✅</td><td>✅</td></tr></tbody>
</table>
"""
#: What tells the models of a table, and which: the nearest that names one family counts.
TOLD = {
    "mha mark": ("{/* attn-lint: table mha */}\n" + TABLE + "{/* attn-lint: end */}\n", "mha"),
    "mla mark": ("<!-- attn-lint: table mla -->\n" + TABLE + "<!-- attn-lint: end -->\n", "mla"),
    "a mark below another heading": (
        "## MHA\n\n{/* attn-lint: table mla */}\n" + TABLE + "{/* attn-lint: end */}\n", "mla",
    ),
    "a heading": ("## MLA models\n\n" + TABLE, "mla"),
    "the nearest heading": ("# MHA and MLA\n\n## MLA\n\n" + TABLE, "mla"),
    "a heading above one that names both": ("# MLA\n\n## MLA, not MHA\n\n" + TABLE, "mla"),
    "the text above": ("# MHA\n\nFor MLA models:\n\n" + TABLE, "mla"),
    "a caption": (HTML.format(caption="<caption>With **MLA** models</caption>\n"), "mla"),
    "nothing": (TABLE, None),
    "a table without caption": (HTML.format(caption=""), None),
    "a heading that names both": ("# MHA and MLA\n\n" + TABLE, None),
    "marks that are behind": (
        "{/* attn-lint: table mla */}\n{/* attn-lint: end */}\n\n" + TABLE, None,
    ),
    "a mark without its end": ("{/* attn-lint: table mla */}\n\n" + TABLE, None),
    "marks of no family": (
        "{/* attn-lint: table mqa */}\n" + TABLE + "{/* attn-lint: end */}\n", None,
    ),
}  # fmt: skip


def refusing(tmp_path: Path, family: str) -> Path:
    """A tree in which models of a family refuse what the table claims."""
    tree = copied(MODERN, tmp_path / family)
    question = "view.use_mla_backend" if family == "mla" else "not view.use_mla_backend"
    path = tree / "sglang" / "srt" / "arg_groups" / "overrides.py"
    path.write_text(path.read_text("utf-8") + REFUSAL.format(question=question), "utf-8")
    return tree


@pytest.mark.parametrize("refused", ["mha", "mla"])
@pytest.mark.parametrize("name", TOLD)
def test_which_models_a_table_is_about(name: str, refused: str, tmp_path: Path) -> None:
    page, told = TOLD[name]
    found = drift(page, refusing(tmp_path, refused))
    if told not in (None, refused):
        assert found == []
        return
    (one,) = found
    assert one.code == "DOC106"
    if told is None:
        # Right of one family: no proved drift, and nothing that a fix may turn wrong.
        assert (one.certainty, one.fix) == ("partial", None)
        right = "MLA" if refused == "mha" else "MHA"
        assert one.condition == f"for {right} models"
    else:
        assert one.certainty == "proved"
        assert one.fix is not None


def test_what_is_wrong_of_every_family_is_drift_without_a_heading(tmp_path: Path) -> None:
    tree = refusing(tmp_path, "mla")
    path = tree / "sglang" / "srt" / "arg_groups" / "overrides.py"
    path.write_text(path.read_text("utf-8").replace("view.use_mla_backend and ", ""), "utf-8")
    (one,) = drift(TABLE, tree)
    assert (one.code, one.certainty, one.condition) == ("DOC106", "proved", "")
    assert one.fix is not None


def test_a_statement_on_sizes_that_is_right_of_one_family(tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    path = tree / "sglang" / "srt" / "arg_groups" / "overrides.py"
    code = """

def _more_sizes(view):
    if view.attention_backend == "alpha":
        sizes = [32, 64]
        if view.use_mla_backend:
            sizes.extend([16])
        if view.page_size not in sizes:
            return {"page_size": 64}
"""
    path.write_text(path.read_text("utf-8") + code, "utf-8")
    line = "- Alpha: page_size = {}.\n"
    for right in ("32, 64", "16, 32, 64"):
        assert [one.certainty for one in drift(line.format(right), tree)] == ["partial"]
    (one,) = drift(line.format("8, 32"), tree)
    assert (one.certainty, one.fix) == ("proved", None)
    assert one.actual == "32 or 64; others become 64 (MHA); 16, 32 or 64; others become 64 (MLA)"


@pytest.mark.parametrize("layout", ["modern", "chain", "decorators", "annotated"])
def test_nothing_is_found_on_a_page_that_was_generated(layout: str) -> None:
    checker = Checker(source(TREES / layout))
    for name, page in generated_pages(checker.facts):
        assert [one.message for one in checker.check(page)] == [], name


def test_what_became_wrong_in_a_generated_table_is_found(tmp_path: Path) -> None:
    pages = dict(generated_pages(Checker(source()).facts))
    path = refusing(tmp_path, "mha")
    found = Checker(source(path)).check(pages["mha, nothing"])
    assert [(one.code, one.certainty) for one in found] == [("DOC106", "proved")]
    assert Checker(source(path)).check(pages["mla, nothing"]) == []


def test_a_generated_table_is_about_backends_of_its_family(tmp_path: Path) -> None:
    """A backend for sparse models has a handler among those of MLA models, and asserts its own."""
    tree = copied(MODERN, tmp_path / "tree")
    handlers = tree / "sglang" / "srt" / "models" / "deepseek_common"
    (file,) = [file for file in handlers.glob("*.py") if ".register(" in file.read_text("utf-8")]
    text = file.read_text("utf-8")
    file.write_text(text + '\nAttentionBackendRegistry.register("sparse", handle)\n', "utf-8")
    assert "`sparse`" not in table(facts(tree), "mla")
    right = (FIXTURES / "right.mdx").read_text("utf-8")
    assert drift(right, tree) == []


# ------------------------------------------------------------------------------- marks


def generated(page: Path, text: str) -> str:
    """A page's text once its table has been written."""
    page.write_bytes(text.encode())
    assert run_generate(MODERN, "mha", page) == 0
    assert run_generate(MODERN, "mha", page, check=True) == 0
    return page.read_bytes().decode()


def test_a_table_is_written_wherever_a_page_has_its_marks(tmp_path: Path) -> None:
    marks = "{/* attn-lint: table mha */}\nold\n{/* attn-lint: end */}\n"
    fence = f"```mdx\n{marks}```\n"
    other = "<!-- attn-lint: table mla -->\nold\n<!-- attn-lint: end -->\n"
    text = generated(tmp_path / "p.mdx", f"{fence}\n{marks}\n{other}\n{marks}")
    assert text.startswith(fence)
    assert other in text
    assert text.count("old") == 2
    assert text.count("**") == 0
    assert text.count("| `gamma`") == 2


@pytest.mark.parametrize("before", ["", "\ufeff"])
def test_marks_on_pages_with_other_line_ends(before: str, tmp_path: Path) -> None:
    marks = "{/* attn-lint: table mha */}\r\n{/* attn-lint: end */}\r\n"
    text = generated(tmp_path / "p.mdx", before + marks)
    assert text.startswith(before + "{/* attn-lint: table mha */}\r\n\r\n| Backend")
    assert "\n" not in text.replace("\r\n", "")


def test_marks_that_are_not_closed(tmp_path: Path) -> None:
    page = tmp_path / "p.mdx"
    begin, other = (f"{{/* attn-lint: table {name} */}}\n" for name in ("mha", "mla"))
    for text in (begin, f"{begin}{other}{{/* attn-lint: end */}}\n", f"```\n{begin}```\n"):
        page.write_text(text, "utf-8")
        with pytest.raises(UsageError):
            run_generate(MODERN, "mha", page)
        assert page.read_text("utf-8") == text
