"""Launches of documentation: code blocks and inline code of Markdown, MDX and reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .text import Source, join

#: Languages of code blocks, and the format each is read as.
LANGUAGES = {
    "": "shell", "bash": "shell", "sh": "shell", "shell": "shell", "console": "shell",
    "zsh": "shell", "shell-session": "shell", "shellsession": "shell", "terminal": "shell",
    "text": "shell", "txt": "shell", "plaintext": "shell", "cmd": "shell", "command": "shell",
    "python": "python", "py": "python", "python3": "python", "ipython": "python",
    "yaml": "yaml", "yml": "yaml", "json": "json", "jsonc": "json", "toml": "toml",
    "dockerfile": "dockerfile", "docker": "dockerfile", "containerfile": "dockerfile",
    "makefile": "makefile", "make": "makefile", "ini": "systemd", "systemd": "systemd",
    "env": "env", "dotenv": "env", "slurm": "shell", "sbatch": "shell", "none": "shell",
}  # fmt: skip
_FENCE = re.compile(r"^([ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(`{3,}|~{3,})[ \t]*(.*)$")
_INLINE = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+?)\1(?!`)")
_DIRECTIVE = re.compile(
    r"^([ \t]*)\.\.[ \t]+(?:code-block|code|sourcecode|prompt|parsed-literal)::[ \t]*(\S*)"
)
_TAG = re.compile(r"[\s{,:].*$")


def markdown(source: Source) -> Iterator[tuple[Source, str]]:
    """Code of a Markdown text and the format of each piece."""
    lines = _positions(source.text)
    fence = ""
    language = ""
    indent = 0
    body: list[Source] = []
    loose: list[Source] = []
    for start, text in lines:
        match = _FENCE.match(text)
        if not fence:
            if match is not None and not (match.group(2)[0] == "`" and "`" in match.group(3)):
                yield from _indented(loose)
                loose = []
                fence, indent = match.group(2), len(match.group(1))
                language = _TAG.sub("", match.group(3).strip().lower().lstrip("{"))
                body = []
                continue
            if "`" in text and "sglang" in text:
                for code in _INLINE.finditer(text):
                    inner = source.slice(start + code.start(2), start + code.end(2))
                    if "sglang" in inner.text and " -" in inner.text:
                        yield inner, "shell"
            if text.startswith(("    ", "\t")):
                loose.append(source.slice(start, start + len(text) + 1))
            elif text.strip():
                yield from _indented(loose)
                loose = []
            continue
        stripped = text.strip(" \t>")
        closes = (
            match is not None
            and match.group(2)[0] == fence[0]
            and len(match.group(2)) >= len(fence)
            and not match.group(3).strip()
        )
        if closes or stripped == fence:
            yield join(body), LANGUAGES.get(language, "other")
            fence = ""
            continue
        drop = 0
        while drop < min(indent, len(text)) and text[drop] in " \t>":
            drop += 1
        body.append(source.slice(start + drop, start + len(text) + 1))
    if fence:
        yield join(body), LANGUAGES.get(language, "other")
    yield from _indented(loose)


def _indented(lines: list[Source]) -> Iterator[tuple[Source, str]]:
    """An indented code block."""
    if lines and any("sglang" in line.text for line in lines):
        yield join(lines), "shell"


def rst(source: Source) -> Iterator[tuple[Source, str]]:
    """Code of a reStructuredText."""
    lines = _positions(source.text)
    number = 0
    while number < len(lines):
        start, text = lines[number]
        match = _DIRECTIVE.match(text)
        literal = text.rstrip().endswith("::") and not text.lstrip().startswith("..")
        number += 1
        if match is None and not literal:
            if "``" in text and "sglang" in text:
                for code in _INLINE.finditer(text):
                    inner = source.slice(start + code.start(2), start + code.end(2))
                    if "sglang" in inner.text and " -" in inner.text:
                        yield inner, "shell"
            continue
        outer = len(text) - len(text.lstrip())
        body: list[Source] = []
        options = match is not None
        while number < len(lines):
            place, line = lines[number]
            inner_indent = len(line) - len(line.lstrip())
            if line.strip() and inner_indent <= outer:
                break
            number += 1
            if options and line.strip().startswith(":"):
                continue
            options = options and not line.strip()
            body.append(
                source.slice(place + min(inner_indent, len(line)), place + len(line) + 1)
                if not _structured(match)
                else source.slice(place, place + len(line) + 1)
            )
        if body:
            language = match.group(2).lower() if match is not None else ""
            yield _dedented(body), LANGUAGES.get(language, "other")


def _structured(match: re.Match[str] | None) -> bool:
    return match is not None and LANGUAGES.get(match.group(2).lower()) not in ("shell",)


def _dedented(lines: list[Source]) -> Source:
    """Lines without the indentation that all of them share."""
    widths = [len(line.text) - len(line.text.lstrip(" \t")) for line in lines if line.text.strip()]
    width = min(widths, default=0)
    return join([line.slice(min(width, len(line.text.rstrip("\n"))), len(line.text))
                 for line in lines])  # fmt: skip


def dedented(source: Source) -> Source:
    """A block without the indentation that all its lines share."""
    lines = list(source.lines(breaks=True))
    return _dedented(lines) if lines else source


def _positions(text: str) -> list[tuple[int, str]]:
    """Lines without their breaks, and where each begins."""
    found = []
    position = 0
    for line in text.split("\n"):
        found.append((position, line.rstrip("\r")))
        position += len(line) + 1
    return found if found[-1][1] else found[:-1]
