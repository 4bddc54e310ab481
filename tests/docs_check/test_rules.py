"""Each rule on a page that is right but for one thing."""

from __future__ import annotations

import pytest

from .support import FIXTURES, drift, ill_worded

RIGHT = (FIXTURES / "right.mdx").read_text(encoding="utf-8")
DIFFUSION = (FIXTURES / "right_diffusion.mdx").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["right.mdx", "right_diffusion.mdx"])
def test_a_page_that_agrees_has_no_findings(name: str) -> None:
    assert drift((FIXTURES / name).read_text(encoding="utf-8"), name=name) == []


#: What is changed, the code, the certainty, and the fix where there is one.
CHANGES = [
    ("| **Delta** |", "| **Omega** |", "DOC102 DOC101", "proved", None),
    ("`old_beta` is another word for `beta_mla`.", "", "DOC103", "proved", None),
    ("| 16, 32, 64 or 128 |", "| 16, 32 or 64 |", "DOC104", "proved", "16, 32, 64 or 128"),
    ("| 32 or 64 |", "| 64 |", "DOC104", "proved", "32 or 64"),
    ("| n/a | ❌ | ❌ |", "| n/a | ❌ | ✅ |", "DOC105", "proved", "❌"),
    ("| 32 or 64 | ✅ | ❌ |", "| 32 or 64 | ✅ | ✅ |", "DOC105", "proved", "❌"),
    ("| 32 or 64 | ✅ |", "| 32 or 64 | ❌ |", "DOC105", "proved", "✅"),
    ("128 | ❌ | ❌ | ❌ |", "128 | ❌ | ✅ | ❌ |", "DOC106", "proved", "❌"),
    ("| **Delta** | ✅ | ❌ | ✅ |", "| **Delta** | ✅ | ❌ | ❌ |", "DOC106", "proved", "✅"),
    ("✅ | ✅ | ✅ |\n| **Gamma**", "✅ | ❌ | ✅ |\n| **Gamma**", "DOC107", "proved", "✅"),
    ("| ❌ | ❌ |\n\n### MLA", "| ❌ | ✅ |\n\n### MLA", "DOC108", "proved", "❌"),
    ("**Beta MLA**", "**Beta MLA (Hopper)**", "DOC109", "proved", None),
    ("| `tiles_q8` | ❌ | ✅ |", "| `tiles_q8` | ✅ | ✅ |", "DOC111", "proved", None),
    ("| `tiles` | ✅ | ✅ |\n", "", "DOC111", "proved", None),
    ("--attention-backend beta_mla ", "--attention-backend omega ", "DOC112", "proved", None),
    ("attention_registry.py", "registry_of_attention.py", "DOC113", "proved", None),
    ("| ✅ | ✅ | ✅ |\n| **Beta", "| ❌ | ✅ | ✅ |\n| **Beta", "DOC116", "proved", "✅"),
    ("The registry is", "Set `--chunk-limit` (default: `512`). The registry is",
     "DOC118", "proved", None),
    ("The registry is", "Sparse is specifically designed for Widget 3. The registry is",
     "DOC110", "partial", None),
    ("The registry is", "Set `--chunk-limits`. The registry is", "DOC119", "review", None),
    ("The registry is", "Give `--attention-backend omega`. The registry is",
     "DOC112", "proved", None),
    ("The registry is", "Give `--decode-attention-backend=omega`. The registry is",
     "DOC112", "proved", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "code", "certainty", "fix"), CHANGES,
    ids=[f"{change[2]}-{number}" for number, change in enumerate(CHANGES)],
)  # fmt: skip
def test_one_thing_that_is_wrong(
    old: str, new: str, code: str, certainty: str, fix: str | None
) -> None:
    assert RIGHT.count(old) >= 1
    found = drift(RIGHT.replace(old, new, 1))
    assert [one.code for one in found] == code.split(), [one.message for one in found]
    assert found[0].certainty == certainty
    assert ill_worded(found) == []
    assert (found[0].fix.new if found[0].fix else None) == fix


@pytest.mark.parametrize(
    "text", ["`--attention-backend beta_mla`", "`--attention-backend <name>`",
             "`--attention-backend NAME`", "`--attention-backend`", "--attention-backend omega"],
)  # fmt: skip
def test_a_value_in_the_text_that_is_right_or_none(text: str) -> None:
    assert drift(RIGHT.replace("The registry is", f"Give {text}. The registry is", 1)) == []


DIFFUSION_CHANGES = [
    ("| `rocm_only` | `ROCM_ONLY` | For AMD. |\n", "", "DOC102"),
    ("| `tile_attn` | `TILE_ATTN` |", "| `tile_attn` | `TILES_ATTN` |", "DOC101"),
    ("`fa` / `fa3` / `fa4`", "`fa` / `fa3`", "DOC103"),
    ("| `tile_attn` | Yes | No |", "| `tile_attn` | Yes | Yes |", "DOC109"),
    ("| `rocm_only` | No | Yes |", "| `rocm_only` | No | No |", "DOC109"),
    ("`tile_mode`", "`tile_modes`", "DOC115"),
    ("| `fast` |", "| `slow` |", "DOC115"),
]


@pytest.mark.parametrize(("old", "new", "code"), DIFFUSION_CHANGES)
def test_one_thing_that_is_wrong_about_diffusion(old: str, new: str, code: str) -> None:
    assert DIFFUSION.count(old) >= 1
    text = DIFFUSION.replace(old, new, 1)
    if code == "DOC103":
        text = text.replace("`fa3` and `fa4` become `fa`.", "")
    found = drift(text)
    assert code in {one.code for one in found}, [one.message for one in found]
