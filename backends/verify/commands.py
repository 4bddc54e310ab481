"""`attn-lint verify` and `verify merge` as functions; exit codes 0 and 1, errors raised."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...matrix import evidence, loader
from ...matrix.files import is_stream, write_atomically
from .. import bundled  # noqa: F401  # registers
from ..registry import CAPABILITIES, capabilities_of, missing_packages, unfit
from . import check, interrupts, machine, record, report, resume
from .claims import machine_of
from .errors import VerifyError
from .pool import Settings, Stopped, TaskKey, run_all
from .probes import Catalogue, Task, catalogue, plan
from .rows import rows_of, write_rows

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
ENGINE = "bundled"
#: Seconds for one run of a probe: the first of a kind compiles.
TIMEOUT = 240.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line asks for."""

    backends: Sequence[str] = ()
    cells: Sequence[str] = ()
    device: str | None = None
    seeds: int | None = None
    first_seed: int = 0
    jobs: int | None = None
    timeout: float = TIMEOUT
    budget: float | None = None
    output_format: str = "text"
    output_file: Path | None = None
    check: bool = False
    evidence: Sequence[Path] = ()
    quiet: bool = False
    resume: Path | None = None


@dataclass(frozen=True, slots=True)
class _Ended:
    """A run that is over: its evidence, how many probes it was to run, those left out, cells (by
    backend and family) that it and what it went on from leave open, and what stopped it, if
    something did."""

    run: dict[str, Any]
    planned: int
    left_out: Sequence[TaskKey]
    open: Collection[report.Place]
    stopped: BaseException | None


def run(asked: Asked) -> int:
    """Run what is asked for, or hold evidence files against the matrix."""
    release = newest()
    found = catalogue(release["bundled"])
    names = _backends(asked.backends)
    cells = _cells(found, asked.cells)
    scope = check.Scope(names if asked.backends else None, cells)
    if asked.evidence:
        return _check_files(asked, release, found, scope)
    if asked.resume is not None and asked.output_file is None:
        asked = replace(asked, output_file=asked.resume)
    _must_be_writable(asked.output_file)
    here = _here(asked.device)
    others, earlier = resume.found(asked.resume, here, found.digest)
    with interrupts.noted() as signals:
        try:
            outcome = _run(asked, found, names, cells, here, earlier, signals)
        except KeyboardInterrupt:
            print("note: stopped before any probe had ended: nothing to keep", file=sys.stderr)
            raise
        made = outcome.run
        # Before anything is said: whoever listened may be gone. A disk that fills up meanwhile
        # costs the file, not what is printed.
        unwritten = _written(asked.output_file, [*others, made], signals)
    _say_left_out(outcome, asked)
    bad = [f"{place}: {text}" for place, text in _bad(made)]
    differences = []
    if asked.check:
        differences = check.run_made(made, release, found, CAPABILITIES)
        differences += check.committed(release, found, CAPABILITIES, scope)
    problems = [*bad, *differences]
    if asked.output_format == "json":
        if asked.output_file is not None:
            print(report.summary(made), file=sys.stderr)
        else:
            sys.stdout.write(evidence.dump([*others, made]))
        for problem in problems:
            print(problem, file=sys.stderr)
    else:
        report.text(made, found, differences, verbose=not asked.quiet, unfinished=outcome.open)
        if asked.check:
            _say_checked(differences, check.notes(made, release))
    if unwritten is not None:
        raise unwritten
    if (stopped := outcome.stopped or signals.left) is not None:
        raise stopped
    return EXIT_FINDINGS if problems else EXIT_CLEAN


