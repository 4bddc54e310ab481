"""Judges the launches of code fences with the resolver, where it knows the release."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..docs_check.data import load as known
from ..docs_check.launches import LaunchVerdict, commands
from ..docs_check.pages.page import Page
from ..docs_check.parallel import start
from ..matrix.loader import DEFAULT_ENGINE, releases
from .errors import LintError

if TYPE_CHECKING:
    from .findings import Finding
    from .judge import Judge, Judgement


def judge_for(release: str | None, pages: Iterable[Page] = ()) -> MatrixJudge | None:
    """A judge for a release of the source tree, or None where the matrix does not have it.

    The launches of `pages` are judged at once, beside whatever else is done.
    """
    if release is None or release not in releases(DEFAULT_ENGINE):
        return None
    judge = MatrixJudge(release)
    launches = [
        argv
        for page in pages
        for fence in page.fences()
        for command in commands(fence)
        if (argv := command.launch()) is not None
    ]
    if launches:
        judge.prepare(launches)
    return judge


class MatrixJudge:
    """Judges as `attn-lint` does for a launch on an unknown machine."""

    def __init__(self, release: str) -> None:
        self.release = release
        self._prepared: Callable[[], list[LaunchVerdict]] | None = None
        self._verdicts: dict[tuple[str, ...], LaunchVerdict] = {}

    def prepare(self, launches: list[list[str]]) -> None:
        """Begin to judge some launches."""
        known = [tuple(argv) for argv in launches]
        waiting = start(lambda: [self._judged(argv) for argv in known])

        def collect() -> list[LaunchVerdict]:
            verdicts = waiting()
            self._verdicts.update(zip(known, verdicts, strict=True))
            return verdicts

        self._prepared = collect

    @cached_property
    def _judge(self) -> Judge:
        from ..matrix.loader import load
        from .judge import Judge

        return Judge(load(DEFAULT_ENGINE, self.release))

    def judge(self, argv: list[str]) -> LaunchVerdict:
        """The verdict: refused only where every machine and every model refuses."""
        if self._prepared is not None:
            collect, self._prepared = self._prepared, None
            collect()
        key = tuple(argv)
        if key not in self._verdicts:
            self._verdicts[key] = self._judged(key)
        return self._verdicts[key]

    def _judged(self, argv: tuple[str, ...]) -> LaunchVerdict:
        from .judge import Launch

        somewhere: list[Finding] = []
        try:
            # One machine that starts it is enough, and asking for all of them takes longer.
            for gpu in self._judge.program.typical_machines:
                reasons = _drift(self._judge.judge(Launch(argv=argv, gpu=gpu)))
                if not reasons:
                    return LaunchVerdict(False)
                somewhere.append(reasons[0])
            judgement = self._judge.judge(Launch(argv=argv))
        except LintError:
            # What cannot be judged here, such as a model that is not at hand, is no drift.
            return LaunchVerdict(False)
        if judgement.startup != "refuses":
            return LaunchVerdict(False)
        # Machines may refuse it for a reason of their own each.
        errors = _drift(judgement) or somewhere
        return LaunchVerdict(
            True,
            tuple(dict.fromkeys(one.message for one in errors)),
            tuple(flag for one in errors for flag in one.flags),
        )


def _drift(judgement: Judgement) -> list[Finding]:
    """The reasons of a refusal that a page is to blame for, and not what is not at hand here.

    A file of the reader's, or a model's configuration as it was when somebody looked, are no
    mistakes of the page; without a model, only names and flags are judged.
    """
    if judgement.startup != "refuses":
        return []
    rules: dict[str, Any] = known("scan")["launches"]
    return [
        one
        for one in judgement.findings
        if one.severity == "error"
        and one.certain
        and one.code not in rules["elsewhere"]
        and (judgement.model is not None or one.code.startswith(rules["names"]))
    ]
