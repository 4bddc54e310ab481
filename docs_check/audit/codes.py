"""The codes of the audit, with their pages."""

from __future__ import annotations

from ..drift.context import RuleInfo

NAME = RuleInfo("MAT101", "matrix-name", "backend-name", "error")
FLAG = RuleInfo("MAT102", "matrix-flag", "flag", "warning")
CHOICES = RuleInfo("MAT103", "matrix-choices", "choices", "warning")
ALIAS = RuleInfo("MAT104", "matrix-alias", "alias", "warning")
PAGE_SIZES = RuleInfo("MAT105", "matrix-page-sizes", "page-size", "warning")
CELL = RuleInfo("MAT106", "matrix-cell", "support", "info")
VANISHED = RuleInfo("MAT107", "evidence-vanished", "evidence-vanished", "error")
MOVED = RuleInfo("MAT108", "evidence-moved", "evidence-moved", "warning")
CHANGED = RuleInfo("MAT109", "evidence-changed", "evidence-changed", "warning")
SOURCE = RuleInfo("MAT190", "unreadable-source", "unreadable-source", "error")

PAGES: tuple[tuple[RuleInfo, str], ...] = (
    (
        NAME,
        """The matrix and the release do not have the same backends.

What it does: compares the matrix's backends with the registry and the values of the flag.
Why: a launch with a backend that only one of them knows is judged wrongly.
Example: `cutlass_mla`, which left the registry in 0.5.20.
""",
    ),
    (
        FLAG,
        """A flag was added, removed or declared in another way.

What it does: reads every flag of the release from its source and compares names, types, defaults
and actions with the matrix.
Why: a launch with a flag that only one of them knows is judged wrongly.
""",
    ),
    (
        CHOICES,
        """A flag takes other values than the matrix says.

What it does: compares the choices of every flag.
Why: a value is refused that starts, or the other way round.
""",
    ),
    (
        ALIAS,
        """A value that the release turns into another is not so in the matrix, or the other way.

What it does: compares the aliases of the backend flag with the rows of the matrix.
Why: what holds for the target holds for the alias.
""",
    ),
    (
        PAGE_SIZES,
        """A backend takes other page sizes than the matrix says.

What it does: compares the sets that argument handling and constructors insist on.
Why: a size is changed or refused that the matrix takes for good.
""",
    ),
    (
        CELL,
        """A cell of the matrix is not what the scanner makes of the release.

What it does: compares KV-cache dtypes, topk, sliding windows, vision and the chunked prefix cache
where the scanner comes to a plain yes or no.
Why: two ways to the same fact should meet; where they do not, a person should look.
""",
    ),
    (
        VANISHED,
        """The source of a statement is gone.

What it does: looks up the file and the symbol of every source.
Why: a rule whose reason is gone is likely to be wrong.
""",
    ),
    (
        MOVED,
        """The source of a statement stands in another file or under another name.

What it does: looks for a vanished symbol by its name in the whole tree, and by its fingerprint.
Why: the rule may hold, but its evidence leads nowhere.
Fix: name the new place.
""",
    ),
    (
        CHANGED,
        """The source of a statement was rewritten.

What it does: compares the fingerprint of each symbol: a hash of its syntax without layout,
comments and docstrings.
Why: this is the list of rules to read again for a new release.
Fix: read the rule against the new code, then record the fingerprints anew.
""",
    ),
    (
        SOURCE,
        """A part of the source tree could not be read.

What it does: reports what could not be decoded or parsed.
Why: what it says about attention is missing from the comparison.
""",
    ),
)
