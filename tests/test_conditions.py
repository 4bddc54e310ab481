"""The rule language: normal form, evaluation, and three-valued logic."""

from __future__ import annotations

import pytest
from attn_lint.lintcfg.resolver.evaluate import Evaluator, NameState
from attn_lint.lintcfg.resolver.values import UNKNOWN, Unknown, join
from attn_lint.matrix.conditions import (
    LanguageError,
    names_in,
    normalise_condition,
    normalise_expression,
)

SETS = {"odd": [1, 3, 5]}
TABLES = {"twice": {"a": "aa"}}


def truth(condition: object, **state: object) -> bool | None:
    node = normalise_condition(condition, SETS.get)
    return Evaluator({}).condition(node)(
        NameState({k.replace("__", "."): v for k, v in state.items()})
    )


def value(expression: object, **state: object) -> object:
    node = normalise_expression(expression, SETS.get, TABLES.get)
    return Evaluator({}).expression(node)(NameState(state))


@pytest.mark.parametrize(
    ("condition", "state", "expected"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": [1, 2]}, {"a": 2}, True),
        ({"a": ["x", None]}, {"a": None}, True),
        ({"a": ["x", "y"]}, {"a": ["x"]}, False),
        ({"a": "$set.odd"}, {"a": 3}, True),
        ({"a": {"in": ["$set.odd", 7]}}, {"a": 7}, True),
        ({"a": {"not_in": "$set.odd"}}, {"a": 2}, True),
        ({"a": {"gt": 1}}, {"a": None}, False),
        ({"a": {"gt": "$b"}}, {"a": 2, "b": 1}, True),
        ({"a": {"set": True, "ne": "$b"}}, {"a": 2, "b": 2}, False),
        ({"a": {"truthy": True}}, {"a": 0}, False),
        ({"a": {"at_least": "12.8"}}, {"a": "12.10"}, True),
        ({"a": {"at_least": "12.8"}}, {"a": None}, False),
        ({"a": {"contains": "x"}}, {"a": ("x", "y")}, True),
        ({"a": {"contains": "x"}}, {"a": None}, False),
        ({"a": {"startswith": "gfx95"}}, {"a": "gfx950:sramecc+"}, True),
        ({"a": {"multiple_of": 0}}, {"a": 4}, False),
        ({"a": {"multiple_of": 4}}, {"a": 8}, True),
        ({"a": {"overlaps": ["x"]}}, {"a": ["y", "x"]}, True),
        ({"a": {"subset_of": ["x"]}}, {"a": ["y", "x"]}, False),
        ({"any": [{"a": 1}, {"b": 1}]}, {"a": 2, "b": 1}, True),
        ({"not": {"a": 1}}, {"a": 1}, False),
        ({}, {}, True),
    ],
)
def test_known_values(condition: object, state: dict[str, object], expected: bool) -> None:
    assert truth(condition, **state) is expected


@pytest.mark.parametrize(
    ("condition", "state", "expected"),
    [
        ({"a": 1}, {}, None),
        ({"a": 1, "b": 1}, {"b": 2}, False),
        ({"any": [{"a": 1}, {"b": 1}]}, {"b": 1}, True),
        ({"not": {"a": 1}}, {}, None),
        ({"a": {"gt": 1}}, {"a": Unknown((2, 3))}, True),
        ({"a": {"gt": 2}}, {"a": Unknown((2, 3))}, None),
        ({"a": [2, 3]}, {"a": Unknown((2, 3))}, True),
        ({"a": {"eq": "$b"}}, {"a": Unknown((2, 3)), "b": 4}, False),
        ({"a": {"set": True}}, {"a": Unknown((None, 3))}, None),
    ],
)
def test_unknown_values(condition: object, state: dict[str, object], expected: bool | None) -> None:
    assert truth(condition, **state) is expected


@pytest.mark.parametrize(
    ("expression", "state", "expected"),
    [
        (3, {}, 3),
        ("$a", {"a": 2}, 2),
        ({"add": ["$a", 1]}, {"a": 2}, 3),
        ({"floordiv": ["$a", "$b"]}, {"a": 7, "b": 0}, None),
        ({"max": ["$a", 3]}, {"a": None}, None),
        ({"coalesce": ["$a", "$b", 1]}, {"a": None, "b": 0}, 0),
        ({"or": ["$a", "$b"]}, {"a": None, "b": 0}, 0),
        ({"if": {"a": 1}, "then": "x", "else": "y"}, {"a": 2}, "y"),
        ({"lookup": "twice", "key": "$a", "default": "none"}, {"a": "a"}, "aa"),
        ({"lookup": "twice", "key": "$a", "default": "none"}, {"a": None}, "none"),
        ({"upper": "$a"}, {"a": "eagle"}, "EAGLE"),
        ({"literal": {"a": 1}}, {}, {"a": 1}),
    ],
)
def test_expressions(expression: object, state: dict[str, object], expected: object) -> None:
    assert value(expression, **state) == expected


def test_an_expression_over_candidates_has_candidates() -> None:
    result = value({"add": ["$a", 1]}, a=Unknown((1, 2)))
    assert isinstance(result, Unknown)
    assert result.candidates == (2, 3)


def test_an_unknown_choice_joins_both_sides() -> None:
    result = value({"if": {"a": 1}, "then": "x", "else": "y"})
    assert isinstance(result, Unknown)
    assert result.candidates == ("x", "y")


@pytest.mark.parametrize(
    "condition",
    [
        {"a": {"bigger": 1}},
        {"a": {}},
        {"all": []},
        {"any": {"a": 1}},
        {"a": "$set.missing"},
        {"a": ["$b"]},
        {"a": {"set": 1}},
        {"a": {"in": "x"}},
        [1],
        {1: 2},
    ],
)
def test_what_is_not_the_language_is_refused(condition: object) -> None:
    with pytest.raises(LanguageError):
        normalise_condition(condition, SETS.get)


@pytest.mark.parametrize(
    "expression",
    [
        {"add": []},
        {"sub": [1]},
        {"if": {}},
        {"lookup": "none", "key": 1},
        {"a": 1, "b": 2},
        {"x": 1},
    ],
)
def test_what_is_no_expression_is_refused(expression: object) -> None:
    with pytest.raises(LanguageError):
        normalise_expression(expression, SETS.get, TABLES.get)


def test_names_are_listed_in_reading_order() -> None:
    node = normalise_condition({"b": {"gt": "$c"}, "not": {"a": 1}}, SETS.get)
    assert list(names_in(node)) == ["b", "c", "a"]


def test_joining_keeps_what_agrees() -> None:
    assert join(1, 1) == 1
    assert join(UNKNOWN, 1) is UNKNOWN
    both = join(Unknown((1, 2)), 3)
    assert both.candidates == (1, 2, 3)
