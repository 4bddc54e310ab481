"""Draws random launches from a seed: flags and values come from the release's own flag table.

A draw leans towards what constrains attention, and about a third of it conflicts on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_lint.lintcfg.flags import FlagTable

#: Fields drawn, with the chance to appear in a launch of average size, and values where the flag
#: has no choices of its own.
CHANCES: dict[str, tuple[float, Sequence[Any]]] = {
    "attention_backend": (0.7, ()),
    "prefill_attention_backend": (0.15, ()),
    "decode_attention_backend": (0.15, ()),
    "page_size": (0.25, (1, 8, 16, 32, 64, 128, 256)),
    "kv_cache_dtype": (0.25, ()),
    "prefill_kv_cache_dequant_dtype": (0.03, ()),
    "mm_attention_backend": (0.05, ()),
    "linear_attn_backend": (0.05, ()),
    "linear_attn_decode_backend": (0.04, ()),
    "linear_attn_prefill_backend": (0.04, ()),
    "linear_attn_verify_backend": (0.02, ()),
    "mamba_ssm_dtype": (0.04, ()),
    "mamba_radix_cache_strategy": (0.03, ()),
    "dsa_prefill_backend": (0.04, ()),
    "dsa_decode_backend": (0.04, ()),
    "enable_deterministic_inference": (0.06, ()),
    "disable_radix_cache": (0.05, ()),
    "disable_cuda_graph": (0.04, ()),
    "disable_overlap_schedule": (0.03, ()),
    "tp_size": (0.2, (1, 2, 4, 8)),
    "pp_size": (0.02, (1, 2)),
    "dp_size": (0.02, (1, 2)),
    "attn_dp_size": (0.02, (1, 2)),
    "dcp_size": (0.02, (1, 2)),
    "attn_cp_size": (0.02, (1, 2)),
    "enable_mis": (0.03, ()),
    "prefill_only_disable_kv_cache": (0.03, ()),
    "enable_unified_memory": (0.03, ()),
    "enable_two_batch_overlap": (0.03, ()),
    "enable_hierarchical_cache": (0.02, ()),
    "chunked_prefill_size": (0.04, (-1, 512, 8192)),
    "context_length": (0.02, (2048, 4096)),
    "cuda_graph_backend_decode": (0.02, ()),
    "cuda_graph_backend_prefill": (0.03, ()),
    "dllm_algorithm": (0.01, ("LowConfidence",)),
    "speculative_draft_attention_backend": (0.05, ()),
    "speculative_attention_mode": (0.05, ()),
    "moe_a2a_backend": (0.02, ()),
    "moe_runner_backend": (0.02, ()),
    "quantization": (0.02, ()),
    "dtype": (0.03, ()),
}
ALGORITHMS = (
    "EAGLE", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One launch to ask both about; `groups` are argv pieces that can be left out one by one."""

    id: str
    platform: str
    model: str
    groups: tuple[tuple[str, ...], ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def argv(self) -> list[str]:
        """The launch's arguments after the model."""
        return [word for group in self.groups for word in group]


def draw(
    seed: str,
    count: int,
    table: FlagTable,
    platforms: Sequence[str],
    models: Sequence[str],
    drafts: dict[str, Sequence[str]] | None = None,
) -> Iterator[Case]:
    """Yield `count` launches; the same seed gives the same ones.

    Args:
        models: model folders; drafts: draft folders of a model, where it has some.
    """
    source = random.Random(seed)
    for number in range(count):
        model = source.choice(models)
        busy = source.choice((0.4, 0.7, 1.0, 1.6))
        groups: list[tuple[str, ...]] = []
        for name, (chance, values) in CHANCES.items():
            flag = table.by_field.get(name)
            if flag is None or not flag.names or source.random() >= chance * busy:
                continue
            groups.append(_typed(source, flag, values))
        if source.random() < 0.35 * busy:
            groups += _speculation(source, table, (drafts or {}).get(model, ()))
        yield Case(
            f"{seed}-{number}", source.choice(platforms), model,
            tuple(groups),
        )  # fmt: skip


def _typed(source: random.Random, flag: Any, values: Sequence[Any]) -> tuple[str, ...]:
    name = source.choice(flag.names)
    if not flag.takes_value:
        return (name,)
    options = values or flag.choices or ("1",)
    value = str(source.choice(tuple(options)))
    if source.random() < 0.02:
        value = value.upper() + "x"  # a value that nobody knows
    return (f"{name}={value}",) if source.random() < 0.1 else (name, value)


def _speculation(
    source: random.Random, table: FlagTable, drafts: Sequence[str]
) -> list[tuple[str, ...]]:
    spell = table.spelling
    algorithm = source.choice(ALGORITHMS)
    groups: list[tuple[str, ...]] = [(spell("speculative_algorithm"), algorithm)]
    if drafts and source.random() < 0.9:
        groups.append((spell("speculative_draft_model_path"), source.choice(drafts)))
    if source.random() < 0.7:
        steps, topk = source.choice((1, 3, 5)), source.choice((1, 1, 2, 4, 8))
        tokens = source.choice((steps + 1, topk * steps, 8))
        groups.append(
            (
                spell("speculative_num_steps"), str(steps), spell("speculative_eagle_topk"),
                str(topk), spell("speculative_num_draft_tokens"), str(tokens),
            )
        )  # fmt: skip
    return groups
