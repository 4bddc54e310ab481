"""The rules, in the order in which they run. A rule is a module with INFO and `check`."""

from __future__ import annotations

from types import ModuleType

from . import (
    aliases,
    chunked_prefix,
    constraints,
    default_backend,
    default_value,
    documented_name,
    gpu_architecture,
    kv_dtype,
    launch_command,
    multimodal,
    page_sizes,
    sliding_window,
    source_path,
    speculative_topk,
    sub_backend,
    symbol,
    undocumented_name,
    unknown_flag,
)

#: Rules of a group share facts; groups can run beside each other.
GROUPS: tuple[tuple[ModuleType, ...], ...] = (
    (
        documented_name, undocumented_name, aliases, page_sizes, kv_dtype, sliding_window,
        multimodal, chunked_prefix,
    ),
    (
        speculative_topk, gpu_architecture, default_backend, sub_backend, launch_command,
        source_path, symbol, constraints, default_value, unknown_flag,
    ),
)  # fmt: skip

RULES = tuple(rule for group in GROUPS for rule in group)
