"""Findings in files as text for people: the source line with carets under the argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..check.result import Located, Told
from ..findings import listed
from ..terminal import Style, printable

#: Longest source line that is shown whole.
_WIDTH = 160


def render(reports: Sequence[Told], style: Style, *, verbose: bool = False) -> Iterator[str]:
    """The report, a piece for each finding."""
    for report in reports:
        for located in report.located:
            if verbose or located.finding.certain:
                yield block(report, located, style)
        if not verbose:
            for text in folded(report):
                yield style("dim", text)
        if verbose:
            for line, column, what, reason in report.skipped:
                yield style(
                    "dim", f"{printable(report.path)}:{line}:{column}: skipped {what}: {reason}"
                )


def folded(report: Told) -> Iterator[str]:
    """A line for each launch about what hangs on a machine or a model that nobody named."""
    counts: dict[int | None, list[Located]] = {}
    for located in report.located:
        if not located.finding.certain:
            counts.setdefault(located.launch, []).append(located)
    for launch, several in counts.items():
        line, column = report.launches[launch] if launch is not None else (1, 1)
        on = listed(sorted({name for one in several for name in one.finding.hangs_on}))
        number = len({(one.finding.code, one.finding.message) for one in several})
        told = _count(number, "statement hangs", "statements hang")
        yield (
            f"{printable(report.path)}:{line}:{column}: {told} on "
            f"{f'{on}, which' if on else 'what'} the file does not tell; --verbose shows "
            f"{'it' if number == 1 else 'them'}"
        )


def block(report: Told, located: Located, style: Style) -> str:
    """One finding."""
    finding, place = located.finding, located.place
    head = style(finding.severity, f"{finding.severity}[{finding.code}]")
    if not finding.certain:
        head = f"perhaps {head}"
    where = style("bold", f"{printable(report.path)}:{place.line}:{place.column}:")
    lines = [f"{where} {head} {finding.message}"]
    text = report.line(place.line)
    if text:
        lines += _excerpt(text, located, style)
    if finding.condition:
        lines.append(f"  {finding.condition}")
    details = [
        f"needs {finding.needs}" if finding.needs else "",
        f"this is {finding.has}" if finding.has else "",
        f"phase {finding.phase}" if finding.phase else "",
    ]
    if any(details):
        lines.append(f"  {'; '.join(detail for detail in details if detail)}")
    if finding.hint:
        lines.append(f"  {finding.hint}")
    for fix in finding.fixes:
        lines.append(f"  fix: {fix}")
    if located.basis:
        lines.append(style("dim", f"  {located.basis}"))
    if finding.source:
        lines.append(style("dim", f"  {finding.source}"))
    return "\n".join(lines)


def _excerpt(text: str, located: Located, style: Style) -> list[str]:
    place = located.place
    number = str(place.line)
    gutter = " " * len(number)
    first = place.column - 1
    last = place.end_column - 1 if place.end_line == place.line else len(text.rstrip())
    start = 0
    if len(text) > _WIDTH:
        start = max(0, min(first - 40, len(text) - _WIDTH))
        text = text[start : start + _WIDTH]
    first, last = first - start, min(last - start, len(text))
    # What a file holds must not act on the terminal; each character keeps its place.
    text = "".join(one if one == "\t" or one.isprintable() else "\ufffd" for one in text)
    # A tab under a tab keeps the carets in line whatever its width.
    lead = "".join("\t" if character == "\t" else " " for character in text[:first])
    carets = "^" * max(1, last - first)
    return [
        f"  {gutter} |",
        f"  {number} | {text}",
        f"  {gutter} | {lead}{style(located.finding.severity, carets)}",
    ]


def concise(reports: Sequence[Told], *, verbose: bool = False) -> Iterator[str]:
    """One line for each finding."""
    for report in reports:
        for located in report.located:
            if not (verbose or located.finding.certain):
                continue
            finding, place = located.finding, located.place
            notes = "; ".join(note for note in (finding.condition, located.basis) if note)
            yield (
                f"{printable(report.path)}:{place.line}:{place.column}: {finding.severity} "
                f"{finding.code} {finding.message}{f' [{notes}]' if notes else ''}"
            )


def summary(reports: Sequence[Told], files: int, *, verbose: bool = False) -> str:
    """One line about everything; `verbose`: also about what was shown and is not sure."""
    counts = {"error": 0, "warning": 0, "info": 0}
    perhaps = 0
    for report in reports:
        for located in report.located:
            if located.finding.certain:
                counts[located.finding.severity] += 1
            else:
                perhaps += verbose
    launches = sum(len(report.launches) for report in reports)
    sure = ", ".join(
        f"{count} {name}{'s' if count != 1 and name != 'info' else ''}"
        for name, count in counts.items()
        if count
    )
    told = sure or "nothing to report"
    if perhaps:
        told = f"{sure or 'nothing sure'}, {perhaps} perhaps"
    return (
        f"{_count(launches, 'launch', 'launches')} in {_count(files, 'file', 'files')}: "
        f"{told}{cures(reports)}"
    )


def cures(reports: Sequence[Told]) -> str:
    """How many of the findings can be fixed, and with which option."""
    kinds = [one.fixable for report in reports for one in report.located]
    safe, unsafe = kinds.count("safe"), kinds.count("unsafe")
    if not safe and not unsafe:
        return ""
    parts = [f"{safe} fixable with --fix"] if safe else []
    parts += [f"{unsafe} with --fix --unsafe-fixes"] if unsafe else []
    return f" ({', '.join(parts)})"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
