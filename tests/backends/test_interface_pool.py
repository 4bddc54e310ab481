"""Tables and pools: what they refuse, and what their slots mean afterwards."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from attn_lint.backends.interface import fp4  # noqa: E402
from attn_lint.backends.interface.errors import InvalidInput  # noqa: E402
from attn_lint.backends.interface.layer import AttentionLayer  # noqa: E402
from attn_lint.backends.interface.modes import AttentionType  # noqa: E402
from attn_lint.backends.interface.pool import (  # noqa: E402
    KVPool,
    MHATokenToKVPool,
    MLATokenToKVPool,
    ReqToTokenPool,
)
from attn_lint.backends.interface.runner import ModelRunner  # noqa: E402

from .support import LAYER, PAGE, filled, pool, table  # noqa: E402

MLA_LAYER = AttentionLayer(
    layer_id=0,
    tp_q_head_num=4,
    tp_k_head_num=1,
    head_dim=40,
    v_head_dim=32,
    scaling=0.1,
    kv_lora_rank=32,
)


def mla_pool(**sizes: Any) -> MLATokenToKVPool:
    given = {"kv_lora_rank": 32, "qk_rope_head_dim": 8, **sizes}
    return MLATokenToKVPool(num_pages=8, page_size=PAGE, kv_cache_dtype="float32", **given)


# The table


@pytest.mark.parametrize("name", ["size", "max_context_len", "page_size", "num_pages"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_table_has_positive_sizes(name: str, value: int) -> None:
    sizes = {"size": 4, "max_context_len": 16, "page_size": 4, "num_pages": 8, name: value}
    with pytest.raises(InvalidInput, match=f"{name} is {value}"):
        ReqToTokenPool(sizes.pop("size"), sizes.pop("max_context_len"), **sizes)


@pytest.mark.parametrize("name", ["size", "max_context_len", "page_size", "num_pages"])
@pytest.mark.parametrize("value", [1.5, 4.0, "4", None, True])
def test_a_table_has_whole_sizes(name: str, value: Any) -> None:
    sizes: dict[str, Any] = {"size": 4, "max_context_len": 16, "page_size": 4, "num_pages": 8}
    with pytest.raises(InvalidInput, match=f"{name} is {value!r}, not a whole number"):
        ReqToTokenPool(**{**sizes, name: value})


@pytest.mark.parametrize(
    ("request_id", "slots", "start", "message"),
    [
        (0, [4], 0, "request 0 is not in 1..4"),
        (5, [4], 0, "request 5 is not in 1..4"),
        (-1, [4], 0, "request -1 is not in 1..4"),
        (1, [32], 0, "slot 32 is outside the pool of 32 slots"),
        (1, [-1], 0, "slot -1 is outside the pool"),
        (1, [0], 0, "slot 0 is in page 0, which is padding"),
        (1, [4.5], 0, "slots are torch.float32; they are whole numbers"),
        (1, [float("nan")], 0, "slots are torch.float32; they are whole numbers"),
        (1, [True], 0, "slots are torch.bool; they are whole numbers"),
        (1, [2**70], 0, "slots are whole numbers: "),
        (1, ["4"], 0, "slots are whole numbers: "),
        (1, list(range(4, 21)), 0, "tokens 0..16 are outside a context of 16"),
        (1, [4], -1, "outside a context"),
        (1, [4], 16, "outside a context"),
        (1, [[4]], 0, "they are a list"),
        (1, 4, 0, "they are a list"),
        (1, 0.5, 0, "slots are torch.float32; they are whole numbers"),
        (1, None, 0, "slots are whole numbers: "),
        (1, torch.tensor([4, 5]).to_sparse(), 0, "slots are a torch.sparse_coo tensor"),
        (1.0, [4], 0, "request 1.0 is not a whole number"),
        (None, [4], 0, "request None is not a whole number"),
        (True, [4], 0, "request True is not a whole number"),
        (torch.tensor(True), [4], 0, r"request tensor\(True\) is not a whole number"),
        (1, [4], 0.5, "start 0.5 is not a whole number"),
        (1, [5], 0, "token 0 of request 1 is in slot 5, which is not place 0 of its page"),
        (1, [4, 6], 0, "token 1 of request 1 is in slot 6"),
        (1, [4, 5, 6, 7, 9], 0, "token 4 of request 1 is in slot 9"),
        (1, [5], 1, "token 1 of request 1 is in slot 5"),  # its page was not begun
        (1, [4, 5, 6, 7, 4, 5], 0, "request 1 has page 1 twice"),
    ],
)
def test_a_table_refuses(request_id: Any, slots: Any, start: Any, message: str) -> None:
    reqs = table()
    before = reqs.host.clone(), reqs.req_to_token.clone()
    with pytest.raises(InvalidInput, match=message):
        reqs.write(request_id, slots, start)
    assert torch.equal(reqs.host, before[0])
    assert torch.equal(reqs.req_to_token, before[1]), "nothing is written when it is refused"


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        table().write(9, [99])
    assert len(caught.value.problems) == 2


def test_a_table_is_written_in_parts() -> None:
    reqs = table()
    reqs.write(2, [8, 9])
    reqs.write(2, [10, 11, 4, 5], start=2)
    reqs.write(2, [])
    assert reqs.host[2].tolist()[:8] == [8, 9, 10, 11, 4, 5, -1, -1]
    assert reqs.req_to_token[2].tolist()[:8] == [8, 9, 10, 11, 4, 5, 0, 0]


def test_the_padding_request_lies_in_page_0() -> None:
    assert set(table().req_to_token[0].tolist()) == set(range(PAGE))


def test_a_table_made_in_inference_mode_can_be_written_later() -> None:
    with torch.inference_mode():
        reqs, kv = table(), pool()
    reqs.write(1, [4, 5])
    kv.set_kv_buffer(LAYER, torch.tensor([4]), torch.ones(1, 2, 32), torch.ones(1, 2, 32))
    assert reqs.req_to_token._version > 0


# Pools


@pytest.mark.parametrize("name", ["num_pages", "page_size", "layer_num"])
def test_a_pool_has_positive_sizes(name: str) -> None:
    sizes: dict[str, Any] = {"num_pages": 8, "page_size": 4, "layer_num": 1, name: 0}
    with pytest.raises(InvalidInput, match=f"{name} is 0"):
        MHATokenToKVPool(kv_cache_dtype="float32", head_num=2, head_dim=32, **sizes)


@pytest.mark.parametrize(
    "sizes", [(0, 32, 32), (2, 0, 32), (2, 32, 0), (-1, 32, 32), (2.0, 32, 32), (2, "32", 32)]
)
def test_a_pool_has_heads_and_dims(sizes: tuple[Any, Any, Any]) -> None:
    heads, dim, v_dim = sizes
    with pytest.raises(InvalidInput, match=r"positive|not a whole number"):
        MHATokenToKVPool(
            num_pages=2,
            page_size=4,
            kv_cache_dtype="float32",
            head_num=heads,
            head_dim=dim,
            v_head_dim=v_dim,
        )


@pytest.mark.parametrize(
    "sizes",
    [{"kv_lora_rank": 0}, {"qk_rope_head_dim": -1}, {"kv_lora_rank": 2.5}, {"kv_lora_rank": None}],
)
def test_a_latent_has_dims(sizes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="latent dims"):
        mla_pool(**sizes)


@pytest.mark.parametrize("pages", [10**8, 2**31 // PAGE])
def test_a_pool_beyond_memory_or_addresses_says_so(pages: int) -> None:
    with pytest.raises(InvalidInput, match=f"a pool of {pages * PAGE} slots can't be allocated: "):
        MHATokenToKVPool(
            num_pages=pages, page_size=PAGE, kv_cache_dtype="float32", head_num=64, head_dim=4096
        )
    with pytest.raises(InvalidInput, match=f"a table of {pages} requests .* can't be allocated: "):
        ReqToTokenPool(pages, 10**6, page_size=PAGE, num_pages=2)


@pytest.mark.parametrize(("pages", "size"), [(2**31 // PAGE + 1, PAGE), (2**16, 2**16)])
def test_slots_are_as_many_as_int32_has_numbers_for(pages: int, size: int) -> None:
    message = f"{pages} pages of {size} are {pages * size} slots; int32 numbers"
    with pytest.raises(InvalidInput, match=message):
        ReqToTokenPool(4, 16, page_size=size, num_pages=pages)
    with pytest.raises(InvalidInput, match=message):
        MHATokenToKVPool(
            num_pages=pages, page_size=size, kv_cache_dtype="float32", head_num=1, head_dim=1
        )


@pytest.mark.parametrize("value", [2**31, 2**63, 10**30])
def test_no_size_is_beyond_int32(value: int) -> None:
    with pytest.raises(InvalidInput, match=f"layer_num is {value}; it is at most"):
        pool(layers=value)
    with pytest.raises(InvalidInput, match=f"num_pages is {value}; it is at most"):
        pool(num_pages=value)
    with pytest.raises(InvalidInput, match=f"size is {value}; it is at most"):
        table(size=value)
    with pytest.raises(InvalidInput, match=f"max_context_len is {value}; it is at most"):
        table(context=value)
    with pytest.raises(InvalidInput, match=f"head_dim is {value}; it is at most"):
        replace(LAYER, head_dim=value)


def test_a_pool_takes_no_end_of_layers() -> None:
    with pytest.raises(InvalidInput, match="layer_num is 65537; it is at most 65536"):
        pool(layers=2**16 + 1)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("bfloat16", "float16"), ("float32", "float16"), ("float32", "bfloat16")],
)
def test_a_narrower_cache_saturates(wide: str, narrow: str) -> None:
    """Infinity in one key would make attention over it NaN; fp8 stores saturate alike."""
    ends = torch.finfo(getattr(torch, narrow))
    x = torch.zeros(1, 2, 32, dtype=getattr(torch, wide))
    beyond = torch.finfo(x.dtype).max
    x[0, 0, :5] = torch.tensor([beyond, -beyond, 1.5, 65280.0, math.nan], dtype=x.dtype)
    for stored in store(pool(dtype=narrow), x):
        assert stored[0, 0, :4].tolist() == [ends.max, ends.min, 1.5, 65280.0]
        assert math.isnan(stored[0, 0, 4])


@pytest.mark.parametrize("dtype", ["fp8", "int8", "", "float64", "torch.float32"])
def test_a_pool_names_the_dtypes_it_knows(dtype: str) -> None:
    with pytest.raises(InvalidInput, match=r"it is one of .*fp8_e4m3.*fp4_e2m1"):
        pool(dtype=dtype)


def test_fp4_needs_whole_blocks() -> None:
    with pytest.raises(InvalidInput, match="head dim 40 is no multiple of 16"):
        MHATokenToKVPool(
            num_pages=2, page_size=4, kv_cache_dtype="fp4_e2m1", head_num=1, head_dim=40
        )


@pytest.mark.parametrize(
    "device",
    ["no-such-device", pytest.param("cuda", marks=pytest.mark.skipif(
        torch.cuda.is_available(), reason="there is such a device here"))],
)  # fmt: skip
def test_a_device_that_is_not_there_is_named(device: str) -> None:
    with pytest.raises(InvalidInput, match=f"device '{device}' can't be used: "):
        MHATokenToKVPool(
            num_pages=2, page_size=4, kv_cache_dtype="float32", head_num=1, head_dim=16,
            v_head_dim=16, layer_num=1, device=device,
        )  # fmt: skip
    with pytest.raises(InvalidInput, match=f"device '{device}' can't be used: "):
        ReqToTokenPool(2, 8, page_size=4, num_pages=4, device=device)


def test_a_pool_names_its_device_as_tensors_do() -> None:
    assert pool().device == torch.zeros(0).device


def store(kv: KVPool, x: Any, layer: AttentionLayer = LAYER) -> tuple[Any, Any]:
    """What slots 4 and following mean in float64 after `x` was stored there as keys and values."""
    loc = torch.arange(4, 4 + len(x))
    kv.set_kv_buffer(layer, loc, x, x[..., : layer.v_head_dim])
    return kv.load(layer, loc, torch.float64)


@pytest.mark.parametrize(("dtype", "largest"), [("fp8_e4m3", 448.0), ("fp8_e5m2", 57344.0)])
def test_fp8_saturates_and_keeps_nan(dtype: str, largest: float) -> None:
    x = torch.zeros(1, 2, 32)
    x[0, 0, :5] = torch.tensor([1e9, -1e9, math.inf, -math.inf, math.nan])
    k, _ = store(pool(dtype=dtype), x)
    assert k[0, 0, :4].tolist() == [largest, -largest, largest, -largest]
    assert math.isnan(k[0, 0, 4])


@pytest.mark.parametrize("dtype", ["fp8_e4m3", "fp8_e5m2"])
def test_fp8_rounds_to_the_nearest_value_it_has(dtype: str) -> None:
    kv = pool(dtype=dtype)
    codes = torch.arange(256, dtype=torch.uint8)
    grid = codes.view(kv.k_buffer[0].dtype).double()
    grid = grid[torch.isfinite(grid)]
    x = torch.randn(8, 2, 32, generator=torch.Generator().manual_seed(5)) * 20
    layer = replace(LAYER, k_scale=0.25)
    k, _ = store(kv, x, layer)
    scaled = (x.double() / 0.25).flatten()
    best = (scaled[:, None] - grid).abs().amin(-1)
    assert torch.equal((k.flatten() / 0.25 - scaled).abs(), best)


def test_scales_multiply_what_is_read() -> None:
    kv = pool()
    kv.k_buffer[0][4], kv.v_buffer[0][4] = 3.0, 5.0
    layer = replace(LAYER, k_scale=0.5, v_scale=2.0)
    k, v = kv.load(layer, torch.tensor([4]), torch.float64)
    assert (float(k[0, 0, 0]), float(v[0, 0, 0])) == (3.0, 5.0), "scales belong to narrow dtypes"
    kv8 = pool(dtype="fp8_e5m2")
    kv8.k_buffer[0].view(torch.uint8)[4] = 0x3C  # 1.0 in e5m2
    kv8.v_buffer[0].view(torch.uint8)[4] = 0x40  # 2.0
    k, v = kv8.load(layer, torch.tensor([4]), torch.float64)
    assert (float(k[0, 0, 0]), float(v[0, 0, 0])) == (0.5, 4.0)


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"]
)
def test_poison_is_nan_in_every_dtype(dtype: str) -> None:
    kv = pool(dtype=dtype, layers=2)
    x = torch.full((2, 2, 32), 6.0)  # exact in each, FP4 with a scale of 1 included
    second = replace(LAYER, layer_id=1)
    store(kv, x, second)
    kv.poison(torch.tensor([5]))
    k, v = kv.load(second, torch.tensor([4, 5]), torch.float32)
    assert torch.equal(k[0], x[0])
    assert bool(k[1].isnan().all())
    assert bool(v[1].isnan().all())


def test_poison_reaches_a_latent() -> None:
    kv = mla_pool()
    store(kv, torch.ones(1, 1, 40), MLA_LAYER)
    kv.poison(torch.tensor([4]))
    k, v = kv.load(MLA_LAYER, torch.tensor([4]), torch.float32)
    assert bool(k.isnan().all())
    assert bool(v.isnan().all())


def test_the_value_of_a_latent_is_its_first_part() -> None:
    kv = mla_pool()
    x = torch.arange(40.0).view(1, 1, 40)
    k, v = store(kv, x, MLA_LAYER)
    assert torch.equal(k, x.double())
    assert torch.equal(v, x[..., :32].double())
    assert kv.get_value_buffer(0).data_ptr() == kv.get_key_buffer(0).data_ptr()


# FP4, against the table of e2m1 in the OCP Microscaling specification

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_every_fp4_code_means_what_the_specification_says() -> None:
    codes = torch.arange(16, dtype=torch.uint8)
    packed = (codes[0::2] | (codes[1::2] << 4)).view(1, 8)
    scale = torch.ones(1, 1).to(torch.float8_e4m3fn)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        values = fp4.dequantize(packed, scale, 1.0, dtype)[0].tolist()
        assert values == E2M1 + [-x for x in E2M1]


def test_fp4_rounds_half_way_to_even() -> None:
    # A block whose largest number is 6 has scale 1.
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    x = torch.tensor([*ties, *[-t for t in ties], 6.0, 0.0])
    packed, scale = fp4.quantize(x, 1.0)
    assert float(scale) == 1.0
    got = fp4.dequantize(packed, scale, 1.0, torch.float64).tolist()
    even = [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    assert got == [*even, *[-x for x in even], 6.0, 0.0]


def test_fp4_takes_the_nearest_value_of_the_block() -> None:
    x = torch.randn(200, 64, generator=torch.Generator().manual_seed(11)) * 3
    packed, scale = fp4.quantize(x, 0.5)
    blocks = (x / 0.5).view(200, 4, 16)
    wanted = (blocks.abs().amax(-1) / 6).to(torch.float8_e4m3fn)
    assert torch.equal(scale.view(torch.uint8), wanted.view(torch.uint8))
    got = fp4.dequantize(packed, scale, 0.5, torch.float64).view(200, 4, 16)
    grid = torch.tensor(E2M1 + [-x for x in E2M1]).double()
    values = grid * wanted.double()[..., None, None] * 0.5
    distance = (x.view(200, 4, 16, 1).double() - values).abs().amin(-1)
    assert torch.allclose((got - x.view(200, 4, 16)).abs(), distance, rtol=1e-6, atol=0)


def test_fp4_blocks_of_zeros_and_of_overflow() -> None:
    x = torch.zeros(1, 48)
    x[0, 16] = 1e9
    x[0, 17] = -1e9
    x[0, 32] = 1e-9
    packed, scale = fp4.quantize(x, 1.0)
    got = fp4.dequantize(packed, scale, 1.0, torch.float64)
    assert float(got[0, :16].abs().max()) == 0.0
    assert got[0, 16:18].tolist() == [6 * 448.0, -6 * 448.0]
    assert bool(torch.isfinite(got).all())


# Layers and runners


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp_q_head_num": 0}, "tp_q_head_num is 0"),
        ({"tp_k_head_num": 0}, "tp_k_head_num is 0"),
        ({"tp_k_head_num": 3}, "4 query heads are no multiple of 3 key heads"),
        ({"head_dim": 0}, "head_dim is 0"),
        ({"v_head_dim": -1}, "v_head_dim is -1"),
        ({"scaling": 0.0}, "scaling is 0.0"),
        ({"scaling": math.nan}, "scaling is nan"),
        ({"scaling": math.inf}, "scaling is inf"),
        ({"k_scale": -1.0}, "k_scale is -1.0"),
        ({"v_scale": math.inf}, "v_scale is inf"),
        ({"layer_id": -1}, "layer_id is -1"),
        ({"logit_cap": -1.0}, "logit_cap is -1.0"),
        ({"logit_cap": math.nan}, "logit_cap is nan"),
        ({"logit_cap": math.inf}, "logit_cap is inf"),
        # Kernels count in float32, up to 3.4e38, and in powers of two: times log2(e), 1.44.
        ({"logit_cap": 1e39}, r"logit_cap is 1e\+39; .* to 2e\+38"),
        ({"logit_cap": 3e38}, r"logit_cap is 3e\+38"),
        ({"logit_cap": 1e-46}, "logit_cap is 1e-46"),
        ({"logit_cap": None}, "logit_cap is None"),
        ({"logit_cap": "30"}, "logit_cap is '30'"),
        ({"scaling": 1e39}, r"scaling is 1e\+39"),
        # What is left for products of queries and keys: 1.8e19 times 1.8e19 is still a float32.
        ({"scaling": 2e38}, r"scaling is 2e\+38; .* to 1.8e\+19"),
        ({"scaling": 2.0**64 * 1.01}, r"scaling is 1.8.*e\+19"),
        ({"k_scale": 2e38}, r"k_scale is 2e\+38"),
        ({"v_scale": 2e38}, r"v_scale is 2e\+38"),
        ({"scaling": 1e10, "k_scale": 1e10}, r"scaling \* k_scale is 1e\+20; .* at most 1.8e\+19"),
        ({"scaling": 10.0, "logit_cap": 2e-38}, r"k_scale / logit_cap is 5e\+38; .* at most 2e"),
        ({"scaling": 10**400}, "scaling is 1000"),
        ({"scaling": "1"}, "scaling is '1'"),
        ({"k_scale": math.nan}, "k_scale is nan"),
        ({"k_scale": 1e-46}, "k_scale is 1e-46"),
        ({"k_scale": None}, "k_scale is None"),
        ({"v_scale": math.nan}, "v_scale is nan"),
        ({"v_scale": 1e39}, r"v_scale is 1e\+39"),
        ({"tp_q_head_num": "4"}, "tp_q_head_num is '4', not a whole number"),
        ({"tp_q_head_num": 4.0, "tp_k_head_num": 2.0}, "tp_q_head_num is 4.0.*tp_k_head_num is"),
        ({"head_dim": 32.0}, "head_dim is 32.0, not a whole number"),
        ({"v_head_dim": None}, "v_head_dim is None, not a whole number"),
        ({"layer_id": "0"}, "layer_id is '0'"),
        ({"layer_id": 0.5}, "layer_id is 0.5"),
        ({"sliding_window_size": None}, "sliding_window_size is None"),
        ({"sliding_window_size": 1.5}, "sliding_window_size is 1.5"),
        ({"attn_type": "decoder"}, "attn_type is 'decoder'; it is an AttentionType"),
        ({"kv_lora_rank": 32.0, "tp_k_head_num": 1}, "kv_lora_rank is 32.0, not a whole number"),
        ({"sliding_window_size": -2}, "sliding_window_size is -2"),
        ({"tp_k_head_num": True}, "tp_k_head_num is True, not a whole number"),
        ({"layer_id": False}, "layer_id is False"),
        ({"sliding_window_size": True}, "sliding_window_size is True"),
        ({"kv_lora_rank": True, "tp_k_head_num": 1}, "kv_lora_rank is True, not a whole number"),
        ({"scaling": True}, "scaling is True"),
        ({"logit_cap": False}, "logit_cap is False"),
        ({"logit_cap": True}, "logit_cap is True"),
        ({"uses_sinks": 1}, "uses_sinks is 1; it is True or False"),
        ({"sliding_window_size": 2**31}, "sliding_window_size is 2147483648"),
        ({"kv_lora_rank": 32}, "one key head, not 2"),
        ({"kv_lora_rank": 16, "tp_k_head_num": 1}, "v_head_dim = kv_lora_rank"),
    ],
)
def test_a_layer_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(LAYER, **change)


@pytest.mark.parametrize("number", [int, np.int64, np.int32, np.uint8, np.int16])
def test_whole_numbers_of_every_kind_are_kept_as_plain_ones(number: Any) -> None:
    """Kernels, and PyTorch's operators, take Python's own only."""
    mla = AttentionLayer(
        *map(number, (0, 4, 1, 40, 32)),
        scaling=0.1,
        sliding_window_size=number(7),
        kv_lora_rank=number(32),
    )
    assert mla == replace(MLA_LAYER, sliding_window_size=7)
    pages: dict[str, Any] = {"num_pages": number(8), "page_size": number(PAGE)}
    reqs = ReqToTokenPool(number(4), number(16), **pages)
    mha = MHATokenToKVPool(
        **pages, kv_cache_dtype="float32", head_num=number(2), head_dim=number(32), layer_num=1
    )
    latent = mla_pool(kv_lora_rank=number(32), qk_rope_head_dim=number(8), layer_num=number(2))
    kept = [x for made in (asdict(mla), vars(reqs), vars(mha), vars(latent)) for x in made.values()]
    assert not [x for x in kept if isinstance(x, np.generic)]
    assert (reqs.num_slots, mha.num_slots, len(latent.kv_buffer)) == (32, 32, 2)


@pytest.mark.parametrize("number", [Fraction, np.float32, np.float64, np.float16, np.int32, int])
def test_numbers_of_every_kind_are_kept_as_plain_ones(number: Any) -> None:
    given = {"scaling": number(1), "logit_cap": number(30), "k_scale": number(2)}
    made = replace(LAYER, **given, v_scale=number(4))
    assert [type(getattr(made, name)) for name in (*given, "v_scale")] == [float] * 4
    assert made == replace(LAYER, scaling=1.0, logit_cap=30.0, k_scale=2.0, v_scale=4.0)
    assert type(replace(LAYER, logit_cap=number(0)).logit_cap) is float


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (replace(LAYER, layer_id=1), "layer 1 is beyond the pool's 1 layers"),
        (replace(LAYER, tp_k_head_num=1), "key heads: 1, the pool 2"),
        (replace(LAYER, head_dim=16), "head_dim 16, the pool 32"),
        (replace(LAYER, v_head_dim=16), "v_head_dim 16, the pool 32"),
        (MLA_LAYER, "layer 0 is MLA, the pool is not"),
    ],
)
def test_a_runner_refuses_layers_that_do_not_fit_the_pool(
    layer: AttentionLayer, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        ModelRunner([layer], table(), pool())


def test_the_largest_and_smallest_numbers_of_a_layer() -> None:
    """The bounds that a message names are themselves good, and so is what kernels make of them."""
    largest = replace(LAYER, scaling=2.0**64, v_scale=2.0**64, logit_cap=2e38)
    for layer in (largest, replace(LAYER, scaling=2.0**-126, k_scale=2.0**-126, logit_cap=1e-30)):
        scale = layer.scaling * layer.k_scale
        factors = (scale * math.log2(math.e), scale / layer.logit_cap, layer.logit_cap * 1.4427)
        assert bool(torch.tensor(factors, dtype=torch.float32).isfinite().all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype is 'float32'; it is a dtype"),
        ({"token_to_kv_pool": None}, "token_to_kv_pool is None; it is a KVPool"),
        ({"req_to_token_pool": None}, "req_to_token_pool is None; it is a ReqToTokenPool"),
        ({"token_to_kv_pool": pool(device="meta")}, "the pool is on meta, where nothing has"),
    ],
)
def test_a_runner_is_made_of_pools_and_a_dtype(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(ModelRunner([LAYER], table(), pool()), **change)


@pytest.mark.parametrize("dtype", [[], {}, None, 8, torch.float32])
def test_the_dtype_of_a_cache_is_a_name(dtype: Any) -> None:
    with pytest.raises(InvalidInput, match=r"kv_cache_dtype is .*; it is one of float32"):
        pool(dtype=dtype)


@pytest.mark.parametrize("device", [2**63, -(2**63) - 1, 2**31, -1, [], "cpu\0", "nowhere"])
def test_a_device_is_one_that_is_there(device: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)device .* can't be used: "):
        pool(device=device)
    with pytest.raises(InvalidInput, match=r"(?s)device .* can't be used: "):
        ReqToTokenPool(4, 16, page_size=4, num_pages=8, device=device)


def test_a_runner_refuses_a_latent_of_another_size() -> None:
    with pytest.raises(InvalidInput, match="head_dim 40, the pool 36"):
        ModelRunner([MLA_LAYER], table(), mla_pool(qk_rope_head_dim=4))


def test_a_runner_needs_layers_and_a_known_mode() -> None:
    with pytest.raises(InvalidInput, match="there are no layers; speculative_attention_mode is"):
        ModelRunner([], table(), pool(), speculative_attention_mode="both")  # type: ignore[arg-type]


def test_a_runner_keeps_layers_that_come_from_a_generator() -> None:
    made = ModelRunner((layer for layer in [LAYER]), table(), pool())  # type: ignore[arg-type]
    assert made.layers == (LAYER,)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (LAYER, "layers: AttentionLayer.* is not a list"),
        (None, "layers: None is not a list"),
        (["0"], "a layer is '0'; it is an AttentionLayer"),
    ],
)
def test_a_runner_refuses_what_are_no_layers(layers: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ModelRunner(layers, table(), pool())


def test_causality_comes_from_the_attention_type() -> None:
    assert LAYER.is_causal
    assert not replace(LAYER, attn_type=AttentionType.ENCODER_ONLY).is_causal
    assert filled([[1], [2]]).host[2, 0] == 2 * PAGE
