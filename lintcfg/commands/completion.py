"""`attn-lint completion bash|zsh|fish`: a script that completes commands, options and flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import options as o
from ..errors import EXIT_CLEAN, UsageError

if TYPE_CHECKING:
    import typer

COMMANDS = (
    "check", "launches", "exec", "resolve", "suggest", "matrix", "rule", "schema", "completion",
    "docs", "facts", "verify",
)  # fmt: skip
SHELLS = ("bash", "zsh", "fish")
#: Commands that a launch follows: they take SGLang's flags beside their own options.
LAUNCHES = ("resolve", "suggest")


@dataclass(frozen=True)
class Words:
    """What may come after a command: words of its own, options, and values of options."""

    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


_BASH = """\
_attn_lint() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="" words="" options=""
    COMPREPLY=()
    if [[ $COMP_CWORD -gt 1 ]]; then
        command="${{COMP_WORDS[1]}}"
        if [[ $COMP_CWORD -gt 2 ]]; then
            case "$command ${{COMP_WORDS[2]}}" in
                {subcommands}) command="$command ${{COMP_WORDS[2]}}" ;;
            esac
        fi
    fi
    case "$command $previous" in
{values}
    esac
    case "$command" in
{commands}
        *) words="" options="{own} {flags}"
            case "$previous" in
{choices}
            esac ;;
    esac
    if [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "{names}" -- "$current"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _attn_lint attn-lint
"""


def run(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell."""
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        raise UsageError(f"completion takes one of {', '.join(SHELLS)}")
    print(script(arguments[0]), end="")
    return EXIT_CLEAN


def script(shell: str) -> str:
    """The script, with the flags and choices of the default release."""
    from ...matrix.loader import load
    from ..flags import load_flags

    release = load()
    table = load_flags(release)
    flags = sorted(name for name in table.by_name if name.startswith("--"))
    choices: dict[str, Sequence[str]] = {
        name: [str(choice) for choice in flag.choices if choice is not None]
        for name in flags
        if (flag := table.by_name[name]).choices
    }
    gpus = [*(row["name"] for row in release["platforms"]), "all", "auto"]
    choices |= _values(o.LAUNCH_OPTIONS, gpus)
    own = [option.name for option in o.LAUNCH_OPTIONS]
    commands = dict(every_command(gpus))
    if shell == "fish":
        return _fish(own, flags, choices, commands)
    text = _bash(own, flags, choices, commands)
    if shell == "zsh":
        return "#compdef attn-lint\nautoload -U +X bashcompinit && bashcompinit\n" + text
    return text


def every_command(gpus: Sequence[str]) -> Iterator[tuple[str, Words]]:
    """What each command takes that does not take a launch; `matrix show` is a command as well."""
    from .. import app, docs_app, verify_app
    from .exec import OPTIONS as EXEC_OPTIONS
    from .file_request import CHECK_OPTIONS, LIST_OPTIONS
    from .schema import KINDS

    yield "check", _own(CHECK_OPTIONS, gpus)
    yield "launches", _own(LIST_OPTIONS, gpus)
    yield "exec", _own(EXEC_OPTIONS, gpus)
    yield "schema", Words(KINDS)
    yield "completion", Words(SHELLS)
    yield from _typer("", app.app)
    yield from _typer("verify", verify_app.app)
    for name, below in (("docs", "generate"), ("facts", "diff")):
        ((_, words),) = _typer(name, getattr(docs_app, f"{name}_app"))
        yield name, Words((below,), words.options, words.values)
        yield from _typer(f"{name} {below}", getattr(docs_app, f"{below}_app"))


def _own(options: Sequence[o.Option], gpus: Sequence[str]) -> Words:
    return Words((), tuple(option.name for option in options), _values(options, gpus))


def _values(options: Sequence[o.Option], gpus: Sequence[str]) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {each.name: each.choices for each in options if each.choices}
    if o.GPU in options:
        found[o.GPU.name] = gpus
    return found


def _typer(name: str, application: typer.Typer) -> Iterator[tuple[str, Words]]:
    """A typer application's commands, asked of what it runs."""
    from typer.main import get_command

    yield from _click(name, get_command(application))


def _click(name: str, command: Any) -> Iterator[tuple[str, Words]]:
    below: Mapping[str, Any] = getattr(command, "commands", {})
    options = [each for each in command.params if each.param_type_name == "option"]
    if name:
        values = {
            spelled: [*map(str, getattr(each.type, "choices", ())), *_known(name, spelled)]
            for each in options
            for spelled in each.opts
        }
        yield (
            name,
            Words(
                tuple(below),
                (*(spelled for each in options for spelled in each.opts), "--help"),
                {spelled: words for spelled, words in values.items() if words},
            ),
        )
    for word, each in below.items():
        yield from _click(f"{name} {word}".strip(), each)


def _known(command: str, option: str) -> list[str]:
    """Names that an option takes without listing them as its choices."""
    from ...matrix import loader
    from .matrix_show import BUNDLED

    bundled = loader.load(BUNDLED, loader.releases(BUNDLED)[-1])
    known = {
        ("verify", "--backend"): bundled["rows"],
        ("verify rows", "--backend"): bundled["rows"],
        ("verify", "--cell"): bundled["bundled"]["cells"],
        ("verify", "--calls"): bundled["bundled"]["architectures"],
    }
    if (command, option) == ("matrix show", "--backend"):
        rows = loader.load()["backends"]
        return sorted({*(row["name"] for row in rows), *bundled["rows"]})
    return list(known.get((command, option), ()))


def _bash(
    own: Sequence[str],
    flags: Sequence[str],
    choices: Mapping[str, Sequence[str]],
    commands: Mapping[str, Words],
) -> str:
    def offer(case: str, words: Sequence[str]) -> str:
        listed = " ".join(words)
        return f'        {case}) COMPREPLY=($(compgen -W "{listed}" -- "$current")); return ;;'

    return _BASH.format(
        subcommands="|".join(f'"{name}"' for name in commands if " " in name),
        values="\n".join(
            offer(f'"{name} {option}"', words)
            for name, each in commands.items()
            for option, words in each.values.items()
        ),
        commands="\n".join(
            f'        "{name}") words="{" ".join(each.words)}" '
            f'options="{" ".join(each.options)}" ;;'
            for name, each in commands.items()
        ),
        choices="\n".join(f"        {offer(name, words)}" for name, words in choices.items()),
        own=" ".join(own),
        flags=" ".join(flags),
        names=" ".join(COMMANDS),
    )


def _fish(
    own: Sequence[str],
    flags: Sequence[str],
    choices: Mapping[str, Sequence[str]],
    commands: Mapping[str, Words],
) -> str:
    lines = [
        f"complete -c attn-lint -n __fish_use_subcommand -a '{' '.join(COMMANDS)}'",
    ]
    others = " ".join(name for name in COMMANDS if name not in LAUNCHES)
    launch = f"'not __fish_seen_subcommand_from {others}'"
    for name in (*own, *flags):
        lines.append(_fish_option(launch, name, choices.get(name)))
    below = {
        name: [each.split()[1] for each in commands if each.startswith(f"{name} ")]
        for name in commands
    }
    for name, each in commands.items():
        words = name.split()
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)
        if below[name]:
            seen += f"; and not __fish_seen_subcommand_from {' '.join(below[name])}"
        if each.words:
            lines.append(f"complete -c attn-lint -n '{seen}' -a '{' '.join(each.words)}'")
        for option in each.options:
            lines.append(_fish_option(f"'{seen}'", option, each.values.get(option)))
    return "\n".join(lines) + "\n"


def _fish_option(condition: str, name: str, words: Sequence[str] | None) -> str:
    values = f" -x -a '{' '.join(words)}'" if words else ""
    kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
    return f"complete -c attn-lint -n {condition} {kind}{values}"