def _check_files(
    asked: Asked, release: loader.Release, found: Catalogue, scope: check.Scope
) -> int:
    """Hold evidence files against the matrix, or the part of it that is asked for."""
    if not asked.check:
        raise VerifyError("--evidence goes with --check: files are held against the matrix")
    runs_something = {
        "--device": asked.device, "--seeds": asked.seeds, "--jobs": asked.jobs,
        "--budget": asked.budget, "--output-file": asked.output_file, "--resume": asked.resume,
    }  # fmt: skip
    given = [name for name, value in runs_something.items() if value is not None]
    if given:
        raise VerifyError(f"--evidence runs nothing, so that {', '.join(given)} has no use")
    runs = evidence.merge(evidence.read(path) for path in asked.evidence)
    unseen = [name for name in scope.backends or () if not any(name in r["backends"] for r in runs)]
    if unseen:
        files = ", ".join(map(str, asked.evidence))
        raise VerifyError(f"{files}: no evidence of {', '.join(unseen)} to hold against the matrix")
    for note in check.other_probes(runs, found):
        print(f"note: {note}", file=sys.stderr)
    return _tell_check(check.files_given(runs, release, found, CAPABILITIES, scope), asked)


def _must_be_writable(path: Path | None) -> None:
    """Find out before the work whether its result has a place.

    Raises:
        VerifyError: it has none; the text says what to do.
    """
    if path is None:
        return
    if path.is_dir():
        raise VerifyError(f"{path}: is a folder; name a file in it, such as {path / 'e.json'}")
    places = [path]
    if not is_stream(path):
        # What a link leads to is written, and a file takes the place of another in its folder.
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise VerifyError(f"{path}: a link that leads to itself; name another file")
        if not target.parent.is_dir():
            raise VerifyError(
                f"{path}: no such folder: {target.parent}; make it, or name another file"
            )
        places = [target, target.parent] if target.exists() else [target.parent]
    if not all(os.access(place, os.W_OK) for place in places):
        raise VerifyError(f"{path}: not writable for you; name another file")


def _written(
    path: Path | None, runs: Sequence[dict[str, Any]], signals: interrupts.Interrupts
) -> VerifyError | None:
    """Write evidence where a file is asked for; what went wrong, where something did.

    Whoever ends the run ends the wait for the reader of a pipe too.
    """
    if path is None:
        return None
    try:
        with signals.heard() if is_stream(path) else nullcontext():
            write_atomically(path, evidence.dump(runs))
    except OSError as error:
        return VerifyError(f"{path}: {error.strerror or error}; name another file")
    return None


def _say_left_out(ended: _Ended, asked: Asked) -> None:
    if not ended.left_out and ended.stopped is None:
        return
    why = "the budget is spent" if ended.stopped is None else "stopped"
    how_many = f"{len(ended.left_out)} of {ended.planned} probes are left out"
    then = ""
    if asked.output_file is not None:
        then = f"; --resume {asked.output_file} goes on"
    elif ended.stopped is not None and asked.output_format != "json":
        then = "; nothing is kept, for want of --output-file"
    print(f"note: {why}: {how_many}{then}", file=sys.stderr)


def _say_checked(differences: Sequence[str], notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}")
    count = len(differences)
    print(f"{count} disagreement{'s' if count != 1 else ''} with the matrix")


def rows(asked: Asked) -> int:
    """Write the matrix's rows anew from the evidence beside it."""
    release = newest()
    folder = Path(loader.data_folder(ENGINE, release.name))
    if not os.access(folder, os.W_OK):
        raise VerifyError(f"{folder}: rows are written in a checkout; this folder can't be")
    found = catalogue(release["bundled"])
    architectures = release["bundled"]["architectures"]
    (folder / "backends").mkdir(exist_ok=True)
    for name in _backends(asked.backends):
        made = rows_of(release["evidence"], capabilities_of(name), found, architectures)
        bad = [
            f"{name} {family} {architecture} {cell}"
            for family, by_architecture in made.items()
            for architecture, cells in by_architecture.items()
            if not isinstance(cells, str)
            for cell, value in cells.items()
            if value["support"] == "bad"
        ]
        if bad:
            listed = ", ".join(bad)
            raise VerifyError(
                "probes of the evidence are wrong, crashed or disagree, which no row may say: "
                f"{listed} (attn-lint verify --check has the reasons)"
            )
        write_rows(name, made, folder / "backends")
        print(folder / "backends" / f"{name}.yaml")
    return EXIT_CLEAN


