"""Every fixture with the whole of what is found in it, one folder for each kind of file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.inventory import entry
from attn_lint.lintcfg.check.runner import Options, Runner
from attn_lint.lintcfg.config import Config

FIXTURES = Path(__file__).parents[2] / "fixtures" / "launches"
INPUTS = sorted(
    path
    for path in FIXTURES.rglob("*")
    if path.is_file() and not path.name.endswith(".expected.json")
)
RUNNER = Runner(Options(), Config())


@pytest.fixture(autouse=True)
def _in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES)


def found(path: Path) -> dict[str, object]:
    """Everything that is told of a file: launches, the place of each word, what was skipped."""
    name = path.relative_to(FIXTURES).as_posix()
    report = RUNNER.extract(name, path.read_bytes().decode("utf-8"))
    table = RUNNER.default_judge.flags
    return {
        "launches": [
            {
                **entry(name, one, report.lines, table),
                "places": [
                    "{}:{}".format(*report.lines.place(word.start))
                    for word in max(one.variants, key=lambda variant: len(variant.words)).words
                ],
                "variants": len(one.variants),
            }
            for one in report.launches
        ],
        "skipped": [
            f"{report.lines.place(one.start)[0]}: {one.what}: {one.reason}"
            for one in report.skipped
        ],
    }


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_a_file_yields_the_launches_written_beside_it(path: Path) -> None:
    expected = path.with_name(path.name + ".expected.json")
    got = found(path)
    if os.environ.get("UPDATE_FIXTURES"):
        expected.write_text(json.dumps(got, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert got == json.loads(expected.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_a_word_that_is_known_stands_where_it_is_said_to(path: Path) -> None:
    if path.parent.name == "beside":
        pytest.skip("words of a file beside it stand where that is named")
    text = path.read_text(encoding="utf-8")
    report = RUNNER.extract(path.name, text)
    for one in report.launches:
        for variant in one.variants:
            for word in variant.words:
                if word.open or one.kind != "shell" or one.wrapper or word.text == "--model-path":
                    continue
                # Each run of characters is in the file as it is in the word.
                for number, start in enumerate(word.starts):
                    end = (*word.starts, len(word.text))[number + 1]
                    run, place = word.text[start:end], word.places[number]
                    if run == "--":
                        continue  # a key of a configuration file has none
                    assert text[place : place + len(run)] == run


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_line_endings_change_nothing_but_places(path: Path) -> None:
    if path.suffix == ".ipynb":
        pytest.skip("line breaks of a notebook stand in its strings")
    text = path.read_text(encoding="utf-8")
    table = RUNNER.default_judge.flags

    def told(content: str) -> list[tuple[object, ...]]:
        report = RUNNER.extract(path.relative_to(FIXTURES).as_posix(), content)
        return [
            (one["line"], one["flags"], one["env"], one["unknown"])
            for one in (entry(path.name, f, report.lines, table) for f in report.launches)
        ]

    assert told(text.replace("\n", "\r\n")) == told(text)


def test_no_negative_yields_a_launch() -> None:
    for path in (FIXTURES / "negatives").iterdir():
        if path.suffix != ".json":
            report = RUNNER.extract(path.name, path.read_text(encoding="utf-8"))
            assert report.launches == [], path.name
