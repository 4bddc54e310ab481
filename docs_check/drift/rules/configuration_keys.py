"""Configuration keys of the diffusion runtime (see the diffusion rules)."""

from __future__ import annotations

from ..context import Context, RuleInfo

INFO = RuleInfo("DOC115", "configuration-key", "config-parameter", "warning")


def check(context: Context) -> None:
    """Nothing on pages of the LLM server."""
