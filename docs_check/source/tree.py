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
#: Sources are written by people; what is larger than this is something else.
_LARGEST = 4_000_000
#: Encodings that Python does not take for source, by the mark that such files begin with.
_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the tree that could not be read, and so may hide facts.

    `about` is what is missing, where another file than that tells of it.
    """

    file: str
    line: int
    message: str
    about: str = ""


@dataclass(slots=True)
class SourceTree:
    """The package folder `sglang` of a checkout, a wheel or an installation."""

    root: Path
    skip: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
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
        """A file's bytes in UTF-8 as far as can be, with `\\n` line ends and no byte order mark.

        An unreadable file is empty, and a problem.
        """
        data = self._bytes.get(name)
        if data is None:
            data = self._bytes[name] = self._read(name)
        return data

    def _read(self, name: str) -> bytes:
        try:
            with open(f"{self.root}/{name}", "rb", 0) as file:  # noqa: PTH123 - of thousands
                size = os.fstat(file.fileno()).st_size
                if size > _LARGEST:
                    self.problem(name, 0, f"is too large to be read ({size / 1e6:.0f} MB)")
                    return b""
                data = file.read()
        except OSError as error:
            self.problem(name, 0, f"cannot be read: {_reason(error)}")
            return b""
        data = self._utf8(name, data).removeprefix(codecs.BOM_UTF8)
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\0" in data:
            line = data.count(b"\n", 0, data.index(b"\0")) + 1
            self.problem(name, line, "holds a null byte, which Python does not take")
            data = data.replace(b"\0", b" ")
        return data

    def _utf8(self, name: str, data: bytes) -> bytes:
        if data[:1] in (b"\xff", b"\xfe", b"\0"):
            for mark, encoding in _WIDE:
                if data.startswith(mark):
                    self.problem(name, 1, f"is {encoding.upper()}, which Python does not take")
                    return data.decode(encoding, "replace").encode()
        return data

    def size(self, name: str) -> int:
        """A file's size in bytes, -1 where it cannot be told."""
        try:
            return os.stat(os.path.join(self.root, name)).st_size  # noqa: PTH116, PTH118
        except OSError:
            return -1

    def text(self, name: str) -> str | None:
        """The decoded text of a file, or None where it cannot be read.

        What cannot be decoded is a problem and stands for itself; the rest of the file is read.
        """
        if name not in self._texts:
            self._texts[name] = self._decode(name)
        return self._texts[name]

    def _decode(self, name: str) -> str | None:
        data = self.raw(name)
        if not data and any(problem.file == name for problem in self.problems):
            return None
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
            text = data.decode("utf-8", "replace")
        return text

    def problem(self, file: str, line: int, message: str, about: str = "") -> None:
        """Note that something could not be read; each place is noted once."""
        found = Problem(file, line, message, about)
        if found not in self.problems:
            self.problems.append(found)

    def missing(self, module: str) -> str | None:
        """Why an expected module has nothing to import, or None where it has or may have."""
        parts = module.split(".")
        if parts[0] != "sglang" or not "/".join(parts[1:]).startswith(self.expected or ("\0",)):
            return None
        file = self.module_file(module)
        if file is None:
            return None if (self.root / "/".join(parts[1:])).is_dir() else "is not in the tree"
        return "is empty" if not file.endswith("__init__.py") and self.size(file) == 0 else None

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

    def _walk(self, folder: str, prefix: str, outside: set[str]) -> Iterator[str]:
        """Python files below a folder; links lead into each folder `outside` the tree once."""
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
                is_folder, is_file = entry.is_dir(), entry.is_file()
            except OSError:  # a link to itself: reading it will say so
                is_folder, is_file = False, True
            if is_folder:
                if not entry.is_symlink() or self._leads_outside(entry.path, outside):
                    yield from self._walk(entry.path, f"{prefix}{name}/", outside)
            elif name.endswith(".py"):
                if is_file or not os.path.exists(entry.path):  # noqa: PTH110 - of thousands
                    yield f"{prefix}{name}"
                else:
                    self.problem(f"{prefix}{name}", 0, "is no regular file")

    def _leads_outside(self, link: str, outside: set[str]) -> bool:
        """Whether a link leads to a folder that is not walked anyway, nor was by another link."""
        target = os.path.join(os.path.realpath(link), "")  # noqa: PTH118 - as prefixes
        root = os.path.join(os.path.realpath(self.root), "")  # noqa: PTH118
        if any(target.startswith(one) or one.startswith(target) for one in (root, *outside)):
            return False
        outside.add(target)
        return True


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
