"""Rules for pages on the diffusion runtime, in the order in which they run."""

from __future__ import annotations

from types import ModuleType

from ..rules import source_path, symbol, unknown_flag
from . import commands, configuration, defaults, members, order, platforms, requirements

RULES: tuple[ModuleType, ...] = (
    members, platforms, defaults, requirements, configuration, order, commands, source_path,
    symbol, unknown_flag,
)  # fmt: skip
