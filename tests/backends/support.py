"""What the tests of the interface share: small tables, pools, layers and runners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from attn_lint.backends import bundled  # noqa: F401  # registers
from attn_lint.backends.interface.base import AttentionBackend
from attn_lint.backends.interface.batch import ForwardBatch
from attn_lint.backends.interface.capabilities import Request
from attn_lint.backends.interface.layer import AttentionLayer
from attn_lint.backends.interface.pool import MHATokenToKVPool, ReqToTokenPool
from attn_lint.backends.interface.runner import ModelRunner
from attn_lint.backends.reference import attention, relative_error
from attn_lint.backends.verify.scenario import Scenario, draw

PAGE = 4
SMALL = Request(
    q_heads=4,
    kv_heads=2,
    qk_head_dim=32,
    v_head_dim=32,
    dtype="float32",
    kv_dtype="float32",
    page_size=PAGE,
)
#: SMALL for one mode; a verify has three draft tokens.
MODES = {
    "decode": SMALL,
    "extend": replace(SMALL, mode="extend"),
    "target_verify": replace(SMALL, mode="target_verify", draft_tokens=3),
}

LAYER = AttentionLayer(
    layer_id=0, tp_q_head_num=4, tp_k_head_num=2, head_dim=32, v_head_dim=32, scaling=32**-0.5
)


def table(num_pages: int = 8, size: int = 4, context: int = 16) -> ReqToTokenPool:
    return ReqToTokenPool(size, context, page_size=PAGE, num_pages=num_pages)


def filled(pages: Sequence[Sequence[int]], num_pages: int = 8) -> ReqToTokenPool:
    """A table whose request i + 1 has the pages `pages[i]`, in order."""
    reqs = table(num_pages)
    for i, mine in enumerate(pages):
        reqs.write(i + 1, [page * PAGE + at for page in mine for at in range(PAGE)])
    return reqs


def pool(
    num_pages: int = 8, dtype: str = "float32", layers: int = 1, device: str = "cpu"
) -> MHATokenToKVPool:
    return MHATokenToKVPool(
        num_pages=num_pages,
        page_size=PAGE,
        kv_cache_dtype=dtype,
        head_num=2,
        head_dim=32,
        layer_num=layers,
        device=device,
    )


def runner(reqs: ReqToTokenPool, kv: MHATokenToKVPool) -> ModelRunner:
    return ModelRunner([LAYER], reqs, kv, torch.float32)


def scenario(request: Request, seed: int = 0, *, longest: int = 12) -> Scenario:
    return draw(request, seed, longest=longest)


def assert_layers_right(
    backend: AttentionBackend, layers: Sequence[AttentionLayer], batch: ForwardBatch
) -> None:
    """Each layer of one prepared pass gives what the float64 reference does."""
    generator = torch.Generator().manual_seed(3)
    for layer in layers:
        q, k, v = (
            torch.randn(batch.num_tokens, heads, layer.head_dim, generator=generator)
            for heads in (layer.tp_q_head_num, layer.tp_k_head_num, layer.tp_k_head_num)
        )
        out = backend.forward(q, k, v, layer, batch)
        assert relative_error(out, attention(q, layer, batch)) < 1e-6, layer
