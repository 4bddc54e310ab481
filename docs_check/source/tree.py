"""A source tree of SGLang on disk: which files it has, and their text.

Files are read as bytes and searched before anything is decoded or parsed: of some four thousand
files a run looks at the text of a few hundred and parses parts of a few dozen.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError

#: Folders, below a given path, in which the package may lie.
_PACKAGE_PLACES = ("", "sglang", "python/sglang", "site-packages/sglang")
_VERSION = re.compile(
    r"""^__?version__?(?:\s*=\s*version)?\s*(?::[^=]+)?=\s*["']([^"']+)["']""", re.M
)
_METADATA_VERSION = re.compile(r"^Version: (\S+)", re.M)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the tree that could not be read, and so may hide facts."""

    file: str
    line: int
    message: str


@dataclass(slots=True)
class SourceTree:
    """The package folder `sglang` of a checkout, a wheel or an installation."""

    root: Path
    skip: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    _files: dict[str, None] | None = None
    _bytes: dict[str, bytes] = field(default_factory=dict)
    _texts: dict[str, str | None] = field(default_factory=dict)
    _candidates: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    @classmethod
    def find(cls, path: Path, skip: Iterable[str] = ()) -> SourceTree:
        """Find the package below `path`.

        Raises:
            InputError: there is no folder, or nothing in it looks like SGLang.
        """
        if not path.exists():
            raise InputError(f"{path}: no such folder")
        if not path.is_dir():
            raise InputError(f"{path}: not a folder; give a checkout or an unpacked wheel")
        for place in _PACKAGE_PLACES:
            root = path / place
            if (root / "srt").is_dir() or (root / "multimodal_gen").is_dir():
                return cls(root, tuple(skip))
        raise InputError(
            f"{path}: not a source tree of SGLang (looked for srt/ below "
            + ", ".join(place or "." for place in _PACKAGE_PLACES)
            + ")"
        )

    def version(self) -> str | None:
        """The release as the tree itself says it, or None."""
        for name in ("_version.py", "version.py"):
            text = self.text(name) if name in self.files() else None
            found = _VERSION.search(text or "")
            if found and not found[1].startswith("0.0.0"):
                return found[1]
        for metadata in sorted(self.root.parent.glob("sglang-*.dist-info/METADATA")):
            try:
                found = _METADATA_VERSION.search(metadata.read_text("utf-8", errors="replace"))
            except OSError:
                continue
            if found:
                return found[1]
        return None

    def read(self) -> list[str]:
        """Files whose text was asked for so far."""
        return list(self._texts)

    def files(self) -> Collection[str]:
        """Every Python file: path below the package, with `/`, in order."""
        if self._files is None:
            self._files = dict.fromkeys(sorted(self._walk(str(self.root), "", set())))
        return self._files

    def exists(self, path: str) -> bool:
        """Whether a file or a folder of this path is in the tree; any kind of file counts."""
        return (self.root / path).exists()

    def candidates(self, folders: Iterable[str]) -> list[str]:
        """Files below any of `folders`, without the folders that are skipped."""
        prefixes = tuple(folder.rstrip("/") + "/" for folder in folders)
        found = self._candidates.get(prefixes)
        if found is None:
            found = [
                name
                for name in self.files()
                if (name.startswith(prefixes) or f"{name}/" in prefixes)
                and not self._skipped(name, prefixes)
            ]
            self._candidates[prefixes] = found
        return found

    def _skipped(self, name: str, asked: tuple[str, ...]) -> bool:
        """Whether a file lies in a skipped folder that was not asked for by name."""
        for part in self.skip:
            position = f"/{name}".find(f"/{part}/")
            if position >= 0:
                inside = f"/{name}"[1 : position + len(part) + 2]
                if not any(prefix.startswith(inside) for prefix in asked):
                    return True
        return False

    def search(self, needle: str, files: Iterable[str]) -> list[str]:
        """Those of `files` whose bytes hold `needle`."""
        raw = needle.encode()
        return [name for name in files if raw in self.raw(name)]

    def raw(self, name: str) -> bytes:
        """A file's bytes without byte order mark; an unreadable file is empty, and a problem."""
        data = self._bytes.get(name)
        if data is None:
            try:
                with open(f"{self.root}/{name}", "rb", 0) as file:  # noqa: PTH123 - of thousands
                    data = file.read()
            except OSError as error:
                self.problem(name, 0, f"cannot be read: {_reason(error)}")
                data = b""
            data = data.removeprefix(codecs.BOM_UTF8)
            self._bytes[name] = data
        return data

    def size(self, name: str) -> int:
        """A file's size in bytes, 0 where it cannot be told."""
        try:
            return os.stat(os.path.join(self.root, name)).st_size  # noqa: PTH116, PTH118
        except OSError:
            return 0

    def text(self, name: str) -> str | None:
        """The decoded text of a file with `\\n` line ends, or None where it cannot be decoded."""
        if name not in self._texts:
            self._texts[name] = self._decode(name)
        return self._texts[name]

    def _decode(self, name: str) -> str | None:
        data = self.raw(name)
        try:
            if b"coding" in data[:200]:
                encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
                text = data.decode(encoding)
            else:
                text = data.decode("utf-8")
        except (UnicodeDecodeError, SyntaxError, LookupError) as error:
            at = getattr(error, "start", 0)
            self.problem(name, data[: at if isinstance(at, int) else 0].count(b"\n") + 1,
                         f"cannot be decoded: {error}")  # fmt: skip
            return None
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def problem(self, file: str, line: int, message: str) -> None:
        """Note that something could not be read; each place is noted once."""
        found = Problem(file, line, message)
        if found not in self.problems:
            self.problems.append(found)

    def module_file(self, module: str) -> str | None:
        """File of a dotted module name inside the package, or None."""
        parts = module.split(".")
        if parts[0] != "sglang":
            return None
        stem = "/".join(parts[1:])
        for name in (f"{stem}.py", f"{stem}/__init__.py" if stem else "__init__.py"):
            if name in self.files():
                return name
        return None

    def _walk(self, folder: str, prefix: str, followed: set[tuple[int, int]]) -> Iterator[str]:
        """Python files below a folder; a folder that links lead to is entered by one of them."""
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            self.problem(prefix.rstrip("/") or ".", 0, f"cannot be listed: {_reason(error)}")
            return
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name == "__pycache__":
                continue
            try:
                if not entry.is_dir():
                    if name.endswith(".py"):
                        yield f"{prefix}{name}"
                    continue
                if entry.is_symlink():
                    target = entry.stat()
                    if (target.st_dev, target.st_ino) in followed:
                        continue
                    followed.add((target.st_dev, target.st_ino))
            except OSError as error:
                self.problem(f"{prefix}{name}", 0, f"cannot be read: {_reason(error)}")
                continue
            yield from self._walk(entry.path, f"{prefix}{name}/", followed)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
