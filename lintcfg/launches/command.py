"""Tells whether words are a launch: SGLang's own command, a wrapper's flags, or somebody else's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..context import Context, from_words
from ..flags import module_at, strip_command
from ..flags.finder import image_arguments
from .model import Extraction, Found, Variant
from .text import Source, join, made

#: Commands that only talk about what follows them.
TALKERS = frozenset(
    {"echo", "printf", "grep", "egrep", "pgrep", "pkill", "kill", "killall", "ps", "cat", "which",
     "pip", "pip3", "git", "curl", "wget", "sed", "awk", "ls", "cd", "rm", "cp", "mv", "mkdir",
     "test", "[", "[[", "logger", "apt", "apt-get", "conda", "uv-pip", "chmod", "die", "log",
     "warn", "error", "info", "usage", "fail", "read", "export", "type", "trap"}
)  # fmt: skip


def talks(words: Sequence[str]) -> bool:
    """Whether a command only talks about what follows it; `conda run` runs it."""
    name = PurePosixPath(words[0]).name if words else ""
    return name in TALKERS and not (name == "conda" and words[1:2] == ["run"])


#: Programs that hand their arguments to SGLang's own parser, beside flags of their own.
LAUNCHERS = {
    "dynamo.sglang": "dynamo",
    "sglang_router.launch_server": "sglang-router",
}
#: Their modules; one may have a module for each role of its workers.
_LAUNCHER = re.compile(r"(dynamo\.sglang|sglang_router\.launch_server)(?:\.\w*(?:worker|main))?")
#: Programs of SGLang's that start no server of the kind judged here.
CLIENTS = "a client or a benchmark of SGLang's"
WRAPPED_PREFIX = "--sglang-"
#: Formats in which a command line is all that there is of it.
_SCRIPTS = frozenset({"shell", "makefile", "justfile", "notebook"})
#: Formats in which a command without arguments is a mention of it.
_TEXTS = frozenset({"markdown", "rst", "python", "json", "toml"})
#: Flags of trainers that name the model which the wrapped engine serves.
_MODEL_FLAGS = ("--hf-checkpoint",)
_HYDRA = re.compile(r"^\+{0,2}((?:[A-Za-z_]\w*\.)*sglang)\.([a-z][a-z0-9_]*)=")
_HYDRA_KEY = re.compile(r"^[+~]{0,2}[A-Za-z_][\w.]*=")
_HYDRA_MODEL = re.compile(r"^\+{0,2}(?:[A-Za-z_]\w*\.)*model\.path=")
_FLAG = re.compile(r"^--?[A-Za-z]")
#: Length of `--tp-size` and its like; names cut shorter than this tell nothing.
_SHORT = len("--tp-size")
_OTHER_ENGINES = ("vllm", "trtllm", "tensorrt_llm", "lmdeploy", "tgi", "text-generation")


class Commands:
    """Knows the words that start servers of a release, and puts launches into an extraction."""

    def __init__(
        self,
        rules: Mapping[str, Any],
        flags: frozenset[str],
        several: frozenset[str] = frozenset(),
    ) -> None:
        """Take the release's `commands` section and the spellings of flags.

        `flags` has those of all flags, gone ones included, `several` those that take a list.
        """
        self.several = several
        self.rules = rules
        # `--tp` is how most people write `--tp-size`.
        self.flags = flags | {name.removesuffix("-size") for name in flags if len(name) == _SHORT}
        self._cut_short: dict[str, bool] = {}
        self.program: str = rules.get("program") or ""
        diffusion = rules.get("diffusion") or {}
        self.diffusion_models: tuple[str, ...] = tuple(diffusion.get("models", ()))
        self.diffusion_flags = frozenset(diffusion.get("flags", ()))

    def take(
        self,
        words: Sequence[Source],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        *,
        span: tuple[int, int] | None = None,
        context: Context | None = None,
    ) -> bool:
        """Add the launch that words make up, if they do; returns whether they did."""
        if not words:
            return False
        words = _without_repeats(words)
        texts = [word.text for word in words]
        if talks([text for text in texts if "=" not in text or text.startswith("-")]):
            return False
        start, end = span or (words[0].start, words[-1].end)
        context = context or Context()
        from_words(texts, context)
        if any(WRAPPED_PREFIX in text for text in texts) and self._wrapped(
            words, environment, out, kind, (start, end), context
        ):
            return True
        if any("sglang." in text and "=" in text for text in texts) and self._hydra(
            words, environment, out, kind, (start, end), context
        ):
            return True
        for place in range(len(texts)):
            run = module_at(texts, place)
            launcher = _LAUNCHER.fullmatch(run[0]) if run is not None else None
            if run is not None and launcher is not None:
                argv = words[run[1] :]
                if self._mentioned(argv, kind) or any(word.text == "--help" for word in argv):
                    return False
                self._add(
                    argv, environment, out, kind, (start, end), context,
                    wrapper=LAUNCHERS[launcher.group(1)], command=run[0],
                )  # fmt: skip
                return True
        return self._direct(words, texts, environment, out, kind, (start, end), context)

    def starts(self, texts: Sequence[str]) -> bool:
        """Whether words start a server by themselves, or a launcher of one."""
        command = strip_command(texts, self.rules)
        if command.other_program:
            return _LAUNCHER.fullmatch(command.other_program) is not None
        return bool(command.name)

    def _direct(
        self,
        words: Sequence[Source],
        texts: list[str],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        span: tuple[int, int],
        context: Context,
    ) -> bool:
        if not any("sglang" in text for text in texts):
            self._name_other(texts, words, out)
            return False
        if len(texts) == 1:
            return False
        command = strip_command(texts, self.rules)
        if command.other_program or not command.name or command.contained:
            if self._contained(words, texts, environment, out, kind, span, context):
                return True
            self._name_other(texts, words, out, command.other_program)
            return False
        problem = next((p for p in command.problems if p.kind == "command"), None)
        if problem is not None:
            out.skip(span[0], command.name, problem.message)
            return False
        if command.words != texts:
            return False
        if any(text in ("-h", "--help") for text in command.argv):
            out.skip(span[0], command.name, "prints the help and starts no server")
            return False
        span = _own_span(words, min(command.origins, default=len(words)), span)
        argv = []
        for text, origin in zip(command.argv, command.origins, strict=True):
            word = words[origin]
            argv.append(word if word.text == text else made(text, word.start))
        whole = len(argv)
        argv = _until_noise(argv)
        if self._mentioned(argv, kind):
            return False
        merged = dict(environment)
        for name, value in command.environment.items():
            merged.setdefault(name, made(value, span[0]))
        if command.backend == "auto" and self._draws(argv):
            out.skip(span[0], command.name, "the diffusion server, which has another parser")
            return False
        # Documentation leaves out what its readers know; a bare command in an image or a manifest
        # gets its arguments from elsewhere, and so does one that is repeated for each of a list.
        partial = (
            len(argv) < whole
            or kind in ("markdown", "rst")
            or not _REPEATERS.isdisjoint(texts)
            or (not argv and kind not in _SCRIPTS)
        )
        self._add(argv, merged, out, kind, span, context, partial=partial, command=command.name)
        return True

    def _contained(
        self,
        words: Sequence[Source],
        texts: list[str],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        span: tuple[int, int],
        context: Context,
    ) -> bool:
        """`docker run … sglang:mine --model-path …`: an image whose entrypoint is the server."""
        contained = image_arguments(texts)
        return contained is not None and self.bare(
            words[contained[1] :], environment, out, kind,
            context=context, wrapper="image", span=span,
        )  # fmt: skip

    @staticmethod
    def _mentioned(argv: Sequence[Source], kind: str) -> bool:
        """Whether a command is only named: prose and programs do so without its arguments."""
        return not argv and kind in _TEXTS

    def _draws(self, argv: Sequence[Source]) -> bool:
        """Whether the program hands these arguments to its diffusion server."""
        for place, word in enumerate(argv):
            name, equals, value = word.text.partition("=")
            if name in self.diffusion_flags:
                return True
            if name not in ("--model-path", "--model") or not (equals or place + 1 < len(argv)):
                continue
            if self.is_diffusion(value if equals else argv[place + 1].text):
                return True
        return False

    def is_diffusion(self, path: str) -> bool:
        """Whether a model's path or id is one that the program draws with."""
        last = path.rstrip("/").rpartition("/")[2].lower()
        return any(part in last for part in self.diffusion_models)

    def _name_other(
        self, texts: list[str], words: Sequence[Source], out: Extraction, name: str | None = None
    ) -> None:
        """Say what was passed over, where it could be taken for a launch."""
        flagged = any("attention-backend" in text and " " not in text for text in texts)
        if name is None and not flagged:
            return
        for text in texts:
            if any(mark in text.lower() for mark in _OTHER_ENGINES):
                out.skip(words[0].start, text, "another engine's command")
                return
        if name and (
            flagged or any("sglang" in t and not t.startswith("-") and " " not in t for t in texts)
        ):
            rules = self.rules.get("subcommands", {}).get(name.removeprefix(f"{self.program} "))
            if rules is not None and rules["serves"] == "other":
                out.skip(words[0].start, name, "no language server: the program's other command")
            elif name.partition(".")[0] == self.program or name.startswith("bench"):
                out.skip(words[0].start, name, CLIENTS)
            elif flagged:
                out.skip(words[0].start, name, "not a command that starts SGLang")

    def _wrapped(
        self,
        words: Sequence[Source],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        span: tuple[int, int],
        context: Context,
    ) -> bool:
        """Flags of SGLang's behind a trainer's prefix."""
        first = words[0].text
        if not first.startswith(WRAPPED_PREFIX[:2]) and not _is_program(first):
            return False  # prose that mentions a flag
        argv: list[Source] = []
        place = 0
        while place < len(words):
            word = words[place]
            place += 1
            name, _, value = word.text.partition("=")
            if name in _MODEL_FLAGS:
                given = word if value else words[place] if place < len(words) else None
                if given is not None and not given.open and "{" not in given.text:
                    context.note("model", value or given.text, name)
                continue
            if not name.startswith(WRAPPED_PREFIX) or (
                "--" + name[len(WRAPPED_PREFIX) :] not in self.flags
                and not self._was_a_flag("--" + name[len(WRAPPED_PREFIX) :])
            ):
                continue
            argv.append(join([word.slice(0, 2), word.slice(len(WRAPPED_PREFIX), len(word.text))]))
            while place < len(words) and not _FLAG.match(words[place].text):
                argv.append(words[place])
                place += 1
        if not argv:
            return False
        if not _is_program(words[0].text) and not self._weighs(argv, span, out):
            return False
        self._add(argv, environment, out, kind, span, context, wrapper="--sglang-", partial=True)
        return True

    def _weighs(self, argv: list[Source], span: tuple[int, int], out: Extraction) -> bool:
        """Whether flags without a command are more than a mention of one."""
        flags = [word.text.partition("=")[0] for word in argv if word.text.startswith("--")]
        weighty = [flag for flag in flags if flag not in _ADDRESS]
        if len(weighty) > 1 or any("attention" in flag for flag in flags):
            return True
        named = (weighty or flags or [""])[0]
        out.skip(span[0], named, "a single flag without a command")
        return False

    def _was_a_flag(self, name: str) -> bool:
        """Whether a name that the release lacks still reads like one of an attention flag."""
        return name.endswith(("-backend", "-dtype", "-topk", "-size")) or name.startswith(
            ("--nsa-", "--dsa-", "--speculative-", "--enable-flash", "--disable-")
        )

    def _hydra(
        self,
        words: Sequence[Source],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        span: tuple[int, int],
        context: Context,
    ) -> bool:
        """Overrides whose key ends in `sglang.<field>`."""
        argv: list[Source] = []
        prefix = ""
        for word in words:
            if _HYDRA_MODEL.match(word.text) and not word.open:
                context.note("model", word.text.partition("=")[2], "model.path")
            match = _HYDRA.match(word.text)
            if match is None:
                continue
            value = word.slice(match.end(), len(word.text))
            text = value.text
            if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
                value = value.slice(1, len(text) - 1)
            pair = keyed(word.slice(match.start(2), match.end(2)), value, self.is_flag)
            if pair:
                prefix = prefix or match.group(1)
                argv += pair
        if not prefix:
            return False
        if not _is_program(words[0].text) and (
            not _HYDRA_KEY.match(words[0].text) or not self._weighs(argv, span, out)
        ):  # fmt: skip
            return False
        self._add(argv, environment, out, kind, span, context, wrapper=prefix, partial=True)
        return True

    def bare(
        self,
        words: Sequence[Source],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        *,
        context: Context | None = None,
        wrapper: str,
        span: tuple[int, int] | None = None,
    ) -> bool:
        """Add flags that stand without a command word; what surrounds them told whose they are."""
        flags = [word.text.partition("=")[0] for word in words if _FLAG.match(word.text)]
        if self._draws(words):
            out.skip(words[0].start, flags[0], "flags of the diffusion server")
            return False
        known = [flag for flag in flags if self.is_flag(flag)]
        if not known or len(known) * 2 < len(flags):
            return False
        if wrapper != "image" and not self._weighs(list(words), span or (words[0].start, 0), out):
            return False
        span = span or (words[0].start, words[-1].end)
        self._add(
            words, environment, out, kind, span, context or Context(), wrapper=wrapper,
            partial=True,
        )  # fmt: skip
        return True

    def all_flags(self, words: Sequence[Source]) -> bool:
        """Whether words hold several flags, every one of them SGLang's."""
        flags = [word.text.partition("=")[0] for word in words if _FLAG.match(word.text)]
        return len(flags) > 1 and all(self.is_flag(flag) for flag in flags)

    def is_flag(self, name: str) -> bool:
        """Whether a flag of that name is SGLang's, cut short or not."""
        if name in self.flags:
            return True
        known = self._cut_short.get(name)
        if known is None:
            known = len(name) > _SHORT and any(flag.startswith(name) for flag in self.flags)
            if len(self._cut_short) < 10_000:
                self._cut_short[name] = known
        return known

    def _add(
        self,
        argv: Sequence[Source],
        environment: Mapping[str, Source],
        out: Extraction,
        kind: str,
        span: tuple[int, int],
        context: Context,
        *,
        wrapper: str = "",
        partial: bool = False,
        command: str = "",
    ) -> None:
        env = tuple((name, value.text) for name, value in environment.items())
        opened = frozenset(name for name, value in environment.items() if value.open)
        out.add(
            Found(
                kind,
                span[0],
                span[1],
                [Variant(tuple(argv), env, opened)],
                context,
                wrapper,
                partial or bool(wrapper),
                command=command,
            )
        )


