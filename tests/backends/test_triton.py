"""The `triton` backend under Triton's interpreter, against the float64 reference."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from attn_lint.backends import bundled  # noqa: E402, F401  # registers
from attn_lint.backends.interface.batch import ForwardBatch  # noqa: E402
from attn_lint.backends.interface.capabilities import Request, tolerance_of  # noqa: E402
from attn_lint.backends.interface.errors import Refused  # noqa: E402
from attn_lint.backends.interface.layer import AttentionLayer  # noqa: E402
from attn_lint.backends.interface.pool import MHATokenToKVPool, ReqToTokenPool  # noqa: E402
from attn_lint.backends.interface.runner import ModelRunner  # noqa: E402
from attn_lint.backends.reference import attention, relative_error  # noqa: E402
from attn_lint.backends.registry import create_backend  # noqa: E402
from attn_lint.backends.triton_backend import attention as calls  # noqa: E402
from attn_lint.backends.triton_backend import metadata, tuned  # noqa: E402
from attn_lint.backends.triton_backend.launch import SplitConfig, halves, nearest  # noqa: E402
from attn_lint.backends.triton_backend.loading import load_kernels  # noqa: E402
from attn_lint.backends.verify.scenario import Lengths, draw  # noqa: E402

from tests.benchmarks.tune import table  # noqa: E402
from tests.benchmarks.tune.worker import Device, Timer  # noqa: E402
from tests.benchmarks.tune.works import Work  # noqa: E402

ROOM = Path(metadata.__file__).parent
CPU = torch.device("cpu")
BASE = Request(q_heads=4, kv_heads=2, qk_head_dim=64, v_head_dim=64)
MLA = {"family": "mla", "kv_heads": 1, "qk_head_dim": 576, "v_head_dim": 512, "page_size": 64}
TREE = {"mode": "target_verify", "draft_tokens": 5, "tree": True}
CHAIN = {"mode": "target_verify", "draft_tokens": 3}
EXTEND = {"mode": "extend"}


def error_of(request: Request, seed: int = 0, longest: int = 70) -> float:
    scenario = draw(request, seed, longest=longest)
    backend = create_backend("triton", scenario.runner)
    backend.init_forward_metadata(scenario.batch)
    out = backend.forward(
        scenario.q, scenario.k, scenario.v, scenario.layer, scenario.batch, sinks=scenario.sinks
    )
    return relative_error(
        out, attention(scenario.q, scenario.layer, scenario.batch, scenario.sinks)
    )


@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"dtype": "float16", "kv_dtype": "float16"},
        {"dtype": "float32", "kv_dtype": "float32"},
        {"kv_dtype": "fp8_e4m3"},
        {"kv_dtype": "fp8_e5m2"},
        {"dtype": "float32", "kv_dtype": "bfloat16"},
        {"page_size": 1},
        {"page_size": 64},
        {"window": True, "sinks": True, "logit_cap": True},
        {"q_heads": 2},
        {"q_heads": 7, "kv_heads": 1},
        {"qk_head_dim": 192, "v_head_dim": 128},
        {"qk_head_dim": 72, "v_head_dim": 72},
        {**MLA},
        {**CHAIN},
        {**CHAIN, "window": True},
        {**CHAIN, "draft_tokens": 36, "kv_heads": 2, "page_size": 4},
        {**TREE},
        {**TREE, "window": True, "kv_dtype": "fp8_e5m2"},
        {**TREE, **MLA, "kv_dtype": "fp8_e4m3"},
        {**EXTEND},
        {**EXTEND, "kv_dtype": "fp8_e4m3"},
        {**EXTEND, "dtype": "float32", "kv_dtype": "float32"},
        {**EXTEND, "window": True, "sinks": True, "logit_cap": True},
        {**EXTEND, "causal": False},
        {**EXTEND, "multimodal": True},
        {**EXTEND, "multimodal": True, "window": True},
        {**EXTEND, "q_heads": 6},
        {**EXTEND, "qk_head_dim": 192, "v_head_dim": 128},
        {**EXTEND, **MLA},
    ],
    ids=lambda traits: "-".join(f"{key}={value}" for key, value in traits.items()) or "decode",
)
def test_agrees_with_the_reference(traits: dict[str, object]) -> None:
    request = replace(BASE, **traits)  # type: ignore[arg-type]
    assert error_of(request) < tolerance_of(request.dtype, request.kv_dtype)


def test_window_of_one_key_and_of_all() -> None:
    for window in (0, 1000):
        scenario = draw(replace(BASE, window=True), 1, longest=40, window=window)
        backend = create_backend("triton", scenario.runner)
        backend.init_forward_metadata(scenario.batch)
        out = backend.forward(scenario.q, scenario.k, scenario.v, scenario.layer, scenario.batch)
        ref = attention(scenario.q, scenario.layer, scenario.batch)
        assert relative_error(out, ref) < 2e-2


def test_long_prompts_take_the_large_tiles() -> None:
    request = replace(BASE, mode="extend", q_heads=2, kv_heads=1)
    scenario = draw(request, 2, lengths=Lengths((70, 0), (150, 131)))
    backend = create_backend("triton", scenario.runner)
    backend.init_forward_metadata(scenario.batch)
    out = backend.forward(scenario.q, scenario.k, scenario.v, scenario.layer, scenario.batch)
    assert relative_error(out, attention(scenario.q, scenario.layer, scenario.batch)) < 2e-2


def test_an_empty_batch_gives_an_empty_output() -> None:
    scenario = draw(BASE, 0, longest=20)
    backend = create_backend("triton", scenario.runner)
    runner = scenario.runner
    batch = ForwardBatch.decode(runner.req_to_token_pool, runner.token_to_kv_pool, [], [])
    backend.init_forward_metadata(batch)
    out = backend.forward(scenario.q[:0], scenario.k[:0], scenario.v[:0], scenario.layer, batch)
    assert out.shape == (0, 4 * 64)


@pytest.mark.parametrize(
    "traits",
    [
        {"kv_dtype": "fp4_e2m1"},
        {"qk_head_dim": 320, "v_head_dim": 320},
        {"causal": False},
        {"qk_head_dim": 20, "v_head_dim": 20},
    ],
)
def test_refuses_before_any_kernel(traits: dict[str, object]) -> None:
    scenario = draw(replace(BASE, **traits), 0, longest=20)  # type: ignore[arg-type]
    backend = create_backend("triton", scenario.runner)
    with pytest.raises(Refused):
        backend.init_forward_metadata(scenario.batch)


@pytest.mark.parametrize("window", [None, 40])
def test_a_plan_hands_out_every_key_once(window: int | None) -> None:
    lens = torch.tensor([1, 16, 17, 300, 0, 129] + [5] * 140, dtype=torch.int32)
    rows = torch.arange(len(lens)) + 3
    plan = metadata.allocate(len(lens), 20 + len(lens), 16, 20, CPU)
    reach = None if window is None else window + 1
    metadata.fill(plan, load_kernels(CPU), lens, rows, reach=reach)
    seen: dict[int, list[int]] = {i: [] for i in range(len(lens))}
    for request, start, stop, row, kv_len, *_ in plan.items.tolist():
        if request < 0:
            continue
        assert stop > start and start % 16 == 0
        assert (row, kv_len) == (request + 3, lens[request])
        seen[request] += range(start, stop)
    for request, keys in seen.items():
        length = int(lens[request])
        first = 0 if reach is None else max(0, length - reach) // 16 * 16
        assert sorted(keys) == list(range(first, length))
    counts = [sum(r == i for r in plan.items[:, 0].tolist()) for i in range(len(lens))]
    assert plan.item_indptr.diff().tolist() == counts
    assert max(counts) > 1


def test_a_plan_hands_out_every_query_once_and_the_longest_work_first() -> None:
    counts = torch.tensor([1, 130, 64], dtype=torch.int32)
    plan = metadata.allocate(3, 195 // 64 + 3, 64, 1, CPU)
    metadata.fill(plan, load_kernels(CPU), counts + 9, torch.arange(3), query_counts=counts)
    items = [row[:3] for row in plan.items.tolist() if row[0] >= 0]
    assert items == [[0, 0, 1], [1, 128, 130], [1, 64, 128], [1, 0, 64], [2, 0, 64]]


@pytest.mark.parametrize(
    ("dim", "tiles"), [(16, (16, 0)), (72, (64, 16)), (128, (128, 0)), (576, (512, 64))]
)
def test_head_dims_are_padded_little(dim: int, tiles: tuple[int, int]) -> None:
    assert halves(dim) == tiles


def test_every_product_goes_through_the_one_that_widens() -> None:
    """The interpreter multiplies bf16 and fp8 wrongly, without a word."""
    for path in sorted(ROOM.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or function.name == "dot":
                continue
            for node in ast.walk(function):
                called = isinstance(node, ast.Attribute) and node.attr.startswith("dot")
                assert not called, f"{path.name}: {function.name} multiplies on its own"
                assert not isinstance(node, ast.MatMult), f"{path.name}: {function.name}"


def test_compiled_and_interpreted_kernels_share_a_process() -> None:
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    assert isinstance(load_kernels(CPU).split, InterpretedFunction)
    assert isinstance(load_kernels(torch.device("cuda")).split, JITFunction)
    assert error_of(BASE, longest=20) < 2e-2


def test_kernels_compile_for_a_gpu_that_is_not_here() -> None:
    """In a process of its own, since it replaces Triton's driver."""
    code = (
        "from tests.benchmarks.tune.compiling import *\n"
        "for work in (Work('decode', 1, 64), Work('extend', 1, 64, 64)):\n"
        "    print(compile_main(work, configs(work)[0][0], 90))\n"
        "print(compile_small(Work('decode', 1, 64), 90, 132))\n"
    )
    root = ROOM.parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("shared") == 2
    assert done.stdout.count("kernels") == 1


