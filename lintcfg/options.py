"""attn-lint's own options, told apart from the launch that they stand beside.

Own options must be spelled in full; everything else on the line belongs to the launch. No own
option has the name of a flag of SGLang's (a test holds this against every release).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..matrix.record import field, mutable_record, record
from .errors import UsageError
from .terminal import shown


@record
class Option:
    """One own option: its spelling, what it takes (None: nothing) and what it is for."""

    name: str
    metavar: str | None
    help: str
    choices: tuple[str, ...] = ()
    repeat: bool = False


GPU = Option("--gpu", "NAME", "machine to judge for: h100, b200, mi300x, sm90, … or all")
CUDA = Option("--cuda", "VERSION", "CUDA version, where it is not the machine's usual one")
SGLANG = Option("--sglang", "RELEASE", "SGLang release to judge by")
MATRIX = Option("--matrix", "FOLDER", "use the matrix data of this folder")
FORMAT = Option("--output-format", "FORMAT", "text, concise or json", ("text", "concise", "json"))
COLOR = Option("--color", "WHEN", "auto, always or never", ("auto", "always", "never"))
FAIL_ON = Option(
    "--fail-on", "SEVERITY", "lowest severity that makes the exit code 1 (default: warning)",
    ("error", "warning", "info"),
)  # fmt: skip
SELECT = Option("--select", "CODES", "report these codes or prefixes only", repeat=True)
IGNORE = Option("--ignore", "CODES", "leave these codes or prefixes out", repeat=True)
EXIT_ZERO = Option("--exit-zero", None, "end with 0 whatever was found")
LINT_CONFIG = Option("--lint-config", "FILE", "configuration instead of the nearest attn-lint.toml")
VERBOSE = Option("--verbose", None, "say what was assumed, and show every source")
BATCH = Option("--batch", "FILE", "judge JSON lines from a file or - (see the README)")

#: Options of every command that judges a launch.
LAUNCH_OPTIONS = (
    GPU, CUDA, SGLANG, MATRIX, FORMAT, COLOR, FAIL_ON, SELECT, IGNORE, EXIT_ZERO, LINT_CONFIG,
    VERBOSE,
)  # fmt: skip


@mutable_record
class Given:
    """Own options as given, and the rest of the line."""

    values: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    launch: list[str] = field(default_factory=list)

    def get(self, option: Option) -> str | None:
        """Value of an option, or None."""
        return self.values.get(option.name)

    def all(self, option: Option) -> list[str]:
        """Values of a repeatable option; commas separate as well."""
        return [
            part.strip()
            for value in self.lists.get(option.name, ())
            for part in value.split(",")
            if part.strip()
        ]

    def has(self, option: Option) -> bool:
        """Whether a switch was given."""
        return option.name in self.switches


def take_own_options(arguments: Sequence[str], options: Sequence[Option]) -> Given:
    """Split a command line into own options and the launch.

    Raises:
        UsageError: an own option lacks its value or has one that it does not know.
    """
    known = {option.name: option for option in options}
    given = Given()
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        if argument == "--" and not given.launch:
            given.launch += arguments[position:]
            break
        name, equals, value = argument.partition("=")
        option = known.get(name) if argument.startswith("--") else None
        if option is None:
            given.launch.append(argument)
            continue
        if option.metavar is None:
            if equals:
                raise UsageError(f"{name} takes no value")
            given.switches.add(name)
            continue
        if not equals:
            if position >= len(arguments):
                raise UsageError(f"{name} needs a value: {name} {option.metavar}")
            value = arguments[position]
            position += 1
        if not value and not option.repeat:
            raise UsageError(f"{name} has an empty value; it takes {option.metavar}")
        if option.choices and value not in option.choices:
            raise UsageError(f"{name} takes {', '.join(option.choices)}, not {shown(value)}")
        if option.repeat:
            given.lists.setdefault(name, []).append(value)
        else:
            given.values[name] = value
    return given
