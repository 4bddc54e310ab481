"""Checks one file after the other with what all of them share."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...matrix import loader
from ...matrix.record import replaced
from ..basis import Basis, Options, in_its_time, is_release, nearest
from ..basis import basis as basis_of
from ..config import Config, PathSettings
from ..errors import UsageError
from ..findings import Finding
from ..judge import Judge, Judgement, Launch
from ..launches import Found, Lines, Source, Variant, find_launches, kind_of, worth_reading
from ..launches.command import Commands
from . import beside, suppress
from .changes import changes_for
from .configs import Configs, settings_for
from .encoding import UTF8, Encoding, Undecodable, decode, narrow
from .judged import Judged
from .reasons import without_reason
from .result import FileReport, Located, Place

__all__ = ["MAX_BYTES", "Content", "Options", "Runner"]

#: Larger files are not read; no launch script is that long.
MAX_BYTES = 8 * 1024 * 1024
_HEAD = 256
#: Launches of more words are not judged; nobody types them.
_MAX_WORDS = 4000


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its text, none where no launch can be in it, or why it is not read."""

    text: str | None = None
    encoding: Encoding = UTF8
    problem: str | None = None


@dataclass(slots=True)
class Runner:
    """Checks files; keeps the judge and what it has judged already."""

    options: Options
    config: Config
    configs: Configs | None = None
    notes: list[str] = field(default_factory=list)
    _judges: dict[str, Judge] = field(default_factory=dict)
    _commands: Commands | None = None
    _judged: dict[str, Judged] = field(default_factory=dict)

    def judge(self, release: str) -> Judge:
        """The judge of a release."""
        if release not in self._judges:
            self._judges[release] = Judge(loader.load(release=release, folder=self.options.folder))
        return self._judges[release]

    @property
    def default_release(self) -> str:
        """The release to judge by where nothing names one."""
        return (self.options.sglang or self.config.sglang or loader.DEFAULT_RELEASE).removeprefix(
            "v"
        )

    @property
    def default_judge(self) -> Judge:
        """The judge of that release, or of the nearest one there is."""
        return self.judge(self._nearest(self.default_release))

    def _nearest(self, release: str) -> str:
        return release if self.options.folder is not None else nearest(release)[0]

    @property
    def commands(self) -> Commands:
        """The words that start servers."""
        if self._commands is None:
            judge = self.default_judge
            history = judge.release["history"] or {}
            gone = {row["name"] for row in history.get("flags", ())}
            table = judge.flags
            several = {
                name for name in table.by_name if table.by_name[name].nargs not in (None, "?")
            }
            self._commands = Commands(
                judge.release["commands"] or {}, frozenset(table.names) | gone, frozenset(several)
            )
        return self._commands

    # ------------------------------------------------------------------- files

    def read(self, path: Path) -> Content:
        """What a file holds, if it is worth looking into, or why it could not be read."""
        try:
            # A pipe would keep an ordinary open waiting for somebody to write to it.
            with open(path, "rb", opener=_at_once) as file:
                info = os.fstat(file.fileno())
                if not stat.S_ISREG(info.st_mode):
                    return Content(problem="no regular file")
                if info.st_size > MAX_BYTES:
                    return Content(
                        problem=None if kind_of(path.name) is None else (
                            f"larger than {MAX_BYTES // 2**20} MiB, not read"
                        )
                    )  # fmt: skip
                content = file.read()
        except OSError as error:
            return Content(problem=error.strerror or str(error))
        return self.decode(path.name, content)

    def decode(self, name: str, content: bytes) -> Content:
        """What a file's bytes hold where there can be a launch in them."""
        bare = narrow(content)
        kind = kind_of(name, bare[:_HEAD]) if worth_reading(bare) else None
        if kind is None:
            return Content()
        try:
            return Content(*decode(content, python=kind == "python"))
        except Undecodable as error:
            return Content(problem=str(error))

    def check_path(self, path: Path) -> FileReport:
        """Check one file."""
        shown = path.as_posix()
        if kind_of(path.name) is None and path.suffix:
            return FileReport(shown, Lines(""))
        content = self.read(path)
        if content.text is not None:
            return self.check_text(shown, content.text, content.encoding)
        report = FileReport(shown, Lines(""))
        if content.problem is not None:
            report.located.append(self._trouble(report, content.problem, 0))
        return report

    def extract(self, name: str, text: str) -> FileReport:
        """Find the launches of a text, unjudged."""
        report = FileReport(name, Lines(text))
        extraction = find_launches(name, text, self.commands, beside=beside.reader(name))
        report.launches = extraction.launches
        table = self.default_judge.flags
        for found in list(report.launches):
            used = beside.with_config(found, table, name, extraction.documents)
            if used is not None:
                # What a launch of this file reads is part of that launch, and none of its own.
                held = extraction.documents[used]
                report.launches = [
                    one
                    for one in report.launches
                    if not (one.wrapper == "config" and held.start <= one.start < held.end)
                ]
        report.skipped = extraction.skipped
        for trouble in extraction.troubles:
            # What cannot be read is told where it could have held a launch.
            report.located.append(self._trouble(report, trouble.message, trouble.start))
        return report

    def check_text(self, name: str, text: str, written: Encoding = UTF8) -> FileReport:
        """Check a text under a file's name; `written` says how it stands in that file."""
        report = self.extract(name, text)
        config = self.config_for(name)
        settings = settings_for(name, config)
        for number, found in enumerate(report.launches):
            if found.engine == "sglang":
                self._check(report, number, found, config, settings)
            else:
                report.startups.append(("unchecked",) * len(found.variants))
        comments = suppress.find(report.lines.text, markup=kind_of(name) in ("markdown", "rst"))
        kept = suppress.apply(report, comments.suppressions)
        report.located = [one for one in kept if self._wanted(one.finding, settings)]
        for located in self._comments(name, comments):
            if self._wanted(located.finding, settings):
                report.located.append(located)
        report.located.sort(key=lambda one: (one.place.line, one.place.column, one.finding.code))
        report.encoding = written
        if not written.exact:
            for located in report.located:
                located.changes = ()  # to write them would change other text as well
        return report

    def config_for(self, name: str) -> Config:
        """The configuration that speaks for a file."""
        return self.configs.for_file(name) if self.configs is not None else self.config

    def _wanted(self, finding: Finding, settings: PathSettings) -> bool:
        if not settings.ignore:
            return True
        return not any(
            finding.code.startswith(code.upper()) or finding.name == code
            for code in settings.ignore
        )

    # ---------------------------------------------------------------- launches

    def _check(
        self,
        report: FileReport,
        number: int,
        found: Found,
        config: Config,
        settings: PathSettings,
    ) -> None:
        basis = basis_of(found.context, config, settings, self.options)
        if not basis.exact:
            self._note(
                f"SGLang {basis.asked} is not in the matrix; launches that name it are judged by "
                f"{basis.release}, the nearest release there is"
            )
        judge = self.judge(basis.release)
        gpu = basis.gpu
        if gpu is not None:
            try:
                gpu = judge.platforms.find(gpu)
            except UsageError as error:
                if found.context.gpu is None:
                    raise
                if found.context.origin.get("gpu") != "comment":
                    self._note(f"{report.path}: {error}")
                gpu = None
        basis = replaced(basis, gpu=gpu)
        told = basis.whole
        seen: dict[tuple[Any, ...], Located] = {}
        startups = []
        for start, message in found.config_problems:
            if found.wrapper in _DIRECT:
                continue  # a launcher reads such a file itself
            finding = self._finding(_CONFIG, message, "")
            report.located.append(
                Located(report.path, report.place(start, start + 1), finding, number, told)
            )
        for position, variant in enumerate(found.variants):
            judgement = self._judged_variant(judge, found, variant, basis)
            if isinstance(judgement, str):
                report.located.append(self._trouble(report, judgement, found.start))
                startups.append("unchecked")
                continue
            judgement = in_its_time(judgement, basis)
            startups.append(judgement.startup)
            for finding in judgement.findings:
                if found.partial and finding.code == _MISSING:
                    continue
                if self._foreign(found, finding):
                    continue
                start, end = self._span(found, variant, finding)
                key = (finding.code, finding.message, start)
                if key not in seen:
                    seen[key] = Located(
                        report.path, report.place(start, end), finding, number, told,
                        changes_for(finding, judgement, variant, judge.flags, basis),
                    )  # fmt: skip
                    report.located.append(seen[key])
                if finding.certain or not seen[key].finding.certain:
                    seen[key].variants.append(position)
            if self.options.require_reason or config.require_reason:
                self._reasons(report, number, judgement, variant)
        report.startups.append(tuple(startups))

    def _judged_variant(
        self, judge: Judge, found: Found, variant: Variant, basis: Basis
    ) -> Judgement | str:
        if len(variant.words) > _MAX_WORDS:
            return f"a launch of {len(variant.words)} words is not judged"
        argv = tuple(word.text for word in variant.words)
        unknown = frozenset(n for n, word in enumerate(variant.words) if word.open)
        unknown |= _elsewhere(variant.words)
        environment = {
            name: value
            for name, value in variant.environment
            if name.startswith(("SGLANG_", "SGL_")) and name not in variant.open_environment
        }
        if found.wrapper and found.wrapper not in _DIRECT:
            for name in _SET_BY_WRAPPERS:
                if not any(word == name or word.startswith(f"{name}=") for word in argv):
                    argv = (*argv, name, "?")
                    unknown |= {len(argv) - 1}
        model = found.context.model
        if model is not None and _is_missing(model):
            model = None
        launch = Launch(
            argv, environment=environment, gpu=basis.gpu, kind=basis.kind, cuda=basis.cuda,
            model=model, unknown=unknown,
            # A launcher's own defaults and a caller's further flags are not seen here.
            partial=found.partial,
        )  # fmt: skip
        judged = self._judged.get(judge.release.name)
        if judged is None:
            judged = self._judged[judge.release.name] = Judged(judge)
        try:
            return judged(launch)
        except UsageError:
            return judged(replaced(launch, cuda=None))
        except RecursionError:
            return "this launch is nested too deeply to be judged"

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _foreign(self, found: Found, finding: Finding) -> bool:
        """Whether a finding is about flags that a launcher has for itself."""
        return found.wrapper in _DIRECT and finding.code in (_UNKNOWN, _STRAY)

    def _span(self, found: Found, variant: Variant, finding: Finding) -> tuple[int, int]:
        """Offsets of the argument that a finding points at."""
        index = finding.span.argument if finding.span is not None else None
        if index is None or index >= len(variant.words):
            return found.start, min(found.end, _line_end(found, variant))
        word = variant.words[index]
        start, end = word.start, word.end
        if "=" not in word.text and index + 1 < len(variant.words):
            value = variant.words[index + 1]
            if not value.text.startswith("--") and word.end <= value.start <= word.end + 8:
                end = value.end
        return start, end

    def _reasons(
        self, report: FileReport, number: int, judgement: Judgement, variant: Variant
    ) -> None:
        """The opt-in rule: an explicit choice of a backend wants a reason beside it."""
        found = report.launches[number]
        for name, word in without_reason(found, judgement, variant, report.lines):
            place = report.place(word.start, word.end)
            if any(one.finding.code == "ATT405" and one.place == place for one in report.located):
                continue
            finding = self._finding(
                "ATT405",
                f"{name} overrides SGLang's own choice without a reason; "
                "say why in a comment on this line or above it",
                "override-without-reason",
            )
            report.located.append(Located(report.path, place, finding, number))

    def _comments(self, name: str, comments: suppress.Comments) -> Iterator[Located]:
        """Comments that silence nothing, or say nothing that is understood."""
        codes = self.default_judge.statements.codes
        names = {entry["name"] for entry in codes.values()}
        for one in comments.suppressions:
            place = Place(one.line, one.column, one.line, one.end_column)
            for code in one.unused:
                what = f"[{code}]" if code else ""
                message = f"this comment silences nothing: ignore{what}"
                known = any(key.startswith(code.upper()) for key in codes) or code in names
                if not known:
                    message = f"this comment silences nothing: there is no code {code}"
                yield Located(name, place, self._finding("ATT903", message, "unused-suppression"))
        for odd in comments.oddities:
            place = Place(odd.line, odd.column, odd.line, odd.end_column)
            message = f"this comment tells attn-lint nothing: {odd.problem}"
            yield Located(name, place, self._finding("ATT904", message, "unknown-comment"))
        for line, column, setting, value in comments.settings:
            problem = self._setting_problem(setting, value)
            if problem is not None:
                place = Place(line, column, line, column + 1)
                message = f"this comment tells attn-lint nothing: {problem}"
                yield Located(name, place, self._finding("ATT904", message, "unknown-comment"))

    def _setting_problem(self, setting: str, value: str) -> str | None:
        """What is wrong with a setting of a comment."""
        platforms = self.default_judge.platforms
        try:
            if setting == "gpu":
                platforms.find(value)
            elif setting == "cuda":
                row = next(row for row in platforms.rows if row["kind"] == "cuda")
                platforms.values(row["name"], value)
            elif not is_release(value):
                return f"{value!r} is no release"
        except UsageError as error:
            return str(error).removeprefix("--")
        return None

    def _trouble(self, report: FileReport, message: str, start: int) -> Located:
        finding = self._finding("ATT901", message, "lint-file")
        return Located(report.path, report.place(start, start + 1), finding)

    def _finding(self, code: str, message: str, name: str) -> Finding:
        judge = self.default_judge
        entry = judge.statements.codes.get(code, {"name": name, "severity": "warning"})
        return Finding(code, entry["name"], entry["severity"], message,
                       release=judge.release.name)  # fmt: skip


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


