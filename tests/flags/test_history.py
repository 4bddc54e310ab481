"""Names of older releases: the data, and what the parser makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from attn_lint.lintcfg.flags import FlagTable, parse
from attn_lint.matrix.schema_flags import CommandsFile, FlagsFile, HistoryFile

MODEL = ["--model-path", "m"]


def test_the_data_fits_its_schema(sections: dict[str, Any]) -> None:
    FlagsFile.model_validate(sections["flags"])
    HistoryFile.model_validate(sections["history"])
    CommandsFile.model_validate(sections["commands"])


def test_former_names_are_gone_and_replacements_exist(
    table: FlagTable, sections: dict[str, Any]
) -> None:
    for entry in sections["history"]["flags"]:
        assert entry["name"] not in table.names
        for spelled in entry.get("replacement", ()):
            name, _, value = spelled.replace("=", " ").partition(" ")
            flag = table.by_name[name]
            if value and flag.choices:
                assert value in flag.choices, spelled


def test_former_values_are_gone_and_replacements_exist(
    table: FlagTable, sections: dict[str, Any]
) -> None:
    for entry in sections["history"]["values"]:
        for name in entry["flags"]:
            flag = table.by_name[name]
            assert flag.names[0] == name
            assert flag.choices is not None
            assert entry["value"] not in flag.choices
            assert set(entry.get("replacement", ())) <= set(flag.choices)


def test_added_values_are_choices(table: FlagTable, sections: dict[str, Any]) -> None:
    for name, values in sections["history"]["added"].items():
        assert set(values) <= set(table.by_name[name].choices or ())


@pytest.mark.parametrize(
    ("words", "removed_in", "replacement"),
    [
        (["--attention-backend", "cutlass_mla"], "0.5.20", "trtllm_mla"),
        (["--decode-attention-backend", "cutlass_mla"], "0.5.20", "trtllm_mla"),
        (["--attention-backend", "dual_chunk_flash_attn"], "0.5.20", None),
        (["--kv-cache-dtype", "fp4_e2m1"], "0.5.21", "fp4_mx_block16"),
        (["--nsa-prefill-backend", "fa3"], "0.5.20", "--dsa-prefill-backend"),
        (["--nsa-decode-b", "fa3"], "0.5.20", "--dsa-decode-backend"),
        (["--nsa-prefill", "x"], "0.5.4", "--dsa-prefill-backend"),
        (["--enable-flashinfer-mla"], "0.4.8", "--attention-backend flashinfer"),
        (["--enable-flashmla"], "0.4.8", "--attention-backend flashmla"),
        (["--enable-ep-moe"], "0.5.5", "--ep-size"),
    ],
)
def test_removed_names_say_when_and_what_instead(
    table: FlagTable, words: list[str], removed_in: str, replacement: str | None
) -> None:
    launch = parse([*MODEL, *words], table)
    assert launch.refusal is not None
    assert launch.refusal.kind == "removed"
    assert launch.refusal.history is not None
    assert launch.refusal.history["removed_in"] == removed_in
    assert f"removed in {removed_in}" in launch.refusal.message
    assert launch.refusal.replacement == replacement
    if replacement:
        assert replacement in launch.refusal.message


def test_a_former_name_can_be_ambiguous_today(table: FlagTable) -> None:
    launch = parse([*MODEL, "--cuda-graph-max-bs", "16"], table)
    assert launch.refusal is not None
    assert launch.refusal.kind == "ambiguous"
    assert launch.refusal.replacement == "--cuda-graph-max-bs-decode"
    assert "removed in" in launch.refusal.message
