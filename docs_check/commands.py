"""The commands of the docs room, as functions that take everything they need.

Each returns an exit code: 0 clean, 1 findings. What is wrong with the input itself is raised as a
DocsError, which ends a command line with 2.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..matrix.loader import data_folder
from .changes import as_text as changes_as_text
from .changes import changes
from .drift.engine import about_diffusion, check_pages, one_a_place
from .drift.findings import DriftFinding, Report
from .drift.holes import unreadable_page
from .errors import InputError, UsageError
from .facts.code import CodeFacts
from .facts.diffusion import DiffusionFacts
from .fixes import difference, fixed, write
from .generate import between_marks, table
from .launches import LaunchJudge
from .listing import as_text, listing
from .pages.page import Page, parse_page
from .reporting import summary
from .settings import EXIT_CLEAN, EXIT_FINDINGS, Output
from .source.modules import unvalidated
from .source.soundness import unsound
from .source.tree import SourceTree

SUFFIXES = (".md", ".mdx")
_ATTENTION = re.compile("attention|attn", re.I)
_BOM = "\ufeff"
#: Pages are written by people; what is larger than this is something else.
_LARGEST = 2_000_000

#: Makes a judge for a release and the pages whose launches it will be asked about.
JudgeMaker = Callable[[str | None, Sequence[Page]], LaunchJudge | None]


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave garbage and the parser's nodes alone: what a run allocates lives until its end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        with unvalidated():
            yield
    finally:
        if enabled:
            gc.enable()


@dataclass(slots=True)
class Pages:
    """The pages of a run, with those that could not be read.

    `texts` are as on disk, line ends included; `marks` are the paths that begin with a byte order
    mark.
    """

    pages: list[Page] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    unreadable: list[DriftFinding] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)


def run_docs(
    source: Path,
    paths: Sequence[Path],
    output: Output,
    *,
    judge_maker: JudgeMaker | None = None,
    fix: bool = False,
    diff: bool = False,
) -> int:
    """Check pages against a source tree; correct them, or show how, where asked to.

    Raises:
        InputError: the tree or a path is not there, or a page cannot be written.
    """
    with uncollected():
        tree = SourceTree.find(source)
        pages = read_pages(paths)
        report = _report(tree, pages, judge_maker, output)
        if not (fix or diff):
            return _told(report, pages, output)
        before = pages.texts
        after = dict(before)
        for _ in range(5):
            if not _correct(after, report):
                break
            pages.pages = [parse_page(page.path, after[page.path]) for page in pages.pages]
            report = _report(tree, pages, judge_maker, output)
        changed = [path for path in before if before[path] != after[path]]
        if diff:
            print("".join(difference(path, before[path], after[path]) for path in changed), end="")
            print(f"left: {summary(report)}", file=sys.stderr)
            return EXIT_FINDINGS if changed and not output.exit_zero else EXIT_CLEAN
        for path in changed:
            write(pages.files[path], (_BOM if path in pages.marks else "") + after[path])
        return _told(report, pages, output)


def _told(report: Report, pages: Pages, output: Output) -> int:
    output.tell(report)
    for one in output.idle(report, [page.path for page in pages.pages]):
        where = "" if one.page in pages.files else " on these pages"
        print(f"note: {one} accepts nothing{where}", file=sys.stderr)
    return output.exit_code(report)


def _report(tree: SourceTree, pages: Pages, maker: JudgeMaker | None, output: Output) -> Report:
    judge = maker(tree.version(), pages.pages) if maker is not None else None
    report = output.sort_out([*check_pages(tree, pages.pages, judge), *pages.unreadable])
    report.pages = len(pages.pages)
    # Only asked where it is told: it takes the names of the code.
    report.on_topic = bool(report.findings) or _on_topic(tree, pages.pages)
    return report


def _on_topic(tree: SourceTree, pages: Sequence[Page]) -> bool:
    """Whether something on pages speaks of attention backends: the word, or a backend's name."""
    if any(about_diffusion(page) or _ATTENTION.search(page.text) for page in pages):
        return True
    names = "|".join(re.escape(name).replace("_", "[ _-]?") for name in CodeFacts(tree).names)
    return any(re.search(rf"\b({names})\b", page.text, re.I) for page in pages) if names else False


def _correct(texts: dict[str, str], report: Report) -> bool:
    """Make the fixes that are sure; says whether a page changed."""
    changed = False
    for path, text in texts.items():
        sure = [one for one in report.findings if one.path == path and one.certainty == "proved"]
        texts[path], made = fixed(text, sure)
        changed = changed or bool(made)
    return changed


def read_pages(paths: Sequence[Path]) -> Pages:
    """Read pages; folders stand for every page below them.

    Raises:
        InputError: a path is not there, or a folder holds no page.
    """
    found = Pages()
    if not paths:
        raise UsageError("no pages given; name Markdown or MDX files, or folders of them")
    for path in paths:
        if path.is_dir():
            below = sorted(
                file
                for file in path.rglob("*")
                if file.suffix.lower() in SUFFIXES and file.is_file()
            )
            if not below:
                raise InputError(f"{path}: no {' or '.join(SUFFIXES)} file below it")
            for file in below:
                _read(file, found)
        elif path.exists():
            _read(path, found)
        else:
            raise InputError(f"{path}: no such page")
    return found


