"""Names of the bundled backends, and how each is made.

Creators import their kernels when called, so that listing names costs nothing. A name that is
known but has no kernel to install is kept in `not_bundled` with the reason.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from .interface.capabilities import Capabilities, Package
from .interface.errors import NotInstalled, UnknownBackend
from .not_bundled import NOT_BUNDLED

if TYPE_CHECKING:
    from .interface.base import AttentionBackend
    from .interface.runner import ModelRunner

Creator = Callable[["ModelRunner"], "AttentionBackend"]

ATTENTION_BACKENDS: dict[str, Creator] = {}
CAPABILITIES: dict[str, Capabilities] = {}


def register_attention_backend(
    name: str, capabilities: Capabilities
) -> Callable[[Creator], Creator]:
    """Register a function that makes a backend for a runner, with what the backend carries."""

    def decorator(creator: Creator) -> Creator:
        if name in ATTENTION_BACKENDS:
            raise ValueError(f"attention backend {name!r} is registered twice")
        if capabilities.name != name:
            raise ValueError(f"capabilities of {capabilities.name!r} given to {name!r}")
        ATTENTION_BACKENDS[name] = creator
        CAPABILITIES[name] = capabilities
        return creator

    return decorator


def create_backend(name: str, runner: ModelRunner) -> AttentionBackend:
    """Make a backend; raises UnknownBackend, or NotInstalled with what to install."""
    capabilities = capabilities_of(name)
    for package in missing_packages(capabilities):
        raise NotInstalled(package.module, package.hint)
    return ATTENTION_BACKENDS[name](runner)


def capabilities_of(name: str) -> Capabilities:
    """What a backend declares; raises UnknownBackend with a suggestion."""
    if name not in CAPABILITIES:
        from . import bundled  # noqa: F401  # registers
    if name not in CAPABILITIES and name in NOT_BUNDLED:
        raise UnknownBackend(f"{name} is not bundled: {NOT_BUNDLED[name]}")
    if name not in CAPABILITIES:
        close = difflib.get_close_matches(name, CAPABILITIES, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        known = ", ".join(sorted(CAPABILITIES))
        raise UnknownBackend(f"no bundled backend is called {name!r}{hint} (there are {known})")
    return CAPABILITIES[name]


def missing_packages(capabilities: Capabilities) -> list[Package]:
    """Packages that a backend needs and this environment lacks."""
    return [p for p in capabilities.packages if not _is_installed(p.module)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent of it is missing
        return False
