"""A page mentions a flag that the release does not declare.

What it does: looks up every `--flag` in text and tables; commands are judged on their own.
Why: the argument parser refuses it.
"""

from __future__ import annotations

import re

from ...names import former_flag
from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC119", "unknown-flag", "removed-flag", "warning")
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?![\w-])")

#: Programs whose flags pages on deployment speak of.
_OTHER_PROGRAM = re.compile(
    r"\b(docker|podman|kubectl|helm|nginx|curl|pip|uv|torchrun|nsys|ncu)\b", re.I
)


def check(context: Context) -> None:
    """Check flags in prose and cells."""
    # A page on something else speaks of other programs' flags as well.
    about = re.compile(context.facts.scan["flags_about"].replace("_", "[_-]"))
    for block in context.page.prose():
        for line in block.lines:
            for match in _FLAG.finditer(line.text):
                name = f"--{match[1]}"
                if context.flag_exists(name) or _abbreviates(context, match[1]):
                    continue
                former = former_flag(name, context.facts.version)
                if former is None and not (context.is_overview or about.search(match[1])):
                    continue
                if former is None and _OTHER_PROGRAM.search(line.text):
                    continue
                told = f": {former}" if former else ""
                context.report(
                    INFO, Spot(line.number, line.column + match.start()),
                    message=f"`{name}` is not a flag of this release{told}",
                    claim=f"{name} exists", actual=f"no such flag{told}",
                    certainty="proved" if former else "review", subject=name,
                )  # fmt: skip


def _abbreviates(context: Context, name: str) -> bool:
    """Whether the parser takes a name for the one flag that begins so."""
    start = name.replace("-", "_")
    return sum(field.startswith(start) for field in context.facts.flags.fields()) == 1
