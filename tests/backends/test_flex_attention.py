"""The `flex_attention` backend: eager against the reference, its block lists by walking them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from attn_lint.backends.flex_attention import backend as flex  # noqa: E402
from attn_lint.backends.flex_attention.mask import PoolGeometry, key_block  # noqa: E402
from attn_lint.backends.interface.batch import ForwardBatch  # noqa: E402
from attn_lint.backends.interface.capabilities import Request, tolerance_of  # noqa: E402
from attn_lint.backends.interface.errors import Refused  # noqa: E402
from attn_lint.backends.interface.pool import MHATokenToKVPool, ReqToTokenPool  # noqa: E402
from attn_lint.backends.interface.runner import ModelRunner  # noqa: E402
from attn_lint.backends.reference import attention, relative_error  # noqa: E402
from attn_lint.backends.registry import create_backend  # noqa: E402
from attn_lint.backends.verify.scenario import Scenario, draw  # noqa: E402
from torch._dynamo.testing import CompileCounter  # noqa: E402

from .support import LAYER, SMALL, assert_layers_right  # noqa: E402

MHA = replace(SMALL, page_size=16)
MLA = Request(
    family="mla",
    q_heads=4,
    kv_heads=1,
    qk_head_dim=576,
    v_head_dim=512,
    dtype="float32",
    kv_dtype="float32",
)
EXTEND = {"mode": "extend"}
VERIFY = {"mode": "target_verify", "draft_tokens": 4}
TREE = {**VERIFY, "tree": True}


def run(drawn: Scenario) -> float:
    backend = create_backend("flex_attention", drawn.runner)
    backend.init_forward_metadata(drawn.batch)
    out = backend.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch, sinks=drawn.sinks)
    return relative_error(out, attention(drawn.q, drawn.layer, drawn.batch, drawn.sinks))


CELLS: list[dict[str, Any]] = [
    {},
    {"page_size": 1},
    {"page_size": 48},
    {"window": True, "sinks": True, "logit_cap": True},
    {"q_heads": 6, "kv_heads": 2},
    {"q_heads": 2},
    {"qk_head_dim": 48, "v_head_dim": 32},
    {"dtype": "bfloat16", "kv_dtype": "bfloat16"},
    {"dtype": "float16", "kv_dtype": "float16", "sinks": True},
    {"dtype": "bfloat16", "kv_dtype": "fp8_e4m3"},
    {"kv_dtype": "fp8_e5m2"},
    {"dtype": "bfloat16", "kv_dtype": "float32"},
]


@pytest.mark.parametrize("mode", [{"mode": "decode"}, EXTEND, VERIFY], ids=lambda m: m["mode"])
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_right_with_poison_all_around(mode: dict[str, Any], cell: dict[str, Any]) -> None:
    request = replace(MHA, **mode, **cell)
    error = run(draw(request, 1, longest=50))
    assert error < tolerance_of(request.dtype, request.kv_dtype)


@pytest.mark.parametrize(
    "request_",
    [
        replace(MLA, mode="decode"),
        replace(MLA, **EXTEND, window=True),
        replace(MLA, **TREE),
        replace(MHA, **TREE),
        replace(MHA, **TREE, window=True, sinks=True),
        replace(MHA, **EXTEND, causal=False),
        replace(MHA, **EXTEND, causal=False, window=True),
        replace(MHA, **EXTEND, multimodal=True),
        replace(MHA, **EXTEND, multimodal=True, window=True),
        replace(MHA, **EXTEND, multimodal=True, causal=False),
    ],
    ids=lambda r: f"{r.family}-{r.mode}{'-tree' * r.tree}{'-w' * r.window}{'-mm' * r.multimodal}",
)
def test_masks_and_latents(request_: Request) -> None:
    assert run(draw(request_, 2, longest=40)) < tolerance_of("float32", "float32")


@pytest.mark.parametrize("window", [0, 1, 10**6])
def test_windows_of_any_size(window: int) -> None:
    request = replace(MHA, **EXTEND, window=True)
    assert run(draw(request, 3, longest=40, window=window)) < 1e-6


def test_nothing_is_traced_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiles(*arguments: Any, **settings: Any) -> Any:
        raise AssertionError("torch.compile is called")

    monkeypatch.setattr(torch, "compile", compiles)
    flex._flex.cache_clear()
    switch = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    before = getattr(flex.flex_module, switch)
    for traits in ({}, {"sinks": True, "logit_cap": True}):
        assert run(draw(replace(MHA, **traits), 5, longest=40)) < 1e-6
    assert getattr(flex.flex_module, switch) is before


def test_threads_that_overlap_leave_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins later and ends later must neither trace in between nor keep the switch."""
    switch = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    before = getattr(flex.flex_module, switch)
    attend, both, first_is_over = flex.flex_attention, threading.Barrier(2), threading.Event()
    seen: list[bool] = []

    def held(*arguments: Any, **options: Any) -> Any:
        both.wait(60)
        if threading.current_thread() is later:
            first_is_over.wait(60)
        seen.append(getattr(flex.flex_module, switch))
        return attend(*arguments, **options)

    def work(seed: int) -> None:
        errors.append(run(draw(MHA, seed, longest=40)))

    errors: list[float] = []
    monkeypatch.setattr(flex, "flex_attention", held)
    first, later = (threading.Thread(target=work, args=(seed,)) for seed in (5, 6))
    first.start()
    later.start()
    first.join(60)
    first_is_over.set()
    later.join(60)
    assert seen == [True, True]
    assert len(errors) == 2 and max(errors) < 1e-6
    assert getattr(flex.flex_module, switch) is before


