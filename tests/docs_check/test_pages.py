"""Markdown and MDX as blocks and tables with their places."""

from __future__ import annotations

import pytest
from attn_lint.docs_check.launches import commands
from attn_lint.docs_check.names import Displays
from attn_lint.docs_check.pages.claims import Mark, read_mark, read_tables, with_numbers
from attn_lint.docs_check.pages.page import parse_page
from attn_lint.docs_check.pages.tables import plain
from hypothesis import given
from hypothesis import strategies as st

MDX = """\
---
title: A page
---

import { Note } from "x"

# Top

Some `text` here.
<Note>
Inside a note: FA3 is meant.
</Note>

## Tables
<table style={{width: "100%"}}>
  <thead>
    <tr>
      <th style={{a: "b"}}>**Backend**</th>
      <th>FP8</th>
    </tr>
  </thead>
  <tbody>
    <tr>
      <td style={{color: "a > b"}}>**Alpha** (`alpha`)</td>
      <td>✅</td>
    </tr>
  </tbody>
</table>

| Name | Yes |
|------|:---:|
| a \\| b | ❌ |

1. one
2. two
   - nested

```bash
# a comment
python3 -m sglang.launch_server \\
  --model-path m \\
  --page-size 64   # why

echo done
```

<!-- a | comment -->
"""


def test_blocks() -> None:
    page = parse_page("p.mdx", MDX)
    found = [(one.kind, one.line, one.text) for one in page.blocks if one.kind != "fence"]
    assert ("heading", 7, "Top") in found
    assert ("paragraph", 11, "Inside a note: FA3 is meant.") in found
    assert ("item", 34, "one") in found
    assert ("item", 36, "nested") in found
    assert not any("comment" in text for _, _, text in found)
    (nested,) = [one for one in page.blocks if one.text == "nested"]
    assert nested.section == ("Top", "Tables")


def test_tables() -> None:
    page = parse_page("p.mdx", MDX)
    html, markdown = page.tables
    assert html.titles() == ["Backend", "FP8"]
    cell = html.rows[0][0]
    assert (cell.text, cell.line) == ("Alpha (alpha)", 24)
    assert page.lines[cell.line - 1][cell.column - 1 :].startswith("**Alpha**")
    yes = html.rows[0][1]
    assert page.lines[yes.line - 1][yes.column - 1] == "✅"
    assert markdown.titles() == ["Name", "Yes"]
    no = markdown.rows[0][1]
    assert (no.text, page.lines[no.line - 1][no.column - 1]) == ("❌", "❌")


def test_commands() -> None:
    (fence,) = parse_page("p.mdx", MDX).fences()
    launch, echo = commands(fence)
    assert launch.kind() == "server"
    assert launch.launch() == ["--model-path", "m", "--page-size", "64"]
    words = {word.text: (word.line, word.column) for word in launch.arguments()}
    lines = MDX.split("\n")
    for text, (line, column) in words.items():
        assert lines[line - 1][column - 1 :].startswith(text)
    assert echo.kind() is None


def test_a_placeholder_leaves_a_launch_open() -> None:
    text = "```\npython -m sglang.launch_server --model-path <path>\n```\n"
    (fence,) = parse_page("p.md", text).fences()
    (command,) = commands(fence)
    assert command.launch() is None


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("✅", Mark("yes")),
        ("❌", Mark("no")),
        ("Yes", Mark("yes")),
        ("No", Mark("no")),
        ("⚠️ (page_size=1 only)", Mark("partial", (1,), "page_size=1 only")),
        ("✅ (required)", Mark("yes", (), "required")),
        ("n/a", Mark("none")),
        ("—", Mark("none")),
        ("128", Mark("numbers", (128,))),
        ("32 or 64", Mark("numbers", (32, 64))),
        ("16, 32 or 64", Mark("numbers", (16, 32, 64))),
        ("16/32/64", Mark("numbers", (16, 32, 64))),
        ("{32, 64}", Mark("numbers", (32, 64))),
        ("128 [6]", Mark("numbers", (128,), "[6]")),
        ("128[^6]", Mark("numbers", (128,), "[^6]")),
        ("64 [1] or 128 [2, 3]", Mark("numbers", (64, 128), "[1] [2, 3]")),
        ("128 (SM100)", Mark("numbers", (128,), "(SM100)")),
        ("32 or 64, as on SM90", Mark("numbers", (32, 64), ", as on SM90")),
        ("128 ¹", Mark("numbers", (128,), "¹")),
        ("⚠️ [2]", Mark("partial", (), "2]")),
        ("some words", Mark("text", (), "some words")),
        ("Normal", Mark("text", (), "Normal")),
    ],
)
def test_marks(text: str, mark: Mark) -> None:
    assert read_mark(text) == mark


