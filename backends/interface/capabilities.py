"""What a backend carries, declared as data, and the comparison with what is asked of it.

A `Request` is everything about a call that can decide whether a kernel serves it. A backend's
`Capabilities` allow values of its traits one by one and exclude combinations with `limits`;
`refusals` returns every reason, so that nothing a backend can't do ever reaches a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from .checks import is_whole

Family = Literal["mha", "mla"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call, as far as support is concerned; dimensions and heads are per rank."""

    device: str = "cpu"
    capability: tuple[int, int] | None = None  # CUDA compute capability
    mode: str = "decode"
    family: Family = "mha"
    dtype: str = "bfloat16"  # of queries and outputs
    kv_dtype: str = "bfloat16"  # of the pool
    page_size: int = 16
    q_heads: int = 32
    kv_heads: int = 8
    qk_head_dim: int = 128
    v_head_dim: int = 128
    window: bool = False
    sinks: bool = False
    logit_cap: bool = False
    causal: bool = True
    multimodal: bool = False  # blocks of tokens that see one another both ways
    tree: bool = False  # a mask among draft tokens (topk > 1)
    draft_tokens: int = 0
    graph: bool = False  # captured in a CUDA graph

    @property
    def group(self) -> int:
        """Query heads for each key head."""
        return self.q_heads // self.kv_heads

    @property
    def unequal_kv_dims(self) -> bool:
        """Keys and values of different width, outside MLA."""
        return self.family == "mha" and self.qk_head_dim != self.v_head_dim

    @property
    def same_dtype(self) -> bool:
        """The pool holds what the queries are made of."""
        return self.dtype == self.kv_dtype


TRAITS = frozenset(f.name for f in fields(Request)) | {"group", "unequal_kv_dims", "same_dtype"}
#: How reasons call a trait, where its name is not what people say.
_SAY = {
    "capability": "compute capability",
    "page_size": "page size",
    "kv_dtype": "KV cache dtype",
    "dtype": "dtype",
    "group": "query heads per key head:",
    "q_heads": "query heads:",
    "kv_heads": "key heads:",
    "qk_head_dim": "head dim of queries and keys",
    "v_head_dim": "head dim of values",
    "draft_tokens": "draft tokens:",
    "window": "a sliding window",
    "sinks": "attention sinks",
    "logit_cap": "a logit cap",
    "multimodal": "bidirectional multimodal blocks",
    "tree": "a tree mask (topk > 1)",
    "graph": "CUDA graphs",
    "unequal_kv_dims": "keys and values of different head dims",
}


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from `low` to `high`, both included, that are multiples of `step`."""

    low: int = 1
    high: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        ends = (self.low, self.step, *(() if self.high is None else (self.high,)))
        if not all(map(is_whole, ends)) or self.step < 1:
            raise ValueError(f"{self!r} is of whole numbers, with a step of 1 or more")

    def __contains__(self, value: object) -> bool:
        if not is_whole(value):
            return False
        number = int(value)
        return (
            number >= self.low
            and (self.high is None or number <= self.high)
            and number % self.step == 0
        )

    def __str__(self) -> str:
        kind = f"multiples of {self.step}" if self.step > 1 else "values"
        if self.high is None:
            return f"{kind} from {self.low}"
        return f"{kind} from {self.low} to {self.high}"


Allowed = frozenset[Any] | Range


def _known(traits: Mapping[str, Allowed]) -> None:
    """Raise ValueError for what is no trait, and for what holds no values of one."""
    if not isinstance(traits, Mapping):
        raise ValueError(f"{traits!r} is no mapping of traits to their values")
    unknown = sorted(set(traits) - TRAITS)
    if unknown:
        raise ValueError(f"no such trait: {', '.join(unknown)}")
    for name, allowed in traits.items():
        # A string would be asked for its parts: "code" is in "decode".
        if not isinstance(allowed, Set | Range):
            raise ValueError(f"{name} is {allowed!r}; it is one_of(...) or a Range")


@dataclass(frozen=True, slots=True)
class Limit:
    """A combination that is not carried: every trait in `when` has one of the given values."""

    when: Mapping[str, Allowed]
    reason: str
    source: str = ""  # where the limit comes from: a kernel's own check, a measurement

    def __post_init__(self) -> None:
        _known(self.when)

    def speaks(self, request: Request) -> bool:
        return all(getattr(request, name) in allowed for name, allowed in self.when.items())


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a request is not carried; `traits` are those that it hangs on.

    `source` says where the limit comes from, where that is not the backend's own choice.
    """

    traits: tuple[str, ...]
    reason: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.source})" if self.source else self.reason


