"""Batches: what their constructors refuse, and what is found when one is changed afterwards."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from attn_lint.backends.interface.batch import ForwardBatch  # noqa: E402
from attn_lint.backends.interface.capabilities import Capabilities  # noqa: E402
from attn_lint.backends.interface.errors import InvalidInput  # noqa: E402
from attn_lint.backends.interface.modes import ForwardMode  # noqa: E402
from attn_lint.backends.interface.pool import ReqToTokenPool  # noqa: E402
from attn_lint.backends.torch_native.backend import TorchNativeAttnBackend  # noqa: E402

from .support import PAGE, filled, pool, runner, table  # noqa: E402

CHAIN = torch.ones(1, 2, 2, dtype=torch.bool).tril()


def decode(*lengths: int) -> ForwardBatch:
    reqs = filled([[1, 2], [3, 4], [5, 6]])
    return ForwardBatch.decode(reqs, pool(), list(range(1, len(lengths) + 1)), list(lengths))


def extend(**given: Any) -> ForwardBatch:
    reqs = filled([[1, 2], [3, 4]])
    return ForwardBatch.extend(
        reqs, pool(), [1, 2], given.get("prefix", [3, 0]), given.get("new", [4, 5]), given.get("mm")
    )


def verify(mask: Any = None, **given: Any) -> ForwardBatch:
    reqs = filled([[1, 2], [3, 4]])
    prefix = given.get("prefix", [3])
    requests = given.get("requests", [1])
    return ForwardBatch.target_verify(
        reqs, pool(), requests, prefix, given.get("drafts", 2), mask, given.get("topk", 1)
    )


# Constructors


@pytest.mark.parametrize(
    ("requests", "lengths", "message"),
    [
        ([1], [9], "request 1 has no slot for token 8"),
        ([1], [17], "request 1 has 17 tokens, beyond a context of 16"),
        ([1], [0], "request 1 has length 0"),
        ([1], [-4], "request 1 has length -4"),
        ([0], [1], "request 0 is not in 1..4"),
        ([5], [1], "request 5 is not in 1..4"),
        ([-1], [1], "request -1 is not in 1..4"),
        ([4], [1], "request 4 has no slot for token 0"),
        ([1, 1], [3, 4], "a request is in the batch twice"),
        ([1, 2], [3], "2 requests and 1 lengths"),
        ([1], [2.5], "length 2.5 is not a whole number"),
        (["1"], [2], "request '1' is not a whole number"),
        (None, [1], "requests: None is not a list"),
        ([1], 3, "lengths: 3 is not a list"),
        ([10**30], [1], f"request {10**30} is not in 1..4"),
        ([1], [10**30], "beyond a context of 16"),
    ],
)
def test_decode_refuses(requests: list[Any], lengths: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ForwardBatch.decode(filled([[1, 2], [3, 4]]), pool(), requests, lengths)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"new": [4, 0]}, "request 2 has no new token"),
        ({"new": [4, -1]}, "request 2 has no new token"),
        ({"prefix": [-1, 0]}, "request 1 has prefix -1"),
        ({"prefix": [3]}, "1 prefix lengths and 2 extend lengths"),
        ({"prefix": [8, 0], "new": [1, 1]}, "request 1 has no slot for token 8"),
        ({"mm": [[(3, 6)]]}, "multimodal blocks for 1 of 2 requests"),
        ({"mm": [[(2, 5)], []]}, "block 2..5 of row 0 .* not within the new tokens 3..7"),
        ({"mm": [[(5, 8)], []]}, "block 5..8 of row 0"),
        ({"mm": [[(5, 5)], []]}, "block 5..5 of row 0 is empty"),
        ({"mm": [[(3, 5), (4, 6)], []]}, "block 4..6 of row 0 .* overlaps"),
        ({"mm": [[]]}, "multimodal blocks for 1 of 2 requests"),
        ({"mm": [[(3.5, 5)], []]}, "block of row 0: 3.5 is not a whole number"),
        ({"mm": [[(3.0, 5.0)], []]}, "block of row 0: 3.0 is not a whole number"),
        ({"mm": [[], [(0, 1, 2)]]}, r"block \(0, 1, 2\) of row 1 is not a pair"),
        ({"mm": [[3, 5], []]}, "block of row 0: 3 is not a list"),
        ({"mm": [None, [(0, 3)]]}, "mm_spans of row 0: None is not a list"),
        ({"mm": 3}, "mm_spans: 3 is not a list"),
        ({"mm": torch.tensor([[[3, 5]], [[0, 2]]])}, "mm_spans is a tensor; it is a list"),
        ({"prefix": None}, "prefix lengths: None is not a list"),
        ({"new": None}, "extend lengths: None is not a list"),
    ],
)
def test_extend_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        extend(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"drafts": 0}, "draft_token_num is 0"),
        ({"topk": 0}, "topk is 0"),
        ({"topk": 2}, "needs a tree_mask"),
        ({"prefix": [7]}, "request 1 has no slot for token 8"),
        ({"prefix": [-1]}, "request 1 has prefix -1"),
        ({"mask": torch.ones(1, 2, 2)}, "tree_mask is torch.float32"),
        ({"mask": torch.ones(1, 3, 3, dtype=torch.bool)}, r"it is torch.bool \[1, 2, 2\]"),
        ({"mask": torch.ones(2, 2, dtype=torch.bool)}, "it is torch.bool"),
        ({"mask": torch.ones(1, 2, 2, dtype=torch.bool)}, "one that comes after it"),
        ({"mask": torch.zeros(1, 2, 2, dtype=torch.bool)}, "hides a draft token from itself"),
        ({"mask": CHAIN.tolist()}, r"tree_mask is a list; it is a tensor, torch.bool \[1, 2, 2\]"),
        ({"mask": CHAIN.to_sparse()}, "tree_mask is not a dense tensor with values"),
        ({"mask": CHAIN.to("meta")}, "tree_mask is not a dense tensor with values"),
        ({"drafts": 2.0}, "draft_token_num 2.0 is not a whole number"),
        ({"drafts": None}, "draft_token_num None is not a whole number"),
        ({"drafts": 10**30}, "beyond a context of 16"),
        ({"topk": 1.5}, "topk 1.5 is not a whole number"),
        ({"requests": None}, "requests: None is not a list"),
    ],
)
def test_verify_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        verify(given.pop("mask", None), **given)


def test_blocks_may_come_from_generators() -> None:
    listed = extend(mm=[[(4, 6)], [(0, 2), (3, 5)]])
    lazy = extend(mm=(iter(row) for row in [[(4, 6)], [(0, 2), (3, 5)]]))
    assert lazy.mm_spans == listed.mm_spans
    assert torch.equal(lazy.kv_limit, listed.kv_limit)


def test_a_batch_of_no_requests_has_no_blocks() -> None:
    batch = ForwardBatch.extend(table(), pool(), [], [], [], [])
    assert (batch.mm_spans, batch.kv_limit) == (None, None)


def test_two_requests_may_share_a_prefix_but_not_write_to_one_slot() -> None:
    reqs = table()
    reqs.write(1, [4, 5, 6, 7, 8, 9])
    reqs.write(2, [4, 5, 6, 7, 12, 13])
    ForwardBatch.decode(reqs, pool(), [1, 2], [5, 6])
    with pytest.raises(InvalidInput, match="requests 1 and 2 both write to slot 7"):
        ForwardBatch.extend(reqs, pool(), [2, 1], [3, 3], [2, 2])


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_no_request_writes_over_what_another_has_cached(order: tuple[int, int]) -> None:
    reqs = table()
    reqs.write(1, [4, 5, 6, 7, 8, 9])
    reqs.write(2, [4, 5, 6, 7, 8, 9, 10])
    lengths = {1: 6, 2: 7}
    says = "request 1 writes a new token to slot 9, where request 2 has a cached one"
    with pytest.raises(InvalidInput, match=says):
        ForwardBatch.decode(reqs, pool(), list(order), [lengths[request] for request in order])
    # Alone it may: the other is not read in this pass.
    ForwardBatch.decode(reqs, pool(), [1], [6])
    # Beside one that has as little cached, each writing a slot of its own page, too.
    reqs.write(2, [4, 5, 6, 7, 12, 13, 14])
    batch = ForwardBatch.decode(reqs, pool(), list(order), [lengths[request] for request in order])
    shared = torch.tensor([4, 5, 6, 7, 8, 9, 10], dtype=torch.int32)
    reqs.write(2, shared.tolist())
    batch.out_cache_loc[order.index(2)] = 10
    with pytest.raises(InvalidInput, match=says):
        batch.recheck()


@pytest.mark.parametrize(
    ("reqs", "message"),
    [
        (ReqToTokenPool(2, 16, page_size=8, num_pages=4), "page size 8 in the table, 4 in"),
        (ReqToTokenPool(2, 64, page_size=4, num_pages=16), "the table has 64 slots, the pool 32"),
        (ReqToTokenPool(2, 16, page_size=4, num_pages=8, device="meta"), "the table is on meta"),
    ],
)
def test_table_and_pool_belong_together(reqs: ReqToTokenPool, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ForwardBatch.idle(reqs, pool())


def test_no_table_and_no_pool() -> None:
    with pytest.raises(InvalidInput, match="the table is a NoneType; it is a ReqToTokenPool"):
        ForwardBatch.idle(None, pool())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="the pool is a ReqToTokenPool; it is a KVPool"):
        ForwardBatch.decode(table(), table(), [1], [1])  # type: ignore[arg-type]


def test_what_a_batch_holds() -> None:
    batch = extend(mm=[[(4, 6)], []])
    assert batch.seq_lens.tolist() == [7, 5]
    assert batch.out_cache_loc.tolist() == [7, 8, 9, 10, 12, 13, 14, 15, 16]
    assert batch.positions.tolist() == [3, 4, 5, 6, 0, 1, 2, 3, 4]
    assert batch.extend_start_loc.tolist() == [0, 4]
    assert batch.kv_limit.tolist() == [3, 5, 5, 6, 0, 1, 2, 3, 4]
    assert (batch.num_tokens, batch.max_kv_len, batch.query_lens_cpu) == (9, 7, [4, 5])
    chain = verify()
    assert chain.seq_lens.tolist() == [3]
    assert chain.kv_lens_cpu.tolist() == [5]
    assert chain.out_cache_loc.tolist() == [7, 8]
    empty = ForwardBatch.decode(table(), pool(), [], [])
    assert (empty.num_tokens, empty.max_kv_len, empty.batch_size) == (0, 0, 0)


# Changes after construction


def at(name: str, index: int, value: int) -> Callable[[ForwardBatch], None]:
    def change(batch: ForwardBatch) -> None:
        getattr(batch, name)[index] = value

    return change


def in_table(row: int, token: Any, slot: Any) -> Callable[[ForwardBatch], None]:
    def change(batch: ForwardBatch) -> None:
        batch.req_to_token_pool.req_to_token[row, token] = slot

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (at("seq_lens", 0, 9), "seq_lens and seq_lens_cpu differ"),
        (at("seq_lens", 0, 10**6), "beyond a context of 16"),
        (at("seq_lens", 0, -1), "values below 1"),
        (at("req_pool_indices", 0, 77), "outside 0..4"),
        (at("req_pool_indices", 0, -2), "outside 0..4"),
        (at("out_cache_loc", 0, 32), "out_cache_loc has slots outside the pool of 32"),
        (at("out_cache_loc", 0, -1), "out_cache_loc has slots outside"),
        (at("out_cache_loc", 4, 8), "out_cache_loc of row 1 .request 2. is not where the table"),
        (at("extend_seq_lens", 1, 4), "extend_seq_lens and extend_seq_lens_cpu differ"),
        (at("extend_prefix_lens", 0, 2), "extend_prefix_lens and extend_prefix_lens_cpu differ"),
        (at("extend_start_loc", 1, 3), "extend_start_loc is not the running sum"),
        (at("kv_limit", 0, 16), "kv_limit goes beyond the tokens of its request"),
        (at("kv_limit", 0, -1), "kv_limit goes beyond"),
        (at("kv_limit", 0, 6), "kv_limit and mm_spans differ"),
        (at("req_pool_indices", 0, 3), "req_pool_indices and req_pool_indices_cpu differ"),
        (at("req_pool_indices_cpu", 0, 3), "req_pool_indices and req_pool_indices_cpu differ"),
        (at("seq_lens_cpu", 0, 6), "seq_lens and seq_lens_cpu differ"),
        (at("extend_seq_lens_cpu", 1, 4), "out_cache_loc is torch.int64 .9.; it is .*.8."),
        (at("extend_prefix_lens_cpu", 0, 2), "extend_prefix_lens and extend_prefix_lens_cpu"),
        (in_table(1, 2, 32), "row 0 .request 1. has slots outside the pool"),
        (in_table(1, 2, -1), "row 0 .request 1. has slots outside the pool"),
        (in_table(1, 2, 9), "row 0 .request 1. has tokens outside whole pages"),
        (in_table(2, 4, 17), "row 1 .request 2. has tokens outside whole pages"),
        (in_table(1, slice(0, 4), torch.arange(8, 12)), "has other slots than `write` gave it"),
    ],
)
def test_a_changed_batch_is_found(change: Callable[[ForwardBatch], None], message: str) -> None:
    batch = extend(mm=[[(4, 6)], []])
    change(batch)
    with pytest.raises(InvalidInput, match=message):
        batch.recheck()
    with pytest.raises(InvalidInput, match=message):
        batch.recheck()  # and again: a refused batch is not taken for a checked one


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("seq_lens", torch.tensor([7, 5]), r"seq_lens is torch.int64 \[2\]; it is torch.int32"),
        ("seq_lens", torch.tensor([7, 5, 1], dtype=torch.int32), r"seq_lens is torch.int32 \[3\]"),
        ("req_pool_indices", torch.tensor([1, 2], dtype=torch.int32), "it is torch.int64"),
        ("out_cache_loc", torch.zeros(9), "out_cache_loc is torch.float32"),
        ("out_cache_loc", torch.zeros(3, 3, dtype=torch.int64), r"\[3, 3\]"),
        ("extend_start_loc", None, "extend_… come with an extend alone, and all of them"),
        ("seq_lens", torch.zeros(2, dtype=torch.int32, device="meta"), "seq_lens is on meta"),
        ("seq_lens", [7, 5], "seq_lens is a list; it is a tensor"),
        ("seq_lens_cpu", torch.tensor([7, 5]), "seq_lens_cpu is torch.int64"),
        (
            "seq_lens_cpu",
            torch.tensor([7], dtype=torch.int32),
            r"seq_lens_cpu is torch.int32 \[1\]",
        ),
        ("req_pool_indices_cpu", None, "req_pool_indices_cpu is missing"),
        ("req_pool_indices_cpu", torch.tensor([2, 1]), "and req_pool_indices_cpu differ"),
    ],
)
def test_a_replaced_tensor_is_checked_for_kind(name: str, tensor: Any, message: str) -> None:
    batch = extend()
    setattr(batch, name, tensor)
    with pytest.raises(InvalidInput, match=message):
        batch.recheck()


@pytest.mark.parametrize(
    ("make", "mode", "message"),
    [
        (lambda: extend(), ForwardMode.DECODE, "come with an extend alone"),
        (lambda: extend(), ForwardMode.TARGET_VERIFY, "spec_info comes with target_verify alone"),
        (lambda: extend(), ForwardMode.IDLE, "a pass of 2 requests is marked as idle"),
        (lambda: extend(), "extend", "forward_mode is a str; it is a ForwardMode"),
        (lambda: decode(3, 4), ForwardMode.EXTEND, "come with an extend alone, and all of them"),
        (lambda: decode(3, 4), ForwardMode.TARGET_VERIFY, "spec_info comes with target_verify"),
    ],
)
def test_another_mode_is_found(
    make: Callable[[], ForwardBatch], mode: ForwardMode, message: str
) -> None:
    batch = make()
    batch.forward_mode = mode
    with pytest.raises(InvalidInput, match=message):
        batch.recheck()


@pytest.mark.parametrize("mode", ["decode", "extend", "target_verify"])
def test_a_batch_of_no_requests_stays_one_when_the_table_changes(mode: str) -> None:
    reqs, kv = table(), pool()
    batch = {
        "decode": lambda: ForwardBatch.decode(reqs, kv, [], []),
        "extend": lambda: ForwardBatch.extend(reqs, kv, [], [], []),
        "target_verify": lambda: ForwardBatch.target_verify(reqs, kv, [], [], 2),
    }[mode]()
    reqs.write(4, range(16, 20))
    batch.recheck()


def test_blocks_without_their_limits_are_found() -> None:
    batch = extend(mm=[[(4, 6)], []])
    batch.kv_limit = None
    with pytest.raises(InvalidInput, match="kv_limit and mm_spans come together"):
        batch.recheck()


def test_a_replaced_mask_is_checked_for_kind() -> None:
    batch = verify(CHAIN)
    assert batch.spec_info is not None
    batch.spec_info.tree_mask = CHAIN.tolist()
    with pytest.raises(InvalidInput, match="tree_mask is a list"):
        batch.recheck()


@pytest.mark.parametrize("inference", [False, True])
def test_another_request_s_slots_on_the_device_alone_are_found(inference: bool) -> None:
    batch = decode(8)
    with torch.inference_mode(inference):
        batch.req_pool_indices.fill_(2)
        batch.out_cache_loc.fill_(int(batch.req_to_token_pool.host[2, 7]))
    with pytest.raises(InvalidInput, match="req_pool_indices and req_pool_indices_cpu differ"):
        batch.recheck()


def test_a_change_on_device_and_host_alike_is_a_batch_like_any_other() -> None:
    batch = decode(8, 3)
    for indices in (batch.req_pool_indices, batch.req_pool_indices_cpu):
        indices[0] = 3
    batch.out_cache_loc[0] = batch.req_to_token_pool.host[3, 7]
    batch.recheck()
    for indices in (batch.req_pool_indices, batch.req_pool_indices_cpu):
        indices[1] = 3
    for lens in (batch.seq_lens, batch.seq_lens_cpu):
        lens[1] = 8
    batch.out_cache_loc[1] = batch.out_cache_loc[0]
    with pytest.raises(InvalidInput, match="requests 3 and 3 both write to slot 27"):
        batch.recheck()


def test_a_tensor_at_the_address_of_an_old_one_is_another() -> None:
    batch = decode(3, 4)
    for _ in range(50):  # identities are reused as soon as a tensor is gone
        batch.seq_lens = torch.tensor([3, 4], dtype=torch.int32)
        batch.recheck()
        batch.seq_lens = torch.tensor([3, 9], dtype=torch.int32)
        with pytest.raises(InvalidInput, match="seq_lens"):
            batch.recheck()


def test_an_untouched_batch_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = extend(mm=[[(4, 6)], []])
    monkeypatch.setattr(
        torch.Tensor, "cpu", lambda self: pytest.fail("the device was read without need")
    )
    batch.recheck()
    batch.seq_lens.add_(0)
    with pytest.raises(pytest.fail.Exception):
        batch.recheck()


def test_a_new_request_in_the_table_leaves_the_batch_right() -> None:
    batch = decode(3, 4)
    batch.req_to_token_pool.write(4, [28])
    batch.recheck()


def test_inference_mode_hides_no_change() -> None:
    with torch.inference_mode():
        batch = verify(CHAIN.clone())
        batch.recheck()
        batch.seq_lens += 100
        with pytest.raises(InvalidInput, match="beyond a context"):
            batch.recheck()
        batch.seq_lens -= 100
        batch.recheck()
        assert batch.spec_info is not None
        batch.spec_info.tree_mask.fill_(True)
        with pytest.raises(InvalidInput, match="comes after it"):
            batch.recheck()


@pytest.mark.parametrize(
    "name",
    ["seq_lens", "out_cache_loc", "req_pool_indices", "seq_lens_cpu", "req_pool_indices_cpu"],
)
def test_a_tensor_without_a_version_counter_is_refused(name: str) -> None:
    batch = decode(3)
    with torch.inference_mode():
        setattr(batch, name, getattr(batch, name).clone())
    with pytest.raises(InvalidInput, match=f"{name} was made in torch.inference_mode"):
        batch.recheck()


def test_the_mask_of_a_tree_is_the_batch_s_own() -> None:
    mask = CHAIN.clone()
    batch = verify(mask)
    mask.fill_(True)
    assert batch.spec_info is not None
    assert torch.equal(batch.spec_info.tree_mask, CHAIN)
    batch.recheck()


def test_a_deep_copy_is_a_batch_of_its_own() -> None:
    batch = copy.deepcopy(decode(3, 4))
    batch.recheck()
    batch.seq_lens[0] = 99
    with pytest.raises(InvalidInput, match="seq_lens"):
        batch.recheck()


# Static batches of CUDA graphs


def static() -> tuple[ForwardBatch, Callable[..., ForwardBatch]]:
    reqs, kv = filled([[1, 2], [3, 4], [5, 6]]), pool()
    batch = ForwardBatch.decode(reqs, kv, [1, 2, 3], [8, 8, 8])
    return batch, lambda ids, lens: ForwardBatch.decode(reqs, kv, ids, lens)


def test_load_fills_up_with_padding() -> None:
    batch, make = static()
    addresses = [x.data_ptr() for x in (batch.seq_lens, batch.out_cache_loc, batch.positions)]
    assert batch.load_(make([3], [5])) == 1
    assert batch.seq_lens.tolist() == [5, 1, 1]
    assert batch.seq_lens_cpu.tolist() == [5, 1, 1]
    assert batch.req_pool_indices.tolist() == [3, 0, 0]
    assert batch.out_cache_loc.tolist() == [5 * PAGE + 4 + 0, 0, 0]
    assert batch.positions.tolist() == [4, 0, 0]
    batch.recheck()
    # And with other values on the device, they are read and still right.
    batch.seq_lens.add_(0)
    batch.recheck()
    assert [x.data_ptr() for x in (batch.seq_lens, batch.out_cache_loc, batch.positions)] == (
        addresses
    ), "a graph has the addresses"
    batch.req_pool_indices[0] = 2
    with pytest.raises(InvalidInput, match="req_pool_indices and req_pool_indices_cpu differ"):
        batch.recheck()
    assert batch.load_(make([], [])) == 0
    batch.seq_lens.add_(0)
    batch.recheck()  # all padding, which shares its one slot
    assert batch.req_pool_indices.tolist() == [0, 0, 0]


def test_load_fills_up_with_the_length_that_the_graph_s_backend_wants() -> None:
    """SGLang's runners ask their backend by this name too, and some want other than 1."""

    class Filled(TorchNativeAttnBackend):
        capabilities = Capabilities("filled", "Filled", "torch", {})

        def get_cuda_graph_seq_len_fill_value(self) -> int:
            return 7

    batch, make = static()
    backend = Filled(runner(batch.req_to_token_pool, batch.token_to_kv_pool))
    backend.init_forward_metadata(batch)
    batch.load_(make([3], [5]))
    assert batch.seq_lens.tolist() == [5, 1, 1], "no graph has it yet"
    backend.init_forward_metadata_out_graph(batch, in_capture=True)
    batch.load_(make([3], [5]))
    assert batch.seq_lens.tolist() == batch.seq_lens_cpu.tolist() == [5, 7, 7]
    batch.seq_lens.add_(0)
    batch.recheck()  # the padding request has slots for any length
    for length in (0, 17):
        batch.seq_len_fill_value = length
        assert batch.load_(make([1, 2, 3], [5, 6, 7])) == 3, "nothing is filled up"
        with pytest.raises(InvalidInput, match=f"a length of {length}; it is 1 to 16"):
            batch.load_(make([3], [5]))


