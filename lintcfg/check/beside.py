"""Files that a checked file reads at run time, looked for where they are kept: near it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ..flags import FlagTable
from ..flags.config_file import merge
from ..launches import Found, Source, Variant
from ..launches.text import made
from .encoding import Undecodable, decode

#: Larger files are no settings.
_MAX_BYTES = 256 * 1024
#: Folders above the file in which a path may begin: scripts are mostly run from a root.
_LEVELS = 4

#: Gives the text of a file that another one names; None where it is not there.
Reader = Callable[[str], str | None]


def find(name: str, path: str) -> Path | None:
    """The file that `name` calls `path`: beside it, or below one of the folders above it."""
    wanted = PurePosixPath(path)
    if wanted.is_absolute() or not path or "\0" in path or ".." in wanted.parts[1:]:
        return None
    folder = Path(name).parent
    for _ in range(_LEVELS):
        place = folder / wanted
        try:
            if place.is_file():
                return place
        except (OSError, ValueError):
            return None
        if (folder / ".git").exists() or folder == folder.parent:
            break
        folder = folder / ".." if folder.name in ("", "..") else folder.parent
    return None


def reader(name: str) -> Reader:
    """A reader of the files around one."""

    def read(path: str) -> str | None:
        place = find(name, path)
        if place is None:
            return None
        try:
            with place.open("rb") as file:
                info = os.fstat(file.fileno())
                if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_BYTES:
                    return None
                text, _ = decode(file.read())
        except (OSError, Undecodable):
            return None
        return text.replace("\r\n", "\n")

    return read


def with_config(
    found: Found, table: FlagTable, name: str, held: Mapping[str, Source]
) -> str | None:
    """Put what `--config FILE` says into a launch, where that file is kept near or held by it.

    Words of the file stand where the file is named. Returns the name of the document in `held`
    that was used.
    """
    used = None
    for number, variant in enumerate(found.variants):
        merged, document, problems = _merged(variant, table, name, held)
        found.variants[number] = merged
        found.config_problems += [one for one in problems if one not in found.config_problems]
        used = used or document
    return used


def _merged(
    variant: Variant, table: FlagTable, name: str, held: Mapping[str, Source]
) -> tuple[Variant, str | None, list[tuple[int, str]]]:
    """One way through a launch with its configuration, the document that held it, its faults."""
    nothing: list[tuple[int, str]] = []
    if table.config is None:
        return variant, None, nothing
    flag = table.config["flag"]
    texts = [word.text for word in variant.words]
    place = next((number for number, text in enumerate(texts[:-1]) if text == flag), None)
    if place is None or texts.count(flag) > 1:
        return variant, None, nothing
    path = texts[place + 1]
    document = PurePosixPath(path).name
    named = variant.words[place + 1]
    content = held.get(document)
    if content is None:
        text = reader(name)(path) if not named.open else None
        if text is None:
            return variant, None, nothing
        content, document = Source(text), ""
    merged = merge(texts, table, content=content.text)
    problems = [(named.start, problem.message) for problem in merged.problems]
    if problems:
        read = _as_far_as_it_goes(content, table)
        if not read:
            return variant, None, nothing
        words = [*read, *variant.words[:place], *variant.words[place + 2 :]]
        if not document:
            words = [*(_moved(word, named) for word in read), *words[len(read) :]]
        return replace(variant, words=tuple(words)), document or None, problems
    lines = list(content.lines()) if document else []
    words = []
    for text, origin in zip(merged.words, merged.origins, strict=True):
        if isinstance(origin, int):
            words.append(variant.words[origin])
        elif document and origin.line is not None:
            words.append(_typed(text, lines[origin.line - 1]))
        else:
            words.append(made(text, named.start))
    return replace(variant, words=tuple(words)), document or None, nothing


def _as_far_as_it_goes(content: Source, table: FlagTable) -> list[Source]:
    """Flags of a configuration file that SGLang would not take as it is."""
    from ..launches.command import keyed
    from ..launches.yaml_tree import read

    def known(name: str) -> bool:
        return name in table.names or len(table.matches(name)) == 1

    words: list[Source] = []
    for root in read(content).roots:
        for key, value in root.pairs or ():
            if key.source is not None and value.source is not None:
                words += keyed(key.source, value.source, known)
    return words


def _moved(word: Source, named: Source) -> Source:
    """A word of another file, standing where that is named."""
    return made(word.text, named.start)


def _typed(text: str, line: Source) -> Source:
    """A word where the line of a configuration file has it."""
    if text.startswith("--"):
        key = line.text.find(text[2:])
        if key < 0:
            key = line.text.find(text[2:].replace("-", "_"))
        if key >= 0:
            place = line.at(key)
            return Source(text, (0, 2), (place, place))
    found = line.text.find(text, line.text.find(":") + 1)
    return line.slice(found, found + len(text)) if found >= 0 else made(text, line.start)