@dataclass(frozen=True, slots=True)
class Package:
    """Something to install before a backend runs: its import name and how to get it."""

    module: str
    hint: str

    def __post_init__(self) -> None:
        parts = self.module.split(".") if isinstance(self.module, str) else [""]
        if not all(map(str.isidentifier, parts)):
            raise ValueError(f"{self.module!r} is no name to import a package by")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend carries. A trait that `allows` does not name is not restricted."""

    name: str
    title: str
    runs: str  # the kernels behind it, in one sentence
    allows: Mapping[str, Allowed]
    limits: tuple[Limit, ...] = ()
    packages: tuple[Package, ...] = ()
    #: SGLang's name of the backend that runs the same kernel family, None where there is none.
    engine_row: str | None = None
    #: Largest ‖out − ref‖/‖ref‖ that counts as right, by (dtype, KV cache dtype); the default is
    #: `tolerance_of`. Only for kernels that compute in a narrower type than the queries'.
    tolerances: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _known(self.allows)
        object.__setattr__(self, "allows", MappingProxyType(dict(self.allows)))

    def refusals(self, request: Request) -> list[Refusal]:
        """Every reason why `request` is not carried; empty when it is."""
        if request.mode == "idle":
            return []
        out = [
            Refusal((name,), self._reason(name, getattr(request, name), allowed))
            for name, allowed in self.allows.items()
            if getattr(request, name) not in allowed
        ]
        out += [
            Refusal(tuple(limit.when), limit.reason, limit.source)
            for limit in self.limits
            if limit.speaks(request)
        ]
        return out

    def tolerance(self, request: Request) -> float:
        """Largest ‖out − ref‖/‖ref‖ of a call that counts as right."""
        key = request.dtype, request.kv_dtype
        return self.tolerances.get(key, tolerance_of(*key))

    def _reason(self, trait: str, value: object, allowed: Allowed) -> str:
        if trait == "causal":
            what = "causal" if value else "bidirectional"
            return f"{self.name} has no {what} attention"
        if trait == "same_dtype":
            what = "the same dtype" if value else "different dtypes"
            return f"{self.name} takes no queries and KV cache of {what}"
        if isinstance(value, bool):
            verb = "has no support for" if value else "needs"
            return f"{self.name} {verb} {_SAY.get(trait, trait)}"
        said = _SAY.get(trait, trait)
        return f"{said} {_value(value)} is not among what {self.name} takes: {_list(allowed)}"


def one_of(*values: object) -> frozenset[Any]:
    """A set of allowed values, short to write."""
    return frozenset(values)


NO = one_of(False)
YES = one_of(True)

#: What every backend needs.
TORCH = Package("torch", "pip install 'attn-lint[run]'")
#: Bidirectional attention has one pass: a later token would change what earlier ones saw.
ENCODER_LIMIT = Limit(
    {"causal": NO, "mode": one_of("decode", "target_verify")},
    "bidirectional attention has no decode: later tokens would change earlier ones",
)


def tolerance_of(dtype: str, kv_dtype: str) -> float:
    """Largest relative error that counts as right, where a kernel computes in `dtype`.

    Rounding of the output alone costs up to 2⁻⁹ (bf16), 2⁻¹² (fp16), 2⁻²⁴ (fp32); the
    probabilities are rounded once more before the second product. The reference reads the values
    that the pool holds, so that what a narrow `kv_dtype` loses is no error of the kernel.
    """
    return {"float32": 2e-5, "float16": 4e-3, "bfloat16": 2e-2}[dtype]


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ".".join(str(part) for part in value)
    return "none" if value is None else str(value)


def _list(allowed: Allowed) -> str:
    if isinstance(allowed, Range):
        return str(allowed)
    # By type first, since None, numbers, tuples and names don't compare with one another.
    by_type: dict[str, list[Any]] = {}
    for value in allowed:
        by_type.setdefault(type(value).__name__, []).append(value)
    ordered: list[Any] = [
        value
        for name, values in sorted(by_type.items())
        for value in (values if name == "NoneType" else sorted(values))
    ]
    return ", ".join(_value(value) for value in ordered) or "nothing"
