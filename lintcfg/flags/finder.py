"""Finds the server in a whole command: wrappers, environment, launcher, subcommand.

What stands around the server (`nohup`, `docker run … IMAGE`, `torchrun -m`, `bash -c "…"`) is
skipped by looking for the words that start it; which words those are is data of the release.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...matrix.record import replaced
from ..terminal import plain, shown
from .command import Command, is_quoted, module_at
from .pasted import segments, split_text, unmark
from .problems import BEFORE, ParseProblem

_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_PYTHON = re.compile(r"^(python|pypy)[0-9.]*(\.exe)?$")
#: Words that only run the command after them.
_RUNNERS = frozenset(
    {"exec", "nohup", "time", "env", "sudo", "command", "setsid", "nice", "ionice", "stdbuf",
     "numactl", "taskset", "timeout", "unbuffer", "chrt", "catchsegv", "xvfb-run", "tini"}
)  # fmt: skip
_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl"})
_IMAGE = re.compile(r"(?:[^/\s=]+/)*[^/\s=]*sglang[^/\s=]*", re.IGNORECASE)
#: Options of container tools that carry an assignment.
_ENV_OPTIONS = frozenset({"-e", "--env"})
#: How many quoted commands inside each other are opened.
_MAX_NESTING = 4


class Finder:
    """Knows the words that start a release's server."""

    def __init__(self, commands: Mapping[str, Any]) -> None:
        self.program: str = commands.get("program") or ""
        self.modules: Mapping[str, str] = commands.get("modules") or {}
        self.subcommands: Mapping[str, Any] = commands.get("subcommands") or {}
        self.top = {module.partition(".")[0] for module in self.modules}

    def find(self, words: list[str], env: dict[str, str], nesting: int) -> Command:
        """Find the server's arguments among words; `nesting` counts the quotes around them."""
        if len(words) == 1 and nesting < _MAX_NESTING and is_quoted(words[0]):
            return self._split(words[0], env, nesting)
        start = 0
        while start < len(words) and _ASSIGNMENT.match(words[start]):
            _assign(env, words[start])
            start += 1
        if start == len(words) or words[start].startswith("-"):
            return self._bare(words, start, env)
        return self._command(words, start, env, nesting)

    def _bare(self, words: list[str], start: int, env: dict[str, str]) -> Command:
        return Command(words[start:], env, "", None, words, list(range(start, len(words))))

    def _other(
        self, name: str, words: list[str], env: dict[str, str], *problems: ParseProblem
    ) -> Command:
        return Command([], env, name, name or "no command", words, [], problems=problems)

    def _split(self, text: str, env: dict[str, str], nesting: int) -> Command:
        """A whole command in one word: the part of it that starts the server."""
        try:
            words, kept = split_text(text)
        except ValueError as error:
            problem = ParseProblem(
                "command", f"the command cannot be split into words: {error}", str(error),
                index=0, end=1, order=(BEFORE, 0),
            )  # fmt: skip
            return self._other("a command that a shell cannot read", [text], env, problem)
        found: Command | None = None
        for segment in segments(words):
            command = self._segment(segment, env, nesting)
            if command is None:
                continue
            command = unmark(command, kept, env)
            if command.other_program is None:
                return command
            found = found or command
        return found or self._other("", words, env)

    def _segment(self, segment: list[str], env: dict[str, str], nesting: int) -> Command | None:
        if segment[0].startswith("#"):
            return None
        if segment[0] in ("export", "set") or all(_ASSIGNMENT.match(word) for word in segment):
            for word in segment:
                _assign(env, word)
            return None
        return self.find(segment, dict(env), nesting + 1)

    def _command(self, words: list[str], start: int, env: dict[str, str], nesting: int) -> Command:
        """A command word, perhaps behind others that run it."""
        first = self._skip_runners(words, start, env)
        for place in range(first, len(words)):
            found = self._server(words, place, place == first)
            if found is not None:
                kind, name, after = found
                self._environment(words[first:place], env)
                return self._arguments(kind, name, words, after, env)
            if is_quoted(words[place]) and nesting < _MAX_NESTING and (
                words[place - 1].startswith("-") and words[place - 1].endswith("c")
            ):  # fmt: skip
                self._environment(words[first:place], env)
                inner = self._split(words[place], env, nesting + 1)
                return replaced(inner, around=(*words[:place], *inner.around))
        contained = image_arguments(words[first:])
        if contained is not None:
            image, after = contained[0], first + contained[1]
            self._environment(words[first:after], env)
            origins = list(range(after, len(words)))
            return Command(words[after:], env, image, None, words, origins, contained=True)
        return self._other(_program_name(words, first), words, env)

    def _skip_runners(self, words: list[str], start: int, env: dict[str, str]) -> int:
        """Position of the first word that is neither a runner, its option nor an assignment."""
        place = start
        while place < len(words):
            word = words[place]
            if _ASSIGNMENT.match(word):
                _assign(env, word)
            elif posixpath.basename(word) not in _RUNNERS:
                break
            place += 1
        return place

    def _server(self, words: list[str], place: int, leading: bool) -> tuple[str, str, int] | None:
        """What starts at `place`: kind, name, position of its first argument."""
        word = words[place]
        following = words[place + 1] if place + 1 < len(words) else ""
        run = module_at(words, place)
        if run is not None and run[0].partition(".")[0] in self.top:
            return "module" if run[0] in self.modules else "other", *run
        for module in self.modules:
            if word.endswith(module.replace(".", "/") + ".py"):
                return "module", module, place + 1
        if self.program and posixpath.basename(word) == self.program and (
            leading or following in self.subcommands
        ):  # fmt: skip
            if following in self.subcommands:
                return "subcommand", following, place + 2
            return "program", following, place + 1
        return None

    def _environment(self, words: list[str], env: dict[str, str]) -> None:
        """Assignments that a container tool is told to make."""
        for number, word in enumerate(words):
            option, equals, value = word.partition("=")
            if word in _ENV_OPTIONS and number + 1 < len(words):
                _assign(env, words[number + 1])
            elif equals and option in _ENV_OPTIONS:
                _assign(env, value)
            elif _ASSIGNMENT.match(word) and not (number and words[number - 1] in _ENV_OPTIONS):
                _assign(env, word)

    # ------------------------------------------------------------- subcommands

    def _arguments(
        self, kind: str, name: str, words: list[str], after: int, env: dict[str, str]
    ) -> Command:
        args, origins = words[after:], list(range(after, len(words)))
        if kind == "module":
            return Command(args, env, name, None, words, origins)
        if kind == "other":
            return self._other(name, words, env)
        if kind == "program":
            return self._unknown_subcommand(name, words, after, env)
        rules = self.subcommands[name]
        label = f"{self.program} {name}"
        if rules["serves"] == "other":
            return self._other(label, words, env)
        return self._dispatch(label, rules, words, args, origins, env)

    def _unknown_subcommand(
        self, name: str, words: list[str], after: int, env: dict[str, str]
    ) -> Command:
        known = ", ".join(self.subcommands)
        server = next(
            (key for key, rules in self.subcommands.items() if rules["serves"] != "other"), ""
        )
        if name and not name.startswith("-"):
            message = f"{self.program} has no subcommand {shown(name)}; use {self.program} {server}"
            says = f"invalid choice: {shown(name)} (choose from {known})"
            after += 1
        else:
            message = f"{self.program} needs a subcommand, such as {server}"
            says = "the following arguments are required: subcommand"
        problem = ParseProblem(
            "command", message, says, value=name or None, index=after - 1, end=after,
            replacements=(f"{self.program} {server}",) if server else (), order=(BEFORE, 0),
        )  # fmt: skip
        is_flags = after < len(words) and words[after].startswith("-")
        if name not in {module.rpartition(".")[2] for module in self.modules} and not is_flags:
            return self._other(f"{self.program} {plain(name)}".strip(), words, env, problem)
        return Command(
            words[after:], env, f"{self.program} {plain(name)}".strip(), None, words,
            list(range(after, len(words))), problems=(problem,),
        )  # fmt: skip

    def _dispatch(
        self,
        label: str,
        rules: Mapping[str, Any],
        words: list[str],
        args: list[str],
        origins: list[int],
        env: dict[str, str],
    ) -> Command:
        """The console program's own reading of the arguments, before the server's parser."""
        problems: list[ParseProblem] = []
        backends: Mapping[str, str] = rules.get("backends") or {}
        backend = next((key for key, serves in backends.items() if serves == "auto"), "llm")
        option = rules.get("backend_flag")
        if option:
            backend = self._take_backend(option, args, origins, backend, backends, problems)
        serves = backends.get(backend, "other") if backends else "llm"
        if args and rules.get("positional") and not args[0].startswith("-"):
            args.insert(0, rules["positional"])
            origins.insert(0, origins[0])
        if serves == "other" and not problems:
            return self._other(f"{label} {option} {backend}", words, env)
        helps = any(word in rules.get("help", ()) for word in args)
        required = rules.get("required_any") or ()
        spelled = any(
            word in required or (word.partition("=")[0] in required and "=" in word)
            for word in args
        )
        if required and not spelled and not helps and not problems:
            problems.append(
                ParseProblem(
                    "missing-required",
                    f"{label} needs {required[0]}, spelled out on the command line"
                    + (f", or a model as its first word: {label} MODEL" if rules.get("positional")
                       else ""),
                    f"{required[0]} is required",
                    flag=required[0],
                    order=(BEFORE, 0),
                )
            )  # fmt: skip
        backend = "auto" if serves == "auto" else "llm"
        return Command(args, env, label, None, words, origins, backend, problems=tuple(problems))

    def _take_backend(
        self,
        option: str,
        args: list[str],
        origins: list[int],
        backend: str,
        backends: Mapping[str, str],
        problems: list[ParseProblem],
    ) -> str:
        """Take the option that chooses a backend out of the arguments; the last one counts."""
        place = 0
        where = 0
        while place < len(args):
            word = args[place]
            taken = 1
            if word == option:
                taken = 2
                if place + 1 == len(args):
                    problems.append(
                        ParseProblem(
                            "missing-value", f"{option} needs a value",
                            f"{option} requires a value", flag=option, index=origins[place],
                            end=origins[place] + 1, order=(BEFORE, 0),
                        )
                    )  # fmt: skip
                    del args[place], origins[place]
                    return backend
                backend = args[place + 1]
            elif word.startswith(option + "="):
                backend = word.partition("=")[2]
            else:
                place += 1
                continue
            where = origins[place]
            del args[place : place + taken], origins[place : place + taken]
        if backend not in backends:
            listed = ", ".join(backends)
            problems.append(
                ParseProblem(
                    "invalid-choice",
                    f"{option} has no value {shown(backend)}; it is one of {listed}, "
                    "unless a plugin adds it",
                    f"Unknown serve backend {shown(backend)}",
                    refuses=True if not backend else None,
                    flag=option,
                    value=backend,
                    index=where,
                    end=where + 1,
                    choices=tuple(backends),
                    order=(BEFORE, 0),
                )
            )
        return backend