#: Launchers whose command line is SGLang's own, with flags of theirs beside it.
_DIRECT = ("dynamo", "sglang-router")
#: What a trainer or a chart decides by settings of its own, where the flags do not.
_SET_BY_WRAPPERS = ("--tp-size", "--nnodes")
_MISSING, _UNKNOWN, _STRAY, _CONFIG = "ATT107", "ATT101", "ATT109", "ATT108"


#: Flags whose value is a path on the machine that the launch runs on, not on this one.
_PATHS = frozenset(
    {
        "--model-path",
        "--model",
        "--tokenizer-path",
        "--speculative-draft-model-path",
        "--speculative-draft-model",
        "--config",
    }
)


def _elsewhere(words: Sequence[Source]) -> frozenset[int]:
    """Positions of paths that this machine does not have: their content cannot be known here."""
    found = set()
    for number, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name not in _PATHS:
            continue
        if equals and _is_missing(value):
            found.add(number)
        elif (
            not equals
            and number + 1 < len(words)
            and (
                _is_configuration(words[number + 1].text)
                if name == "--config"
                else _is_missing(words[number + 1].text)
            )
        ):
            found.add(number + 1)
    return frozenset(found)


def _is_configuration(path: str) -> bool:
    """Whether SGLang would open a file of that name; others it refuses wherever they are."""
    return path.lower().endswith((".yaml", ".yml"))


def _is_missing(path: str) -> bool:
    """Whether a path, not a model's public name, leads nowhere here."""
    if not path.startswith(("/", "./", "../", "~")):
        return False
    try:
        return not Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return True


def _line_end(found: Found, variant: Variant) -> int:
    return found.start + 80 if found.end - found.start > 80 else found.end


def sources(found: Found) -> Sequence[Source]:
    """All words of a launch."""
    return [word for variant in found.variants for word in variant.words]
