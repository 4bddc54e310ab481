"""The typer application: commands that do not take a launch."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..matrix import loader
from . import docs_app
from .errors import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE, UsageError

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Commands that do not take a launch.",
)  # fmt: skip
matrix = typer.Typer(rich_markup_mode=None, help="The support matrix and its checks.")
app.add_typer(matrix, name="matrix")

Release = Annotated[str, typer.Option("--sglang", help="SGLang release.")]
Folder = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--matrix", metavar="FOLDER", help="Data folder of a release."),
]


class Output(StrEnum):
    """Formats of tables."""

    text = "text"
    json = "json"
    markdown = "markdown"


class Engine(StrEnum):
    """Whose backends a matrix is of."""

    sglang = "sglang"
    bundled = "bundled"


@matrix.command("show")
def show(
    backend: Annotated[Optional[str], typer.Option(help="One backend only.")] = None,  # noqa: UP045
    family: Annotated[Optional[str], typer.Option(help="One family: mha, mla, …")] = None,  # noqa: UP045
    output_format: Annotated[Output, typer.Option(help="How to print it.")] = Output.text,
    sglang: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--sglang", "--release", help="Release of the engine (default: the newest)."),
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="Whose matrix: sglang, or bundled for our own backends.")
    ] = Engine.sglang,
    folder: Folder = None,
) -> int:
    """Show what each backend supports, cell by cell."""
    from .commands.matrix_show import run as run_show

    return run_show(engine.value, sglang, backend, family, output_format.value, folder)


@matrix.command("validate")
def validate(
    folder: Annotated[Optional[Path], typer.Argument(help="Data folder of a release.")] = None,  # noqa: UP045
    source: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="An SGLang source tree; every source is looked up in it."),
    ] = None,
    sglang: Release = loader.DEFAULT_RELEASE,
    named: Folder = None,
) -> int:
    """Check schema, cross-references, dead rules, shadowed branches and sources."""
    from ..matrix.validate import validate as check

    if folder is not None and named is not None:
        raise UsageError(f"two folders: {folder} and --matrix {named}")
    folder = folder or named or Path(loader.data_folder(release=sglang))
    if not (folder / "pipeline.yaml").is_file():
        raise UsageError(f"{folder}: no release data there (no pipeline.yaml)")
    if source is not None and not source.is_dir():
        raise UsageError(f"{source}: no such folder")
    roots = ("srt", "sglang/srt", "python/sglang/srt")
    if source is not None and not any((source / root).is_dir() for root in roots):
        raise UsageError(f"{source}: no SGLang source tree (no srt folder in it)")
    problems = check(folder, source)
    for problem in problems:
        print(problem)
    print(
        f"{len(problems)} problem{'s' if len(problems) != 1 else ''} in {folder}", file=sys.stderr
    )
    return EXIT_FINDINGS if problems else EXIT_CLEAN


@matrix.command("schema")
def schema() -> int:
    """Print the JSON Schema of the stage files, for editors."""
    from ..matrix.schema import StageFile

    print(json.dumps(StageFile.model_json_schema(), indent=1))
    return EXIT_CLEAN


@matrix.command("audit")
def audit(
    source: docs_app.Source,
    sglang: Release = loader.DEFAULT_RELEASE,
    folder: Folder = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write the fingerprints of the sources instead.")
    ] = False,
    output_format: docs_app.FormatOption = None,
    output_file: docs_app.OutputFile = None,
    select: docs_app.Select = None,
    ignore: docs_app.Ignore = None,
    fail_on: docs_app.FailOn = None,
    certainty: docs_app.Sure = docs_app.Certainty.review,
    exit_zero: docs_app.ExitZero = False,
    lint_config: docs_app.LintConfig = None,
    isolated: docs_app.Isolated = False,
    color: docs_app.Colored = docs_app.Color.auto,
    verbose: docs_app.Verbose = False,
) -> int:
    """Hold the matrix against an SGLang source tree: names, choices, page sets, evidence."""
    from ..docs_check.commands import run_audit

    told = docs_app.output(
        docs_app.configuration(lint_config, isolated=isolated),
        format=output_format, file=output_file, select=select, ignore=ignore, fail_on=fail_on,
        certainty=certainty, exit_zero=exit_zero, color=color, verbose=verbose,
    )  # fmt: skip
    return run_audit(source, sglang, told, folder=folder, record=record)


@app.command("rule")
def rule(
    code: Annotated[Optional[str], typer.Argument(help="A code, a name or a rule's id.")] = None,  # noqa: UP045
    output_format: Annotated[Output, typer.Option(help="How to print it.")] = Output.text,
    sglang: Release = loader.DEFAULT_RELEASE,
    folder: Folder = None,
) -> int:
    """List every rule, or explain one with its source."""
    from .commands.rule import run as run_rule

    return run_rule(code, sglang, output_format.value, folder)


def run(arguments: Sequence[str]) -> int:
    """Run the application on a command line and return the exit code."""
    return invoke(app, arguments, "attn-lint")


def invoke(application: typer.Typer, arguments: Sequence[str], name: str) -> int:
    """Run a typer application and return the exit code."""
    try:
        code = application(list(arguments), prog_name=name, standalone_mode=False)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except typer.Abort:
        return 130
    except SystemExit as leave:
        # click ends the process itself where nobody reads its output any more; that is no error.
        if isinstance(leave.__context__, BrokenPipeError):
            raise leave.__context__ from None
        raise
    except Exception as error:
        # Usage errors are click's; typer brings click along in different places by version.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show(file=sys.stderr)
        return EXIT_USAGE
    return code if isinstance(code, int) else EXIT_CLEAN
