"""`attn-lint docs`, `attn-lint docs generate`, `attn-lint facts` and `attn-lint facts diff`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from .config import Config, find_config, load_config
from .errors import UsageError
from .findings import as_severity

if TYPE_CHECKING:
    from ..docs_check.settings import Output

#: Codes of the docs checker and the audit begin with these.
PREFIXES = ("DOC", "MAT")


class Format(StrEnum):
    """How findings are told."""

    text = "text"
    concise = "concise"
    json = "json"
    github = "github"
    sarif = "sarif"


class Listing(StrEnum):
    """How facts are told."""

    text = "text"
    json = "json"


class Severity(StrEnum):
    """How grave a finding is."""

    error = "error"
    warning = "warning"
    info = "info"


class Certainty(StrEnum):
    """How sure a finding is."""

    proved = "proved"
    partial = "partial"
    review = "review"


class Table(StrEnum):
    """Support tables that can be generated."""

    mha = "mha"
    mla = "mla"


class Color(StrEnum):
    """When to use colour."""

    auto = "auto"
    always = "always"
    never = "never"


Source = Annotated[
    Path,
    typer.Option(
        "--source", metavar="TREE", help="SGLang's source: a checkout or an unpacked wheel."
    ),
]
FormatOption = Annotated[
    Optional[Format],  # noqa: UP045
    typer.Option("--output-format", help="How to print findings (default: text)."),
]
OutputFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output-file", metavar="FILE", help="Write the report there."),
]
Select = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--select", metavar="CODES", help="Report these codes or prefixes only."),
]
Ignore = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--ignore", metavar="CODES", help="Leave these codes or prefixes out."),
]
FailOn = Annotated[
    Optional[Severity],  # noqa: UP045
    typer.Option("--fail-on", help="Lowest severity that ends with 1 (default: warning)."),
]
Sure = Annotated[
    Certainty,
    typer.Option("--certainty", help="Least certainty that is reported."),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="End with 0 whatever was found.")]
LintConfig = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--lint-config", metavar="FILE", help="Configuration to use."),
]
Isolated = Annotated[bool, typer.Option("--isolated", help="Read no configuration file.")]
Colored = Annotated[Color, typer.Option("--color", help="When to use colour.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show all evidence.")]


def configuration(explicit: Path | None, *, isolated: bool, near: Path | None = None) -> Config:
    """The configuration for a run: the file named, or the nearest one."""
    if isolated:
        return Config()
    if explicit is not None:
        return load_config(str(explicit))
    start = near if near is not None else Path.cwd()
    start = start if start.is_dir() else start.parent
    return load_config(find_config(str(start.resolve())) or find_config(str(Path.cwd())))


def output(
    config: Config,
    *,
    format: Format | None,
    file: Path | None,
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    fail_on: Severity | None,
    certainty: Certainty,
    exit_zero: bool,
    color: Color,
    verbose: bool,
) -> Output:
    """How findings are told: the command line, then the configuration."""
    from ..docs_check.accept import read_accepted
    from ..docs_check.settings import FORMATS, Output
    from .commands.version import installed_version
    from .terminal import Style, wants_color

    configured = config.output_format if config.output_format in FORMATS else None
    return Output(
        format=format.value if format is not None else configured or "text",
        select=_codes(select)
        or [code for code in config.select if code.upper().startswith(PREFIXES)],
        ignore=[*_codes(ignore), *config.ignore],
        severity={code: as_severity(level) for code, level in config.severity.items()},
        accepted=read_accepted(config.docs, config.path or "configuration"),
        fail_on=as_severity(fail_on.value if fail_on is not None else config.fail_on or "warning"),
        certainty=certainty.value,
        exit_zero=exit_zero,
        file=file,
        paint=Style(wants_color(color.value, sys.stdout)),
        verbose=verbose,
        version=installed_version() or "0",
    )


def _codes(given: Sequence[str] | None) -> list[str]:
    return [part.strip() for text in given or () for part in text.split(",") if part.strip()]


docs_app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
generate_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
facts_app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
diff_app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@docs_app.command(epilog="`attn-lint docs generate --help` is about tables made from the code.")
def docs(
    source: Source,
    pages: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(help="Markdown or MDX pages, or folders.", metavar="PAGES…"),
    ] = None,
    output_format: FormatOption = None,
    output_file: OutputFile = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Correct what has one right value, in place.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change.")] = False,
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = None,
    certainty: Sure = Certainty.review,
    exit_zero: ExitZero = False,
    lint_config: LintConfig = None,
    isolated: Isolated = False,
    color: Colored = Color.auto,
    verbose: Verbose = False,
) -> int:
    """Report every claim of documentation pages that the code does not bear out."""
    from ..docs_check.commands import run_docs
    from .docs_judge import judge_for

    near = pages[0] if pages else None
    told = output(
        configuration(lint_config, isolated=isolated, near=near),
        format=output_format, file=output_file, select=select, ignore=ignore, fail_on=fail_on,
        certainty=certainty, exit_zero=exit_zero, color=color, verbose=verbose,
    )  # fmt: skip
    return run_docs(source, pages or [], told, judge_maker=judge_for, fix=fix, diff=diff)


@generate_app.command()
def generate(
    source: Source,
    table: Annotated[Table, typer.Option("--table", help="Which support table.")],
    page: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(help="Page with markers, to write the table into.", metavar="[PAGE]"),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; end with 1 where it differs.")
    ] = False,
) -> int:
    """Print a support table as the code has it, or write it between a page's markers."""
    from ..docs_check.commands import run_generate

    return run_generate(source, table.value, page, check=check)


@facts_app.command(epilog="`attn-lint facts diff --help` is about two releases.")
def facts(
    source: Source,
    output_format: Annotated[
        Listing, typer.Option("--output-format", help="How to print facts.")
    ] = Listing.text,
    output_file: OutputFile = None,
) -> int:
    """List what the scanner knows of a source tree, with file, line and symbol."""
    from ..docs_check.commands import run_facts

    return run_facts(source, output_format.value, output_file)


@diff_app.command()
def diff(
    old: Annotated[Path, typer.Option("--old", metavar="TREE", help="The older source.")],
    new: Annotated[Path, typer.Option("--new", metavar="TREE", help="The newer source.")],
    output_format: Annotated[
        Listing, typer.Option("--output-format", help="How to print changes.")
    ] = Listing.text,
    output_file: OutputFile = None,
) -> int:
    """Say what changed for attention between two source trees."""
    from ..docs_check.commands import run_facts_diff

    return run_facts_diff(old, new, output_format.value, output_file)


def run(arguments: Sequence[str]) -> int:
    """Run one of these commands; `arguments` begin with docs or facts."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _run(arguments)
    finally:
        # The process ends next: what a run leaves need not be looked through for garbage.
        gc.freeze()
        if collecting:
            gc.enable()


def _run(arguments: Sequence[str]) -> int:
    from .app import invoke

    if list(arguments[:2]) == ["docs", "generate"]:
        return invoke(generate_app, arguments[2:], "attn-lint docs generate")
    if list(arguments[:2]) == ["facts", "diff"]:
        return invoke(diff_app, arguments[2:], "attn-lint facts diff")
    if arguments and arguments[0] == "facts":
        return invoke(facts_app, arguments[1:], "attn-lint facts")
    if arguments and arguments[0] == "docs":
        return invoke(docs_app, arguments[1:], "attn-lint docs")
    raise UsageError("docs or facts")
