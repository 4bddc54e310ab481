"""A page points to a file, folder or module that is not there.

What it does: looks up paths and dotted module names in the source tree.
Why: a reader looks for the code in vain.
Example: `python/sglang/srt/layers/attention/hybrid_attn_backend.py` after a move.
"""

from __future__ import annotations

import re

from ...source.modules import Evidence
from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC113", "source-path", "dead-path", "warning")
_PATH = re.compile(r"(?<![\w/.:-])((?:python/)?(?:sglang|srt|runtime|multimodal_gen)/[\w./-]*\w/?)")
_URL = re.compile(r"https?://\S+")
_DOTTED = re.compile(r"(?<![\w.])(sglang(?:\.\w+){2,})(?!\w)")


def check(context: Context) -> None:
    """Check every path and module name in text and fences."""
    for block in context.page.blocks:
        if block.kind == "fence":
            continue
        for line in block.lines:
            for match in _PATH.finditer(_URL.sub(lambda url: " " * len(url[0]), line.text)):
                path = match[1].rstrip("/.")
                if path.startswith("sglang/python/"):  # from the repository's own folder on
                    path = path.removeprefix("sglang/")
                if path.startswith("python/") and not path.startswith("python/sglang"):
                    continue
                if not path.endswith(".py") and "/" not in path.removeprefix("python/sglang/"):
                    continue
                if not _exists(context, path) and _belongs(context, path):
                    _dead(context, Spot(line.number, line.column + match.start(1)), path)
            for match in _DOTTED.finditer(line.text):
                _module(context, Spot(line.number, line.column + match.start(1)), match[1])


def _exists(context: Context, path: str) -> bool:
    tree = context.facts.tree
    inner = path.removeprefix("python/").removeprefix("sglang/")
    if tree.exists(inner):
        return True
    if path.endswith(".py"):
        return any(file.endswith(f"/{inner}") for file in tree.files())
    return any(f"/{inner}/" in f"/{file}" for file in tree.files())


def _belongs(context: Context, path: str) -> bool:
    """Whether a missing path would be in the package: a module, or something beside others.

    Folders of other files are not installed with the package, so that their absence says little.
    """
    if path.endswith(".py"):
        return True
    inner = path.removeprefix("python/").removeprefix("sglang/")
    above = inner.rpartition("/")[0]
    return bool(above) and "." not in inner and context.facts.tree.exists(above)


def _dead(context: Context, spot: Spot, path: str) -> None:
    name = path.rpartition("/")[2]
    moved = [file for file in context.facts.tree.files() if file.rpartition("/")[2] == name]
    hint = f"; there is {moved[0]}" if len(moved) == 1 else ""
    context.report(
        INFO, spot,
        message=f"`{path}` is not in the source tree{hint}",
        claim=f"{path} exists", actual=f"no such file or folder{hint}",
        places=[Evidence(moved[0], 0)] if len(moved) == 1 else [], subject=path,
        certainty="proved" if path.endswith(".py") else "review",
    )  # fmt: skip


def _module(context: Context, spot: Spot, dotted: str) -> None:
    """A module, or a name in one."""
    codebase = context.facts.codebase
    tree = context.facts.tree
    parts = dotted.split(".")
    for length in range(len(parts), 1, -1):
        module = ".".join(parts[:length])
        file = tree.module_file(module)
        inner = "/".join(parts[1:length])
        if file is None and not tree.exists(inner):
            continue
        rest = parts[length:]
        if not rest or file is None:
            if rest:
                break
            return
        if codebase.resolve(file, rest[0]) is not None:
            return
        context.report(
            INFO, spot, message=f"`{module}` has no `{rest[0]}`",
            claim=f"{dotted} exists", actual=f"{file} defines no {rest[0]}",
            places=[Evidence(file, 0)], subject=dotted,
        )  # fmt: skip
        return
    context.report(
        INFO, spot, message=f"`{dotted}` is not in the source tree",
        claim=f"{dotted} exists", actual="no such module", subject=dotted,
    )  # fmt: skip
