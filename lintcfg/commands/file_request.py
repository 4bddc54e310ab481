"""What the commands that read files share: their options, their paths, their configuration."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ...matrix.record import replaced
from .. import options as o
from ..basis import is_release
from ..check import discover
from ..check.configs import Configs, is_excluded
from ..check.encoding import Encoding
from ..check.runner import Options, Runner
from ..config import FORMATS, Config
from ..errors import EXIT_CLEAN, InputError, UsageError
from ..findings import Finding, as_severity
from .common import check_codes, check_config, check_machine, matches, of_others

FORMAT = o.Option("--output-format", "FORMAT", f"one of {', '.join(FORMATS)}", FORMATS)
LIST_FORMAT = o.Option("--output-format", "FORMAT", "text or json", ("text", "json"))
OUTPUT = o.Option("--output-file", "FILE", "write the report there instead of printing it")
STDIN_NAME = o.Option("--stdin-filename", "NAME", "the name that what comes from - would have")
FIX = o.Option("--fix", None, "make the safe fixes in the files")
UNSAFE = o.Option("--unsafe-fixes", None, "make the other fixes as well, with --fix or --diff")
DIFF = o.Option("--diff", None, "show what --fix would change, and change nothing")
EXCLUDE = o.Option("--exclude", "PATTERN", "leave these files out of folders", repeat=True)
FORCE_EXCLUDE = o.Option("--force-exclude", None, "leave them out where they are named, too")
REASON = o.Option("--require-reason", None, "ask for a reason beside each explicit backend")
ISOLATED = o.Option("--isolated", None, "read no configuration file")
ALLOW_EMPTY = o.Option("--allow-empty", None, "let paths without any file pass")

CHECK_OPTIONS = (
    o.GPU, o.CUDA, o.SGLANG, o.MATRIX, FORMAT, OUTPUT, STDIN_NAME, FIX, UNSAFE, DIFF, o.SELECT,
    o.IGNORE, o.FAIL_ON, o.EXIT_ZERO, EXCLUDE, FORCE_EXCLUDE, REASON, o.LINT_CONFIG, ISOLATED,
    ALLOW_EMPTY, o.COLOR, o.VERBOSE,
)  # fmt: skip
LIST_OPTIONS = (
    o.SGLANG, o.MATRIX, LIST_FORMAT, OUTPUT, STDIN_NAME, EXCLUDE, FORCE_EXCLUDE, o.LINT_CONFIG,
    ISOLATED, ALLOW_EMPTY, o.VERBOSE,
)  # fmt: skip

_HELP = {
    "check": "attn-lint check [OPTIONS] PATHS…|-   judge every SGLang launch in files",
    "launches": "attn-lint launches [OPTIONS] PATHS…|-   list every SGLang launch in files",
}


def show_help(command: str, own: Sequence[o.Option]) -> int:
    """Print what a command takes."""
    print(f"usage: {_HELP[command]}\n\noptions:")
    for option in own:
        name = f"{option.name} {option.metavar}" if option.metavar else option.name
        print(f"  {name:24} {option.help}")
    return EXIT_CLEAN


class FileRequest:
    """A command line of these commands, taken apart."""

    def __init__(self, command: str, arguments: Sequence[str], own: Sequence[o.Option]) -> None:
        self.given = o.take_own_options(arguments, own)
        self.paths = list(self.given.launch)
        self._check_paths(command, own)
        self.configs = Configs(
            explicit=self.given.get(o.LINT_CONFIG), isolated=self.given.has(ISOLATED)
        )
        self.config = self.configs.for_folder(self._start())
        folder = self.given.get(o.MATRIX)
        self.runner = Runner(
            Options(
                self.given.get(o.GPU), self.given.get(o.CUDA), self.given.get(o.SGLANG),
                folder, self.given.has(REASON),
            ),
            self.config,
            self.configs,
        )  # fmt: skip
        self._check_options()
        self.configs.verify = self._verify
        self._verify(self.config)

    def _check_paths(self, command: str, own: Sequence[o.Option]) -> None:
        for path in self.paths:
            if path.startswith("-") and path != "-" and not Path(path).exists():
                import difflib

                close = difflib.get_close_matches(path, [option.name for option in own], 1)
                hint = f"; did you mean {close[0]}?" if close else f"; see attn-lint {command} -h"
                raise UsageError(f"{command} has no option {path}{hint}")
        if not self.paths:
            raise UsageError(f"{command} needs paths: {_HELP[command]}")

    def _start(self) -> str:
        """The folder whose configuration speaks for the run as a whole."""
        first = self.paths[0]
        if first == "-":
            first = self.given.get(STDIN_NAME) or "."
        return first if Path(first).is_dir() else str(Path(first).parent)

    # ------------------------------------------------------------- what is wrong

    def _check_options(self) -> None:
        """Refuse values that would make the run say nothing."""
        release = self.given.get(o.SGLANG)
        if release is not None and not is_release(release):
            raise UsageError(f"--sglang takes a release such as 0.5.22, not {release!r}")
        judge = self.runner.default_judge
        check_machine(judge.platforms, self.given.get(o.GPU), self.given.get(o.CUDA))
        codes = judge.statements.codes
        check_codes(codes, [*self.given.all(o.SELECT), *self.given.all(o.IGNORE)])

    def _verify(self, config: Config) -> None:
        """Refuse a configuration with values that no release, machine or code has."""
        judge = self.runner.default_judge
        check_config(config, judge.statements.codes, judge.platforms)

    # ----------------------------------------------------------------- what is read

    def files(self) -> list[Path]:
        """Files that the paths stand for, without those that are excluded."""
        names = [name for name in self.paths if name != "-"]
        patterns = self.given.all(EXCLUDE)
        found = []
        for path, named in discover.files(names):
            if named and not self.given.has(FORCE_EXCLUDE):
                found.append(path)
                continue
            text = path.as_posix()
            config = self.configs.for_file(text)
            if any(discover.matches(text, pattern) for pattern in patterns):
                continue
            if not is_excluded(text, config):
                found.append(path)
        return found

    def stdin(self) -> tuple[str, str, Encoding] | None:
        """Name, text and encoding of what comes from standard input, if it is asked for."""
        if "-" not in self.paths:
            return None
        name = self.given.get(STDIN_NAME) or "stdin.sh"
        data = sys.stdin.buffer.read()
        content = self.runner.decode(name, data)
        if content.problem is not None:
            raise InputError(f"{name}: {content.problem}")
        if content.text is None:
            # Nothing in it is of interest, but with --fix it is passed on as it came.
            return name, data.decode("utf-8", "surrogateescape"), content.encoding
        return name, content.text, content.encoding

    def wanted(self, finding: Finding, config: Config) -> Finding | None:
        """The finding with its configured severity, or None where it is not wanted."""
        select = self.given.all(o.SELECT) or [
            pattern for pattern in config.select if not of_others(pattern)
        ]
        if select and not matches(finding, select):
            return None
        if matches(finding, [*self.given.all(o.IGNORE), *config.ignore]):
            return None
        for pattern, level in config.severity.items():
            if matches(finding, (pattern,)):
                return replaced(finding, severity=as_severity(level))
        return finding

    def write(self, text: str) -> None:
        """Print a report, or write it to the file asked for."""
        name = self.given.get(OUTPUT)
        if name is None:
            if text:
                print(text)
            return
        content = (text + "\n" if text else "").encode("utf-8", "backslashreplace")
        try:
            Path(name).write_bytes(content)
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None