def image_arguments(words: Sequence[str]) -> tuple[str, int] | None:
    """The image whose entrypoint is the server, and the position of its first argument:
    `docker run … sglang:mine --model-path …`.
    """
    programs = {posixpath.basename(word) for word in words[:4]}
    if programs.isdisjoint(_CONTAINER_TOOLS) or "run" not in words:
        return None
    for place in range(words.index("run") + 1, len(words) - 2):
        if not _IMAGE.fullmatch(words[place]) or words[place - 1].startswith("-"):
            continue
        after = words[place + 1 :]
        names = {word.partition("=")[0] for word in after}
        if after[0].startswith("--") and names & {"--model-path", "--model"}:
            return words[place], place + 1
    return None


def _assign(env: dict[str, str], word: str) -> None:
    if _ASSIGNMENT.match(word):
        name, _, value = word.partition("=")
        env[name] = value


def _program_name(words: list[str], first: int) -> str:
    """A name for what is not ours: the program, or the module or script Python runs."""
    if first >= len(words):
        return ""
    while first + 1 < len(words) and re.match(r"-|\d+$", words[first]):
        first += 1
    name = posixpath.basename(words[first])
    if not _PYTHON.match(name):
        return plain(name)
    for place in range(first + 1, len(words)):
        run = module_at(words, place)
        if run is not None:
            return plain(run[0])
        if not words[place].startswith("-"):
            return plain(posixpath.basename(words[place]))
    return name