@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_layers_of_any_scale_share_a_compiled_function(
    cap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many layers with FP8 scales of their own would be compiled as often, and at last refused.

    Dynamo counts; what it hands over runs as torch has it, since inductor builds none of it here.
    """
    drawn = draw(replace(MHA, **EXTEND), 4, longest=40)
    reqs, old, batch = drawn.runner.req_to_token_pool, drawn.batch.token_to_kv_pool, drawn.batch
    layers = [
        replace(drawn.layer, layer_id=i, scaling=(i + 1) / 20, logit_cap=cap and cap + i)
        for i in range(10)
    ]
    kv = MHATokenToKVPool(
        num_pages=old.num_pages,
        page_size=old.page_size,
        kv_cache_dtype="float32",
        head_num=2,
        head_dim=32,
        layer_num=len(layers),
    )
    ids, lengths = batch.req_pool_indices.tolist(), batch.seq_lens.tolist()
    whole = ForwardBatch.extend(reqs, kv, ids, [0] * len(ids), lengths)
    counter = CompileCounter()
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=counter))
    flex._flex.cache_clear()
    torch._dynamo.reset()
    try:
        backend = flex.FlexAttnBackend(ModelRunner(layers, reqs, kv, torch.float32))
        backend.compiled = True
        backend.init_forward_metadata(whole)
        assert_layers_right(backend, layers, whole)
    finally:
        flex._flex.cache_clear()
        torch._dynamo.reset()
    assert counter.frame_count == 1


@pytest.mark.parametrize("traits", [{"kv_dtype": "fp4_e2m1"}])
def test_refused(traits: dict[str, Any]) -> None:
    drawn = draw(replace(MHA, **traits), 0, longest=20)
    backend = create_backend("flex_attention", drawn.runner)
    with pytest.raises(Refused, match="KV cache dtype fp4_e2m1 is not among"):
        backend.init_forward_metadata(drawn.batch)


def test_no_graph_is_captured() -> None:
    drawn = draw(MHA, 0, longest=20)
    backend = create_backend("flex_attention", drawn.runner)
    with pytest.raises(Refused, match="flex_attention has no support for CUDA graphs"):
        backend.init_forward_metadata_out_graph(drawn.batch, in_capture=True)


@pytest.mark.parametrize(
    ("traits", "reason"),
    [
        ({"qk_head_dim": 8, "v_head_dim": 8}, "head dims of 16 and more"),
        ({"v_head_dim": 8}, "value dims of 16 and more"),
        ({"dtype": "float32", "qk_head_dim": 576}, "too large for shared memory"),
        ({"qk_head_dim": 2048}, "too large for shared memory"),
    ],
)
def test_what_the_compiled_kernel_can_not_do_is_declared(
    traits: dict[str, Any], reason: str
) -> None:
    on_gpu = replace(Request(device="cuda", capability=(9, 0)), **traits)
    refusals = flex.CAPABILITIES.refusals(on_gpu)
    assert any(reason in refusal.reason for refusal in refusals)
    assert not flex.CAPABILITIES.refusals(replace(on_gpu, device="cpu", capability=None))


def shared_pages() -> tuple[ModelRunner, ReqToTokenPool, MHATokenToKVPool]:
    """Three requests with one page in common, which the third has at another place."""
    reqs = ReqToTokenPool(3, 48, page_size=16, num_pages=9)
    reqs.write(1, [*range(32, 48), *range(64, 70)])
    reqs.write(2, [*range(32, 48), *range(80, 99)])
    reqs.write(3, [*range(112, 128), *range(32, 48), *range(128, 130)])
    kv = MHATokenToKVPool(
        num_pages=9, page_size=16, kv_cache_dtype="float32", head_num=2, head_dim=32
    )
    kv.poison(torch.arange(kv.num_slots))
    used = torch.unique(reqs.host[1:][reqs.host[1:] >= 0]).long()
    generator = torch.Generator().manual_seed(7)
    k, v = (torch.randn(len(used), 2, 32, generator=generator) for _ in range(2))
    kv.set_kv_buffer(LAYER, used, k, v)
    return ModelRunner([LAYER], reqs, kv, torch.float32), reqs, kv


@pytest.mark.parametrize("mode", ["decode", "verify", "extend"])
def test_a_page_may_be_several_requests(mode: str) -> None:
    runner, reqs, kv = shared_pages()
    batch = {
        "decode": lambda: ForwardBatch.decode(reqs, kv, [1, 2, 3], [22, 35, 34]),
        "verify": lambda: ForwardBatch.target_verify(reqs, kv, [3, 1, 2], [32, 18, 30], 2),
        "extend": lambda: ForwardBatch.extend(reqs, kv, [2, 3, 1], [16, 32, 20], [9, 2, 1]),
    }[mode]()
    generator = torch.Generator().manual_seed(8)
    q, k, v = (torch.randn(batch.num_tokens, h, 32, generator=generator) for h in (4, 2, 2))
    for name in ("flex_attention", "torch_native"):
        backend = create_backend(name, runner)
        backend.init_forward_metadata(batch)
        out = backend.forward(q, k, v, LAYER, batch)
        assert relative_error(out, attention(q, LAYER, batch)) < 1e-6, name


def test_infinities_around_are_kept_out_as_well() -> None:
    drawn = draw(replace(MHA, **EXTEND), 5, longest=40)
    kv = drawn.runner.token_to_kv_pool
    keys, values = kv.get_kv_buffer(0)
    nobody = torch.isnan(values).flatten(1).any(1)
    keys[nobody], values[nobody] = float("inf"), float("-inf")
    assert run(drawn) < 1e-6
    written = torch.zeros_like(nobody)
    written[drawn.batch.out_cache_loc] = True
    assert bool(torch.isinf(values[nobody & ~written]).all()), "and are put back"


def test_values_are_put_back_when_the_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw(MHA, 0, longest=20)
    backend = create_backend("flex_attention", drawn.runner)
    backend.init_forward_metadata(drawn.batch)
    values = drawn.runner.token_to_kv_pool.get_kv_buffer(0)[1]

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no kernel today")

    monkeypatch.setattr(flex, "_flex", lambda compiled: fails)
    nans = int(torch.isnan(values).sum()) - drawn.v.numel()  # new tokens are stored first
    with pytest.raises(RuntimeError, match="no kernel today"):
        backend.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)
    assert int(torch.isnan(values).sum()) == nans > 0


# The lists of blocks, which the compiled kernel follows and the eager form does not


def walk(
    q: Any,
    k: Any,
    v: Any,
    block_mask: Any,
    scale: Any,
    cap: Any,
    *,
    with_lse: bool,
    options: Any,
    exact: bool,
) -> Any:
    """What the compiled kernel computes: of listed blocks only, whole ones without the mask."""
    rows, heads, queries, _ = q.shape
    tall, wide = block_mask.BLOCK_SIZE
    assert tall % options["BLOCK_M"] == 0, "a tile lies within a block"
    assert wide % options["BLOCK_N"] == 0
    out = q.new_empty(rows, heads, queries, v.shape[-1])
    lse = q.new_empty(rows, heads, queries)
    every = torch.arange(k.shape[2])
    for row in range(rows):
        for block in range(-(-queries // tall)):
            at = torch.arange(block * tall, min(queries, (block + 1) * tall))
            some, whole = (
                indices[row, 0, block, : counts[row, 0, block]].tolist()
                for counts, indices in (
                    (block_mask.kv_num_blocks, block_mask.kv_indices),
                    (block_mask.full_kv_num_blocks, block_mask.full_kv_indices),
                )
            )
            assert not set(some) & set(whole), "a block is listed once"
            listed = torch.zeros(len(every), dtype=torch.bool)
            for number in (*some, *whole):
                listed[number * wide : (number + 1) * wide] = True
            b, h = torch.tensor(row), torch.tensor(0)
            seen = block_mask.mask_mod(b, h, at[:, None], every[None])
            assert not bool((seen & ~listed).any()), "a block that a query sees is not listed"
            if exact:
                for number in some:
                    mine = seen[:, number * wide : (number + 1) * wide]
                    assert bool(mine.any()), "a block that no query sees is listed"
            for number in whole:
                mine = seen[:, number * wide : (number + 1) * wide]
                assert bool(mine.all()), "a block is called whole and is not"
            score = torch.einsum("hqd,hkd->hqk", q[row, :, at].float(), k[0][:, listed].float())
            score = score * scale
            if cap is not None:
                score = cap * torch.tanh(score / cap)
            score = score.masked_fill(~seen[:, listed], float("-inf"))
            out[row, :, at] = (score.softmax(-1) @ v[0][:, listed].float()).to(q.dtype)
            lse[row, :, at] = score.logsumexp(-1)
    return out, (lse if with_lse else None)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], float]:
    """Runs a scenario as on CUDA, with `walk` for a kernel."""

    def run_walked(drawn: Scenario) -> float:
        # Where pages don't hold whole blocks, parts of one may lie on both sides of a window.
        exact = drawn.request.page_size % 16 == 0
        with monkeypatch.context() as patch:
            patch.setattr(flex, "_flex", lambda compiled: functools.partial(walk, exact=exact))
            backend = flex.FlexAttnBackend(drawn.runner)
            backend.compiled = True
            backend.init_forward_metadata(drawn.batch)
            out = backend.forward(
                drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch, sinks=drawn.sinks
            )
        return relative_error(out, attention(drawn.q, drawn.layer, drawn.batch, drawn.sinks))

    return run_walked


PAGES = (1, 7, 16, 48, 128, 256)


@pytest.mark.parametrize("page_size", PAGES[:-1])
@pytest.mark.parametrize(
    "traits",
    [
        {"mode": "decode"},
        {"mode": "decode", "window": True, "sinks": True},
        EXTEND,
        {**EXTEND, "window": True},
        {**EXTEND, "causal": False},
        {**EXTEND, "multimodal": True},
        {**VERIFY, "logit_cap": True},
        {**TREE, "window": True},
        {"mode": "decode", "kv_dtype": "fp8_e4m3"},
    ],
    ids=lambda t: "-".join(str(v) for v in t.values()),
)
def test_block_lists(
    page_size: int, traits: dict[str, Any], walked: Callable[[Scenario], float]
) -> None:
    request = replace(MHA, page_size=page_size, **traits)
    assert walked(draw(request, page_size, longest=max(100, page_size + 40))) < 1e-5


def test_block_lists_of_a_latent_and_of_many_heads(walked: Callable[[Scenario], float]) -> None:
    assert walked(draw(replace(MLA, q_heads=160, mode="decode"), 0, longest=40)) < 1e-5


@pytest.mark.parametrize("page_size", PAGES)
def test_blocks_fit_pages_or_are_the_smallest(page_size: int) -> None:
    block = key_block(page_size)
    assert block in (16, 32, 64, 128)
    assert page_size % block == 0 or block == 16
    if page_size % (2 * block) == 0:
        assert block == 128
    pool = MHATokenToKVPool(
        num_pages=5, page_size=page_size, kv_cache_dtype="float32", head_num=1, head_dim=16
    )
    geometry = PoolGeometry(pool)
    assert geometry.num_blocks * block >= pool.num_slots > (geometry.num_blocks - 1) * block


@pytest.mark.parametrize(
    ("heads", "dim", "v_dim", "size"),
    [(4, 64, 64, 2), (1, 128, 128, 4), (1, 256, 256, 4), (128, 576, 512, 2), (16, 192, 128, 2)],
)
def test_tiles_fit_in_shared_memory(heads: int, dim: int, v_dim: int, size: int) -> None:
    layer = replace(LAYER, tp_q_head_num=heads, tp_k_head_num=1, head_dim=dim, v_head_dim=v_dim)
    drawn = draw(replace(MHA, page_size=128), 0, longest=20)
    backend = create_backend("flex_attention", drawn.runner)
    assert isinstance(backend, flex.FlexAttnBackend)
    backend.init_forward_metadata(drawn.batch)
    (mask,) = backend._masks.values()
    shape = torch.Size((2, 1, 5, heads, dim))
    options = flex._options(shape, layer, size, mask)
    m, n, stages = options["BLOCK_M"], options["BLOCK_N"], options["num_stages"]
    assert 16 <= m <= 128 % m + 64
    assert 128 % n == 0
    wide = 1 << (dim - 1).bit_length(), 1 << (v_dim - 1).bit_length()
    assert size * (m * wide[0] + stages * n * sum(wide)) <= 99 * 1024


@pytest.mark.parametrize("name", ["flex_attention", "torch_native", "triton"])
def test_rows_that_fill_up_a_graph_bring_nothing_into_the_others(name: str) -> None:
    """The page that they read was written by nobody, and holds anything."""
    if name == "triton":
        pytest.importorskip("triton")
    pages = {"page_size": 4, "num_pages": 12}
    table = ReqToTokenPool(4, 16, **pages)
    kv = MHATokenToKVPool(kv_cache_dtype="float32", head_num=2, head_dim=32, **pages)
    table.write(1, range(8, 16))
    table.write(2, range(20, 28))
    static = ForwardBatch.target_verify(table, kv, [1, 2], [0, 0], 4)
    kv.poison(torch.arange(kv.num_slots))
    real = static.load_(ForwardBatch.target_verify(table, kv, [2], [0], 4))
    backend = create_backend(name, ModelRunner([LAYER], table, kv, torch.float32))
    backend.init_forward_metadata(static)
    q = torch.randn(8, LAYER.tp_q_head_num, LAYER.head_dim)
    k, v = torch.randn(2, 8, LAYER.tp_k_head_num, LAYER.head_dim).unbind()
    out = backend.forward(q, k, v, LAYER, static)[: 4 * real]
    want = torch.nn.functional.scaled_dot_product_attention(
        *(x[: 4 * real].transpose(0, 1).double() for x in (q, k, v)),
        is_causal=True, scale=LAYER.scaling, enable_gqa=True,
    )  # fmt: skip
    torch.testing.assert_close(out, want.transpose(0, 1).flatten(1).float())
