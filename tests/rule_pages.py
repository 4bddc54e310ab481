"""The pages of the finding codes, taken apart: sections, fences, the command each shows."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from attn_lint.lintcfg.rules import page

HEADINGS = ["What it does", "Why is this bad?", "Example", "Use instead"]
_SECTION = re.compile(r"^## ([^\n]*)\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """What a section shows: one command, and the files that it reads."""

    words: list[str]
    files: dict[str, str]

    @property
    def is_launch(self) -> bool:
        """Whether the command is a launch itself, not a check of files."""
        return self.words[0] != "check"


def sections(code: str) -> dict[str, str]:
    """Text of each section of a page, by its heading."""
    return dict(_SECTION.findall(page(code).text + "\n"))


def shown(code: str, heading: str) -> Shown:
    """The command of a section; anything but one command with its files is an error."""
    text = sections(code)[heading]
    assert _FENCE.sub("", text).strip() == "", f"{code}: {heading} holds more than fences"
    commands, files = [], {}
    for language, name, content in _FENCE.findall(text):
        if language == "console":
            commands.append(content)
        else:
            assert name, f"{code}: a {language} fence without a file's name"
            files[name] = content
    assert len(commands) == 1, f"{code}: {heading} needs one console fence"
    words = shlex.split(commands[0].replace("\\\n", " "))
    assert words[0] == "attn-lint", f"{code}: {heading} does not run attn-lint"
    return Shown(words[1:], files)