def newest() -> loader.Release:
    """The newest data of the bundled backends."""
    return loader.load(ENGINE, loader.releases(ENGINE)[-1])


def listing(asked: Asked, architecture: str) -> int:
    """Print the calls that a run on an architecture would make, without making them."""
    release = newest()
    found = catalogue(release["bundled"])
    known = release["bundled"]["architectures"]
    if asked.check or asked.evidence or asked.resume or asked.output_file is not None:
        raise VerifyError(
            "--calls runs nothing: leave --check, --evidence, --resume and --output-file out"
        )
    if architecture not in known:
        raise VerifyError(f"no architecture {architecture!r}; there is: {', '.join(known)}")
    entry = known[architecture]
    capability = tuple(entry["capability"]) if entry.get("capability") else None
    lines = []
    for name in _backends(asked.backends):
        cells = _cells(found, asked.cells)
        for task in plan(found, capabilities_of(name), entry["device"], capability, cells):
            lines.append(_line(task))
    if asked.output_format == "json":
        print(json.dumps(lines, indent=1))
        return EXIT_CLEAN
    for line in lines:
        refused = "; ".join(line["refused"])
        expected = f"is to be refused: {refused}" if refused else "is to be right"
        print(f"{line['backend']} {line['family']} {line['cell']} [{line['probe']}] {expected}")
    return EXIT_CLEAN


def _line(task: Task) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "backend": task.backend,
        "family": task.family,
        "cell": task.probe.cell,
        "probe": task.probe.name,
        "request": asdict(task.request),
        "settings": dict(task.probe.settings),
        "refused": [refusal.reason for refusal in task.refusals],
    }


def merge(files: Sequence[Path], output: Path) -> int:
    """Merge evidence files into one."""
    _must_be_writable(output)
    runs = evidence.merge(evidence.read(path) for path in files)
    unwritten = _written(output, runs, interrupts.Interrupts())
    if unwritten is not None:
        raise unwritten
    print(f"{len(runs)} run{'s' if len(runs) != 1 else ''} in {output}")
    for run in runs:
        print(f"  {run['machine']['architecture']}: {machine_of(run)}")
    for note in check.other_probes(runs, catalogue(newest()["bundled"])):
        print(f"note: {note}", file=sys.stderr)
    return EXIT_CLEAN


