"""What a launch is judged for: machine, CUDA version and release, and what told them."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from ..matrix import loader
from ..matrix.record import mutable_record, record, replaced
from .config import Config, PathSettings
from .findings import SEVERITIES, Finding
from .platforms import kind_name

if TYPE_CHECKING:
    from .context import Context
    from .judge import Judgement


@mutable_record
class Options:
    """What the command line asks for."""

    gpu: str | None = None
    cuda: str | None = None
    sglang: str | None = None
    folder: str | None = None
    require_reason: bool = False


@record
class Basis:
    """What a launch is judged for.

    Attributes:
        asked: the release that the launch runs on, as far as anything tells.
        release: the one of the matrix that it is judged by; `exact` where that is the same.
        told: machine and release in words, with what they were taken from; `configured` where the
            configuration told any of it.
        own: names of what the launch itself says.
        kind: the kind of machine, for where no machine is named or none of its name is known;
            `kind_origin`: what told it.
    """

    gpu: str | None
    cuda: str | None
    asked: str
    release: str
    exact: bool
    told: str
    own: frozenset[str] = frozenset()
    configured: bool = False
    kind: str | None = None
    kind_origin: str = ""

    @property
    def older(self) -> bool:
        """Whether the launch runs on a release before the one that it is judged by."""
        return not self.exact and numbers(self.asked) < numbers(self.release)

    @property
    def machines(self) -> str:
        """The machines that stand for one that is not known, in words."""
        kind = f"{kind_name(self.kind)} " if self.kind else ""
        return f"every class of {kind}machine"

    @property
    def whole(self) -> str:
        """All that is told of the machine, or of its kind, and of the release."""
        if self.gpu is not None or self.kind is None:
            return self.told
        kind = f"{self.machines} ({self.kind_origin})"
        return f"{kind}, {self.told}" if self.told else kind


def basis(
    context: Context | None, config: Config, settings: PathSettings, options: Options
) -> Basis:
    """Put together what is known of where a launch runs.

    What its file or its own words say comes first, then the configuration for its path, then the
    command line and the configuration's own defaults.
    """
    parts = []
    origins = []
    gpu, origin = _first(
        _said(context, "gpu"), (settings.gpu, "configuration"), (options.gpu, "given"),
        (config.gpu, "configuration"),
    )  # fmt: skip
    cuda, cuda_origin = _first(
        _said(context, "cuda"), (settings.cuda, "configuration"), (options.cuda, "given"),
        (config.cuda, "configuration"),
    )  # fmt: skip
    kind, kind_origin = _first(_said(context, "kind"), (cuda and "cuda", cuda_origin))
    if gpu == "all":
        gpu = kind = None
    if gpu is not None:
        parts.append(f"gpu {gpu} ({origin})")
        origins.append(origin)
    asked, origin = _first(
        _said(context, "sglang"), (settings.sglang, "configuration"), (options.sglang, "given"),
        (config.sglang, "configuration"),
    )  # fmt: skip
    if asked is not None:
        parts.append(f"sglang {asked} ({origin})")
        origins.append(origin)
    if cuda is not None and cuda_origin != origin:
        parts.append(f"cuda {cuda} ({cuda_origin})")
        origins.append(cuda_origin)
    asked = (asked or loader.DEFAULT_RELEASE).removeprefix("v")
    release, exact = (asked, True) if options.folder is not None else nearest(asked)
    if not exact:
        parts.append(f"judged by {release}")
    own = frozenset(name for name in ("gpu", "cuda", "sglang") if _said(context, name)[0])
    return Basis(
        gpu, cuda, asked, release, exact, ", ".join(parts), own,
        "configuration" in origins, kind, kind_origin,
    )  # fmt: skip


def _said(context: Context | None, name: str) -> tuple[str | None, str]:
    """What the launch itself says, and where in it."""
    if context is None:
        return None, ""
    return getattr(context, name), context.origin.get(name, "file")


def _first(*told: tuple[str | None, str]) -> tuple[str | None, str]:
    return next(((value, origin) for value, origin in told if value), (None, ""))


_nearest: dict[str, tuple[str, bool]] = {}


def nearest(release: str) -> tuple[str, bool]:
    """The release of the matrix that is nearest to one asked for, and whether it is that one."""
    found = _nearest.get(release)
    if found is None:
        known = [loader.DEFAULT_RELEASE]
        if release not in known:
            known = loader.releases() or known
        if release in known:
            found = release, True
        else:
            asked = numbers(release)
            later = [name for name in known if numbers(name) >= asked]
            found = (later[0] if later else known[-1]), False
        _nearest[release] = found
    return found


def is_release(text: str) -> bool:
    """Whether a text is a version at all."""
    return re.fullmatch(r"v?\d+(\.\d+){1,3}(\.?(post|rc|dev)\d+)?", text) is not None


def numbers(release: str) -> tuple[int, ...]:
    """A release's numbers, to be compared; what follows the third one does not count."""
    parts = []
    for part in release.removeprefix("v").split(".")[:3]:
        digits = "".join(takewhile(str.isdecimal, part))  # 22rc1 comes before 23
        parts.append(int(digits[:18] or 0))  # Python refuses to read thousands of digits
    return tuple(parts)


def in_its_time(judgement: Judgement, basis: Basis) -> Judgement:
    """The judgement with names that are gone by now, but not on the launch's older release."""
    if basis.exact:
        return judgement
    there = {
        problem.message
        for problem in judgement.parsed.problems
        if _is_there(problem.history, numbers(basis.asked))
    }
    if not there:
        return judgement
    refusals = [problem for problem in judgement.parsed.problems if problem.refuses]
    startup, stage = judgement.startup, judgement.stage
    if stage == "parse" and all(problem.message in there for problem in refusals):
        outcome = (judgement.apart or judgement).outcome
        startup, stage = outcome.startup, outcome.stage
    findings = [
        _told_in_time(finding, basis) if finding.message in there else finding
        for finding in judgement.findings
    ]
    findings.sort(key=lambda one: (not one.certain, SEVERITIES.index(one.severity)))
    return replaced(judgement, startup=startup, stage=stage, findings=findings)


def _is_there(history: object, asked: tuple[int, ...]) -> bool:
    """Whether a name that a release had is there at the time of another."""
    if not isinstance(history, dict):
        return False
    return numbers(history["first_seen"]) <= asked < numbers(history["removed_in"])


def _told_in_time(finding: Finding, basis: Basis) -> Finding:
    if finding.label != "parse" or finding.span is None:
        return finding
    return replaced(
        finding,
        severity="info",
        message=f"{finding.message}; {basis.asked}, which this runs on, still has it",
    )
