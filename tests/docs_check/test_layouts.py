"""The same facts from every layout that releases have had."""

from __future__ import annotations

import pytest
from attn_lint.docs_check.facts.paging import allowed_sizes

from .support import TREES, facts

LAYOUTS = ["chain", "decorators", "annotated"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_and_registry(layout: str) -> None:
    own = facts(TREES / layout)
    assert own.names == ["alpha", "beta_mla", "gamma"]
    assert list(own.registry) == ["alpha", "beta_mla", "gamma"]
    classes = {
        name: [made.segment.name for made in entry.implementations]
        for name, entry in own.registry.items()
    }
    assert classes == {
        "alpha": ["AlphaAttnBackend"],
        "beta_mla": ["BetaMLABackend"],
        "gamma": ["GammaAttnBackend"],
    }
    assert own.tree.problems == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_page_sizes(layout: str) -> None:
    own = facts(TREES / layout)
    beta = allowed_sizes(own, "beta_mla", None)
    gamma = allowed_sizes(own, "gamma", None)
    assert beta is not None
    assert (beta[0], beta[1].outcome, beta[1].target) == ((64,), "snapped", 64)
    assert gamma is not None
    assert (gamma[0], gamma[1].outcome) == ((16, 32), "refused")
    assert allowed_sizes(own, "alpha", None) is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_places(layout: str) -> None:
    own = facts(TREES / layout)
    assert own.backend_flag is not None
    for choice in own.backend_flag.choices:
        place = choice.place.evidence()
        lines = own.tree.text(place.file)
        assert lines is not None
        assert f'"{choice.value}"' in lines.split("\n")[place.line - 1]
    for name, entry in own.registry.items():
        place = entry.place.evidence()
        text = own.tree.text(place.file)
        assert text is not None
        assert f'"{name}"' in text.split("\n")[place.line - 1]


def test_the_release() -> None:
    assert facts(TREES / "chain").version == "7.0.0"
    assert facts(TREES / "modern").version == "9.1.0"


def test_a_default_inside_of_argument_handling() -> None:
    found = [(one.backend, one.family) for one in facts(TREES / "chain").decisions]
    assert found == [("gamma", "mha"), ("alpha", "mha"), ("beta_mla", "mla")]