def test_load_fills_trees_up_with_chains_of_padding() -> None:
    reqs, kv = filled([[1, 2], [3, 4]]), pool()
    mask = torch.eye(2, dtype=torch.bool).expand(2, 2, 2)
    batch = ForwardBatch.target_verify(reqs, kv, [1, 2], [3, 3], 2, mask, topk=2)
    one = ForwardBatch.target_verify(reqs, kv, [2], [5], 2, mask[:1], topk=2)
    assert batch.load_(one) == 1
    assert batch.out_cache_loc.tolist() == [17, 18, 0, 0]
    assert batch.spec_info is not None
    assert bool(batch.spec_info.tree_mask[1].diagonal().all())


def test_load_refuses_what_is_not_the_graph_s() -> None:
    batch, make = static()
    with pytest.raises(InvalidInput, match=r"another table than the graph; .*another pool"):
        batch.load_(decode(3))
    small = make([1], [3])
    with pytest.raises(InvalidInput, match="3 requests in a graph of 1"):
        small.load_(batch)
    reqs, kv = batch.req_to_token_pool, batch.token_to_kv_pool
    with pytest.raises(InvalidInput, match="a target_verify batch in a decode graph"):
        batch.load_(ForwardBatch.target_verify(reqs, kv, [1], [3], 2))
    chain = ForwardBatch.target_verify(reqs, kv, [1, 2], [3, 3], 2)
    with pytest.raises(InvalidInput, match="a tree mask and a chain"):
        chain.load_(ForwardBatch.target_verify(reqs, kv, [1], [3], 2, CHAIN))
    with pytest.raises(InvalidInput, match="3 draft tokens in a graph of 2"):
        chain.load_(ForwardBatch.target_verify(reqs, kv, [1], [3], 3))
    changed = make([1], [3])
    changed.out_cache_loc[0] = 999
    with pytest.raises(InvalidInput, match="out_cache_loc"):
        batch.load_(changed)