#: Programs that run a command again and again, with an item of a list put in or behind it.
_REPEATERS = frozenset({"xargs", "parallel"})
_TO_FILL = re.compile(r"\[[a-z][a-z_ -]+\]|[A-Z_]*PLACEHOLDER[A-Z_]*")
_ADDRESS = ("--host", "--port")  # clients' settings have them too
_PROGRAMS = frozenset(
    {"python", "python3", "bash", "sh", "ray", "torchrun", "srun", "mpirun", "mpiexec",
     "accelerate", "deepspeed", "exec", "nohup", "env", "time", "timeout", "numactl", "uv",
     "poetry", "docker", "podman", "apptainer", "singularity", "kubectl", "sbatch", "sudo",
     "setsid", "taskset", "xargs", "ssh", "tmux", "screen", "conda", "pixi", "modal", "sky"}
)  # fmt: skip


def _is_program(word: str) -> bool:
    """Whether a word can be what a command line starts with, not the start of a sentence."""
    name = PurePosixPath(word).name
    return name in _PROGRAMS or word.startswith(("$", "/", "./", "../")) or name.endswith(
        (".py", ".sh")
    )  # fmt: skip


def keyed(key: Source, value: Source | None, known: Callable[[str], bool]) -> list[Source]:
    """The words of a flag that is written as a key and a value; empty where it is no flag.

    A value None, or one that says false, leaves the flag out; one that says true gives the flag
    alone.
    """
    dashed = key.text.strip().replace("_", "-")
    name = "--" + dashed.lstrip("-")
    if not known(name):
        return []
    word = Source(name, (0, 2), (key.start, key.start)) if key.text else made(name, key.start)
    if value is None:
        return []
    text = value.text.strip()
    if not value.open and text.lower() in ("true", "yes", "on"):
        return [word]
    if not value.open and (text.lower() in ("false", "null", "~", "") or text == "None"):
        return []  # `none` is a value of some flags, `None` what a program calls nothing
    return [word, value]


