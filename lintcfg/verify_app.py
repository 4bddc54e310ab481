"""`attn-lint verify` and `attn-lint verify merge`."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from .errors import InputError

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    invoke_without_command=True,
)  # fmt: skip


#: Evidence lists its seeds; more than these are a slip of the hand.
MOST_SEEDS = 10_000
LAST_SEED = 2**31 - 1
MOST_JOBS = 1_024
MOST_SECONDS = 7 * 24 * 3600


def _seconds(value: float | None) -> float | None:
    """Refuse what is no number: comparing it with a limit says nothing."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number of seconds")
    return value


class Device(StrEnum):
    """Where backends run."""

    cpu = "cpu"
    cuda = "cuda"


class Output(StrEnum):
    """How a run is told."""

    text = "text"
    json = "json"


@app.callback()
def verify(
    context: typer.Context,
    backend: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--backend", help="This backend only; may be given again."),
    ] = None,
    cell: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--cell", help="This cell only; may be given again."),
    ] = None,
    device: Annotated[
        Optional[Device],  # noqa: UP045
        typer.Option(help="Where to run (default: the GPU where there is one)."),
    ] = None,
    seeds: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, max=MOST_SEEDS, help="Runs of each probe (default: 1 on a CPU, 20 on a GPU)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The first seed.")] = 0,
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=MOST_JOBS, help="Processes (default: by cores)."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            min=1,
            max=MOST_SECONDS,
            callback=_seconds,
            help="Seconds for a run of a probe, compiling included.",
        ),
    ] = 240,
    budget: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=1,
            max=MOST_SECONDS,
            callback=_seconds,
            help="Seconds for the whole: every probe once first, then more seeds.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 where the matrix and the run disagree.")
    ] = False,
    evidence: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            "--evidence",
            metavar="FILE",
            help="With --check: this file instead of a run; may be given again.",
        ),
    ] = None,
    resume: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Run only what this evidence lacks, and add to it (or to --output-file).",
        ),
    ] = None,
    calls: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--calls", metavar="GPU", help="Run nothing; print what a run on cpu, h200, … asks."
        ),
    ] = None,
    output_format: Annotated[Output, typer.Option(help="How to print it.")] = Output.text,
    output_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output-file", metavar="FILE", help="Write the evidence there, as JSON."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Leave the reasons out.")] = False,
) -> int:
    """Run the bundled backends cell by cell and compare with a float64 reference."""
    if context.invoked_subcommand is not None:
        return 0
    from ..backends.verify.commands import Asked, listing, run

    asked = Asked(
        backends=backend or (), cells=cell or (), device=device.value if device else None,
        seeds=seeds, first_seed=seed, jobs=jobs, timeout=timeout, budget=budget,
        output_format=output_format.value, output_file=output_file,
        check=check, evidence=evidence or (), quiet=quiet, resume=resume,
    )  # fmt: skip
    try:
        return run(asked) if calls is None else listing(asked, _architecture(calls))
    except KeyboardInterrupt as interrupt:
        # Typer takes each for SIGINT's; it has the number of the signal where that was another.
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


def _architecture(name: str) -> str:
    """The architecture of a GPU's name; what is one, or no name of a GPU, stays as it is."""
    from ..backends.verify.commands import newest
    from ..matrix.loader import DEFAULT_RELEASE, load
    from .errors import UsageError
    from .platforms import Platforms

    if name in newest()["bundled"]["architectures"]:
        return name
    platforms = Platforms(load("sglang", DEFAULT_RELEASE)["platforms"])
    try:
        return str(platforms.by_name[platforms.find(name)]["architecture"])
    except UsageError:
        return name


@app.command("merge")
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILES…", help="Evidence files.")],
    output: Annotated[
        Path, typer.Option("--output-file", "-o", metavar="FILE", help="Where the result goes.")
    ],
) -> int:
    """Merge the evidence of several machines into one file."""
    from ..backends.verify.commands import merge as run_merge

    return run_merge(files, output)


@app.command("rows")
def rows(
    backend: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--backend", help="This backend only; may be given again."),
    ] = None,
) -> int:
    """Write the rows of the bundled matrix anew from the evidence beside it (in a checkout)."""
    from ..backends.verify.commands import Asked
    from ..backends.verify.commands import rows as run_rows

    return run_rows(Asked(backends=backend or ()))


def run(arguments: Sequence[str]) -> int:
    """Run the command on a command line and return the exit code."""
    from ..backends.interface.errors import BackendError
    from .app import invoke

    try:
        return invoke(app, arguments, "attn-lint verify")
    except BackendError as error:
        raise InputError(str(error)) from None