def _read(path: Path, found: Pages) -> None:
    shown = path.as_posix()
    if shown in found.files:
        return
    try:
        if not path.is_file():
            found.unreadable.append(unreadable_page(shown, "no regular file"))
            return
        size = path.stat().st_size
        if size > _LARGEST:
            found.unreadable.append(unreadable_page(shown, f"too large ({size / 1e6:.0f} MB)"))
            return
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        found.unreadable.append(unreadable_page(shown, error.strerror or str(error)))
        return
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        found.unreadable.append(unreadable_page(shown, f"not UTF-8 (byte {error.start})", line))
        return
    if data.startswith(b"\xef\xbb\xbf"):
        found.marks.add(shown)
    found.files[shown] = path
    found.texts[shown] = text
    found.pages.append(parse_page(shown, text))


def run_generate(
    source: Path, family: str, page: Path | None = None, *, check: bool = False
) -> int:
    """Print a support table, or write it between the marks of a page.

    Raises:
        InputError: the tree or the page cannot be read or written.
        UsageError: the page has no marks for this table.
    """
    with uncollected():
        facts = CodeFacts(SourceTree.find(source))
        content = table(facts, family)
    if page is None:
        print(content)
        return EXIT_CLEAN
    try:
        before = page.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{page}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{page}: not UTF-8 (byte {error.start})") from None
    mark = _BOM if before.startswith(_BOM) else ""
    end = "\r\n" if "\r\n" in before else "\n"
    text = before.removeprefix(_BOM).replace("\r\n", "\n")
    after = mark + between_marks(text, family, content, str(page)).replace("\n", end)
    if after == before:
        return EXIT_CLEAN
    if check:
        print(difference(page.as_posix(), before, after), end="")
        return EXIT_FINDINGS
    write(page, after)
    return EXIT_CLEAN


def run_facts(source: Path, output_format: str = "text", file: Path | None = None) -> int:
    """List what the scanner knows of a tree."""
    found = _listing(source)
    if output_format == "json":
        text = json.dumps(found, indent=1, ensure_ascii=False)
    else:
        text = as_text(found)
    Output(file=file).write(text)
    return EXIT_CLEAN


def _listing(source: Path) -> dict[str, Any]:
    with uncollected():
        facts = CodeFacts(SourceTree.find(source))
        found = listing(facts, DiffusionFacts(facts))
        problems = [*facts.tree.problems, *unsound(facts.tree, facts.tree.read())]
        found["problems"] = [
            {"file": one.file, "line": one.line, "message": one.message}
            for one in one_a_place(problems)
        ]
        return found


def run_facts_diff(
    old: Path, new: Path, output_format: str = "text", file: Path | None = None
) -> int:
    """Say what changed for attention between two trees; 1 where something did."""
    before, after = _listing(old), _listing(new)
    for found, path in ((before, old), (after, new)):
        for problem in found["problems"]:
            print(
                f"note: {path}: {problem['file']}:{problem['line']}: {problem['message']}",
                file=sys.stderr,
            )
    found_changes = changes(before, after)
    if output_format == "json":
        text = json.dumps([one.to_json() for one in found_changes], indent=1, ensure_ascii=False)
    else:
        text = changes_as_text(
            found_changes, before["release"] or str(old), after["release"] or str(new)
        )
    Output(file=file).write(text)
    return EXIT_FINDINGS if found_changes else EXIT_CLEAN


def run_audit(
    source: Path, release: str, output: Output, *, folder: Path | None = None, record: bool = False
) -> int:
    """Hold the matrix's data against a tree, or record the fingerprints of its sources.

    Raises:
        InputError: the tree or the data is not there, or the record cannot be written.
    """
    # The audit brings the reader of flags along, which no other command needs.
    from .audit import evidence
    from .audit.run import audit

    folder = folder or Path(data_folder(release=release))
    if not folder.is_dir():
        raise InputError(f"{folder}: no data of a release there")
    shown = _relative(folder)
    with uncollected():
        tree = SourceTree.find(source)
        if record:
            facts = CodeFacts(tree)
            if facts.version not in (None, release):
                raise UsageError(
                    f"the tree is of {facts.version}; fingerprints of {release} are recorded from"
                    " its own source"
                )
            target = folder / evidence.RECORD
            Output(file=target).write(evidence.record(folder, facts, release).rstrip("\n"))
            print(f"wrote {_relative(target)}", file=sys.stderr)
            return EXIT_CLEAN
        report = output.sort_out(audit(tree, folder, shown, release))
    output.tell(report)
    return output.exit_code(report)


def _relative(path: Path) -> str:
    """A path below the working folder as such, any other as it is."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
