"""What a launch is judged for: machine, CUDA version and release, and what told them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...matrix import loader
from ..config import Config, PathSettings
from ..launches import Found


@dataclass(slots=True)
class Options:
    """What the command line asks for."""

    gpu: str | None = None
    cuda: str | None = None
    sglang: str | None = None
    folder: Path | None = None
    require_reason: bool = False


@dataclass(frozen=True, slots=True)
class Basis:
    """What a launch is judged for.

    Attributes:
        asked: the release that the launch runs on, as far as anything tells.
        release: the one of the matrix that it is judged by; `exact` where that is the same.
        told: both in words, with what they were taken from.
    """

    gpu: str | None
    cuda: str | None
    asked: str
    release: str
    exact: bool
    told: str


def basis(found: Found, config: Config, settings: PathSettings, options: Options) -> Basis:
    """Put together what is known of where a launch runs.

    What the file says comes first, then the configuration for its path, then the command line and
    the configuration's own defaults.
    """
    context = found.context
    parts = []
    gpu, origin = _first(
        (context.gpu, context.origin.get("gpu", "file")), (settings.gpu, "configuration"),
        (options.gpu, "given"), (config.gpu, "configuration"),
    )  # fmt: skip
    if gpu == "all":
        gpu = None
    if gpu is not None:
        parts.append(f"gpu {gpu} ({origin})")
    cuda = context.cuda or settings.cuda or options.cuda or config.cuda
    asked, origin = _first(
        (context.sglang, context.origin.get("sglang", "file")),
        (settings.sglang, "configuration"), (options.sglang, "given"),
        (config.sglang, "configuration"),
    )  # fmt: skip
    if asked is not None:
        parts.append(f"sglang {asked} ({origin})")
    asked = (asked or loader.DEFAULT_RELEASE).removeprefix("v")
    release, exact = (asked, True) if options.folder is not None else nearest(asked)
    if not exact:
        parts.append(f"judged by {release}")
    return Basis(gpu, cuda, asked, release, exact, ", ".join(parts))


def _first(*told: tuple[str | None, str]) -> tuple[str | None, str]:
    return next(((value, origin) for value, origin in told if value), (None, ""))


@lru_cache(maxsize=64)
def nearest(release: str) -> tuple[str, bool]:
    """The release of the matrix that is nearest to one asked for, and whether it is that one."""
    known = loader.releases() or [loader.DEFAULT_RELEASE]
    if release in known:
        return release, True
    asked = numbers(release)
    later = [name for name in known if numbers(name) >= asked]
    return (later[0] if later else known[-1]), False


def numbers(release: str) -> tuple[int, ...]:
    """A release's numbers, to be compared; what follows the third one does not count."""
    parts = []
    for part in release.removeprefix("v").split(".")[:3]:
        digits = "".join(character for character in part if character.isdecimal())
        parts.append(int(digits[:18] or 0))  # Python refuses to read thousands of digits
    return tuple(parts)
