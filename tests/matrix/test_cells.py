"""Every cell of the support matrix says what the rules decide: its launches are judged."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attn_lint.matrix.loader import Release, load
from attn_lint.matrix.schema_backends import Architectures, BackendFile, Cell
from attn_lint.matrix.validate import rules_of, validate
from pydantic import ValidationError

from .launches import Cells

RELEASE = load()
DATA = Path(__file__).parents[2] / "matrix" / "data" / RELEASE.engine / RELEASE.name
BACKENDS = [file["name"] for file in RELEASE["backends"] if not file.get("alias_of")]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return Cells(RELEASE, tmp_path_factory.mktemp("models"))


def choices(release: Release, field: str) -> set[str]:
    flags = release["flags"]["flags"]
    return {choice for flag in flags if flag["field"] == field for choice in flag["choices"]}


def test_every_name_of_the_command_line_has_a_file() -> None:
    assert {file["name"] for file in RELEASE["backends"]} == choices(RELEASE, "attention_backend")


def test_aliases_stand_for_backends() -> None:
    for file in RELEASE["backends"]:
        if file.get("alias_of"):
            assert file["alias_of"] in BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_have_a_cell_for_every_feature_of_their_family(cells: Cells, backend: str) -> None:
    for name, row in cells.rows():
        if name != backend:
            continue
        wanted = {
            feature
            for feature, entry in cells.features.items()
            if entry.get("families") is None or row["family"] in entry["families"]
        }
        assert set(row["cells"]) == wanted, (backend, row["family"])


def test_cells_name_rules_that_exist(cells: Cells) -> None:
    known = {rule["id"] for _, rule in rules_of({"program": RELEASE["program"]}) if rule.get("id")}
    for backend, row, name, cell in cells.cells():
        missing = set(cell.get("rules") or ()) - known
        assert not missing, (backend, row["family"], name)
        assert not set(row.get("besides") or ()) - known


@pytest.mark.parametrize("backend", BACKENDS)
def test_launches_become_what_their_cells_say(cells: Cells, backend: str) -> None:
    wrong = []
    tried = 0
    for name, row, feature, cell in cells.cells():
        if name != backend:
            continue
        for shown in cells.launches(name, row, feature, cell):
            tried += 1
            became, rules = cells.became(name, row, feature, shown, cells.run(shown))
            if became != shown.expected:
                wrong.append(
                    f"{row['family']} {shown.label} on {shown.gpu}: the cell says "
                    f"{shown.expected}, the rules {became} {rules}"
                )
            elif rules and not set(rules) & set(cell.get("rules") or rules):
                wrong.append(f"{row['family']} {shown.label}: decided by {rules}, which it omits")
    assert tried
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cells_hold_on_every_machine_that_their_row_is_served_on(
    cells: Cells, backend: str
) -> None:
    """No plain `yes` that SGLang refuses somewhere, no plain `no` that starts there."""
    wrong = []
    for name, row in cells.rows():
        if name != backend:
            continue
        for on in cells.served(name, row):
            for _, _, feature, cell in (one for one in cells.cells() if one[1] is row):
                for shown in cells.everywhere(name, row, feature, cell, on):
                    became, rules = cells.became(name, row, feature, shown, cells.run(shown))
                    if became != shown.expected:
                        wrong.append(
                            f"{row['family']} {feature} ({shown.label}) on {on}: the cell says "
                            f"{shown.expected}, the rules {became} {rules}"
                        )
    assert not wrong, "\n".join(wrong)


def test_a_cell_that_is_wrong_is_noticed(cells: Cells) -> None:
    """Turning cells round makes the comparison fail: it does look."""
    opposite = {"yes": "no", "no": "yes"}
    noticed = 0
    for backend, row, name, cell in cells.cells():
        if name not in cells.features or cell.get("cases") or cell["support"] not in opposite:
            continue
        turned: Mapping[str, Any] = {
            **cell, "support": opposite[cell["support"]], "otherwise": "refused",
        }  # fmt: skip
        for shown in cells.launches(backend, row, name, turned):
            became, _ = cells.became(backend, row, name, shown, cells.run(shown))
            noticed += became != shown.expected
        if noticed > 25:
            return
    pytest.fail("no turned cell was noticed")


def test_sources_are_places_below_the_package(cells: Cells) -> None:
    for backend, row, name, cell in cells.cells():
        file = cell["source"]["file"]
        assert re.fullmatch(r"(srt|kernels)/[\w/.]+\.py", file), (backend, row["family"], name)
        assert cell["source"].get("symbol")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"support": True}, "quote it"),
        ({"support": "partial"}, "a partial cell says when"),
        ({"support": "partial", "when": "x", "cases": [{"works": True}]}, "one that does not"),
        ({"support": "untested", "cases": [{"works": True}]}, "untested cell has no cases"),
        ({"support": "no"}, "what happens `otherwise`"),
        ({"support": "yes", "cases": [{"works": True, "otherwise": "refused"}]}, "does not work"),
        ({"support": "yes", "elsewhere": {"refused": ["sm120"]}}, "holds on every machine"),
    ],
)
def test_half_cells_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        Cell.model_validate({**data, "source": {"file": "srt/x.py"}})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"support": "partial", "runs": ["sm90"], "otherwise": "refused"}, "the lists say"),
        ({"support": "partial", "refused": ["sm90"]}, "runs somewhere"),
        ({"support": "no", "runs": ["sm90"]}, "runs somewhere"),
    ],
)
def test_half_gpu_cells_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Architectures.model_validate({**data, "source": {"file": "srt/x.py"}})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("starts: [mp31]", "starts: []", "dsa dsa prefill_gpus: nothing is said of mp31"),
        ("starts: [mp31]", "starts: [mp31, sm90]", "dsa dsa prefill_gpus: sm90 is listed twice"),
        ("starts: [xpu]", "starts: [xpx]",
         "dsa dsa kv_fp8_e5m2: no machine has the architecture xpx"),
        ("[gfx942, gfx950], sizes", "[gfx94], sizes",
         "dsa dsa page_sizes: no machine has the architecture gfx94"),
    ],
)  # fmt: skip
def test_every_architecture_is_in_one_list_of_a_gpu_cell(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = tmp_path / RELEASE.name
    shutil.copytree(DATA, folder)
    path = folder / "backends" / "dsa.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert [str(problem) for problem in validate(folder)] == [f"backends {message}"]


def test_a_backend_is_an_alias_or_has_families() -> None:
    with pytest.raises(ValidationError, match="has families, or is an alias"):
        BackendFile.model_validate(
            {"name": "x", "title": "X", "source": {"file": "srt/x.py"}, "families": []}
        )


def test_cells_are_read_from_the_data_folder() -> None:
    assert len(list((DATA / "backends").glob("*.yaml"))) == len(RELEASE["backends"])
