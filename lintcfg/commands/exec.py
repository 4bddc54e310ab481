"""`attn-lint exec -- COMMAND…`: judges a launch, then becomes it, or refuses to.

The command keeps the process id, the environment and the standard streams, so that signals and the
exit code are its own. Everything said goes to standard error.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from ...matrix.record import replaced
from .. import options as o
from ..basis import Basis
from ..errors import EXIT_CLEAN, UsageError
from ..findings import Finding
from ..platforms import Platforms
from ..terminal import Style, wants_color

#: The value of --gpu that asks this machine's own driver.
AUTO = "auto"
GPU = o.Option(o.GPU.name, o.GPU.metavar, "machine to judge for; auto: the one of this host")
FAIL_ON = o.Option(
    o.FAIL_ON.name, o.FAIL_ON.metavar, "refuse findings from this severity on as well",
    o.FAIL_ON.choices,
)  # fmt: skip
WARN_ONLY = o.Option("--warn-only", None, "start the command whatever is found")
OPTIONS = (
    GPU, o.CUDA, o.SGLANG, o.MATRIX, o.SELECT, o.IGNORE, FAIL_ON, o.LINT_CONFIG, o.COLOR,
    o.VERBOSE, WARN_ONLY,
)  # fmt: skip
USAGE = "attn-lint exec [OPTIONS] -- COMMAND…"


def run(arguments: Sequence[str]) -> int:
    """Judge the command behind `--` and replace this process by it."""
    own, command = _split(list(arguments))
    if own and {"-h", "--help"} & set(own):
        print(f"usage: {USAGE}\n\noptions:")
        for option in OPTIONS:
            name = f"{option.name} {option.metavar}" if option.metavar else option.name
            print(f"  {name:24} {option.help}")
        return EXIT_CLEAN
    if not command:
        raise UsageError(f"exec needs a command: {USAGE}")
    given = o.take_own_options(own, OPTIONS)
    if given.launch:
        raise UsageError(f"exec has no option {given.launch[0]}; the command stands behind --")
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]}: no such command")
    if not _allowed(given, command):
        return 1
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(program, command)
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror or error}") from None


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" in arguments:
        place = arguments.index("--")
        return arguments[:place], arguments[place + 1 :]
    known = {option.name: option for option in OPTIONS}
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        name, equals, _ = arguments[place].partition("=")
        option = known.get(name)
        place += 2 if option is not None and option.metavar and not equals else 1
    return arguments[:place], arguments[place:]


def _allowed(given: o.Given, command: list[str]) -> bool:
    """Whether the command may start; says what was found."""
    from ..flags import strip_command
    from .common import Request, judged, launch_environment, read_config, told_basis

    config = read_config(given)
    looks = (given.get(o.GPU) or config.gpu) == AUTO
    if looks:
        given.values.pop(o.GPU.name, None)
        config = replaced(config, gpu=None)
    stripped = strip_command(command)
    known = told_basis(given, config, stripped)
    request = Request(given, config, launch_environment(stripped), stripped, known)
    judge = request.judge()  # what the options get wrong is told whatever is started
    style = Style(wants_color(given.get(o.COLOR), sys.stderr))
    if stripped.other_program:
        _say(f"not a launch that can be judged ({stripped.other_program}); starting it")
        return True
    if looks and known.gpu is None:
        known = replaced(known, gpu=_recognised(judge.platforms, known))
    launch = replaced(request.launch(known.gpu), partial=stripped.contained)
    judgement = judged(judge, launch, known)
    findings = request.filtered(judgement.findings)
    for finding in findings:
        if finding.certain or given.has(o.VERBOSE):
            _tell(finding, style)
    then = judgement.then(findings)
    if judgement.startup == "depends":
        _say("whether SGLang starts hangs on what is not known here (--verbose tells)")
    elif then is None and any(
        one.judgement.then(one.judgement.findings) for one in judgement.contexts
    ):
        _say("whether it works hangs on what is not known here (--verbose tells)")
    reason = None
    if judgement.startup == "refuses":
        reason = "SGLang would refuse it"
    elif then is not None:
        reason = f"SGLang would start it, and then it {then}"
    elif given.get(o.FAIL_ON) is not None and request.exit_code(findings) != EXIT_CLEAN:
        reason = f"findings reach --fail-on {given.get(o.FAIL_ON)}"
    if reason is None:
        return True
    if known.whole:
        _say(f"judged for {known.whole}")
    if given.has(WARN_ONLY):
        _say(f"starting this launch all the same (--warn-only): {reason}")
        return True
    _say(f"this launch is not started: {reason}")
    return False


def _recognised(platforms: Platforms, known: Basis) -> str | None:
    """The matrix's name of this machine's GPU."""
    name = own_gpu()
    if name is None:
        _say(f"no GPU was recognised: judged for {known.machines}")
        return None
    try:
        found = platforms.find(name)
    except UsageError as error:
        _say(f"{error}; judged for {known.machines}")
        return None
    _say(f"GPU: {name}")
    return found


def _tell(finding: Finding, style: Style) -> None:
    head = style(finding.severity, f"{finding.severity}[{finding.code}]")
    maybe = "" if finding.certain else f" ({finding.condition or 'depends on what is not known'})"
    print(f"attn-lint: {head} {finding.message}{maybe}", file=sys.stderr)
    for fix in finding.fixes:
        print(f"attn-lint:   fix: {fix}", file=sys.stderr)


def _say(text: str) -> None:
    print(f"attn-lint: {text}", file=sys.stderr)


def own_gpu() -> str | None:
    """Name of this machine's first GPU, as its driver's tool gives it; None without one."""
    import subprocess

    for query in (
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
        ["rocm-smi", "--showproductname", "--csv"],
    ):
        try:
            done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.SubprocessError):
            continue
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        if done.returncode == 0 and lines:
            if query[0] == "nvidia-smi":
                return lines[0]
            cells = [cell for line in lines[1:2] for cell in line.split(",")]
            for cell in cells:
                if any(character.isdigit() for character in cell) and "MI" in cell.upper():
                    return cell.strip()
    return None
