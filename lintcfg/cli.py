"""Entry point: judges the launch on its own command line, or hands over to a command.

Everything imported at the top of this module is paid for by every start; commands are imported
when they run. Exceptions become exit codes here and nowhere else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from .errors import EXIT_INTERNAL, EXIT_USAGE, LintError

EXIT_INTERRUPTED = 130


def _judge(arguments: Sequence[str]) -> int:
    from .commands.judge_launch import run

    return run(arguments)


def _resolve(arguments: Sequence[str]) -> int:
    from .commands.resolve import run

    return run(arguments)


def _suggest(arguments: Sequence[str]) -> int:
    from .commands.suggest import run

    return run(arguments)


def _check(arguments: Sequence[str]) -> int:
    from .commands.check import run

    return run(arguments)


def _launches(arguments: Sequence[str]) -> int:
    from .commands.launches import run

    return run(arguments)


def _exec(arguments: Sequence[str]) -> int:
    from .commands.exec import run

    return run(arguments)


def _schema(arguments: Sequence[str]) -> int:
    from .commands.schema import run

    return run(arguments)


def _completion(arguments: Sequence[str]) -> int:
    from .commands.completion import run

    return run(arguments)


def _docs(arguments: Sequence[str]) -> int:
    from .docs_app import run

    return run(arguments)


def _verify(arguments: Sequence[str]) -> int:
    from .verify_app import run

    return run(arguments)


def _app(arguments: Sequence[str]) -> int:
    from .app import run

    return run(arguments)


#: Commands that take a launch; their own options stand among SGLang's.
LAUNCH_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "resolve": _resolve,
    "suggest": _suggest,
}

#: Commands that take paths, a command of somebody else's, or nothing.
FILE_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "check": _check,
    "launches": _launches,
    "exec": _exec,
    "schema": _schema,
    "completion": _completion,
}

#: Commands of the typer application.
APP_COMMANDS = frozenset({"matrix", "rule"})

#: Commands on documentation and source trees.
DOCS_COMMANDS = frozenset({"docs", "facts"})

#: Every command.
COMMANDS = (*LAUNCH_COMMANDS, *FILE_COMMANDS, *APP_COMMANDS, *DOCS_COMMANDS, "verify")


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command that the arguments ask for and return its exit code."""
    if not arguments or arguments[0] in {"--help", "-h", "help"}:
        from .commands.help import run

        return run()
    arguments = _command_first(arguments)
    first = arguments[0]
    asks_help = arguments[-1] in {"--help", "-h"}
    own_help = first == "verify" or any(
        first in room for room in (APP_COMMANDS, FILE_COMMANDS, DOCS_COMMANDS)
    )
    if asks_help and not own_help and not any("sglang" in word for word in arguments):
        from .commands.help import run

        return run()
    if first in {"--version", "-V"}:
        from .commands.version import run as version

        return version()
    if first in LAUNCH_COMMANDS:
        return LAUNCH_COMMANDS[first](arguments[1:])
    if first in FILE_COMMANDS:
        return FILE_COMMANDS[first](arguments[1:])
    if first in DOCS_COMMANDS:
        return _docs(arguments)
    if first in APP_COMMANDS:
        return _app(arguments)
    if first == "verify":
        return _verify(arguments[1:])
    return _judge(arguments)


def _command_first(arguments: Sequence[str]) -> list[str]:
    """Own options may stand before a command; bring the command to the front."""
    from .options import BATCH, LAUNCH_OPTIONS

    takes_value = {option.name: option.metavar for option in (*LAUNCH_OPTIONS, BATCH)}
    position = 0
    while position < len(arguments):
        name, equals, _ = arguments[position].partition("=")
        if name not in takes_value:
            break
        position += 1 if equals or takes_value[name] is None else 2
    if 0 < position < len(arguments):
        word = arguments[position]
        if word in APP_COMMANDS:  # whose options belong to commands below them
            return [word, *arguments[position + 1 :], *arguments[:position]]
        if word in LAUNCH_COMMANDS or word in FILE_COMMANDS:
            return [word, *arguments[:position], *arguments[position + 1 :]]
    return list(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run attn-lint and leave the process with the exit code."""
    import gc

    from .terminal import make_streams_safe

    # What a start allocates lives until its end: collecting garbage in between finds none.
    gc.set_threshold(50_000, 20, 50)
    make_streams_safe()
    sys.exit(guarded(dispatch, list(sys.argv[1:] if arguments is None else arguments)))


def guarded(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command and turn whatever it raises into an exit code and a message."""
    from ..matrix.errors import MatrixError

    code = 0
    try:
        code = command(arguments)
        sys.stdout.flush()
        return code
    except (LintError, MatrixError) as error:
        _complain(str(error))
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader went away (`| head -1`): nothing more to say, and nothing to complain about.
        _forget("stdout")
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        # A full disk, a folder that vanished: nothing of ours to mend.
        place = f"{error.filename}: " if error.filename else ""
        _complain(f"{place}{error.strerror or error}")
        _forget("stdout")
        return EXIT_USAGE
    except (Exception, RecursionError) as error:
        _say(
            f"attn-lint: internal error: {type(error).__name__}: {error}\n"
            "This is a bug; set ATTN_LINT_TRACEBACK=1 to see where, and please report it."
        )
        if os.environ.get("ATTN_LINT_TRACEBACK"):
            import traceback

            _say(traceback.format_exc())
        return EXIT_INTERNAL


def _complain(text: str) -> None:
    """Print an error; what a name holds must neither act on the terminal nor fill it."""
    from .terminal import cut, printable

    text = "\n".join(cut(printable(line)) for line in text.split("\n"))
    _say(f"attn-lint: error: {text}")


def _say(text: str) -> None:
    """Print to standard error; where that can't be written, the exit code alone has to tell."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _forget("stderr")


def _forget(name: str) -> None:
    """Send what a stream still buffers nowhere, so that the exit does not fail on it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), getattr(sys, name).fileno())
    except (OSError, ValueError):
        import io

        setattr(sys, name, io.StringIO())