@pytest.mark.parametrize("mode", [{"mode": "decode"}, CHAIN, EXTEND], ids=lambda m: m["mode"])
def test_the_widest_windows_compile_and_see_all(mode: dict[str, object]) -> None:
    """Compiled for a GPU, an integer beyond int32 changes types that the interpreter hasn't."""
    code = (
        "from tests.backends.test_triton import *\n"
        "from tests.benchmarks.tune.compiling import Kernels, _Warm, _kernels\n"
        f"drawn = draw(replace(BASE, window=True, **{mode!r}), 1, longest=40, window=2**31 - 1)\n"
        "backend = create_backend('triton', drawn.runner)\n"
        "found = []\n"
        "backend._kernels = Kernels(False, *(_Warm(k, found) for k in _kernels(90)[1:]))\n"
        "backend.init_forward_metadata(drawn.batch)\n"
        "backend.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)\n"
        "print(len(found), 'kernels')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOM.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kernels = 2 if mode is EXTEND else 3
    assert done.stdout == f"{kernels} kernels\n"
    drawn = draw(replace(BASE, window=True, **mode), 1, longest=40, window=2**31 - 1)  # type: ignore[arg-type]
    backend = create_backend("triton", drawn.runner)
    backend.init_forward_metadata(drawn.batch)
    out = backend.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)
    assert relative_error(out, attention(drawn.q, drawn.layer, drawn.batch)) < 2e-2


