"""The inventory: every launch as JSON, flags in SGLang's own spelling."""

from __future__ import annotations

from typing import Any

from ..flags import FlagTable
from ..launches import Found, Lines, Source
from ..launches.model import public_environment


def entry(path: str, found: Found, lines: Lines, table: FlagTable) -> dict[str, Any]:
    """One launch of a file."""
    flags: dict[str, str | bool] = {}
    unknown: list[str] = []
    for variant in found.variants:
        for name, (value, known) in flags_of(variant.words, table).items():
            if known and (name not in flags or name in unknown):
                flags[name] = value
                if name in unknown:
                    unknown.remove(name)
            elif not known and name not in flags:
                flags[name] = value
                unknown.append(name)
    environment: dict[str, str] = {}
    for variant in found.variants:
        for key, value in public_environment(variant.environment).items():
            environment.setdefault(key, value)
    context = found.context
    if context.model and not {"--model-path", "--model"} & set(flags):
        flags["--model-path"] = context.model
    told = {context.origin[name] for name in ("gpu", "sglang", "cuda", "model")
            if name in context.origin}  # fmt: skip
    return {
        "path": path,
        "line": lines.place(found.start)[0],
        "end_line": lines.place(max(found.start, found.end - 1))[0],
        "kind": found.kind,
        "engine": found.engine,
        "argv": [word.text for word in max(found.variants, key=lambda v: len(v.words)).words],
        "flags": flags,
        "env": environment,
        "unknown": unknown,
        "context": {
            "gpu": context.gpu,
            "sglang": context.sglang,
            "from": ", ".join(sorted(told)) or None,
        },
    }


def flags_of(words: tuple[Source, ...], table: FlagTable) -> dict[str, tuple[str | bool, bool]]:
    """Value of each flag, and whether it is known; the last occurrence counts."""
    found: dict[str, tuple[str | bool, bool]] = {}
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not _is_flag(word):
            continue
        name, equals, value = word.text.partition("=")
        name = spelled(name, table)
        flag = table.by_name.get(name) if name in table.names else None
        if equals:
            found[name] = (value, not word.open)
            continue
        if flag is not None and not flag.takes_value:
            found[name] = (True, True)
            continue
        limit = 1
        if flag is not None and flag.nargs in ("*", "+"):
            limit = len(words)
        elif flag is not None and isinstance(flag.nargs, int):
            limit = flag.nargs
        values: list[Source] = []
        while place < len(words) and len(values) < limit and not _is_flag(words[place]):
            values.append(words[place])
            place += 1
        text = " ".join(value.text for value in values)
        found[name] = (text if values else True, not any(value.open for value in values))
    return found


def spelled(name: str, table: FlagTable) -> str:
    """The full name of a flag that was cut short."""
    if name in table.names:
        return name
    matching = table.matches(name)
    return matching[0] if len(matching) == 1 else name


def _is_flag(word: Source) -> bool:
    text = word.text
    if word.holes and word.holes[0][0] == 0:
        return False  # what only a run could tell
    return text.startswith("-") and len(text) > 1 and (text[1].isalpha() or text[1] == "-")
