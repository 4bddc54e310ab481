"""The registry of bundled backends; needs no torch but where a backend is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from attn_lint.backends import (
    bundled,  # noqa: F401  # registers, before the registry is emptied here
    registry,
)
from attn_lint.backends.interface.capabilities import Capabilities, Limit, Package, Range, one_of
from attn_lint.backends.interface.errors import BrokenBackend, NotInstalled, Refused, UnknownBackend

#: A runner as far as the registry looks at it.
ON_CPU: Any = SimpleNamespace(device=SimpleNamespace(type="cpu"))


def named(name: str, *packages: Package, **allows: Any) -> Capabilities:
    return Capabilities(name, name.title(), "nothing", allows, packages=packages)


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "ATTENTION_BACKENDS", {})
    monkeypatch.setattr(registry, "CAPABILITIES", {})
    yield


def test_a_backend_is_made_by_its_creator() -> None:
    pytest.importorskip("torch")
    from attn_lint.backends.torch_native.backend import TorchNativeAttnBackend

    from .support import pool, runner, table

    made: list[Any] = []

    @registry.register_attention_backend("mine", named("mine", Package("json", "pip install it")))
    def create(runner: Any) -> Any:
        made.append(runner)
        return TorchNativeAttnBackend(runner)

    given = runner(table(), pool())
    assert isinstance(create(given), TorchNativeAttnBackend), "a decorated creator stays a function"
    assert isinstance(registry.create_backend("mine", given), TorchNativeAttnBackend)
    assert made == [given, given]
    assert registry.capabilities_of("mine").name == "mine"


def test_a_creator_that_makes_no_backend_is_named() -> None:
    pytest.importorskip("torch")
    from .support import pool, runner, table

    given = runner(table(), pool())
    register = registry.register_attention_backend
    register("nothing", named("nothing"))(lambda runner: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(
        BrokenBackend, match="the creator of nothing gave None, no AttentionBackend"
    ):
        registry.create_backend("nothing", given)

    @register("raises", named("raises"))
    def create(runner: Any) -> Any:
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck") as caught:
        registry.create_backend("raises", given)
    assert caught.value.__notes__ == ["while making attention backend 'raises'"]


@pytest.mark.parametrize(
    ("allows", "carried"),
    [({}, True), ({"mode": one_of("target_verify")}, True), ({"mode": one_of("decode")}, False)],
)
def test_a_backend_has_a_verify_where_it_says_so(allows: Any, carried: bool) -> None:
    pytest.importorskip("torch")
    from attn_lint.backends.interface.base import AttentionBackend

    from .support import pool, runner, table

    class Mine(AttentionBackend):
        capabilities = Capabilities("mine", "Mine", "nothing", allows)

        def _decode(self, *arguments: Any) -> Any:
            return None

        _extend = _decode

    registry.register_attention_backend("mine", Mine.capabilities)(Mine)
    given = runner(table(), pool())
    if carried:
        with pytest.raises(BrokenBackend, match="mine has no _verify: write one, or leave"):
            registry.create_backend("mine", given)
    else:
        assert isinstance(registry.create_backend("mine", given), Mine)


@pytest.mark.parametrize("first", ["", "import attn_lint.backends.bundled"])
@pytest.mark.parametrize("name", ["triton", "fa3"])
def test_the_name_of_a_bundled_backend_is_taken_from_the_start(name: str, first: str) -> None:
    code = f"""{first}
from attn_lint.backends import registry
from attn_lint.backends.interface.capabilities import Capabilities
try:
    registry.register_attention_backend({name!r}, Capabilities({name!r}, "", "", {{}}))(print)
except ValueError as error:
    print(error)
assert registry.ATTENTION_BACKENDS[{name!r}] is not print
print(*sorted(registry.CAPABILITIES))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, names = done.stdout.splitlines()
    assert said == (
        f"attention backend {name!r} is registered twice: attn_lint.backends.bundled has it"
    )
    assert {"torch_native", "triton", "fa3"} <= set(names.split())


