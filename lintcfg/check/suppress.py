"""Comments that silence findings: `# attn-lint: ignore[ATT201] -- reason`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .result import FileReport, Located

_COMMENT = re.compile(
    r"(?P<mark>#|//|<!--|\{/\*)\s*attn-lint:\s*(?P<file>file-)?ignore"
    r"(?:\[(?P<codes>[^\]]*)\])?(?:\s*--\s*(?P<reason>.*))?"
)


@dataclass(slots=True)
class Suppression:
    """One such comment.

    A comment behind something speaks for its line; one on a line of its own for the next line,
    and for the whole launch if that line begins one.
    """

    line: int
    column: int
    end_column: int
    codes: tuple[str, ...]
    alone: bool
    whole_file: bool
    target: int
    used: set[str] = field(default_factory=set)

    def covers(self, located: Located, launch_line: int | None) -> bool:
        """Whether it silences a finding."""
        if self.codes and not any(
            located.finding.code.startswith(code.upper()) or located.finding.name == code
            for code in self.codes
        ):
            return False
        return (
            self.whole_file
            or located.place.line == self.target
            or (launch_line is not None and launch_line == self.target)
        )


def find(text: str) -> list[Suppression]:
    """Suppressions of a file."""
    if "attn-lint:" not in text:
        return []
    found = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line) if "attn-lint:" in line else None
        if match is None:
            continue
        alone = not line[: match.start()].strip()
        target = number
        if alone:
            target = number + 1
            while target <= len(lines) and (
                not lines[target - 1].strip() or lines[target - 1].lstrip().startswith("#")
            ):
                target += 1
        codes = tuple(
            code.strip() for code in (match.group("codes") or "").split(",") if code.strip()
        )
        found.append(
            Suppression(number, match.start() + 1, len(line) + 1, codes, alone,
                        bool(match.group("file")), target)
        )  # fmt: skip
    return found


def apply(
    report: FileReport, suppressions: Sequence[Suppression]
) -> tuple[list[Located], list[Suppression]]:
    """Findings that remain, and suppressions that silence nothing."""
    kept = []
    for located in report.located:
        line = None
        if located.launch is not None:
            line = report.lines.place(report.launches[located.launch].start)[0]
        silencer = next((s for s in suppressions if s.covers(located, line)), None)
        if silencer is None:
            kept.append(located)
        else:
            silencer.used.add(located.finding.code)
    return kept, [one for one in suppressions if not one.used]