@pytest.mark.parametrize(
    ("mode", "requests", "tokens", "carried"),
    [
        ("decode", 60_000, 1, True),
        ("decode", 65_536, 1, False),
        ("target_verify", 30_000, 3, False),
        ("extend", 40_000, 1, True),
        ("extend", 65_536, 1, False),
    ],
)
def test_a_batch_beyond_the_rows_of_a_grid_is_refused(
    mode: str, requests: int, tokens: int, carried: bool
) -> None:
    """CUDA has 65535 of them, the interpreter any number."""
    reqs = ReqToTokenPool(requests, tokens, page_size=1, num_pages=requests * tokens + 1)
    reqs.host[1:] = torch.arange(1, requests * tokens + 1).view(requests, tokens)
    reqs.req_to_token.copy_(reqs.host.clamp(min=0))
    kv = MHATokenToKVPool(
        num_pages=requests * tokens + 1, page_size=1, kv_cache_dtype="bfloat16", head_num=1,
        head_dim=16,
    )  # fmt: skip
    layer = AttentionLayer(0, 1, 1, 16, 16, 0.25)
    backend = create_backend("triton", ModelRunner([layer], reqs, kv))
    ids = list(range(1, requests + 1))
    batch = {
        "decode": lambda: ForwardBatch.decode(reqs, kv, ids, [1] * requests),
        "target_verify": lambda: ForwardBatch.target_verify(reqs, kv, ids, [0] * requests, tokens),
        "extend": lambda: ForwardBatch.extend(reqs, kv, ids, [0] * requests, [1] * requests),
    }[mode]()
    told = [str(refusal) for refusal in backend.refusals(batch, layer)]
    assert len(told) == (not carried)
    assert all("beyond the 65535" in text and "gridDim.y" in text for text in told)