@pytest.mark.parametrize("given", [None, {}, "mine"])
def test_capabilities_are_asked_for_at_once(given: Any) -> None:
    with pytest.raises(ValueError, match=r"capabilities of 'mine' are .*, no Capabilities"):
        registry.register_attention_backend("mine", given)


def test_a_name_is_a_string() -> None:
    with pytest.raises(ValueError, match="None is no name of a backend"):
        registry.register_attention_backend(None, named("mine"))  # type: ignore[arg-type]


def test_a_creator_is_a_function() -> None:
    with pytest.raises(ValueError, match="what is to make 'mine' is None, no function"):
        registry.register_attention_backend("mine", named("mine"))(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("allowed", [None, "decode", ["decode"], 3])
def test_what_is_allowed_is_a_set_or_a_range(allowed: Any) -> None:
    """A string would be asked for its parts: "code" is in "decode"."""
    message = r"mode is .*; it is one_of\(\.\.\.\) or a Range"
    with pytest.raises(ValueError, match=message):
        Capabilities("mine", "Mine", "nothing", {"mode": allowed})
    with pytest.raises(ValueError, match=message):
        Limit({"mode": allowed}, "limited")
    with pytest.raises(ValueError, match="no mapping of traits"):
        Capabilities("mine", "Mine", "nothing", allowed)


@pytest.mark.parametrize(
    "given", [{"step": 0}, {"step": -8}, {"low": None}, {"high": "8"}, {"low": 1.5}, {"step": True}]
)
def test_a_range_is_of_whole_numbers(given: Any) -> None:
    with pytest.raises(ValueError, match="is of whole numbers, with a step of 1 or more"):
        Range(**given)


@pytest.mark.parametrize("module", [".x", "x.", "", "x y", "x..y", None])
def test_a_package_is_called_by_its_import_name(module: Any) -> None:
    with pytest.raises(ValueError, match="is no name to import a package by"):
        Package(module, "pip install it")


def test_a_name_is_registered_once() -> None:
    register = registry.register_attention_backend("mine", named("mine"))
    register(lambda runner: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="'mine' is registered twice"):
        register(lambda runner: None)  # type: ignore[arg-type,return-value]


def test_capabilities_go_by_the_same_name() -> None:
    with pytest.raises(ValueError, match="capabilities of 'yours' given to 'mine'"):
        registry.register_attention_backend("mine", named("yours"))(lambda r: None)  # type: ignore[arg-type,return-value]
    assert registry.ATTENTION_BACKENDS == {}


@pytest.mark.parametrize("module", ["no_such_module_here", "no_such_module_here.part", "json.nope"])
def test_a_missing_package_is_named_with_a_way_to_get_it(module: str) -> None:
    declared = named("mine", Package("json", "it is here"), Package(module, "pip install more"))
    registry.register_attention_backend("mine", declared)(
        lambda runner: pytest.fail("created without its package")
    )
    with pytest.raises(NotInstalled, match="is not installed: pip install more"):
        registry.create_backend("mine", ON_CPU)
    assert [p.module for p in registry.missing_packages(declared)] == [module]


def test_no_package_is_asked_for_that_would_not_help() -> None:
    """With the package the backend would refuse all the same: it has no kernels for a CPU."""
    package = Package("no_such_module_here", "pip install more")
    registry.register_attention_backend("mine", named("mine", package, device=one_of("cuda")))(
        lambda runner: pytest.fail("created without its package")
    )
    with pytest.raises(Refused, match="mine refuses: it needs cuda, and the pools are on") as told:
        registry.create_backend("mine", ON_CPU)
    assert "pip" not in str(told.value)


def test_an_unknown_name() -> None:
    registry.register_attention_backend("mine", named("mine"))(lambda r: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(UnknownBackend, match=r"no bundled backend is called 'mime'; did you mean"):
        registry.capabilities_of("mime")


def test_a_name_that_is_not_bundled_says_why() -> None:
    for name, why in registry.NOT_BUNDLED.items():
        with pytest.raises(UnknownBackend) as caught:
            registry.create_backend(name, object())  # type: ignore[arg-type]
        assert why in str(caught.value)
