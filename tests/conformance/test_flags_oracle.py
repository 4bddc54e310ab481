"""The flags in the matrix against the real parser, action by action and draw by draw.

Skipped where the real release is not installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from attn_lint.docs_check.flags.collect import collect
from attn_lint.docs_check.flags.render import to_data
from attn_lint.lintcfg.flags import FlagTable, load_flags, parse

from .parser_check import DATA, Oracle, canonical, check, find_oracle, load_table

RELEASES = ("0.5.22", "0.5.23")

#: Classes of the real parser's actions, as the data calls them.
CLASSES = {
    "_StoreAction": "store",
    "_StoreTrueAction": "store_true",
    "BooleanOptionalAction": "boolean_optional",
    "DeprecatedStoreTrueAction": "deprecated_store_true",
    "DeprecatedStoreConstAction": "deprecated_store_const",
    "DeprecatedAliasStoreAction": "deprecated_store",
    "DeprecatedAction": "deprecated",
    "LoRAPathAction": "lora_paths",
}
#: Names that argparse gives to converters.
TYPES = {"loads": "json"}


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """The real release's environment."""
    found = find_oracle()
    if found is None:
        pytest.skip("the real release is not installed (ATTN_LINT_ORACLE, ORACLE_HOME)")
    return found


def tree_of(oracle: Oracle, release: str) -> Path:
    """The installed source of a release."""
    if release == RELEASES[0]:
        return next(oracle.home.glob("venv/lib/python3*/site-packages"))
    tree = oracle.home / f"sglang-{release}"
    if not tree.is_dir():
        pytest.skip(f"{release} is not installed")
    return tree


@pytest.fixture(scope="session", params=RELEASES)
def both(request: pytest.FixtureRequest, oracle: Oracle) -> tuple[FlagTable, dict[str, Any]]:
    """The extracted table of a release and the dump of its real parser."""
    tree = tree_of(oracle, request.param)
    options = [] if request.param == RELEASES[0] else ["--tree", str(tree)]
    dump = json.loads(oracle.run("--dump", *options))
    return load_flags({"flags": to_data(collect(tree)), "history": None}), dump


def described(table: FlagTable, index: int) -> dict[str, Any]:
    """One of our flags in the terms of the dump."""
    flag = table.flag(index)
    names = [name for name, row in table.names.items() if row == index]
    return {
        "dest": flag.field,
        "names": names,
        "action": flag.action,
        "type": None if flag.type == "bool" else flag.type,
        "choices": list(flag.choices) if flag.choices is not None else None,
        "nargs": flag.nargs if flag.takes_value else 0,
        "default": flag.default,
        "required": flag.required,
        "new_flag": flag.new_flag,
        "error_message": flag.error_message,
    }


def real(action: dict[str, Any]) -> dict[str, Any]:
    """One action of the dump in the same terms."""
    kind = CLASSES[action["action"]]
    converter = TYPES.get(action["type"], action["type"])
    takes_value = action["nargs"] != 0
    choices = action["choices"]
    return {
        "dest": action["dest"],
        "names": action["names"],
        "action": kind,
        "type": converter or ("str" if takes_value else None),
        "choices": choices if action["ordered"] else sorted(choices),
        "nargs": action["nargs"],
        "default": action["default"],
        "required": action["required"],
        "new_flag": action.get("new_flag"),
        "error_message": action.get("error_message"),
    }


def test_every_action_is_the_same(both: tuple[FlagTable, dict[str, Any]]) -> None:
    """Names, order, types, choices, nargs, defaults: no difference at all."""
    table, dump = both
    actions = [action for action in dump["actions"] if action["dest"] != "help"]
    ours = [index for index, row in enumerate(table.rows) if row.get("names")]
    assert len(ours) == len(actions)
    for index, action in zip(ours, actions, strict=True):
        mine = described(table, index)
        if not action["ordered"]:
            mine["choices"] = sorted(mine["choices"])
        assert mine == real(action)


def test_constants_are_the_same(both: tuple[FlagTable, dict[str, Any]]) -> None:
    """What a flag stores when it is given without a value."""
    table, dump = both
    for action in dump["actions"]:
        flag = table.by_name.get(action["names"][-1])
        if flag is None:
            continue
        if flag.nargs == "?":
            assert flag.const == action["const"]
        if flag.action == "deprecated_store_const":
            assert flag.const == action["const_value"]


def test_fields_of_the_record_are_the_same(both: tuple[FlagTable, dict[str, Any]]) -> None:
    """Every field with its order, default, fallback and whether resolution may set it."""
    table, dump = both
    values = {
        name: value
        for name, value in table.defaults.items()
        if not table.by_field[name].parser_only
    }
    assert {**values, "model_path": "m"} == dump["values"]
    assert sorted(values) == sorted(dump["fields"])
    resolvable = sorted(name for name in values if table.by_field[name].resolvable)
    assert resolvable == dump["resolvable"]
    fallbacks = {
        name: table.by_field[name].fallback
        for name in values
        if table.by_field[name].fallback is not None
    }
    assert fallbacks == dump["fallbacks"]


def test_field_order_is_the_same(both: tuple[FlagTable, dict[str, Any]], oracle: Oracle) -> None:
    """The constructor's own order."""
    table, dump = both
    data = to_data(collect(tree_of(oracle, table.release)))
    assert data["field_order"] == dump["fields"]


def test_the_data_is_up_to_date(oracle: Oracle) -> None:
    """`flags.yaml` is what the extraction gives today."""
    data = to_data(collect(tree_of(oracle, RELEASES[0])))
    path = DATA / RELEASES[0] / "flags.yaml"
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == data


@pytest.mark.parametrize("seed", [101, 102])
def test_drawn_command_lines_agree(oracle: Oracle, seed: int) -> None:
    """Outcome, kind of refusal and every value of random command lines."""
    result = check(oracle, load_table(), seed, 1500)
    assert result.accepted > 500
    assert len(result.kinds) >= 8
    shown = [(case["argv"], differences) for case, differences in result.differing[:3]]
    assert not result.differing, shown


def test_drawn_command_lines_agree_for_another_release(oracle: Oracle) -> None:
    """The same with the next release, whose rules for configuration files differ."""
    tree = tree_of(oracle, RELEASES[1])
    table = load_flags({"flags": to_data(collect(tree)), "history": None})
    result = check(oracle, table, 103, 1000, tree)
    assert not result.differing, [(case["argv"], diff) for case, diff in result.differing[:3]]


def test_the_comparison_notices_differences(oracle: Oracle) -> None:
    """A table that is wrong in one place does not pass for right."""
    table = load_table()
    row = next(row for row in table.rows if row["field"] == "page_size")
    row["type"] = "float"
    launch = parse(["--model-path", "m", "--page-size", "4"], table)
    answer = json.loads(
        oracle.run(lines=json.dumps({"argv": ["--model-path", "m", "--page-size", "4"]}) + "\n")
    )
    assert canonical(answer["changed"]["page_size"]) != canonical(launch.values["page_size"])
