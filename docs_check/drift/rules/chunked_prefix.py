"""A page's word on the chunked prefix cache is not the code's.

What it does: looks the backend up in the list of those that read the chunked layout.
Why: outside the list the feature is switched off silently.
"""

from __future__ import annotations

from ...facts.features import chunked_prefix
from ..context import Context, RuleInfo
from .sliding_window import simple_feature

INFO = RuleInfo("DOC116", "chunked-prefix-cache", "chunked-prefix", "warning")


def check(context: Context) -> None:
    """Check every cell of the column."""
    simple_feature(
        context, INFO, "chunked_prefix", "chunked prefix cache",
        lambda backend, family: chunked_prefix(context.facts, backend),
    )  # fmt: skip
