"""Real releases: their names and registries, and what was found by hand in two real pages.

Trees are looked for in ATTN_LINT_RELEASES (or ~/.cache/attn-lint-releases) as `VERSION/sglang`.
With ATTN_LINT_NETWORK set, a missing one is fetched from the package index. What is known of them
stands in ATTN_LINT_DOCS_CASES (or a folder beside the checkout). Without these, tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.docs_check.data import load
from attn_lint.docs_check.drift.engine import Checker, check_pages
from attn_lint.docs_check.drift.findings import DriftFinding
from attn_lint.docs_check.facts.code import CodeFacts
from attn_lint.docs_check.features import backends_of, support
from attn_lint.docs_check.pages.page import read_page
from attn_lint.docs_check.source.tree import SourceTree
from attn_lint.lintcfg.docs_judge import judge_for
from attn_lint.matrix.loader import data_folder

from .support import generated_pages, ill_worded

ROOT = Path(__file__).parents[2]
CASES = Path(os.environ.get("ATTN_LINT_DOCS_CASES") or ROOT.parent / "shared" / "cases")
PAGES = CASES.parent / "docs-pages"
RELEASES = Path(
    os.environ.get("ATTN_LINT_RELEASES") or Path.home() / ".cache" / "attn-lint-releases"
)


def _cases(name: str) -> Any:
    file = CASES / name
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


HISTORY: list[dict[str, Any]] = _cases("name-history.json").get("versions", [])
DRIFT: dict[str, list[dict[str, Any]]] = _cases("drift.json")


@cache
def release(version: str) -> SourceTree:
    """The source of a release."""
    folder = RELEASES / version
    if not (folder / "sglang").is_dir():
        if not os.environ.get("ATTN_LINT_NETWORK"):
            pytest.skip(f"no source of {version} in {RELEASES}, and ATTN_LINT_NETWORK is not set")
        _fetch(version, folder)
    return SourceTree.find(folder)


def _fetch(version: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder),
         f"sglang=={version}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no network: {done.stderr.strip()[-200:]}")
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(
                folder, [name for name in archive.namelist() if name.endswith(".py")]
            )
        wheel.unlink()


@pytest.mark.skipif(not HISTORY, reason="no history of names here")
@pytest.mark.parametrize("entry", HISTORY, ids=[entry["version"] for entry in HISTORY])
def test_names_and_registry(entry: dict[str, Any]) -> None:
    facts = CodeFacts(release(entry["version"]))
    assert facts.names == entry["names"]
    assert list(facts.registry) == entry["registry"]["names"]
    for name, values in entry["other_flags"].items():
        flag = facts.flags.get(name)
        assert (flag.values() if flag else None) == (
            entry["names"] if values == "same list" else values
        )
    assert facts.tree.problems == []


def findings(version: str) -> list[DriftFinding]:
    """Findings on both pages, with the judge where there is one."""
    if not PAGES.is_dir():
        pytest.skip("no pages here")
    pages = [read_page(path, path.name) for path in sorted(PAGES.glob("*.mdx"))]
    tree = release(version)
    return check_pages(tree, pages, judge_for(tree.version(), pages))


@pytest.mark.parametrize("version", [entry["version"] for entry in HISTORY] or ["0.5.22"])
def test_nothing_is_found_on_a_page_that_was_generated(version: str) -> None:
    checker = Checker(release(version))
    for name, page in generated_pages(checker.facts):
        assert [one.message for one in checker.check(page)] == [], name


def test_no_generated_cell_says_the_opposite_of_the_matrix() -> None:
    """The matrix is held against the running argument code; what both decide has to agree."""
    facts = CodeFacts(release("0.5.22"))
    features = load("columns")["audited"]
    opposite = []
    for file in sorted(Path(data_folder(release="0.5.22"), "backends").glob("*.yaml")):
        row = yaml.safe_load(file.read_text(encoding="utf-8"))
        for family in row.get("families", ()):
            if row["name"] not in backends_of(facts, family["family"]):
                continue
            for key in features.keys() & family["cells"].keys():
                entry = features[key]
                found = support(facts, row["name"], family["family"], entry["feature"],
                                entry.get("group", ""))  # fmt: skip
                told = {found.value if found else "", family["cells"][key]["support"]}
                if told == {"yes", "no"}:
                    opposite.append((row["name"], family["family"], key))
    assert opposite == []


@pytest.mark.skipif(not DRIFT, reason="no disagreements to look for")
def test_what_was_found_by_hand() -> None:
    found = findings("0.5.22")
    missed = [
        drift["id"]
        for drift in DRIFT["drifts"]
        if not any(
            one.path == drift["page"] and abs(one.line - drift["line"]) <= 2 for one in found
        )
    ]
    assert missed == []
    # Findings on the line of a claim that agrees are about something else on that line.
    lines = {(drift["page"], drift["line"]) for drift in DRIFT["drifts"]}
    flagged = [
        agreement["id"]
        for agreement in DRIFT["agreements"]
        if (agreement["page"], agreement["line"]) not in lines
        and any((one.path, one.line) == (agreement["page"], agreement["line"]) for one in found)
    ]
    assert len(flagged) <= 1, flagged


@pytest.mark.parametrize(
    "version", [entry["version"] for entry in HISTORY] or [pytest.param("", marks=pytest.mark.skip)]
)
def test_pages_can_be_held_against_every_release(version: str) -> None:
    found = findings(version)
    assert found
    assert ill_worded(found) == []
    assert not any(one.code in {"DOC190", "DOC192"} and one.line for one in found)
