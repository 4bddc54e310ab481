"""Facts of the early stages, on the values that flags can bring along."""

from __future__ import annotations

from typing import Any

import pytest
from attn_lint.matrix.facts import FACTS


def apply(name: str, *values: Any) -> Any:
    return FACTS[name].function(*values)


@pytest.mark.parametrize(
    ("domains", "accepted"),
    [
        (None, True),
        (["a.com", "::1", "[::1]", "10.0.0.1", "bücher.example"], True),
        (["http://a.com"], False),
        (["a.com:80"], False),
        (["a.com/x"], False),
        (["."], False),
        (["a..com"], False),
        ([3], False),
    ],
)
def test_media_domains(domains: Any, accepted: bool) -> None:
    assert apply("media_domains_are_hostnames", domains) is accepted


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        (None, ()),
        ({}, ()),
        ({"decode": {}}, ()),
        ({"decode": {"backend": None}, "prefill": {"bs": [1]}}, ("decode.backend", "prefill.bs")),
        ('{"decode": {"max_bs": 3}}', ("decode.max_bs",)),
        ({"decode": 3}, ()),
        ([1], ()),
    ],
)
def test_graph_settings_in_json(settings: Any, keys: tuple[str, ...]) -> None:
    assert apply("graph_json_keys", settings) == keys


def test_graph_values_in_json() -> None:
    settings = {"decode": {"backend": "full", "max_bs": 7}}
    assert apply("graph_json_decode_backend", settings) == "full"
    assert apply("graph_json_decode_max_bs", settings) == 7
    assert apply("graph_json_prefill_backend", settings) is None


@pytest.mark.parametrize(
    ("sizes", "largest", "usable"),
    [
        (None, 8, True),
        (None, 8.5, False),
        (None, "8", False),
        ([1, 2], None, True),
        ([], 8, False),
        ("12", 8, False),
        (["a"], 8, False),
    ],
)
def test_graph_sizes(sizes: Any, largest: Any, usable: bool) -> None:
    assert apply("decode_graph_sizes_usable", sizes, largest) is usable
    assert apply("prefill_graph_sizes_usable", sizes, largest) is usable


@pytest.mark.parametrize(
    ("config", "mapping", "path"),
    [
        (None, True, None),
        ('{"pack_path": "/p"}', True, "/p"),
        ({"pack_path": "/p"}, True, "/p"),
        ("[1]", False, None),
    ],
)
def test_loader_settings(config: Any, mapping: bool, path: str | None) -> None:
    assert apply("loader_config_is_mapping", config) is mapping
    assert apply("loader_pack_path", config) == path


def test_loader_settings_that_are_no_json() -> None:
    assert apply("loader_config_is_mapping", "{x") is False
