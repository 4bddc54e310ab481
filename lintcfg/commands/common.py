"""What the commands that judge a launch share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...matrix import loader
from ...matrix.errors import MatrixDataError
from ...matrix.record import mutable_record, replaced
from .. import options as o
from ..config import Config, find_config, load_config
from ..errors import EXIT_CLEAN, EXIT_FINDINGS, UsageError
from ..findings import SEVERITIES, Finding, as_severity
from ..flags import Command, strip_command
from ..judge import Judge, Judgement, Launch
from ..terminal import Style, shown, wants_color


@mutable_record
class Request:
    """A command line taken apart: own options, configuration, and the launch."""

    given: o.Given
    config: Config
    environment: dict[str, str]
    command: Command

    def option(self, option: o.Option, default: str | None = None) -> str | None:
        """An option's value: the command line's, else the configuration's."""
        value = self.given.get(option)
        if value is None:
            value = getattr(self.config, option.name[2:].replace("-", "_"), None)
        return default if value is None else value

    @property
    def style(self) -> Style:
        return Style(wants_color(self.given.get(o.COLOR), sys.stdout))

    def judge(self) -> Judge:
        """The judge of the release asked for."""
        folder = self.given.get(o.MATRIX)
        release = self.option(o.SGLANG, loader.DEFAULT_RELEASE) or loader.DEFAULT_RELEASE
        try:
            judge = Judge(loader.load(release=release.removeprefix("v"), folder=folder))
        except (TypeError, KeyError, AttributeError, IndexError) as error:
            if folder is None:
                raise
            problem = f"{folder}: the data does not fit together: {error!r}"
            raise MatrixDataError([problem]) from None
        patterns = [*self.given.all(o.SELECT), *self.given.all(o.IGNORE)]
        patterns += [*self.config.select, *self.config.ignore, *self.config.severity]
        check_codes(judge.statements.codes, patterns)
        return judge

    def launch(self, gpu: str | None) -> Launch:
        """The launch, for a machine."""
        return Launch(
            self.command.argv,
            environment=self.environment,
            gpu=gpu,
            cuda=self.option(o.CUDA),
            before=self.command.problems,
            unknown=self.command.unknown,
            partial=not self.command.name,
        )

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
            f"this is no SGLang server launch: {command.other_program}; "
            "attn-lint judges `python3 -m sglang.launch_server …` and `sglang serve …`"
        )
    environment = {
        name: value for name, value in os.environ.items() if name.startswith(("SGLANG_", "SGL_"))
    }
    environment.update(command.environment)
    return Request(given, config, environment, command)


def assumptions(judgement: Judgement, request: Request) -> list[str]:
    """What the verdict rests on that the user did not say."""
    lines = []
    if judgement.gpu is None:
        lines.append("GPU not given (--gpu): judged for every class of machine")
    if judgement.model is None and any(f.stage == "model-config" for f in judgement.findings):
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
    return lines


def to_json(judgement: Judgement, request: Request, findings: Sequence[Finding]) -> dict[str, Any]:
    """A judgement as plain JSON."""
    out: dict[str, Any] = {
        "startup": judgement.startup,
        "stage": judgement.stage,
        "release": judgement.outcome.program.release.name,
        "gpu": judgement.gpu,
        "findings": [finding.to_json() for finding in findings],
        "resolved": judgement.resolved(),
        "assumptions": assumptions(judgement, request),
    }
    if judgement.contexts:
        out["contexts"] = [
            {"gpu": one.gpu, "family": one.family, "startup": one.judgement.startup}
            for one in judgement.contexts
        ]
    return out
