"""Names of the bundled backends, and how each is made.

Creators import their kernels when called, so that listing names costs nothing. A name that is
known but has no kernel to install is kept in `not_bundled` with the reason.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from .interface.capabilities import Capabilities, Package, Refusal
from .interface.errors import BrokenBackend, NotInstalled, Refused, UnknownBackend
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
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is no name of a backend")
    if not isinstance(capabilities, Capabilities):
        raise ValueError(f"capabilities of {name!r} are {capabilities!r}, no Capabilities")
    if capabilities.name != name:
        raise ValueError(f"capabilities of {capabilities.name!r} given to {name!r}")

    def decorator(creator: Creator) -> Creator:
        from . import bundled  # noqa: F401  # their names are taken, whoever comes first

        if name in ATTENTION_BACKENDS:
            by = getattr(ATTENTION_BACKENDS[name], "__module__", "?")
            raise ValueError(f"attention backend {name!r} is registered twice: {by} has it")
        if not callable(creator):
            raise ValueError(f"what is to make {name!r} is {creator!r}, no function")
        ATTENTION_BACKENDS[name] = creator
        CAPABILITIES[name] = capabilities
        return creator

    return decorator


def create_backend(name: str, runner: ModelRunner) -> AttentionBackend:
    """Make a backend; raises UnknownBackend, or NotInstalled with what to install.

    Raises Refused where no package would help, as the backend runs on another device only, and
    BrokenBackend where the creator gives something else. What a creator raises itself has
    the name of the backend as a note.
    """
    capabilities = capabilities_of(name)
    for package in missing_packages(capabilities):
        _refuse_device(capabilities, runner)
        raise NotInstalled(package.module, package.hint)
    try:
        made = ATTENTION_BACKENDS[name](runner)
    except Exception as error:
        error.add_note(f"while making attention backend {name!r}")
        raise
    _check_made(name, capabilities, made)
    return made


def _check_made(name: str, declared: Capabilities, made: object) -> None:
    """Raise BrokenBackend for what is no backend, or one that can't do what was declared."""
    from .interface.base import AttentionBackend

    if not isinstance(made, AttentionBackend):
        raise BrokenBackend(f"the creator of {name} gave {made!r}, no AttentionBackend")
    if not isinstance(getattr(made, "capabilities", None), Capabilities):
        raise BrokenBackend(f"{type(made).__name__}, made for {name}, has no capabilities")
    modes = declared.allows.get("mode", {"target_verify"})
    if "target_verify" in modes and type(made)._verify is AttentionBackend._verify:
        raise BrokenBackend(
            f"{name} has no _verify: write one, or leave target_verify out of its modes"
        )


def capabilities_of(name: str) -> Capabilities:
    """What a backend declares; raises UnknownBackend with a suggestion."""
    if not isinstance(name, str):
        raise UnknownBackend(f"{name!r} is no name of a backend")
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


def unfit(
    capabilities: Capabilities, device: str, capability: tuple[int, int] | None
) -> str | None:
    """Why a backend says of itself that it can't run on a machine; None where it can."""
    allows = capabilities.allows
    if "device" in allows and device not in allows["device"]:
        return f"needs {' or '.join(sorted(map(str, cast(Iterable[object], allows['device']))))}"
    if device == "cuda" and "capability" in allows and capability not in allows["capability"]:
        dotted = ".".join(map(str, capability or ()))
        return f"has no kernels for compute capability {dotted}"
    return None


def _refuse_device(capabilities: Capabilities, runner: ModelRunner) -> None:
    device, capability = runner.device, None
    if device.type == "cuda":
        from .interface.base import capability_of

        capability = capability_of(device)
    why = unfit(capabilities, device.type, capability)
    if why is not None:
        reason = f"it {why}, and the pools are on {device}"
        raise Refused(capabilities.name, [Refusal(("device", "capability"), reason)])


def missing_packages(capabilities: Capabilities) -> list[Package]:
    """Packages that a backend needs and this environment lacks."""
    return [p for p in capabilities.packages if not _is_installed(p.module)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent of it is missing
        return False
