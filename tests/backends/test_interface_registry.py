"""The registry of bundled backends; needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attn_lint.backends import registry
from attn_lint.backends.interface.capabilities import Capabilities, Package
from attn_lint.backends.interface.errors import NotInstalled, UnknownBackend


def named(name: str, *packages: Package) -> Capabilities:
    return Capabilities(name, name.title(), "nothing", {}, packages=packages)


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "ATTENTION_BACKENDS", {})
    monkeypatch.setattr(registry, "CAPABILITIES", {})
    yield


def test_a_backend_is_made_by_its_creator() -> None:
    made: list[Any] = []

    @registry.register_attention_backend("mine", named("mine", Package("json", "pip install it")))
    def create(runner: Any) -> Any:
        made.append(runner)
        return "backend"

    assert create("another way") == "backend", "a decorated creator stays a function"
    runner: Any = object()
    assert registry.create_backend("mine", runner) == "backend"
    assert made == ["another way", runner]
    assert registry.capabilities_of("mine").name == "mine"


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
        registry.create_backend("mine", object())  # type: ignore[arg-type]
    assert [p.module for p in registry.missing_packages(declared)] == [module]


def test_an_unknown_name() -> None:
    registry.register_attention_backend("mine", named("mine"))(lambda r: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(UnknownBackend, match=r"no bundled backend is called 'mime'; did you mean"):
        registry.capabilities_of("mime")


def test_a_name_that_is_not_bundled_says_why() -> None:
    for name, why in registry.NOT_BUNDLED.items():
        with pytest.raises(UnknownBackend) as caught:
            registry.create_backend(name, object())  # type: ignore[arg-type]
        assert why in str(caught.value)