def _run(
    asked: Asked,
    found: Catalogue,
    names: Sequence[str],
    cells: tuple[str, ...] | None,
    here: machine.Here,
    earlier: dict[str, Any] | None,
    signals: interrupts.Interrupts,
) -> _Ended:
    """Run the backends that can run here; the evidence is with that of an earlier run.

    Raises:
        KeyboardInterrupt: someone did before there was any evidence.
    """
    able, not_run = _able(names, here)
    if not able:
        why = "; ".join(f"{name}: {text}" for name, text in not_run.items())
        raise VerifyError(f"no backend asked for runs on {here.name} ({here.architecture}): {why}")
    every, _ = _able(list(CAPABILITIES), here)

    def planned(names: Sequence[str], cells: tuple[str, ...] | None) -> list[Task]:
        return [
            task
            for name in names
            for task in plan(found, capabilities_of(name), here.device, here.capability, cells)
        ]

    tasks = planned(able, cells)
    cpu = here.device == "cpu"
    seeds = range(asked.first_seed, asked.first_seed + (asked.seeds or (1 if cpu else 20)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = max(1, len(here.gpus))
    jobs = asked.jobs or max(1, (cores or 1) if cpu else min(8 * gpus, (cores or 2) // 2))
    deadline = None if asked.budget is None else time.monotonic() + asked.budget
    had = {} if earlier is None else resume.had(earlier, seeds)
    progress = _Progress(len(tasks))
    settings = Settings(seeds, jobs, asked.timeout, deadline, gpus=here.gpus)
    stopped = None
    try:
        results = run_all(tasks, settings, every, progress, had, signals.heard)
    except Stopped as stop:
        stopped, results = stop.why, stop.results
    progress.done()
    if not results and stopped is not None:
        raise stopped
    known = {result.task.key for result in results} | set(had)
    left_out = [task.key for task in tasks if task.key not in known]
    made = record.run_of(results, here, found.digest, not_run, CAPABILITIES)
    run = made if earlier is None else resume.joined(earlier, made)
    unfinished = {key[:3] for key in left_out} | report.open_places(run, planned(every, None))
    return _Ended(run, len(tasks), left_out, unfinished, stopped)


class _Progress:
    """One line on a terminal's standard error that says how far a run is."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen: set[TaskKey] = set()
        # A terminal that is only told how to print can't take a line back.
        self._shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._start = time.monotonic()

    def __call__(self, task: Task, runs: int) -> None:
        self._seen.add(task.key)
        if self._shown:
            seconds = time.monotonic() - self._start
            line = f"{len(self._seen)}/{self._total} probes, {seconds:.0f} s: "
            line += f"{task.backend} {task.probe.cell}"
            self._show(line[:100])

    def done(self) -> None:
        if self._shown:
            self._show("")

    def _show(self, line: str) -> None:
        with suppress(OSError):  # a terminal that is gone ends no run from here
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()


def _able(names: Sequence[str], here: machine.Here) -> tuple[list[str], dict[str, str]]:
    """Backends that run here, and why the others don't."""
    able, not_run = [], {}
    for name in names:
        capabilities = capabilities_of(name)
        missing = missing_packages(capabilities)
        why = unfit(capabilities, here.device, here.capability)
        if why is not None:
            not_run[name] = why
        elif missing:
            not_run[name] = "; ".join(f"{p.module} is not installed: {p.hint}" for p in missing)
        else:
            able.append(name)
    return able, not_run


def _backends(asked: Sequence[str]) -> list[str]:
    for name in asked:
        capabilities_of(name)  # raises UnknownBackend with a suggestion
    return list(dict.fromkeys(asked)) or list(CAPABILITIES)


def _cells(found: Catalogue, asked: Sequence[str]) -> tuple[str, ...] | None:
    """The cells asked for, or None for all of them; `page_size` is `page_sizes`."""
    return tuple(dict.fromkeys(_cell(found, name) for name in asked)) or None


def _cell(found: Catalogue, name: str) -> str:
    import difflib

    for known in (name, f"{name}s"):
        if known in found.cells:
            return known
    close = difflib.get_close_matches(name, found.cells, 1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    raise VerifyError(f"no cell named {name!r}{guess}; there is: {', '.join(found.cells)}")


def _here(device: str | None) -> machine.Here:
    if not machine.torch_is_installed():
        raise VerifyError(
            "running backends needs torch: pip install 'attn-lint[run]' for a CPU (take torch's "
            "CPU build where there is no GPU), pip install 'attn-lint[gpu]' for a GPU; "
            "verify merge and verify --check --evidence FILE work without it"
        )
    here = machine.look(device)
    if isinstance(here, str):
        raise VerifyError(here)
    return here


def _bad(made: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"{backend} {family} {cell} [{name}]", str(probe.get("text", "")))
        for backend, family, cell, name, probe in report.bad_probes(dict(made))
    ]


def _tell_check(problems: Sequence[str], asked: Asked) -> int:
    if asked.output_format == "json":
        print(json.dumps({"problems": list(problems)}, indent=1, ensure_ascii=False))
    else:
        for problem in problems:
            print(problem)
        files = ", ".join(map(str, asked.evidence))
        count = len(problems)
        print(f"{count} disagreement{'s' if count != 1 else ''} with {files}", file=sys.stderr)
    return EXIT_FINDINGS if problems else EXIT_CLEAN
