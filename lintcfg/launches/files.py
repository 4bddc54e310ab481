"""Which format a file has, and the reader for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from .command import Commands
from .context import CommentSettings, from_images, from_text
from .model import TOO_DEEP, Extraction, Trouble
from .text import Source, unmasked, whole

KINDS = (
    "shell", "dockerfile", "yaml", "json", "toml", "python", "notebook", "markdown", "rst",
    "systemd", "env", "makefile", "justfile",
)  # fmt: skip
_SUFFIXES = {
    ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".ksh": "shell", ".sbatch": "shell",
    ".slurm": "shell", ".pbs": "shell", ".bats": "shell", ".yaml": "yaml", ".yml": "yaml",
    ".tpl": "yaml", ".json": "json", ".jsonl": "json", ".toml": "toml",
    ".py": "python", ".ipynb": "notebook",
    ".md": "markdown", ".mdx": "markdown", ".markdown": "markdown", ".rst": "rst",
    ".service": "systemd", ".env": "env", ".mk": "makefile", ".just": "justfile",
    ".dockerfile": "dockerfile", ".containerfile": "dockerfile", ".qmd": "markdown",
}  # fmt: skip
_NAMES = {
    "makefile": "makefile", "gnumakefile": "makefile", "justfile": "justfile",
    ".justfile": "justfile", "dockerfile": "dockerfile", "containerfile": "dockerfile",
}  # fmt: skip
#: Suffixes of templates; the one before them, or the head, tells what they make.
_TEMPLATES = (".j2", ".jinja", ".jinja2", ".tmpl", ".gotmpl", ".tpl")
#: A cell of a notebook that is a script, or goes to a file.
_CELL_MAGIC = re.compile(
    r"\s*(?:%%(?:bash|sh)\b|!bash|%%script[^\n]*\b(?:bash|sh)\b|%%(?:write)?file[ \t]+(?:-a[ \t]+)?"
    r"(?P<file>[^\s]+))"
)
#: A line of a notebook that a shell gets, whatever happens to its output.
_LINE_MAGIC = re.compile(
    r"\s*(?:[\w., \[\]\"']+=\s*)?(?:%(?:time|timeit)\s+)?(?:!{1,2}|%(?:sx|system)\s+)"
)
#: A file with none of these has no launch in it.
_MARKS = (
    b"sglang", b"SGLANG", b"SGLang", b"attention-backend", b"attention_backend", b"attn-lint:",
    b"model-path:", b"model_path:",
)  # fmt: skip


def kind_of(name: str, head: bytes = b"") -> str | None:
    """Format of a file, by its name or else by its first line; None for one that is not read."""
    path = PurePath(name)
    lowered = path.name.lower()
    if lowered in _NAMES:
        return _NAMES[lowered]
    if lowered.startswith(("dockerfile.", "dockerfile-", "containerfile.")):
        return "dockerfile"
    if lowered.startswith(".env"):
        return "env"
    if path.suffix.lower() in _TEMPLATES:
        inner = kind_of(path.stem, head) if PurePath(path.stem).suffix else None
        if inner is not None or not head:
            return inner or "yaml"
        return "shell" if head.startswith(b"#!/") or b"\n#SBATCH" in head else "yaml"
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is not None:
        return kind
    if head.startswith(b"#!"):
        line = head.split(b"\n", 1)[0]
        if b"python" in line:
            return "python"
        if line.rstrip().endswith(b"sh") or b"bash" in line or b"/sh " in line:
            return "shell"
        if b"just" in line:
            return "justfile"
    return None


def worth_reading(content: bytes) -> bool:
    """Whether there can be a launch in a file at all."""
    return any(mark in content for mark in _MARKS)


def find_launches(
    name: str,
    text: str,
    commands: Commands,
    kind: str | None = None,
    beside: Callable[[str], str | None] | None = None,
) -> Extraction:
    """Find the launches of one file; `beside` gives the text of a file that it names."""
    kind = kind or kind_of(name, text[:200].encode("utf-8", "replace"))
    out = Extraction()
    if beside is not None:
        out.beside = beside
    from_text(text, out.context)
    if kind is not None:
        try:
            _Reader(name, commands, out).read(whole(text), kind, top=True)
        except RecursionError:
            out.troubles.append(Trouble(TOO_DEEP))
    out.launches.sort(key=lambda found: (found.start, found.end))
    for found in out.launches:
        found.variants = [
            replace(variant, words=tuple(unmasked(word, text) for word in variant.words))
            for variant in found.variants
        ]
    if kind in ("python", "notebook", "markdown", "rst"):
        from_images(text, out.context)
    settings = CommentSettings(text)
    for found in out.launches:
        settings.fill(found.end, found.context)
        found.context.fill(out.context)
    return out


class _Reader:
    """Reads one file, and the documents of other formats inside it."""

    def __init__(self, name: str, commands: Commands, out: Extraction) -> None:
        self.name = name
        self.commands = commands
        self.out = out
        self.depth = 0
        self.pieces = False

    def embedded(self, source: Source, kind: str) -> None:
        """A document inside the file."""
        kind = {"py": "python", "yml": "yaml"}.get(kind, kind)
        if self.depth < 4:
            self.depth += 1
            try:
                self.read(source, kind)
            finally:
                self.depth -= 1
        elif worth_reading(source.text.encode("utf-8", "replace")):
            self.out.cut(source.start)

    def read(self, source: Source, kind: str, *, top: bool = False) -> None:
        """Read a text of a format."""
        if kind == "shell":
            from . import shell

            shell.find(self.templated(source, top), self.commands, self.out, kind,
                       embedded=self.embedded)  # fmt: skip
        elif kind == "dockerfile":
            from . import dockerfile

            dockerfile.find(source, self.commands, self.out, self.embedded)
        elif kind in ("yaml", "json", "toml"):
            self.structured(source, kind, top)
        elif kind == "python":
            from . import python

            trouble = python.find(source, self.commands, self.out, several=self.pieces)
            if trouble and top:
                self.out.troubles.append(Trouble(trouble, source.start))
        elif kind == "notebook":
            self.notebook(source)
        elif kind in ("markdown", "rst"):
            self.markup(source, kind)
        elif kind in ("systemd", "env", "makefile", "justfile"):
            from . import units

            reader = {
                "systemd": units.find_systemd, "env": units.find_env,
                "makefile": units.find_make, "justfile": units.find_just,
            }[kind]  # fmt: skip
            reader(source, self.commands, self.out)

    def templated(self, source: Source, top: bool) -> Source:
        """A script with the directives of the template that it is masked."""
        if not top or PurePath(self.name).suffix.lower() not in _TEMPLATES:
            return source
        from .yaml_tree import mask

        return replace(source, text=mask(source.text))

    def structured(self, source: Source, kind: str, top: bool) -> None:
        """YAML, JSON or TOML."""
        from .structured import Structured

        if kind == "yaml":
            from . import yaml_tree as reader
        elif kind == "json":
            from . import json_tree as reader  # type: ignore[no-redef]
        else:
            from . import toml_tree as reader  # type: ignore[no-redef]
        document = reader.read(source)
        Structured(self.commands, self.out, _flavour(source.text, kind, self.name),
                   self.embedded).document(document)  # fmt: skip
        if not top:
            return
        template = "{{" in source.text or "{%" in source.text
        for place, message in document.troubles:
            if not template and not (kind == "json" and self.name.endswith(("l", "c"))):
                self.out.troubles.append(Trouble(message, place))
        if not template and self.out.launches:
            for place, key in document.duplicates:
                self.out.troubles.append(
                    Trouble(f"the key {key!r} stands twice in one mapping; the last counts", place)
                )

    def notebook(self, source: Source) -> None:
        """Cells of a notebook: programs, `!` lines, `%%bash` cells and text."""
        from . import json_tree, python, shell
        from .text import join

        document = json_tree.read(source)
        for place, message in document.troubles:
            self.out.troubles.append(Trouble(message, place))
        cells = document.roots[0].get("cells") if document.roots else None
        for cell in (cells.items or ()) if cells is not None else ():
            given, body = cell.get("cell_type"), cell.get("source")
            if body is None or given is None:
                continue
            lines = [body.source] if body.source is not None else list(body.scalars())
            text = join(lines)
            worth = worth_reading(text.text.encode("utf-8", "replace"))
            if given.text == "markdown" and worth:
                self.markup(text, "markdown")
            elif given.text == "code":
                begin = text.text.find("\n") + 1
                rest = text.slice(begin, len(text.text))
                magic = _CELL_MAGIC.match(text.text)
                if magic is None:
                    self.cell(text, python, shell)
                elif magic["file"] is not None:
                    self.embedded(rest, kind_of(magic["file"], rest.text.encode()[:200]) or "")
                else:
                    shell.find(rest, self.commands, self.out, "notebook", embedded=self.embedded,
                               depth=1)  # fmt: skip

    def cell(self, text: Source, python: object, shell: object) -> None:
        """A cell of Python in which lines may begin with `!` or `%`."""
        from . import python as programs
        from . import shell as scripts
        from .text import join, made

        kept: list[Source] = []
        escaped: list[Source] = []
        continued = False
        for piece in text.lines(breaks=True):
            line = piece.text
            bare = line.lstrip()
            command = _LINE_MAGIC.match(line)
            if continued or command is not None:
                lead = 0 if continued or command is None else command.end()
                escaped.append(piece.slice(lead, len(line)))
                continued = line.rstrip().endswith("\\")
                kept.append(made("\n", piece.start))
            elif bare.startswith("%"):
                kept.append(made("\n", piece.start))
            else:
                kept.append(piece)
        if escaped:
            scripts.find(join(escaped), self.commands, self.out, "notebook", depth=1)
        programs.find(join(kept), self.commands, self.out, "notebook", several=True)

    def markup(self, source: Source, kind: str) -> None:
        """Code blocks of documentation."""
        from . import markup, shell

        pieces = markup.markdown(source) if kind == "markdown" else markup.rst(source)
        self.pieces = True
        for piece, language in pieces:
            goes_on = language == "python" and bool(self.out.names)
            if not goes_on and not worth_reading(piece.text.encode("utf-8", "replace")):
                continue
            if language == "other":
                continue  # a program in a language that is not read
            if language == "shell":
                shell.find(
                    shell.prepared(shell.without_asides(piece)), self.commands, self.out, kind,
                    embedded=self.embedded,
                )  # fmt: skip
            else:
                self.read(markup.dedented(piece), language)


def _flavour(text: str, kind: str, name: str) -> str:
    """A closer word for what a structured file is."""
    if kind != "yaml":
        return kind
    path = PurePath(name)
    if ".github" in path.parts or ("\njobs:" in text and "runs-on" in text):
        return "github"
    if path.name.startswith(".gitlab-ci"):
        return "gitlab"
    if "apiVersion:" in text and "kind:" in text:
        return "kubernetes"
    if "\nservices:" in text or text.startswith("services:"):
        return "compose"
    return "yaml"