def guarded(tensor: torch.Tensor, poison: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy with a page of poison before and after it, and the whole of that."""
    guard = 4096
    whole = torch.full((tensor.numel() + 2 * guard,), poison, dtype=tensor.dtype)
    inside = whole[guard : guard + tensor.numel()].view(tensor.shape)
    inside.copy_(tensor)
    return inside, whole


def untouched(whole: torch.Tensor, poison: float) -> bool:
    ends = torch.cat((whole[:4096], whole[-4096:]))
    return bool((ends.isnan() if poison != poison else ends == poison).all())


@pytest.mark.parametrize(
    ("block_n", "per_sm", "batch", "chunked"),
    [
        (16, 1, 1, False),
        (16, 24, 1, True),
        (32, 3, 1, True),
        (64, 6, 4, True),
        (128, 1, 4, False),
        (128, 24, 1, False),
    ],
)
def test_no_launch_leaves_its_buffers(block_n: int, per_sm: int, batch: int, chunked: bool) -> None:
    """Scratch, plan, table and output lie between guards; a read of a guard gives no number."""
    nan = float("nan")
    heads, dim, page = (4, 2), 64, 16
    lens = [300, 1, 129, 16][:batch]
    pages = -(-max(lens) // page)
    slots = batch * pages * page
    generator = torch.Generator().manual_seed(batch)
    k, v = (
        guarded(torch.randn(slots, heads[1], dim, generator=generator), nan)[0] for _ in range(2)
    )
    q, _ = guarded(torch.randn(batch, heads[0], dim, generator=generator), nan)
    order = torch.randperm(batch * pages, generator=generator).view(batch, pages, 1)
    table, _ = guarded((order * page + torch.arange(page)).flatten(1).int(), slots + 7)
    for row, length in enumerate(lens):
        table[row, length:] = slots + 7
    seq_lens = torch.tensor(lens, dtype=torch.int32)
    config = SplitConfig(16, block_n, 4, 3, per_sm)
    # Of the compiled kernels' launch the interpreter can run all: small merge tiles too.
    kernels = load_kernels(CPU)._replace(interpreted=not chunked)
    target = calls.split_target(config, 2, heads[1], 4)
    plan = metadata.allocate(batch, target + batch, block_n, target, CPU)
    plan.items, items = guarded(plan.items, -(1 << 30))
    plan.item_indptr, starts = guarded(plan.item_indptr, -(1 << 30))
    metadata.fill(plan, kernels, seq_lens, torch.arange(batch))
    scratch = [
        guarded(torch.full_like(part, nan), nan)
        for part in calls.new_partials(plan, 1, heads[0], dim, CPU)
    ]
    out, around = guarded(torch.full_like(q, nan), nan)
    options = calls.Options(dim**-0.5)
    calls.split_attention(
        kernels, config, plan, q, k, v, table, options, out=out,
        partials=(scratch[0][0], scratch[1][0]),
    )  # fmt: skip
    for row, length in enumerate(lens):
        keys, values = (x[table[row, :length].long()].repeat_interleave(2, 1) for x in (k, v))
        weights = torch.einsum("hd,khd->hk", q[row], keys).mul(options.scale).softmax(-1)
        assert relative_error(out[row], torch.einsum("hk,khd->hd", weights, values)) < 1e-5
    assert all(untouched(whole, nan) for whole in (scratch[0][1], scratch[1][1], around))
    assert untouched(items, -(1 << 30))
    assert untouched(starts, -(1 << 30))


@pytest.mark.parametrize(("batch", "picked"), [(1, 1), (3, 4), (2, 4), (8, 16), (500, 64)])
def test_the_nearest_measured_batch_size_is_taken(batch: int, picked: int) -> None:
    assert nearest(batch, (1, 4, 16, 64)) == picked


def _mortal(conn: Connection, largest: int) -> None:
    """A timing process that dies of some launches and hangs on others."""
    conn.send(Device("none", (9, 0), largest))
    while (asked := conn.recv()) is not None:
        for config in asked[1]:
            if config == "deadly":
                os._exit(1)
            if config == "hangs":
                time.sleep(60)
            conn.send({"config": config})
        conn.send(None)


def test_a_bad_launch_does_not_end_a_tuning_run() -> None:
    work = Work("decode", 1, 64)
    timer = Timer(7, _mortal)
    try:
        assert timer.device.multiprocessors == 7
        assert timer.time(work, ["a", "deadly", "b"], 30) == [
            {"config": "a"},
            {"failed": "the timing process died"},
        ]
        assert "no answer" in timer.time(work, ["hangs"], 0.2)[0]["failed"]
        assert timer.time(work, ["c"], 30) == [{"config": "c"}]
    finally:
        timer.close()


def test_the_table_takes_the_launch_that_suits_all_lengths() -> None:
    works = [Work("decode", 1, 1024), Work("decode", 1, 8192)]
    tile = {"block_m": 16, "block_n": 64, "warps": 4, "stages": 3, "overlap": True}
    rows = [
        {"work": work.name, **tile, "per_sm": per_sm, "us": us}
        for work, times in zip(works, ((10.0, 12.0, 11.0), (40.0, 20.0, 21.0)), strict=True)
        for per_sm, us in zip((1, 2, 3), times, strict=True)
    ]
    rows.append({"work": works[0].name, **tile, "per_sm": 8, "us": 1.0})  # of one length only
    rows.append({"work": works[0].name, **tile, "per_sm": 4, "failed": "no room"})
    measured = {
        "capability": [9, 0], "works": {w.name: asdict(w) for w in works}, "rows": rows,
    }  # fmt: skip
    split, extend, _ = table.merged([measured])
    assert split[9, 0][False, 128, 128, 2, 2, 16][1] == (16, 64, 4, 3, 3, True)
    source = table.written(Path(tuned.__file__).read_text(), split, extend)
    made: dict[str, object] = {}
    exec(source, made)
    assert (made["TUNED_SPLIT"], made["TUNED_EXTEND"]) == (split, extend)
    assert table.written(source, split, extend) == source


@pytest.mark.parametrize("cap", [0.5, 50.0, 1e4, 1e6])
@pytest.mark.parametrize("mode", ["decode", "extend"])
def test_a_large_cap_costs_no_digits(mode: str, cap: float) -> None:
    """All scores are small beside it, where a difference of exponentials would have few digits."""
    request = Request(mode=mode, dtype="float32", kv_dtype="float32", logit_cap=True)
    drawn = draw(request, 3, longest=40)
    layer = replace(drawn.layer, logit_cap=cap)
    runner = replace(drawn.runner, layers=[layer])
    backend = create_backend("triton", runner)
    backend.init_forward_metadata(drawn.batch)
    out = backend.forward(drawn.q, drawn.k, drawn.v, layer, drawn.batch)
    assert relative_error(out, attention(drawn.q, layer, drawn.batch)) < 2e-6
