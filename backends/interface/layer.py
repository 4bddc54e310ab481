"""The attention layer as a backend sees it: heads, dimensions and options, without weights."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import LARGEST, LARGEST_SCALE, SMALLEST, is_factor, is_number, is_whole, size_problems
from .errors import InvalidInput
from .modes import AttentionType

_WHOLE = (
    "layer_id",
    "tp_q_head_num",
    "tp_k_head_num",
    "head_dim",
    "v_head_dim",
    "sliding_window_size",
)
_NUMBERS = ("scaling", "logit_cap", "k_scale", "v_scale")


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """One attention layer of one tensor-parallel rank (SGLang: `RadixAttention`).

    `head_dim` is that of queries and keys. In an MLA layer (`kv_lora_rank` given) there is one
    key head of `kv_lora_rank + rope` dimensions, and the value is its first `kv_lora_rank`.
    `sliding_window_size` is FlashInfer's `window_left`: a key is visible when it is at most that
    many tokens before the query; -1 is no window. `logit_cap` 0 is none; otherwise scores become
    `cap * tanh(score / cap)`. `k_scale` and `v_scale` are what stored values are multiplied by.
    Kernels count in float32, so that `scaling`, both scales, and `scaling * k_scale` are at most
    2⁶⁴: scores beyond 3.4e38 would be infinite, and attention over them NaN.
    """

    layer_id: int
    tp_q_head_num: int
    tp_k_head_num: int
    head_dim: int
    v_head_dim: int
    scaling: float
    logit_cap: float = 0.0
    sliding_window_size: int = -1
    attn_type: AttentionType = AttentionType.DECODER
    uses_sinks: bool = False
    kv_lora_rank: int | None = None
    k_scale: float = 1.0
    v_scale: float = 1.0

    def __post_init__(self) -> None:
        problems = size_problems(
            tp_q_head_num=self.tp_q_head_num,
            tp_k_head_num=self.tp_k_head_num,
            head_dim=self.head_dim,
            v_head_dim=self.v_head_dim,
        )
        sized = not problems
        if sized and self.tp_q_head_num % self.tp_k_head_num:
            problems.append(
                f"{self.tp_q_head_num} query heads are no multiple of "
                f"{self.tp_k_head_num} key heads"
            )
        problems += [
            f"{name} is {value!r}; it must be a positive number, {SMALLEST:.2g} to "
            f"{LARGEST_SCALE:.2g}"
            for name in ("scaling", "k_scale", "v_scale")
            if not is_factor(value := getattr(self, name), LARGEST_SCALE)
        ]
        if not is_whole(self.layer_id) or self.layer_id < 0:
            problems.append(f"layer_id is {self.layer_id!r}; layers count from 0")
        if not _is_cap(self.logit_cap):
            problems.append(
                f"logit_cap is {self.logit_cap!r}; it is 0 (none) or positive, "
                f"{SMALLEST:.2g} to {LARGEST:g}"
            )
        if not is_whole(self.sliding_window_size) or not -1 <= self.sliding_window_size < 2**31:
            problems.append(
                f"sliding_window_size is {self.sliding_window_size!r}; "
                "it is -1 (none) or 0 to 2³¹ - 1"
            )
        if not isinstance(self.attn_type, AttentionType):
            problems.append(f"attn_type is {self.attn_type!r}; it is an AttentionType")
        if self.kv_lora_rank is not None and not is_whole(self.kv_lora_rank):
            problems.append(f"kv_lora_rank is {self.kv_lora_rank!r}, not a whole number")
        elif self.kv_lora_rank is not None and sized:
            if self.tp_k_head_num != 1:
                problems.append(f"an MLA layer has one key head, not {self.tp_k_head_num}")
            if not 0 < self.kv_lora_rank == self.v_head_dim <= self.head_dim:
                problems.append(
                    f"an MLA layer has v_head_dim = kv_lora_rank <= head_dim, not "
                    f"{self.v_head_dim}, {self.kv_lora_rank}, {self.head_dim}"
                )
        if not isinstance(self.uses_sinks, bool):
            problems.append(f"uses_sinks is {self.uses_sinks!r}; it is True or False")
        if problems:
            raise InvalidInput(problems)
        self._make_plain()
        self._check_products()

    def _make_plain(self) -> None:
        """Turn numbers of NumPy's and fractions into Python's own, all that kernels take."""
        for name in _WHOLE:
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in _NUMBERS:
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.kv_lora_rank is not None:
            object.__setattr__(self, "kv_lora_rank", int(self.kv_lora_rank))

    def _check_products(self) -> None:
        """Raise InvalidInput where what kernels multiply scores by overflows as a product."""
        scale = self.scaling * self.k_scale
        problems = []
        if scale > LARGEST_SCALE:
            problems.append(
                f"scaling * k_scale is {scale:.3g}; it must be at most {LARGEST_SCALE:.2g}"
            )
        if self.logit_cap and scale / self.logit_cap > LARGEST:
            problems.append(
                f"scaling * k_scale / logit_cap is {scale / self.logit_cap:.3g}; "
                f"it must be at most {LARGEST:g}"
            )
        if problems:
            raise InvalidInput(problems)

    @property
    def is_mla(self) -> bool:
        return self.kv_lora_rank is not None

    @property
    def qk_head_dim(self) -> int:
        return self.head_dim

    @property
    def tp_v_head_num(self) -> int:
        return self.tp_k_head_num

    @property
    def is_causal(self) -> bool:
        return self.attn_type is AttentionType.DECODER


def _is_cap(value: object) -> bool:
    return is_factor(value) or (is_number(value) and value == 0)