def _without_repeats(words: Sequence[Source]) -> Sequence[Source]:
    """Words of a command that is run for each of a list: what stands for an item is not known."""
    if _REPEATERS.isdisjoint(word.text for word in words):
        return words
    kept: list[Source] = []
    for word in words:
        if word.text.startswith(":::"):
            return [*kept, word.opened()]  # the list itself
        kept.append(word.opened() if "{" in word.text else word)
    if kept == list(words):  # where none is put in, it stands at the end
        kept.append(made("", words[-1].end, known=False))
    return kept


def _own_span(words: Sequence[Source], after: int, span: tuple[int, int]) -> tuple[int, int]:
    """Where a command stands whose words come from a variable: there, not where it is used."""
    module = next((w for w in reversed(words[:after]) if "sglang" in w.text), None)
    if module is None or span[0] <= module.start < span[1]:
        return span
    place = words.index(module)
    first = place
    while first > 0 and words[first - 1].start < words[first].start and (
        module.start - words[first - 1].start < 200
    ):  # fmt: skip
        first -= 1
    last = place
    while last + 1 < len(words) and words[last + 1].start > words[last].start:
        last += 1
    return words[first].start, words[last].end


def _until_noise(argv: list[Source]) -> list[Source]:
    """Drop what documentation puts behind a command: an ellipsis, a bare backslash.

    An empty word is a variable that this way through the file left empty; nobody means it so, nor
    what a reader or another program is to fill in.
    """
    return [
        word if word.text and not _TO_FILL.fullmatch(word.text) else word.opened()
        for word in argv
        if word.text not in ("...", "…", "\\", "[...]")
    ]
