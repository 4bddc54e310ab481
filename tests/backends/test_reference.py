"""The float64 reference, against numbers by hand and against torch's SDPA in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn_lint.backends import bundled  # noqa: E402, F401  # registers
from attn_lint.backends.interface.batch import ForwardBatch  # noqa: E402
from attn_lint.backends.interface.layer import AttentionLayer  # noqa: E402
from attn_lint.backends.interface.modes import AttentionType  # noqa: E402
from attn_lint.backends.interface.pool import MHATokenToKVPool, ReqToTokenPool  # noqa: E402
from attn_lint.backends.reference import attention, relative_error, visible  # noqa: E402
from attn_lint.backends.registry import create_backend  # noqa: E402

from .support import MODES, SMALL, scenario  # noqa: E402

#: One head, keys of one number, values of two.
TINY = AttentionLayer(
    layer_id=0, tp_q_head_num=1, tp_k_head_num=1, head_dim=1, v_head_dim=2, scaling=1.0
)


def tiny(keys: list[float], values: list[list[float]]) -> ForwardBatch:
    """A decode of one request with these keys and values, its pages in reverse order."""
    reqs = ReqToTokenPool(1, 8, page_size=2, num_pages=6)
    reqs.write(1, [10, 11, 6, 7, 4, 5][: len(keys)])
    kv = MHATokenToKVPool(
        num_pages=6, page_size=2, kv_cache_dtype="float32", head_num=1, head_dim=1, v_head_dim=2
    )
    kv.poison(torch.arange(12))
    batch = ForwardBatch.decode(reqs, kv, [1], [len(keys)])
    slots = reqs.host[1, : len(keys)].long()
    kv.set_kv_buffer(TINY, slots, torch.tensor(keys)[:, None, None], torch.tensor(values)[:, None])
    return batch


LN2, LN3 = math.log(2), math.log(3)


def test_by_hand() -> None:
    # Weights 1 : 2 : 3.
    batch = tiny([0.0, LN2, LN3], [[6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])
    q = torch.ones(1, 1, 1)
    near = {"abs": 1e-6}
    assert attention(q, TINY, batch).flatten().tolist() == pytest.approx([4.0, 5.0], **near)
    # A window of 1 keeps the last two keys: 2 : 3.
    window = replace(TINY, sliding_window_size=1)
    assert attention(q, window, batch).flatten().tolist() == pytest.approx([3.6, 6.0], **near)
    alone = replace(TINY, sliding_window_size=0)
    assert attention(q, alone, batch).flatten().tolist() == pytest.approx([6.0, 6.0], **near)
    # A sink of ln 6 takes half: 1 : 2 : 3 of 12.
    sunk = attention(q, TINY, batch, torch.tensor([math.log(6)]))
    assert sunk.flatten().tolist() == pytest.approx([2.0, 2.5], **near)
    # Scaled by 2, weights are squared: 1 : 4 : 9.
    twice = replace(TINY, scaling=2.0)
    wanted = [(6 + 54) / 14, (24 + 54) / 14]
    assert attention(q, twice, batch).flatten().tolist() == pytest.approx(wanted, **near)
    # A cap: logits are cap · tanh(x / cap).
    capped = replace(TINY, logit_cap=1.0)
    weights = [math.exp(math.tanh(x)) for x in (0.0, LN2, LN3)]
    share = [w / sum(weights) for w in weights]
    wanted = [6 * (share[0] + share[2]), 6 * (share[1] + share[2])]
    assert attention(q, capped, batch).flatten().tolist() == pytest.approx(wanted, **near)


def test_what_a_query_sees() -> None:
    reqs = ReqToTokenPool(1, 8, page_size=2, num_pages=6)
    reqs.write(1, [4, 5, 6, 7, 8, 9])
    kv = MHATokenToKVPool(
        num_pages=6, page_size=2, kv_cache_dtype="float32", head_num=1, head_dim=1, v_head_dim=2
    )
    batch = ForwardBatch.extend(reqs, kv, [1], [2], [4], [[(3, 5)]])

    def seen(layer: AttentionLayer, batch: ForwardBatch, count: int) -> list[str]:
        mask = visible(batch, layer, 0, count, 6)
        return ["".join("x" if x else "." for x in row) for row in mask.tolist()]

    assert seen(TINY, batch, 4) == ["xxx...", "xxxxx.", "xxxxx.", "xxxxxx"]
    narrow = replace(TINY, sliding_window_size=1)
    assert seen(narrow, batch, 4) == [".xx...", "..xxx.", "...xx.", "....xx"]
    both = replace(TINY, attn_type=AttentionType.ENCODER_ONLY)
    assert seen(both, batch, 4) == ["xxxxxx"] * 4
    tree = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]], dtype=torch.bool)
    drafts = ForwardBatch.target_verify(reqs, kv, [1], [3], 3, tree, topk=2)
    assert seen(TINY, drafts, 3) == ["xxxx..", "xxxxx.", "xxxx.x"]
    assert seen(narrow, drafts, 3) == ["..xx..", "...xx.", ".....x"]
    chain = ForwardBatch.target_verify(reqs, kv, [1], [3], 3)
    assert seen(TINY, chain, 3) == ["xxxx..", "xxxxx.", "xxxxxx"]


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("kv_dtype", ["float32", "fp8_e4m3", "fp4_e2m1"])
def test_agrees_with_torch_in_float64(mode: str, kv_dtype: str) -> None:
    drawn = scenario(replace(MODES[mode], kv_dtype=kv_dtype), seed=4)
    layer, batch = drawn.layer, drawn.batch
    kv = batch.token_to_kv_pool
    kv.set_kv_buffer(layer, batch.out_cache_loc, drawn.k, drawn.v)
    parts, first = [], 0
    for row, count in enumerate(batch.query_lens_cpu):
        length = int(batch.kv_lens_cpu[row])
        request = int(batch.req_pool_indices_cpu[row])
        slots = batch.req_to_token_pool.host[request, :length].long()
        k, v = (x.transpose(0, 1)[None] for x in kv.load(layer, slots, torch.float64))
        q = drawn.q[first : first + count].double().transpose(0, 1)[None]
        mask = torch.ones(count, length, dtype=torch.bool).tril(length - count)
        out = F.scaled_dot_product_attention(q, k, v, mask, scale=layer.scaling, enable_gqa=True)
        parts.append(out[0].transpose(0, 1))
        first += count
    assert relative_error(attention(drawn.q, layer, batch), torch.cat(parts)) < 1e-14


def test_of_nothing() -> None:
    drawn = scenario(SMALL)
    batch = ForwardBatch.decode(drawn.batch.req_to_token_pool, drawn.batch.token_to_kv_pool, [], [])
    assert attention(drawn.q[:0], drawn.layer, batch).shape == (0, 4, 32)


def test_the_error_of_an_answer() -> None:
    ref = torch.tensor([3.0, 4.0])
    assert relative_error(torch.tensor([3.0, 4.5]), ref) == pytest.approx(0.1)
    assert relative_error(ref[None], ref) == 0.0
    assert relative_error(torch.tensor([3.0, math.nan]), ref) == math.inf
    assert relative_error(torch.tensor([3.0, math.inf]), ref) == math.inf
    assert relative_error(ref[:0], ref[:0]) == 0.0


def test_what_e5m2_holds_times_its_scale_may_be_more_than_float16_does() -> None:
    """Attention is a mean: it is within float16 where values of either sign are not."""
    request = replace(MODES["decode"], dtype="float16", kv_dtype="fp8_e5m2")
    drawn = scenario(request, seed=2)
    layer = replace(drawn.layer, v_scale=4.0, scaling=1e-3)
    backend = create_backend("torch_native", replace(drawn.runner, layers=[layer]))
    values = drawn.runner.token_to_kv_pool.get_kv_buffer(0)[1]
    values.copy_(torch.where(torch.arange(len(values)) % 2 > 0, 4e4, -4e4)[:, None, None])
    backend.init_forward_metadata(drawn.batch)
    out = backend.forward(drawn.q, drawn.k, drawn.v, layer, drawn.batch)
    ref = attention(drawn.q, layer, drawn.batch)
    fits = ref.abs() < 6e4
    assert fits.any()
    assert relative_error(out.view(ref.shape)[fits], ref[fits]) < 4e-3
