"""Which files a path stands for: git's own list where there is one, else a walk."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from ..errors import InputError

#: Folders that hold nothing people wrote.
_NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox",
                    ".mypy_cache", ".ruff_cache", ".pytest_cache", "site-packages",
                    "dist-packages"})  # fmt: skip


def files(paths: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Files below the paths, each once and in order, and whether each was named itself.

    Raises:
        InputError: a path does not exist.
    """
    seen: set[str] = set()
    for name in paths:
        path = Path(name)
        try:
            is_folder, exists = path.is_dir(), path.exists()
        except (OSError, ValueError):
            is_folder, exists = False, False
        if not exists and not path.is_symlink():
            raise InputError(f"{name}: no such file or folder")
        found = _below(path) if is_folder else iter([path])
        for file in found:
            text = os.path.normpath(file)
            if text not in seen:
                seen.add(text)
                yield Path(text), not is_folder


def matches(name: str, pattern: str) -> bool:
    """Whether a path fits a pattern: a glob, or a folder that it lies in.

    A pattern may begin at any folder of the path; `*` stays within one name, `**` does not.
    """
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    pattern = pattern.removeprefix("./").strip("/")
    parts = []
    place = 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            parts.append("(?:[^/]+/)*")
            place += 3
        elif pattern.startswith("**", place):
            parts.append(".*")
            place += 2
        elif pattern[place] == "*":
            parts.append("[^/]*")
            place += 1
        elif pattern[place] == "?":
            parts.append("[^/]")
            place += 1
        elif pattern[place] == "[" and (end := pattern.find("]", place + 2)) > 0:
            inner = pattern[place + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            place = end + 1
        else:
            parts.append(re.escape(pattern[place]))
            place += 1
    try:
        return re.compile(f"(?:.*/)?{''.join(parts)}(?:/.*)?", re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def _below(folder: Path) -> Iterator[Path]:
    listed = _git(folder)
    if listed is not None:
        yield from listed
        return
    yield from _walk(folder)


def _git(folder: Path) -> list[Path] | None:
    """Tracked files and those that git does not ignore; None outside of a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others",
             "--exclude-standard", "--", "."],
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    names = sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})
    found = []
    for name in names:
        if not _NEVER.isdisjoint(name.split("/")[:-1]):
            continue
        path = folder / name
        # A submodule is listed as a folder, and what was deleted is listed still.
        if path.is_file() and not path.is_symlink():
            found.append(path)
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Walk without following links, honouring `.gitignore` files on the way."""
    stack: list[tuple[Path, tuple[tuple[Path, tuple[str, ...]], ...]]] = [(folder, ())]
    while stack:
        current, rules = stack.pop()
        ignored = _read_ignore(current)
        if ignored:
            rules = (*rules, (current, ignored))
        try:
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except OSError:
            continue
        folders = []
        for entry in entries:
            path = current / entry.name
            if entry.is_symlink():
                continue
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                is_file = entry.is_file(follow_symlinks=False)
            except OSError:
                continue
            if (is_folder and entry.name in _NEVER) or _is_ignored(path, is_folder, rules):
                continue
            if is_folder:
                folders.append((path, rules))
            elif is_file:
                yield path
        stack += reversed(folders)


def _read_ignore(folder: Path) -> tuple[str, ...]:
    path = folder / ".gitignore"
    try:
        if not path.is_file():
            return ()  # a pipe would never end
        text = path.read_text("utf-8", "replace")
    except OSError:
        return ()
    return tuple(
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")
    )


def _is_ignored(
    path: Path, is_folder: bool, rules: tuple[tuple[Path, tuple[str, ...]], ...]
) -> bool:
    ignored = False
    for base, patterns in rules:
        name = path.relative_to(base).as_posix()
        for pattern in patterns:
            keep = pattern.startswith("!")
            if _fits(name, is_folder, pattern[1:] if keep else pattern):
                ignored = not keep
    return ignored


def _fits(name: str, is_folder: bool, pattern: str) -> bool:
    if pattern.endswith("/"):
        if not is_folder:
            return False
        pattern = pattern[:-1]
    pattern = pattern.replace("**/", "*").replace("/**", "/*")
    if "/" in pattern:
        return fnmatch.fnmatch(name, pattern.lstrip("/"))
    return fnmatch.fnmatch(name.rpartition("/")[2], pattern)
