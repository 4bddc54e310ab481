"""A flag's default on the page is not the declared one.

What it does: reads “`--flag` (default: `x`)” and “`--flag value` (default)”.
Why: a reader relies on the default.
"""

from __future__ import annotations

import re

from ..context import Context, RuleInfo, Spot

INFO = RuleInfo("DOC118", "default-value", "default-value", "warning")
_AFTER = re.compile(r"`--([\w-]+)`\s*\([Dd]efault:?\s*`?([\w.-]+)`?\)")
_MARKED = re.compile(r"`--([\w-]+)[ =]([\w.-]+)`\s*\(default\)")


def check(context: Context) -> None:
    """Check every stated default."""
    for block in context.page.prose():
        for line in block.lines:
            for match in (*_AFTER.finditer(line.text), *_MARKED.finditer(line.text)):
                flag = context.facts.flags.get(f"--{match[1]}")
                if flag is None or flag.default is None or str(flag.default) == match[2]:
                    continue
                if not isinstance(flag.default, (str, int, float)):
                    continue
                context.report(
                    INFO, Spot(line.number, line.column + match.start(2)),
                    message=f"the default of `--{match[1]}` is {flag.default}, not {match[2]}",
                    claim=f"--{match[1]} defaults to {match[2]}",
                    actual=f"it defaults to {flag.default}", places=[flag.place],
                    subject=match[1],
                )  # fmt: skip
