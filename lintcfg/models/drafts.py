"""What a checkpoint is when it is loaded as a draft model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .config import Config, ConfigError


class DraftPlan:
    """The renames of architectures, in order; each sees what earlier ones left."""

    def __init__(self, plans: Sequence[Mapping[str, Any]]) -> None:
        self.plans = plans

    def apply(self, top: Config, text: Config, algorithm: str | None) -> tuple[Config, Config]:
        """Turn a configuration into that of its draft; returns it with its text part.

        Raises:
            ConfigError: it names no architecture, or lacks what the draft needs.
        """
        for plan in self.plans:
            archs = top.get("architectures")
            if not isinstance(archs, list) or not archs:
                raise ConfigError("it names no architectures")
            if "text_class" in plan:
                if not text.is_a(plan["text_class"]):
                    continue
            elif archs[0] not in plan["archs"]:
                continue
            if plan.get("bundles_dspark") and not (
                bundles_dspark(top) and algorithm in plan["algorithms"]
            ):
                continue
            for name in plan.get("needs", ()):
                top.need(name)
            for name in plan.get("text_needs", ()):
                text.need(name)
            for name, source in plan.get("top_copies", {}).items():
                top.attributes[name] = top.need(source)
            if plan.get("as_text"):
                top = text
                archs = []
            top.attributes["architectures"] = [plan["to"], *archs[1:]]
            for name, source in plan.get("copies", {}).items():
                text.attributes[name] = text.need(source)
            text.attributes.update(plan.get("text", {}))
            if "text_model_type" in plan:
                text.model_type = plan["text_model_type"]
            if plan.get("text_architectures"):
                text.attributes["architectures"] = list(top.attributes["architectures"])
        return top, text


_DSPARK_KEYS = ("dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id",
                "dspark_target_layer_ids")  # fmt: skip


def bundles_dspark(config: Config) -> bool:
    """Whether a target's checkpoint carries a draft head of its own."""
    return any(config.get(key) is not None for key in _DSPARK_KEYS)


def block_size(config: Config) -> int | None:
    """Tokens that a block-diffusion draft makes at once; None where it says nothing valid."""
    own = config.get("dflash_config")
    own = own if isinstance(own, dict) else {}
    value = own.get("block_size", config.get("block_size"))
    for first, second in (
        ("conv_kernel_size", "conv_group_size"),
        ("selector_rank", "selector_top_k"),
    ):
        if bool(own.get(first, 0)) != bool(own.get(second, 0)):
            return None
    layers = own.get("target_layer_ids", config.get("target_layer_ids"))
    if layers is not None and not (isinstance(layers, list) and layers):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 1 else None


def gamma(config: Config) -> int | None:
    """Tokens that a DSpark draft proposes."""
    value = config.get("dspark_block_size")
    if isinstance(value, int):
        return value
    return block_size(config)


def sliding_or_causal(config: Config) -> bool:
    """Whether every layer slides, or the draft is causal throughout."""
    text = config.get("text_config")
    text = text if isinstance(text, Config) else config
    layers = text.get("layer_types", config.get("layer_types"))
    sliding = (
        isinstance(layers, list)
        and bool(layers)
        and len(layers) == text.get("num_hidden_layers")
        and set(layers) == {"sliding_attention"}
    )
    return sliding or text.get("is_causal", False) is True
