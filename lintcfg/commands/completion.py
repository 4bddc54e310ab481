"""`attn-lint completion bash|zsh|fish`: a script that completes commands, options and flags."""

from __future__ import annotations

from collections.abc import Sequence

from .. import options as o
from ..errors import EXIT_CLEAN, UsageError

COMMANDS = (
    "check", "launches", "exec", "resolve", "suggest", "matrix", "rule", "schema", "completion",
    "docs", "facts", "verify",
)  # fmt: skip
SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_attn_lint() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    case "$previous" in
{cases}
    esac
    if [[ "$current" == -* ]]; then
        case "${{COMP_WORDS[1]}}" in
            check) COMPREPLY=($(compgen -W "{check}" -- "$current")) ;;
            launches) COMPREPLY=($(compgen -W "{launches}" -- "$current")) ;;
            *) COMPREPLY=($(compgen -W "{own} {flags}" -- "$current")) ;;
        esac
    elif [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
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
    from .file_request import CHECK_OPTIONS, LIST_OPTIONS

    release = load()
    table = load_flags(release)
    flags = sorted(name for name in table.by_name if name.startswith("--"))
    choices = {
        name: [str(choice) for choice in flag.choices if choice is not None]
        for name in flags
        if (flag := table.by_name[name]).choices
    }
    gpus = [row["name"] for row in release["platforms"]]
    choices[o.GPU.name] = [*gpus, "all", "auto"]
    own = [option.name for option in o.LAUNCH_OPTIONS]
    if shell == "fish":
        return _fish(own, flags, choices)
    cases = "\n".join(
        f'        {name}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current")); return ;;'
        for name, words in choices.items()
    )
    text = _BASH.format(
        cases=cases,
        check=" ".join(option.name for option in CHECK_OPTIONS),
        launches=" ".join(option.name for option in LIST_OPTIONS),
        own=" ".join(own),
        flags=" ".join(flags),
        commands=" ".join(COMMANDS),
    )
    if shell == "zsh":
        return "#compdef attn-lint\nautoload -U +X bashcompinit && bashcompinit\n" + text
    return text


def _fish(own: list[str], flags: list[str], choices: dict[str, list[str]]) -> str:
    lines = [
        f"complete -c attn-lint -n __fish_use_subcommand -a '{' '.join(COMMANDS)}'",
    ]
    for name in (*own, *flags):
        words = choices.get(name)
        values = f" -x -a '{' '.join(words)}'" if words else ""
        lines.append(f"complete -c attn-lint -l {name[2:]}{values}")
    return "\n".join(lines) + "\n"