@pytest.mark.parametrize(
    ("raw", "numbers", "new"),
    [
        ("128<sup>6</sup>", (128,), "64 or 32<sup>6</sup>"),
        ("**128** [6](#notes)", (128,), "**64 or 32** [6](#notes)"),
        ("16, 128 [6]", (16, 128), "64 or 32 [6]"),
        ("{16, 128} (Hopper 90)", (16, 128), "64 or 32 (Hopper 90)"),
        # Not in one piece: nothing that could be replaced.
        ("<code>16</code> or <code>128</code>", (16, 128), None),
    ],
)
def test_numbers_and_what_is_behind_them(raw: str, numbers: tuple[int, ...], new: str) -> None:
    mark = read_mark(plain(raw))
    assert (mark.value, mark.numbers) == ("numbers", numbers)
    assert with_numbers(raw, mark, "64 or 32") == (new or raw)


@pytest.mark.parametrize(
    ("title", "group"),
    [
        ("FP8 KV Cache", "fp8"),
        ("KV fp8_e4m3", "fp8_e4m3"),
        ("FP8 E5M2 KV cache", "fp8_e5m2"),
        ("`mxfp8` KV", "mxfp8"),
        ("KV `nvfp4`", "nvfp4"),
        ("KV fp4_mx_block16", "fp4_mx_block16"),
        # Several dtypes: what the column is about as a whole.
        ("FP8 KV Cache (fp8_e5m2, fp8_e4m3, mxfp8)", "fp8"),
    ],
)
def test_dtypes_in_titles(title: str, group: str) -> None:
    page = parse_page("p.md", f"| Backend | {title} |\n|---|---|\n| a | ✅ |\n")
    (view,) = read_tables(page, Displays("llm", ["a"], []))
    assert [(feature, own) for feature, own, _ in view.columns] == [("kv_dtype", group)]


def test_display_names() -> None:
    displays = Displays("llm", ["fa3", "trtllm_mla", "torch_native", "intel_amx"], [])
    assert displays.find("**FA3 (FlashAttention 3)**") == "fa3"
    assert displays.find("**TRTLLM MLA (Blackwell)**") == "trtllm_mla"
    assert displays.find("**Torch Native (SDPA)**") == "torch_native"
    assert displays.find("Intel AMX (CPU)") == "intel_amx"
    assert displays.find("Something else") is None
    assert displays.mentions("fa3", "On Hopper, FlashAttention 3 is used.") == 11
    assert displays.mentions("fa3", "the fa31 kernel") == -1


@given(st.text(st.sampled_from("ab|`#-*<>/{}\"'=\n \\1.✅[]()!tdr"), max_size=200))
def test_any_text_is_a_page(text: str) -> None:
    page = parse_page("p.mdx", text)
    count = text.count("\n") + 1
    for block in page.blocks:
        for line in block.lines:
            assert 0 < line.number <= count
    for table in page.tables:
        for row in [table.header, *table.rows]:
            for cell in row:
                assert 0 < cell.line <= count
                assert cell.column >= 1
