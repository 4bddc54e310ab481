"""What the commands that judge a launch share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...matrix import loader
from ...matrix.errors import MatrixDataError, ReleaseNotFound
from ...matrix.record import mutable_record, replaced
from .. import options as o
from ..basis import Basis, Options, basis, in_its_time, is_release
from ..config import Config, PathSettings, find_config, load_config, place
from ..errors import EXIT_CLEAN, EXIT_FINDINGS, ConfigError, UsageError
from ..findings import SEVERITIES, Finding, as_severity
from ..flags import Command, strip_command
from ..judge import Judge, Judgement, Launch
from ..platforms import Platforms
from ..terminal import Style, printable, shown, wants_color


@mutable_record
class Request:
    """A command line taken apart: own options, configuration, and the launch.

    Attributes:
        environment: SGLang's variables for the launch.
        basis: what the launch is judged for.
    """

    given: o.Given
    config: Config
    environment: dict[str, str]
    command: Command
    basis: Basis

    def option(self, option: o.Option, default: str | None = None) -> str | None:
        """An option's value: the command line's, else the configuration's."""
        value = self.given.get(option)
        if value is None:
            value = getattr(self.config, option.name[2:].replace("-", "_"), None)
        return default if value is None else value

    @property
    def style(self) -> Style:
        return Style(wants_color(self.given.get(o.COLOR), sys.stdout))

    def judge(self, release: str | None = None) -> Judge:
        """The judge of a release, by default of the one that the launch is judged by.

        Raises:
            UsageError: an option names no machine, CUDA version or code.
            ConfigError: the configuration does.
        """
        folder = self.given.get(o.MATRIX)
        try:
            judge = Judge(loader.load(release=release or self.basis.release, folder=folder))
        except (TypeError, KeyError, AttributeError, IndexError) as error:
            if folder is None:
                raise
            problem = f"{folder}: the data does not fit together: {error!r}"
            raise MatrixDataError([problem]) from None
        except ReleaseNotFound as error:
            asked = release is not None or self.given.get(o.SGLANG) is not None
            if asked or self.config.sglang is None:
                raise
            where = place(self.config.path or "", "sglang")
            raise ConfigError(f"{where}: {error}") from None
        codes = judge.statements.codes
        check_codes(codes, [*self.given.all(o.SELECT), *self.given.all(o.IGNORE)])
        check_machine(judge.platforms, self.given.get(o.GPU), self.given.get(o.CUDA))
        check_config(self.config, codes, judge.platforms)
        return judge

    def launch(self, gpu: str | None) -> Launch:
        """The launch, for a machine."""
        launch = launch_of(self.command)
        return replaced(
            launch, environment=self.environment, gpu=gpu, kind=self.basis.kind,
            cuda=self.basis.cuda,
        )  # fmt: skip

    def judged(self, judge: Judge) -> Judgement:
        """The verdict on the launch."""
        return judged(judge, self.launch(self.basis.gpu), self.basis)

    def filtered(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings that selection leaves, with configured severities."""
        select = self.given.all(o.SELECT) or [
            pattern for pattern in self.config.select if not of_others(pattern)
        ]
        ignore = [*self.given.all(o.IGNORE), *self.config.ignore]
        kept = []
        for finding in findings:
            if select and not matches(finding, select):
                continue
            if matches(finding, ignore):
                continue
            level = next(
                (
                    level
                    for pattern, level in self.config.severity.items()
                    if matches(finding, (pattern,))
                ),
                None,
            )
            kept.append(replaced(finding, severity=as_severity(level)) if level else finding)
        return kept

    def exit_code(self, findings: Sequence[Finding], startup: str = "") -> int:
        """1 where a finding that is certain, or explains a refusal, reaches the threshold."""
        if self.given.has(o.EXIT_ZERO):
            return EXIT_CLEAN
        if startup == "refuses" and any(finding.severity == "error" for finding in findings):
            return EXIT_FINDINGS
        threshold = SEVERITIES.index(as_severity(self.option(o.FAIL_ON) or "warning"))
        reached = any(
            SEVERITIES.index(finding.severity) <= threshold and finding.certain
            for finding in findings
        )
        return EXIT_FINDINGS if reached else EXIT_CLEAN


def of_others(pattern: str) -> bool:
    """Whether a code is one of the commands on documentation and on the matrix."""
    return re.fullmatch(r"(?:DOC|MAT)\d*", pattern.upper()) is not None


def launch_of(command: Command) -> Launch:
    """The launch of a command, of which nothing else is known yet.

    Bare flags, and those of an image with a server of its own, may be part of a command line.
    """
    return Launch(
        command.argv,
        environment=command.environment,
        before=command.problems,
        unknown=command.unknown,
        partial=not command.name or command.contained,
    )


def judged(judge: Judge, launch: Launch, known: Basis) -> Judgement:
    """The verdict on a launch; what its own words say and no machine has is left open."""
    if known.gpu is not None and "gpu" in known.own:
        try:
            judge.platforms.find(known.gpu)
        except UsageError as error:
            print(f"note: {error}", file=sys.stderr)
            launch = replaced(launch, gpu=None)
    try:
        judgement = judge.judge(launch)
    except UsageError:
        if "cuda" not in known.own:
            raise
        judgement = judge.judge(replaced(launch, cuda=None))
    return in_its_time(judgement, known)


def check_machine(platforms: Platforms, gpu: str | None, cuda: str | None) -> None:
    """Refuse a machine or a CUDA version that there is none of."""
    if gpu is not None and gpu != "all":
        platforms.find(gpu)
    if cuda is not None:
        # Any machine will do: only the version itself is looked at here.
        platforms.values(next(r["name"] for r in platforms.rows if r["kind"] == "cuda"), cuda)


def check_config(config: Config, codes: Mapping[str, Any], platforms: Platforms) -> None:
    """Refuse a configuration with values that no machine, code or release has."""

    def check(judge: Callable[..., None], *arguments: Any, key: tuple[str, ...]) -> None:
        try:
            judge(*arguments)
        except UsageError as error:
            raise ConfigError(f"{place(config.path or '', *key)}: {error}") from None

    check(check_codes, codes, config.select, key=("select",))
    check(check_codes, codes, config.severity, key=("severity",))
    tables: list[tuple[tuple[str, ...], Config | PathSettings]] = [((), config)]
    tables += [(("per-path", name), one) for name, one in config.per_path.items()]
    for within, one in tables:
        check(check_codes, codes, one.ignore, key=(*within, "ignore"))
        check(check_machine, platforms, one.gpu, None, key=(*within, "gpu"))
        check(check_machine, platforms, None, one.cuda, key=(*within, "cuda"))
        check(check_release, one.sglang, key=(*within, "sglang"))


def check_release(release: str | None) -> None:
    """Refuse what is no release."""
    if release is not None and not is_release(release):
        raise UsageError(f"sglang takes a release such as 0.5.22, not {release!r}")


def check_codes(codes: Mapping[str, Any], patterns: Iterable[str]) -> None:
    """Refuse codes that select, ignore or regrade nothing."""
    names = {entry["name"] for entry in codes.values()}
    for pattern in patterns:
        if of_others(pattern):
            continue
        known = any(code.startswith(pattern.upper()) for code in codes)
        if not known and pattern not in names:
            raise UsageError(f"no code or name starts with {pattern!r}; `attn-lint rule` lists all")


def matches(finding: Finding, patterns: Sequence[str]) -> bool:
    """Whether a finding has one of the codes, prefixes of codes or names."""
    return any(
        finding.code.startswith(pattern.upper()) or finding.name == pattern for pattern in patterns
    )


def read_config(given: o.Given) -> Config:
    """The configuration that is named, or the nearest one."""
    explicit = given.get(o.LINT_CONFIG)
    return load_config(explicit or find_config("."))


def read_request(arguments: Sequence[str], own: Sequence[o.Option]) -> Request:
    """Take a command line apart.

    Raises:
        UsageError: an own option is wrong, or the command pasted is not an SGLang launch.
    """
    given = o.take_own_options(arguments, own)
    config = read_config(given)
    command = strip_command(given.launch)
    if command.other_program:
        raise UsageError(
            f"this is no SGLang server launch: {command.other_program}"
            f"{_meant_command(given.launch[0])}; "
            "attn-lint judges `python3 -m sglang.launch_server …` and `sglang serve …`"
        )
    known = told_basis(given, config, command)
    return Request(given, config, launch_environment(command), command, known)


def _meant_command(word: str) -> str:
    """A question after a command of attn-lint's that somebody may have mistyped."""
    from difflib import get_close_matches

    from ..cli import COMMANDS

    close = get_close_matches(word, COMMANDS, 1, 0.7)
    return f" (did you mean {close[0]}?)" if close else ""


def launch_environment(command: Command) -> dict[str, str]:
    """SGLang's variables: this process's own, and those that the command sets."""
    environment = {
        name: value for name, value in os.environ.items() if name.startswith(("SGLANG_", "SGL_"))
    }
    environment.update(command.environment)
    return environment


#: What options start with that tell of the machine.
_TELLING = ("--gres", "--gpus", "--device", "--runtime")


def told_basis(
    given: o.Given, config: Config, command: Command, said: Mapping[str, str] | None = None
) -> Basis:
    """What a launch on the command line is judged for: its own words come first, as in files;
    before these comes what is `said` of this launch.
    """
    context = None
    words = (*command.around, *command.words)
    # Bare flags name no image, no device and no scheduler, and most commands neither.
    if command.name and any(":" in word or word.startswith(_TELLING) for word in words):
        from ..context import of_command

        context = of_command(words)
    if said:
        from ..context import Context

        context = context or Context()
        for name, value in said.items():
            context.set(name, value, "given")
    options = Options(given.get(o.GPU), given.get(o.CUDA), given.get(o.SGLANG), given.get(o.MATRIX))
    known = basis(context, config, PathSettings(), options)
    if said:
        known = replaced(known, own=known.own - said.keys())
    if known.exact or "sglang" in known.own:
        return known
    # Who asks for a release wants that one; only a launch's own may be one that nobody has.
    return replaced(known, release=known.asked, exact=True)


def assumptions(judgement: Judgement, request: Request) -> list[str]:
    """What the verdict rests on that the user did not say."""
    lines = []
    known = request.basis
    if not known.exact or known.own or known.configured:
        lines.append(known.told)
    if judgement.gpu is None:
        lines.append(f"GPU not given (--gpu): judged for {machines_tried(judgement, known)}")
    if judgement.model is None and judgement.model_problem is not None:
        pass  # the finding says all there is to say of the model
    elif judgement.model is None:
        path = judgement.parsed.values.get("model_path")
        if path:
            lines.append(
                f"model {shown(str(path))} is not known here: judged for one of every family"
            )
        else:
            lines.append("model not given (--model-path): judged for one of every family")
    elif judgement.model.origin != "config.json":
        lines.append(f"model traits from {judgement.model.origin}")
    return [*lines, *_own_options_meant(judgement)]


def _own_options_meant(judgement: Judgement) -> Iterator[str]:
    """Flags that nobody has and that are nearly options of ours, which are spelled in full."""
    for problem in judgement.parsed.problems:
        if problem.kind != "unknown-flag" or problem.flag is None:
            continue
        from difflib import get_close_matches

        close = get_close_matches(problem.flag, [one.name for one in o.LAUNCH_OPTIONS], 1, 0.8)
        if close:
            yield f"attn-lint's own option is {close[0]}, not {printable(problem.flag)}"


def machines_tried(judgement: Judgement, known: Basis) -> str:
    """On which machines a launch without a GPU was judged; not every family is tried on each."""
    tried: dict[str | None, list[str]] = {}
    for one in judgement.contexts:
        tried.setdefault(one.family, []).append(one.gpu)
    every = max(tried.values(), key=len, default=[])
    some = [gpus for gpus in tried.values() if len(gpus) < len(every)]
    told = [known.kind_origin] if known.kind else []
    if some:
        whole = ", ".join(str(family) for family, gpus in tried.items() if len(gpus) == len(every))
        told.append(f"{whole} models")
    text = f"{known.machines} ({'; '.join(told)})" if told else known.machines
    return f"{text} or {', '.join(some[0])} (the other families)" if some else text


def to_json(judgement: Judgement, request: Request, findings: Sequence[Finding]) -> dict[str, Any]:
    """A judgement as plain JSON."""
    out: dict[str, Any] = {
        "startup": judgement.startup,
        "stage": judgement.stage,
        "then": judgement.then(findings),
        "release": judgement.outcome.program.release.name,
        "gpu": judgement.gpu,
        "findings": [finding.to_json() for finding in findings],
        "resolved": judgement.resolved(),
        "assumptions": assumptions(judgement, request),
    }
    if judgement.contexts:
        out["contexts"] = [
            {
                "gpu": one.gpu,
                "family": one.family,
                "startup": one.judgement.startup,
                "then": one.judgement.then(one.judgement.findings),
            }
            for one in judgement.contexts
        ]
    return out
