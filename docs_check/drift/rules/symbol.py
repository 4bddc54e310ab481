"""A page names a function, method or class that the code does not define.

What it does: looks for definitions, not for text: a name that survives in a docstring is gone. In
a guide to a new backend, each step that is a bare name must be a method of the base class.
Why: a reader implements or calls something that nothing uses.
Example: `init_forward_metadata_capture_cuda_graph`, which only a docstring still mentions.
"""

from __future__ import annotations

import difflib
import re

from ...pages.page import Block
from ...source.modules import Evidence, Place
from ...source.segments import Segment
from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC114", "symbol", "interface-method-renamed", "warning")
_STEP = re.compile(r"`?([a-z]+(?:_[a-z0-9]+)+|[a-z_]*forward[a-z_]*)`?(?:\(\))?")
_CODE = re.compile(r"`([^`]+)`")
_CLASS = re.compile(r"^@?[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$")
_MEMBER = re.compile(r"^([A-Z]\w*[a-z]\w*)\.(\w+)$")
_CALL = re.compile(r"^@?([a-z]\w*_\w+)(?:\((?:\.\.\.|…|)\))$")
_DECORATOR = re.compile(r"^@([a-z]\w+)$")


def check(context: Context) -> None:
    """Check steps of a guide, and names in code spans."""
    for block in context.page.prose():
        _step(context, block)
        for line in block.lines:
            for match in _CODE.finditer(line.text):
                spot = Spot(line.number, line.column + match.start(1))
                _span(context, spot, match[1].strip())


def _step(context: Context, block: Block) -> None:
    match = _STEP.fullmatch(block.text.strip())
    if match is None or block.kind != "item" or block.parent is None:
        return
    base = context.facts.base_class
    if base is None or not re.search(r"backend", " ".join(block.section), re.I):
        return
    name = match[1]
    if context.facts.codebase.method([base], name) is not None:
        return
    methods = [member.name for member in base.members() if member.kind == "def"]
    instead = _successor(context, base, name, methods)
    places: list[Place | Evidence] = [Evidence(base.file, 0, base.name, f"no def {name}")]
    told = ""
    if instead is not None:
        told = f"; the base class has {instead[0]}"
        places.append(instead[1])
    line, column = block.find(name)
    context.report(
        INFO, Spot(line, column, column + len(name)),
        message=f"`{name}` is no method of {base.name}{told}",
        claim=f"a backend implements {name}", actual=f"{base.name} does not define it{told}",
        places=places, subject=name,
    )  # fmt: skip


def _successor(
    context: Context, base: Segment, name: str, methods: list[str]
) -> tuple[str, Place] | None:
    """The method that took a name's place: told by the class's own text, or the closest one."""
    position = base.text.find(name)
    if position >= 0:
        after = base.text[position + len(name) : position + 900]
        for word in re.findall(r"\w+", after):
            if word in methods:
                member = context.facts.codebase.method([base], word)
                if member is not None:
                    return word, context.facts.codebase.place(member)
    stem = "_".join(name.split("_")[:3])
    close = [m for m in methods if m.startswith(stem) and m != stem]
    close = close or difflib.get_close_matches(name, methods, 1, 0.75)
    if not close:
        return None
    member = context.facts.codebase.method([base], close[0])
    return (close[0], context.facts.codebase.place(member)) if member is not None else None


def _span(context: Context, spot: Spot, text: str) -> None:
    for part in re.split(r"\s*/\s*", text) if "/" in text and " " in text else [text]:
        member = _MEMBER.match(part)
        call = _CALL.match(part) or _DECORATOR.match(part)
        if member:
            _member(context, spot, member[1], member[2])
        elif call:
            _defined(context, spot, call[1], "function")
        elif _CLASS.match(part) and re.search(r"[a-z][A-Z]", part):
            _defined(context, spot, part.lstrip("@"), "class")


def _defined(context: Context, spot: Spot, name: str, kind: str) -> None:
    # A page on something else names classes of other programs as well.
    if not context.is_overview or context.facts.defines(name):
        return
    context.report(
        INFO, spot, message=f"`{name}` is not defined anywhere in the source tree",
        claim=f"the {kind} {name} exists", actual="no definition of that name",
        certainty="review", subject=name,
    )  # fmt: skip


def _member(context: Context, spot: Spot, owner: str, name: str) -> None:
    files = context.facts.defining_files(owner)
    if not files:
        return
    for file in files:
        module = context.facts.codebase.module(file)
        for segment in module.find(owner) if module is not None else ():
            for own in context.facts.codebase.class_chain(segment):
                if any(member.name == name for member in own.members()):
                    return
                if re.search(rf"\bself\.{re.escape(name)}\b", own.blanked):
                    return
    context.report(
        INFO, spot, message=f"`{owner}` has no `{name}`", claim=f"{owner}.{name} exists",
        actual=f"no such member in {', '.join(files)}", places=[Evidence(files[0], 0, owner)],
        certainty="review", subject=f"{owner}.{name}",
    )  # fmt: skip
