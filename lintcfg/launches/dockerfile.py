"""Launches of Dockerfiles: CMD, ENTRYPOINT and RUN in both forms, and documents inside them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ..context import Context, from_image
from . import shell
from .command import Commands
from .escapes import unescaped
from .model import Extraction
from .text import Source, join

_PARSERS: dict[str, Any] = {}
_LINE = re.compile(r"[^\n]*\n?")
#: A continued line, comments and empty lines, of which Docker drops the empty ones with a warning.
_CONTINUED = re.compile(r"\\[ \t]*\r?\n((?:[ \t]*(?:#[^\n]*)?\r?\n)+)")
_TRAILING = re.compile(r"\\([ \t]+)(?=\n)")
_EMPTY = re.compile(r"^[ \t]*\r?\n", re.MULTILINE)


def find(
    source: Source, commands: Commands, out: Extraction, embedded: shell.Embedded | None = None
) -> None:
    """Find the launches of a Dockerfile."""
    parser = _PARSERS.get("dockerfile")
    if parser is None:
        import tree_sitter
        import tree_sitter_containerfile

        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_containerfile.language()))
        _PARSERS["dockerfile"] = parser
    text = source.text
    if not text.endswith("\n"):
        source = join([source, Source("\n", (0,), (source.end,))])
    source = _without_empty_continuations(_without_trailing_blanks(source))
    _File(source, commands, out, embedded).run(parser.parse(source.text.encode()).root_node)


def _without_trailing_blanks(source: Source) -> Source:
    """The file with blanks moved from behind a backslash that continues a line to before it.

    Docker lets them stand there; a shell, which runs documents, does not.
    """
    if "<<" in source.text:
        return source
    text = _TRAILING.sub(lambda match: match.group(1) + "\\", source.text)
    return replace(source, text=text)


def _without_empty_continuations(source: Source) -> Source:
    """The file without empty lines inside an instruction, at which the grammar would end it."""
    parts, position = [], 0
    for match in _CONTINUED.finditer(source.text):
        for empty in _EMPTY.finditer(source.text, match.start(1), match.end(1)):
            parts.append(source.slice(position, empty.start()))
            position = empty.end()
    if not parts:
        return source
    return join([*parts, source.slice(position, len(source.text))])


class _File:
    def __init__(
        self,
        source: Source,
        commands: Commands,
        out: Extraction,
        embedded: shell.Embedded | None,
    ) -> None:
        self.reader = shell.Shell(source, commands, out, "dockerfile", None, None, 0)
        self.source = source
        self.commands = commands
        self.out = out
        self.embedded = embedded
        self.environment: dict[str, Source] = {}
        self.context = Context()
        self.stages: dict[str, Context] = {}
        self.entrypoint: list[Source] | None = None
        self.command: list[Source] | None = None
        self.shell_entrypoint = False

    def run(self, root: Any) -> None:
        """Walk the instructions in order."""
        for node in root.named_children:
            kind = node.type
            if kind == "from_instruction":
                self.finish()
                self.stage(node)
            elif kind in ("env_instruction", "arg_instruction"):
                self.variables(node)
            elif kind in ("cmd_instruction", "entrypoint_instruction"):
                self.start(node, kind.startswith("entrypoint"))
            elif kind == "run_instruction":
                self.shell_form(node)
                self.documents(node)
            elif kind in ("copy_instruction", "add_instruction"):
                self.documents(node)
            elif kind in ("ERROR", "onbuild_instruction"):
                self.run(node)
        self.finish()

    def stage(self, node: Any) -> None:
        """A new stage: its image, or the stage that it goes on from, and no command yet."""
        self.entrypoint = self.command = None
        self.shell_entrypoint = False
        self.context = Context()
        for child in node.named_children:
            if child.type == "image_spec":
                text = self.reader.text(child)
                for name, value in self.environment.items():
                    text = text.replace(f"${{{name}}}", value.text).replace(f"${name}", value.text)
                from_image(text, self.context)
                self.context.fill(self.stages.get(text.lower(), Context()))
            elif child.type == "image_alias":
                self.stages[self.reader.text(child).lower()] = self.context

    def variables(self, node: Any) -> None:
        """ENV and ARG."""
        for pair in node.named_children:
            parts = [child for child in pair.named_children if child.is_named]
            if not pair.type.endswith("_pair") or len(parts) < 2:
                continue
            value = self.reader.piece(parts[1].start_byte, parts[-1].end_byte)
            if len(value.text) > 1 and value.text[0] == value.text[-1] and value.text[0] in "'\"":
                value = value.slice(1, len(value.text) - 1)
            name = self.reader.text(parts[0])
            self.environment[name] = value
            if shell.is_flag_variable(name) and value.text.lstrip().startswith("--"):
                self.pending.append((name, value))

    @property
    def pending(self) -> list[tuple[str, Source]]:
        """Variables that hold flags for a command that is not seen."""
        if not hasattr(self, "_pending"):
            self._pending: list[tuple[str, Source]] = []
        return self._pending

    def start(self, node: Any, entry: bool) -> None:
        """CMD or ENTRYPOINT."""
        array = next((c for c in node.named_children if c.type == "json_string_array"), None)
        if array is None:
            self.shell_form(node)
            if entry:
                self.shell_entrypoint = True
            else:
                self.command = None
            return
        words = []
        for item in array.named_children:
            raw = self.reader.piece(item.start_byte + 1, item.end_byte - 1)
            words.append((unescaped(raw) or raw) if "\\" in raw.text else raw)
        if entry:
            self.entrypoint, self.command = words, None
        else:
            self.command = words

    def finish(self) -> None:
        """The command that a stage ends with."""
        words = [*(self.entrypoint or []), *(self.command or [])]
        self.entrypoint = self.command = None
        if words and not self.shell_entrypoint:
            walker = shell.Shell(
                self.source, self.commands, self.out, "dockerfile", self.context, self.embedded, 1
            )
            state = shell.State(
                {name: shell.Value((value,), exported=True)
                 for name, value in self.environment.items()}
            )  # fmt: skip
            walker.consider(words, self.exported(), state, (words[0].start, words[-1].end))
        for name, value in self.pending:
            taken = any(
                word.start == part.start
                for found in self.out.launches
                for variant in found.variants
                for word in variant.words
                for part in value.split()
            )
            if not taken:
                self.commands.bare(
                    value.split(), {}, self.out, "dockerfile", context=self.context, wrapper=name
                )
        self.pending.clear()

    def exported(self) -> dict[str, Source]:
        """Variables of the image."""
        return dict(self.environment)

    def shell_form(self, node: Any) -> None:
        """A command line: its continuation lines joined, comment lines between them dropped."""
        for child in node.named_children:
            if child.type != "shell_command":
                continue
            text = self.reader.piece(child.start_byte, child.end_byte)
            if "<<" in text.text[:4] or ("sglang" not in text.text and "$" not in text.text):
                continue
            parts = []
            position = 0
            for match in _LINE.finditer(text.text):
                if match.group() and not match.group().lstrip().startswith("#"):
                    parts.append(text.slice(match.start(), match.end()))
                position = match.end()
            del position
            shell.find(
                join(parts), self.commands, self.out, "dockerfile", environment=self.environment,
                context=self.context, embedded=self.embedded, depth=1,
            )  # fmt: skip

    def documents(self, node: Any) -> None:
        """Documents that RUN or COPY hold."""
        target = self.reader.text(node).split("\n", 1)[0].split()
        for child in node.named_children:
            if child.type != "heredoc_block":
                continue
            for part in child.named_children:
                if part.type == "heredoc_content":
                    body = self.reader.piece(part.start_byte, part.end_byte)
                    kind = shell._document_kind(target[-1] if target else "", [], body.text)
                    if kind != "shell" and self.embedded is not None:
                        self.embedded(body, kind)
                    else:
                        shell.find(
                            body, self.commands, self.out, "dockerfile", context=self.context,
                            environment=self.environment, embedded=self.embedded, depth=1,
                        )  # fmt: skip
