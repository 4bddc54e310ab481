"""Capabilities as data: the algebra of refusals, and what every bundled backend declares."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from attn_lint.backends import bundled  # noqa: F401  # registers
from attn_lint.backends.interface.capabilities import (
    NO,
    TRAITS,
    YES,
    Capabilities,
    Limit,
    Range,
    Request,
    one_of,
    tolerance_of,
)
from attn_lint.backends.interface.errors import Refused
from attn_lint.backends.interface.modes import AttentionType, ForwardMode
from attn_lint.backends.registry import CAPABILITIES
from hypothesis import given
from hypothesis import strategies as st

DTYPES = ("float32", "float16", "bfloat16")
VALUES: dict[str, tuple[Any, ...]] = {
    "device": ("cpu", "cuda"),
    "capability": (None, (8, 0), (9, 0), (10, 0)),
    "mode": ("decode", "extend", "target_verify"),
    "dtype": DTYPES,
    "kv_dtype": (*DTYPES, "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"),
    "page_size": (1, 16, 64),
    "q_heads": (4, 32),
    "kv_heads": (1, 4),
    "qk_head_dim": (64, 128),
    "window": (False, True),
    "causal": (False, True),
    "graph": (False, True),
    "draft_tokens": (0, 4),
}


def sets(name: str) -> st.SearchStrategy[Any]:
    return st.sets(st.sampled_from(VALUES[name])).map(frozenset)


NAMES = st.sampled_from(sorted(VALUES))
TRAIT_SETS = st.lists(NAMES, unique=True, max_size=5).flatmap(
    lambda names: st.fixed_dictionaries({name: sets(name) for name in names})
)
REQUESTS = st.builds(Request, **{name: st.sampled_from(values) for name, values in VALUES.items()})


def made(allows: dict[str, Any], *limits: dict[str, Any]) -> Capabilities:
    return Capabilities(
        "it", "It", "nothing", allows, tuple(Limit(when, "limited") for when in limits)
    )


@given(TRAIT_SETS, REQUESTS)
def test_a_request_is_carried_when_every_trait_is_allowed(
    allows: dict[str, Any], request: Request
) -> None:
    outside = {name for name in allows if getattr(request, name) not in allows[name]}
    refusals = made(allows).refusals(request)
    assert {r.traits for r in refusals} == {(name,) for name in outside}
    assert len(refusals) == len(outside), "one reason for each trait"
    assert all(r.reason and "it" in r.reason for r in refusals)


@given(TRAIT_SETS, TRAIT_SETS, REQUESTS)
def test_a_limit_only_ever_takes_away(
    allows: dict[str, Any], when: dict[str, Any], request: Request
) -> None:
    free, limited = made(allows).refusals(request), made(allows, when).refusals(request)
    assert limited[: len(free)] == free
    speaks = all(getattr(request, name) in when[name] for name in when)
    assert (len(limited) > len(free)) == speaks


@given(TRAIT_SETS, NAMES, REQUESTS, st.data())
def test_allowing_more_never_refuses_more(
    allows: dict[str, Any], name: str, request: Request, data: st.DataObject
) -> None:
    wider = {**allows, name: allows.get(name, frozenset(VALUES[name])) | data.draw(sets(name))}
    assert len(made(wider).refusals(request)) <= len(made(allows).refusals(request))


@given(TRAIT_SETS, REQUESTS)
def test_an_idle_pass_needs_nothing(allows: dict[str, Any], request: Request) -> None:
    assert made(allows).refusals(replace(request, mode="idle")) == []


@given(st.integers(-5, 300), st.integers(0, 64), st.integers(0, 300), st.integers(1, 32))
def test_a_range_holds_multiples_between_its_ends(
    value: int, low: int, high: int, step: int
) -> None:
    assert (value in Range(low, high, step)) == (
        value in range(low, high + 1) and value % step == 0
    )


def test_a_range_holds_whole_numbers_only() -> None:
    assert 16 in Range(1)
    np = pytest.importorskip("numpy")
    assert np.int64(16) in Range(1, step=8)
    assert all(x not in Range(1) for x in (True, 1.0, "1", None, (1,)))


@pytest.mark.parametrize("where", ["allows", "limits"])
def test_a_misspelt_trait_is_an_error(where: str) -> None:
    with pytest.raises(ValueError, match="no such trait: page_sise"):
        made({"page_sise": NO}) if where == "allows" else made({}, {"page_sise": NO})


def test_capabilities_can_not_be_changed() -> None:
    with pytest.raises(TypeError):
        made({}).allows["mode"] = NO  # type: ignore[index]


@pytest.mark.parametrize(
    ("allows", "request_", "reason"),
    [
        ({"window": NO}, Request(window=True), "it has no support for a sliding window"),
        ({"window": YES}, Request(), "it needs a sliding window"),
        ({"causal": YES}, Request(causal=False), "it has no bidirectional attention"),
        ({"causal": NO}, Request(), "it has no causal attention"),
        ({"same_dtype": YES}, Request(kv_dtype="fp8_e4m3"), "of different dtypes"),
        ({"page_size": Range(16, step=16)}, Request(page_size=1), "multiples of 16 from 16"),
        (
            {"capability": one_of((9, 0), None, (10, 0))},
            Request(capability=(8, 6)),
            "compute capability 8.6 is not among what it takes: none, 9.0, 10.0",
        ),
        ({"mode": one_of()}, Request(), "takes: nothing"),
    ],
)
def test_reasons_say_what_is_wrong_and_what_is_not(
    allows: dict[str, Any], request_: Request, reason: str
) -> None:
    (refusal,) = made(allows).refusals(request_)
    assert reason in refusal.reason


def test_a_refusal_tells_where_its_limit_comes_from() -> None:
    limits = (
        Limit({"window": YES}, "no windows", "libwindow 2.1: window.cu"),
        Limit({"sinks": YES}, "no sinks"),
    )
    request = Request(window=True, sinks=True)
    refusals = Capabilities("it", "It", "nothing", {"window": NO}, limits).refusals(request)
    assert [r.source for r in refusals] == ["", "libwindow 2.1: window.cu", ""]
    assert [r.reason for r in refusals[1:]] == ["no windows", "no sinks"], "as evidence has them"
    assert str(Refused("it", refusals)) == (
        "it refuses: it has no support for a sliding window; "
        "no windows (libwindow 2.1: window.cu); no sinks"
    )


def test_traits_that_follow_from_others() -> None:
    request = Request(q_heads=32, kv_heads=8, qk_head_dim=192, v_head_dim=128, dtype="float16")
    assert (request.group, request.unequal_kv_dims, request.same_dtype) == (4, True, False)
    assert not replace(request, family="mla").unequal_kv_dims
    assert all(hasattr(request, trait) for trait in TRAITS)


def test_tolerances_are_those_of_the_dtype() -> None:
    assert tolerance_of("float32", "fp8_e4m3") < tolerance_of("float16", "float16")
    assert tolerance_of("float16", "float16") < tolerance_of("bfloat16", "bfloat16")


def test_a_declared_tolerance_counts_for_its_dtypes_alone() -> None:
    own = Capabilities("a", "A", "a", {}, tolerances={("bfloat16", "fp8_e4m3"): 0.08})
    narrow = Request(dtype="bfloat16", kv_dtype="fp8_e4m3")
    assert own.tolerance(narrow) == 0.08
    for other in (replace(narrow, kv_dtype="fp8_e5m2"), replace(narrow, dtype="float16")):
        assert own.tolerance(other) == tolerance_of(other.dtype, other.kv_dtype)


# What is declared

KNOWN: dict[str, set[Any]] = {
    "device": {"cpu", "cuda"},
    "mode": {mode.value for mode in ForwardMode} - {"idle"},
    "family": {"mha", "mla"},
    "dtype": set(DTYPES),
    "kv_dtype": set(VALUES["kv_dtype"]),
    **{f.name: {True, False} for f in fields(Request) if f.type == "bool"},
    "unequal_kv_dims": {True, False},
    "same_dtype": {True, False},
}


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_declared_values_are_ones_that_exist(name: str) -> None:
    declared = CAPABILITIES[name]
    for where in (declared.allows, *(limit.when for limit in declared.limits)):
        for trait, allowed in where.items():
            if trait in KNOWN and not isinstance(allowed, Range):
                assert set(allowed) <= KNOWN[trait], f"{trait} of {name}"
            elif trait == "capability" and not isinstance(allowed, Range):
                assert all(c is None or (len(c) == 2 and c[0] >= 7) for c in allowed)
    for dtype, kv_dtype in declared.tolerances:
        assert dtype in DTYPES
        assert kv_dtype in KNOWN["kv_dtype"]


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_every_backend_says_what_it_is_and_needs(name: str) -> None:
    declared = CAPABILITIES[name]
    assert declared.name == name
    assert declared.title
    assert declared.runs
    assert declared.packages, "all of them need torch at least"
    assert all(package.hint for package in declared.packages)
    assert all(limit.reason for limit in declared.limits)


def test_what_backends_have_in_common_is_said_once() -> None:
    """An object of its own for each would be a text of its own to keep the same."""
    declared = CAPABILITIES.values()
    packages = {id(p) for each in declared for p in each.packages if p.module == "torch"}
    limits = {id(n) for each in declared for n in each.limits if set(n.when) == {"causal", "mode"}}
    assert (len(packages), len(limits)) == (1, 1)


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_every_backend_refuses_what_nothing_carries(name: str) -> None:
    for odd in (
        Request(dtype="float64"),
        Request(dtype="int8"),
        Request(kv_dtype="int4"),
        Request(device="tpu"),
        Request(mode="split_prefill"),
        Request(mode="target_verify", draft_tokens=4, causal=False),
    ):
        assert CAPABILITIES[name].refusals(odd), f"{name} takes {odd}"


def test_declaring_imports_no_kernels() -> None:
    heavy = ("torch", "triton", "flashinfer", "flash_mla", "flash_attn", "sgl_kernel", "numpy")
    code = (
        "import sys\n"
        "from attn_lint.backends import bundled, registry\n"
        "for capabilities in registry.CAPABILITIES.values():\n"
        "    registry.missing_packages(capabilities)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_attention_types_are_sglangs() -> None:
    assert [t.value for t in AttentionType] == ["decoder", "encoder_only"]
