"""The support matrix, laid out."""

from __future__ import annotations

import json

import pytest
from attn_lint.matrix import show
from attn_lint.matrix.errors import UnknownName
from attn_lint.matrix.loader import load

RELEASE = load()


def test_one_backend_in_all_its_families() -> None:
    rows = show.rows(RELEASE, backend="flashinfer")
    assert [row.family for row in rows] == ["mha", "mla"]
    assert all(row.backend == "flashinfer" for row in rows)


def test_a_group_of_families() -> None:
    groups = {
        RELEASE["features"]["families"][row.family]["group"]
        for row in show.rows(RELEASE, family="sparse")
    }
    assert groups == {"sparse"}
    assert {row.family for row in show.rows(RELEASE, family="mla")} == {"mla"}


def test_an_alias_shows_what_it_stands_for() -> None:
    alias = next(file for file in RELEASE["backends"] if file.get("alias_of"))
    rows = show.rows(RELEASE, backend=alias["name"])
    real = show.rows(RELEASE, backend=alias["alias_of"])
    assert [row.cells for row in rows] == [row.cells for row in real]
    assert rows[0].alias_of == alias["alias_of"]
    assert f"another name for {alias['alias_of']}" in show.as_text(RELEASE, rows, detail=True)


@pytest.mark.parametrize(("kind", "name", "guess"), [
    ("backend", "trtlm_mha", "trtllm_mha"), ("family", "mlaa", "mla"),
])  # fmt: skip
def test_a_name_that_is_none(kind: str, name: str, guess: str) -> None:
    with pytest.raises(UnknownName, match=rf"no {kind} named '{name}' \(did you mean {guess}\?\)"):
        show.rows(RELEASE, **{kind: name})


def test_text_lists_every_cell_with_its_source() -> None:
    rows = show.rows(RELEASE, backend="trtllm_mha")
    text = show.as_text(RELEASE, rows, detail=True)
    for feature in rows[0].cells:
        title = show.FRAME.get(feature) or RELEASE["features"]["features"][feature]["title"]
        assert title in text
    for cell in rows[0].cells.values():
        assert cell["source"]["file"] in text
    assert max(map(len, text.splitlines())) < 180


def test_tables_are_rectangular_and_name_every_row() -> None:
    rows = show.rows(RELEASE)
    for title, lines in show.tables(RELEASE, rows):
        assert len({len(line) for line in lines}) == 1, title
    frame = next(show.tables(RELEASE, rows))[1]
    assert len(frame) == len(rows) + 1
    text = show.as_text(RELEASE, rows, detail=False)
    assert all(row.backend in text for row in rows)


def test_markdown_has_one_row_a_line() -> None:
    rows = show.rows(RELEASE, family="mla")
    text = show.as_markdown(RELEASE, rows, detail=False)
    table = text.split("\n\n")[1].splitlines()
    assert len(table) == len(rows) + 2
    assert len({line.count("|") for line in table}) == 1
    detail = show.as_markdown(RELEASE, rows[:1], detail=True)
    assert "| feature | support | condition | source |" in detail


def test_json_is_plain_and_whole() -> None:
    rows = show.rows(RELEASE, backend="fa4")
    data = json.loads(json.dumps(show.as_json(RELEASE, rows)))
    assert data["release"] == RELEASE.name
    assert set(data["rows"][0]["cells"]) == set(rows[0].cells)
    assert set(data["features"]) == set(RELEASE["features"]["features"])
