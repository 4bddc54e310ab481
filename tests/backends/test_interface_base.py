"""Admission: nothing reaches a kernel that was not planned, checked and carried."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from attn_lint.backends.hybrid import HybridAttnBackend  # noqa: E402
from attn_lint.backends.interface import base  # noqa: E402
from attn_lint.backends.interface.batch import ForwardBatch  # noqa: E402
from attn_lint.backends.interface.capabilities import Request  # noqa: E402
from attn_lint.backends.interface.errors import (  # noqa: E402
    BrokenBackend,
    InvalidInput,
    NotInstalled,
    Refused,
    UnknownBackend,
)
from attn_lint.backends.interface.pool import MHATokenToKVPool  # noqa: E402
from attn_lint.backends.interface.runner import ModelRunner  # noqa: E402
from attn_lint.backends.reference import attention, relative_error  # noqa: E402
from attn_lint.backends.registry import CAPABILITIES, create_backend  # noqa: E402
from attn_lint.backends.torch_native.backend import TorchNativeAttnBackend  # noqa: E402
from attn_lint.backends.verify.scenario import Scenario  # noqa: E402

from .support import MODES, SMALL, assert_layers_right, scenario  # noqa: E402

ROOM = Path(base.__file__).parent.parent
#: What the base class does for all backends, so that none can forget to.
ADMISSION = {
    "forward",
    "forward_decode",
    "forward_extend",
    "init_forward_metadata",
    "init_forward_metadata_out_graph",
    "init_forward_metadata_in_graph",
    "validate",
    "_enter",
    "_check_admitted",
    "_rows",
}


def ready(name: str, request: Request, seed: int = 0) -> tuple[base.AttentionBackend, Scenario]:
    drawn = scenario(request, seed)
    backend = create_backend(name, drawn.runner)
    backend.init_forward_metadata(drawn.batch)
    return backend, drawn


def call(backend: base.AttentionBackend, drawn: Scenario, **given: Any) -> Any:
    given = {"q": drawn.q, "k": drawn.k, "v": drawn.v, "sinks": drawn.sinks, **given}
    q, k, v = given.pop("q"), given.pop("k"), given.pop("v")
    batch = given.pop("batch", drawn.batch)
    return backend.forward(q, k, v, given.pop("layer", drawn.layer), batch, **given)


def error_of(out: Any, drawn: Scenario) -> float:
    return relative_error(out, attention(drawn.q, drawn.layer, drawn.batch, drawn.sinks))


class Spy(TorchNativeAttnBackend):
    """A backend whose kernels may not run."""

    ran: list[str]

    def _note(self, *args: Any, **kwargs: Any) -> Any:
        self.ran.append("kernel")
        raise AssertionError("a kernel ran")

    _decode = _extend = _verify = _plan = _plan_in_graph = _note


def spy(drawn: Scenario) -> Spy:
    backend = Spy(drawn.runner)
    backend.ran = []
    return backend


# Structure


def test_no_backend_replaces_admission() -> None:
    found = []
    for path in sorted(ROOM.rglob("*.py")):
        if path.parent.name == "interface" or path.name == "hybrid.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
                names |= {
                    target.id
                    for n in node.body
                    if isinstance(n, ast.Assign)
                    for target in n.targets
                    if isinstance(target, ast.Name)
                }
                bases = {ast.unparse(b) for b in node.bases}
                if any("Backend" in b for b in bases):
                    found += [f"{path.name}: {name}" for name in names & ADMISSION]
    assert found == []


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_every_backend_refuses_before_its_kernels_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = scenario(SMALL)
    try:
        backend = create_backend(name, drawn.runner)
    except NotInstalled as error:
        pytest.skip(str(error))
    except Refused:
        return  # refused when created: earlier still
    for method in ("_plan", "_plan_in_graph", "_decode", "_extend", "_verify"):
        monkeypatch.setattr(
            type(backend), method, lambda *a, **k: pytest.fail("a kernel ran"), raising=True
        )
    monkeypatch.setattr(
        type(backend), "request", lambda *a, **k: Request(dtype="int8", device="tpu")
    )
    before = drawn.runner.token_to_kv_pool.get_kv_buffer(0)[0].view(torch.int32).clone()
    with pytest.raises(Refused) as caught:
        backend.init_forward_metadata(drawn.batch)
    assert len(caught.value.refusals) >= 2, "every reason is told"
    assert name in str(caught.value)
    with pytest.raises(InvalidInput, match="init_forward_metadata was not called"):
        call(backend, drawn)
    after = drawn.runner.token_to_kv_pool.get_kv_buffer(0)[0].view(torch.int32)
    assert torch.equal(before, after), "nothing is stored for a refused call"


# Order of calls


def test_a_batch_is_planned_first() -> None:
    drawn = scenario(SMALL)
    backend = spy(drawn)
    with pytest.raises(InvalidInput, match="init_forward_metadata was not called"):
        call(backend, drawn)
    assert not backend.ran


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_change_after_planning_is_found(mode: str) -> None:
    backend, drawn = ready("torch_native", MODES[mode])
    call(backend, drawn)
    drawn.batch.seq_lens.add_(0)
    with pytest.raises(InvalidInput, match="or it was changed since"):
        call(backend, drawn)
    backend.init_forward_metadata(drawn.batch)
    assert error_of(call(backend, drawn), drawn) < 1e-6


@pytest.mark.parametrize("name", ["torch_native", "flex_attention"])
@pytest.mark.parametrize("mirror", ["seq_lens_cpu", "req_pool_indices_cpu"])
@pytest.mark.parametrize("planned", [False, True])
def test_a_host_copy_that_was_changed_alone_gives_no_answer(
    name: str, mirror: str, planned: bool
) -> None:
    drawn = scenario(SMALL)
    backend = create_backend(name, drawn.runner)
    if planned:
        backend.init_forward_metadata(drawn.batch)
    getattr(drawn.batch, mirror)[0] += 1
    if planned:
        with pytest.raises(InvalidInput, match="or it was changed since"):
            call(backend, drawn)
    with pytest.raises(InvalidInput, match=f"{mirror} differ"):
        backend.init_forward_metadata(drawn.batch)
    getattr(drawn.batch, mirror)[0] -= 1
    backend.init_forward_metadata(drawn.batch)
    assert error_of(call(backend, drawn), drawn) < 1e-6


def test_another_batch_needs_another_plan() -> None:
    backend, drawn = ready("torch_native", SMALL)
    twin = copy.copy(drawn.batch)
    with pytest.raises(InvalidInput, match="was not called for this batch"):
        call(backend, drawn, batch=twin)
    backend.init_forward_metadata(twin)
    assert error_of(call(backend, drawn, batch=twin), drawn) < 1e-6


def test_a_refused_batch_leaves_nothing_planned() -> None:
    backend, drawn = ready("torch_native", SMALL)
    with pytest.raises(Refused, match="has no support for CUDA graphs"):
        backend.init_forward_metadata_out_graph(drawn.batch, in_capture=True)
    with pytest.raises(InvalidInput, match="was not called"):
        call(backend, drawn)
    backend.init_forward_metadata(drawn.batch)
    assert error_of(call(backend, drawn), drawn) < 1e-6, "and the batch is no captured one"


def test_a_batch_of_another_pool_or_table_is_refused() -> None:
    backend, drawn = ready("torch_native", SMALL)
    with pytest.raises(InvalidInput, match="another pool than the backend"):
        backend.init_forward_metadata(copy.deepcopy(drawn.batch))
    other = copy.copy(drawn.batch)
    other.req_to_token_pool = copy.deepcopy(drawn.batch.req_to_token_pool)
    with pytest.raises(InvalidInput, match="another table than the backend"):
        backend.init_forward_metadata(other)


def test_a_layer_that_nobody_planned_for_is_refused() -> None:
    backend, drawn = ready("torch_native", SMALL)
    with pytest.raises(InvalidInput, match="layer 0 is not one the backend was created for"):
        call(backend, drawn, layer=replace(drawn.layer, scaling=1.0))


def test_a_pass_over_many_layers_asks_once_for_each_kind_and_compares_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Models have up to some hundred layers of two kinds or so, with scales of their own."""
    drawn = scenario(SMALL)
    batch, count = drawn.batch, 64
    kv = MHATokenToKVPool(
        num_pages=batch.token_to_kv_pool.num_pages,
        page_size=drawn.request.page_size,
        kv_cache_dtype="float32",
        head_num=2,
        head_dim=32,
        layer_num=count,
    )
    layers = [
        replace(drawn.layer, layer_id=i, k_scale=1 + i / count, sliding_window_size=7 * (i % 2) - 1)
        for i in range(count)
    ]
    backend = create_backend(
        "torch_native", ModelRunner(layers, batch.req_to_token_pool, kv, torch.float32)
    )
    ids, lengths = batch.req_pool_indices.tolist(), batch.seq_lens.tolist()
    whole = ForwardBatch.decode(batch.req_to_token_pool, kv, ids, lengths)
    made: list[Request] = []
    compared: list[int] = []
    request, equal = type(backend).request, type(drawn.layer).__eq__

    def asked(*given: Any, **options: Any) -> Request:
        made.append(request(*given, **options))
        return made[-1]

    def same(one: Any, other: Any) -> bool:
        compared.append(one.layer_id)
        return equal(one, other)

    monkeypatch.setattr(type(backend), "request", asked)
    monkeypatch.setattr(type(drawn.layer), "__eq__", same)
    backend.init_forward_metadata(whole)
    assert sorted(each.window for each in made) == [False, True]
    for layer in layers:
        # As a caller has it who makes its layers anew: equal, and not the same.
        backend.forward(drawn.q, drawn.k, drawn.v, replace(layer), whole)
    assert len(compared) <= count


def test_methods_belong_to_modes() -> None:
    backend, drawn = ready("torch_native", MODES["extend"])
    with pytest.raises(InvalidInput, match="forward_decode was called for an extend batch"):
        backend.forward_decode(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)
    backend, drawn = ready("torch_native", SMALL)
    with pytest.raises(InvalidInput, match="forward_extend was called for a decode batch"):
        backend.forward_extend(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_what_is_no_batch_and_no_layer_is_said_to_be_none(mode: str, pair: bool) -> None:
    made, drawn = ready("torch_native", MODES[mode])
    backend = HybridAttnBackend(made, made) if pair else made
    q, k, v = drawn.q, drawn.k, drawn.v
    nothing: Any = None
    message = "the batch is a NoneType; it is a ForwardBatch"
    for method in (backend.forward, backend.forward_decode, backend.forward_extend):
        with pytest.raises(InvalidInput, match=message):
            method(q, k, v, drawn.layer, nothing)
    with pytest.raises(InvalidInput, match=message):
        backend.init_forward_metadata(nothing)
    with pytest.raises(InvalidInput, match="the layer is None; it is an AttentionLayer"):
        backend.forward(q, k, v, nothing, drawn.batch)
    with pytest.raises(InvalidInput, match="a hybrid is made of two backends; None is none"):
        HybridAttnBackend(made, nothing)


def test_graph_sizes_are_positive() -> None:
    backend, _ = ready("torch_native", SMALL)
    for sizes in ((0, 0), (4, 2), (-1, 5)):
        with pytest.raises(InvalidInput, match="a graph of"):
            backend.init_cuda_graph_state(*sizes)
    given: Any
    for given in ((1, None), (None, 1), (1.5, 2), (True, 2), ("1", 2)):
        with pytest.raises(InvalidInput, match="is not a whole number"):
            backend.init_cuda_graph_state(*given)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_capture_has_no_more_requests_and_tokens_than_was_said(mode: str) -> None:
    drawn = scenario(MODES[mode])
    batch, backend = drawn.batch, spy(drawn)
    backend.capabilities = replace(CAPABILITIES["torch_native"], allows={})  # type: ignore[misc]
    requests, tokens = batch.batch_size, batch.num_tokens
    assert requests > 1
    sizes = [(requests - 1, tokens, f"of {requests} requests; graphs were set up for")]
    if tokens > requests:
        sizes.append((requests, tokens - 1, f"of {tokens} tokens; graphs were set up for"))
    for max_bs, max_num_tokens, message in sizes:
        backend.init_cuda_graph_state(max_bs, max_num_tokens)
        with pytest.raises(InvalidInput, match=message):
            backend.init_forward_metadata_out_graph(batch, in_capture=True)
    assert not backend.ran
    assert not batch.captured


# Tensors of a call


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("q", lambda x: x[:-1], r"q is \[\d+, 4, 32\]; it is \["),
        ("q", lambda x: x[:, :2], "q is"),
        ("q", lambda x: x[..., :16], "q is"),
        ("q", lambda x: x[None], "q is"),
        ("q", lambda x: x.flatten(), "q is"),
        ("q", lambda x: x.double(), "q is torch.float64; the runner's dtype is torch.float32"),
        ("q", lambda x: x.bfloat16(), "q is torch.bfloat16"),
        ("q", lambda x: x.to("meta"), "q is on meta, the pool on cpu"),
        ("q", lambda x: x.tolist(), "q is a list; it is a dense tensor"),
        ("q", lambda x: x.to_sparse(), "q is a torch.sparse_coo tensor; it is a dense tensor"),
        ("k", lambda x: x.numpy(), "k is a ndarray; it is a dense tensor"),
        ("v", lambda x: torch.nested.nested_tensor([x]), "v is a nested tensor; it is a dense"),
        ("k", lambda x: x[:, :1], "k is"),
        ("k", lambda x: x.half(), "k is torch.float16"),
        ("k", lambda x: None, "k is missing"),
        ("v", lambda x: x[..., :1], "v is"),
        ("v", lambda x: x.to("meta"), "v is on meta"),
        ("v", lambda x: None, "v is missing"),
        ("sinks", lambda x: torch.zeros(4), "sinks were given to a layer that uses none"),
    ],
)
def test_a_wrong_tensor_reaches_no_kernel(mode: str, name: str, change: Any, message: str) -> None:
    drawn = scenario(MODES[mode])
    backend = spy(drawn)
    backend._plan = lambda *a, **k: None  # type: ignore[method-assign]
    backend._plan_in_graph = lambda *a: None  # type: ignore[method-assign]
    backend.init_forward_metadata(drawn.batch)
    with pytest.raises(InvalidInput, match=message):
        call(backend, drawn, **{name: change(getattr(drawn, name))})
    assert not backend.ran


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("q", lambda x: torch.zeros(1, 4, 32), r"q is \[1, 4, 32\]; it is \[0, 4, 32\]"),
        ("q", lambda x: x[:, :2], "q is"),
        ("q", lambda x: x.bfloat16(), "q is torch.bfloat16"),
        ("q", lambda x: None, "q is missing"),
        ("k", lambda x: x.to("meta"), "k is on meta"),
        ("k", lambda x: x.half(), "k is torch.float16"),
        ("v", lambda x: x[..., :1], "v is"),
        ("v", lambda x: None, "v is missing"),
        ("sinks", lambda x: torch.zeros(4), "sinks were given to a layer that uses none"),
        ("layer", lambda x: replace(x, layer_id=9), "layer 9 is not one"),
    ],
)
def test_an_idle_pass_is_checked_like_any_other(name: str, change: Any, message: str) -> None:
    drawn = scenario(SMALL)
    backend = spy(drawn)
    idle = ForwardBatch.idle(drawn.batch.req_to_token_pool, drawn.batch.token_to_kv_pool)
    given = {key: getattr(drawn, key)[:0] for key in ("q", "k", "v")}
    given |= {"layer": drawn.layer, "batch": idle}
    with pytest.raises(InvalidInput, match="init_forward_metadata was not called"):
        call(backend, drawn, **given)
    backend.init_forward_metadata(idle)
    given[name] = change(given.get(name))
    with pytest.raises(InvalidInput, match=message):
        call(backend, drawn, **given)


@pytest.mark.parametrize(
    ("sinks", "message"),
    [
        (None, "the layer uses sinks; none were given"),
        (torch.zeros(2), r"sinks are torch.float32 \[2\]; they are torch.float32 \[4\]"),
        (torch.zeros(4, dtype=torch.bfloat16), "sinks are torch.bfloat16"),
        (torch.zeros(4, 1), r"\[4, 1\]"),
        (torch.zeros(4, device="meta"), "sinks are on meta"),
        ([0.0] * 4, "sinks is a list; it is a dense tensor"),
        (torch.zeros(4).to_sparse(), "sinks is a torch.sparse_coo tensor"),
    ],
)
def test_sinks_are_checked(sinks: Any, message: str) -> None:
    backend, drawn = ready("torch_native", replace(SMALL, sinks=True))
    with pytest.raises(InvalidInput, match=message):
        call(backend, drawn, sinks=sinks)


NAMES = ("torch_native", "flex_attention")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", sorted(MODES))
def test_layouts_of_the_same_numbers_give_the_same_answer(name: str, mode: str) -> None:
    backend, drawn = ready(name, MODES[mode])
    q, k, v = drawn.q, drawn.k, drawn.v
    fused = torch.cat((q.flatten(1), k.flatten(1), v.flatten(1)), 1)
    wide = torch.full((*q.shape, 2), math.nan)
    wide[..., 0] = q
    layouts = {
        "flat": (q.flatten(1), k.flatten(1), v.flatten(1)),
        "views of one tensor": fused.split([q[0].numel(), k[0].numel(), v[0].numel()], 1),
        "strides": (wide[..., 0], k, v),
        "heads first": (q.transpose(0, 1).contiguous().transpose(0, 1), k, v),
    }
    for what, (a, b, c) in layouts.items():
        assert error_of(call(backend, drawn, q=a, k=b, v=c), drawn) < 1e-6, what


@pytest.mark.parametrize("mode", sorted(MODES))
def test_what_only_a_bit_makes_negative_reaches_kernels_written_out(mode: str) -> None:
    """Kernels read memory, in which the imaginary part of a conjugate has the other sign."""
    drawn = scenario(replace(MODES[mode], sinks=True))
    seen: list[Any] = []

    class Seeing(TorchNativeAttnBackend):
        def _look(self, q: Any, layer: Any, batch: Any, sinks: Any) -> Any:
            seen.extend((q, sinks))
            return self._attend(q, layer, batch, sinks)

        _decode = _extend = _verify = _look

    def conjugate(x: Any) -> Any:
        part = torch.complex(torch.zeros_like(x), -x).conj().imag
        assert part.is_neg()
        assert torch.equal(part, x)
        return part

    backend = Seeing(drawn.runner)
    backend.init_forward_metadata(drawn.batch)
    given = {name: conjugate(getattr(drawn, name)) for name in ("q", "k", "v", "sinks")}
    assert error_of(call(backend, drawn, **given), drawn) < 1e-6
    assert [x.is_neg() for x in seen] == [False, False]


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda out: out[:1],
            r"gave torch.float32 \[1, 4, 32\] on cpu; it is to give torch.float32",
        ),
        (lambda out: out.flatten(1), r"gave torch.float32 \[\d+, 128\] on cpu; it is to give"),
        (lambda out: out.double(), "gave torch.float64 .* on cpu; it is to give torch.float32"),
        (
            lambda out: out.to("meta"),
            r"gave .* on meta; it is to give torch.float32 \[\d+, 4, 32\] on cpu",
        ),
        (lambda out: None, "gave NoneType; it is to give"),
        (lambda out: (out, out), "gave tuple; it is to give"),
    ],
)
def test_a_backend_that_gives_something_else_is_named(mode: str, change: Any, message: str) -> None:
    drawn = scenario(MODES[mode])

    class Odd(TorchNativeAttnBackend):
        def _odd(self, *arguments: Any) -> Any:
            return change(self._attend(*arguments))

        _decode = _extend = _verify = _odd

    backend = Odd(drawn.runner)
    backend.init_forward_metadata(drawn.batch)
    with pytest.raises(BrokenBackend, match="^torch_native " + message):
        call(backend, drawn)


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_of_numpys_numbers_is_one_like_any_other(name: str) -> None:
    np = pytest.importorskip("numpy")
    drawn = scenario(replace(MODES["extend"], window=True))
    whole = ("layer_id", "tp_q_head_num", "tp_k_head_num", "head_dim", "v_head_dim")
    change = {key: np.int64(getattr(drawn.layer, key)) for key in (*whole, "sliding_window_size")}
    layer = replace(drawn.layer, **change, scaling=np.float32(drawn.layer.scaling))
    backend = create_backend(name, replace(drawn.runner, layers=[layer]))
    backend.init_forward_metadata(drawn.batch)
    assert error_of(call(backend, drawn, layer=layer), drawn) < 1e-6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("step", [1, 2])
def test_what_is_stored_may_be_given_again(name: str, mode: str, swapped: bool, step: int) -> None:
    """Views of the pool that the pass writes to mean what they held before it."""
    backend, drawn = ready(name, MODES[mode])
    keys, values = drawn.runner.token_to_kv_pool.get_kv_buffer(0)
    # The new tokens' slots and their neighbours: a store would change what is read after it.
    first = int(drawn.batch.out_cache_loc.min()) - step
    rows = slice(first, first + step * drawn.batch.num_tokens, step)
    for buffer, x in ((keys, drawn.k), (values, drawn.v)):
        buffer[rows] = x
    k, v = (values, keys) if swapped else (keys, values)
    views = {"q": k[rows].repeat(1, 2, 1), "k": k[rows], "v": v[rows]}
    wanted = {name: x.clone() for name, x in views.items()}
    out = call(backend, drawn, **views)
    where = drawn.batch.out_cache_loc
    assert torch.equal(keys[where], wanted["k"])
    assert torch.equal(values[where], wanted["v"])
    ref = attention(wanted["q"], drawn.layer, drawn.batch)
    assert relative_error(out, ref) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_scaling_leaves_room_for_scores(name: str) -> None:
    drawn = scenario(MODES["extend"])
    layer = replace(drawn.layer, scaling=2.0**64)
    backend = create_backend(name, replace(drawn.runner, layers=[layer]))
    backend.init_forward_metadata(drawn.batch)
    out = call(backend, drawn, layer=layer)
    assert relative_error(out, attention(drawn.q, layer, drawn.batch)) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_keys_may_be_left_out_when_they_are_stored(name: str) -> None:
    backend, drawn = ready(name, MODES["extend"])
    call(backend, drawn)
    again = call(backend, drawn, k=None, v=None, save_kv_cache=False)
    assert error_of(again, drawn) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_gradients_and_autocast_change_nothing(name: str) -> None:
    backend, drawn = ready(name, replace(MODES["extend"], sinks=True))
    assert drawn.sinks is not None
    leaves = {key: getattr(drawn, key).clone().requires_grad_() for key in ("q", "k", "v", "sinks")}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = call(backend, drawn, **leaves)
    assert not out.requires_grad
    assert out.dtype is torch.float32
    assert not drawn.runner.token_to_kv_pool.get_kv_buffer(0)[0].requires_grad
    assert error_of(out, drawn) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_inference_mode_can_be_left_and_entered(name: str) -> None:
    with torch.inference_mode():
        backend, drawn = ready(name, MODES["extend"])
        assert error_of(call(backend, drawn), drawn) < 1e-6
    assert error_of(call(backend, drawn), drawn) < 1e-6
    backend.init_forward_metadata(drawn.batch)
    assert error_of(call(backend, drawn), drawn) < 1e-6
    with torch.inference_mode():
        drawn.batch.seq_lens += 1
        with pytest.raises(InvalidInput, match="changed since"):
            call(backend, drawn)


@contextmanager
def other_defaults() -> Iterator[None]:
    """Tensors that name no device and no dtype are float64, and have no values at all."""
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_defaults_of_torch_change_nothing(name: str, mode: str) -> None:
    """A caller whose tensors go to a GPU by default keeps the host's on the host."""
    plain, drawn = ready(name, MODES[mode])
    want = call(plain, drawn)
    with other_defaults():
        backend, again = ready(name, MODES[mode])
        out = call(backend, again)
        assert torch.equal(out, want)
        assert torch.equal(
            attention(again.q, again.layer, again.batch),
            attention(drawn.q, drawn.layer, drawn.batch),
        )
        again.batch.seq_lens += 0
        again.batch.recheck()


def test_every_tensor_that_is_made_names_its_device() -> None:
    """What adapters make cannot all be run here; torch's documentation lists what makes tensors."""
    makes = {
        "arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint",
        "randn", "randperm", "tensor", "zeros",
    }  # fmt: skip
    silent = [
        f"{path.relative_to(ROOM)}:{node.lineno}"
        for path in sorted(ROOM.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in makes) == ("torch", True)
        and not any(keyword.arg == "device" for keyword in node.keywords)
    ]
    assert silent == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", -math.inf),
        ("float32", 20.3),
        ("float32", 1e30),
        ("bfloat16", -1e30),
        ("bfloat16", 20.3),
        ("float16", 8.33),  # more would leave nothing of the output in float16
        ("float16", 1e30),
    ],
)
def test_sinks_of_any_size(name: str, dtype: str, value: float) -> None:
    request = replace(MODES["extend"], sinks=True, dtype=dtype, kv_dtype=dtype)
    backend, drawn = ready(name, request)
    drawn.sinks = torch.full((4,), value)
    out = call(backend, drawn)
    if value == 1e30:
        assert float(out.abs().max()) == 0.0, "everything goes to the sink"
    else:
        limit = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
        assert error_of(out, drawn) < limit


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", sorted(MODES))
def test_nothing_but_the_new_tokens_is_written(name: str, mode: str) -> None:
    backend, drawn = ready(name, MODES[mode])
    kv = drawn.runner.token_to_kv_pool
    before = [x.view(torch.int32).clone() for x in kv.get_kv_buffer(0)]
    call(backend, drawn)
    for old, new in zip(before, kv.get_kv_buffer(0), strict=True):
        changed = (old != new.view(torch.int32)).flatten(1).any(1).nonzero().flatten()
        assert set(changed.tolist()) <= set(drawn.batch.out_cache_loc.tolist())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["decode", "extend", "target_verify", "idle"])
def test_an_empty_batch_has_an_empty_answer(name: str, mode: str) -> None:
    backend, drawn = ready(name, MODES["extend"])
    reqs, kv = drawn.batch.req_to_token_pool, drawn.batch.token_to_kv_pool
    batch = {
        "decode": lambda: ForwardBatch.decode(reqs, kv, [], []),
        "extend": lambda: ForwardBatch.extend(reqs, kv, [], [], []),
        "target_verify": lambda: ForwardBatch.target_verify(reqs, kv, [], [], 3),
        "idle": lambda: ForwardBatch.idle(reqs, kv),
    }[mode]()
    backend.init_forward_metadata(batch)
    out = call(backend, drawn, q=drawn.q[:0], k=drawn.k[:0], v=drawn.v[:0], batch=batch)
    assert out.shape == (0, 4 * 32)


@pytest.mark.parametrize("name", NAMES)
def test_layers_of_one_pass_may_differ(name: str) -> None:
    drawn = scenario(MODES["extend"])
    reqs, batch = drawn.batch.req_to_token_pool, drawn.batch
    kv = MHATokenToKVPool(
        num_pages=drawn.batch.token_to_kv_pool.num_pages,
        page_size=drawn.request.page_size,
        kv_cache_dtype="float32",
        head_num=2,
        head_dim=32,
        layer_num=3,
    )
    kv.poison(torch.arange(kv.num_slots))
    bidirectional = type(drawn.layer.attn_type)("encoder_only")
    layers = [
        drawn.layer,
        replace(drawn.layer, layer_id=1, sliding_window_size=2),
        replace(drawn.layer, layer_id=2, attn_type=bidirectional),
    ]
    backend = create_backend(name, ModelRunner(layers, reqs, kv, torch.float32))
    ids, lengths = batch.req_pool_indices.tolist(), batch.seq_lens.tolist()
    spans = [[(0, 2)] if n > 1 else [] for n in lengths]
    whole = ForwardBatch.extend(reqs, kv, ids, [0] * len(ids), lengths, spans)
    backend.init_forward_metadata(whole)
    assert_layers_right(backend, layers, whole)


# The registry


def test_an_unknown_name_gets_a_suggestion() -> None:
    drawn = scenario(SMALL)
    with pytest.raises(UnknownBackend, match=r"'torch_nativ'; did you mean torch_native\?"):
        create_backend("torch_nativ", drawn.runner)
    with pytest.raises(UnknownBackend, match=r"there are .*flex_attention.*torch_native") as caught:
        create_backend("zzz", drawn.runner)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", [None, [], 3, ("triton",)])
def test_a_name_is_a_string(name: Any) -> None:
    with pytest.raises(UnknownBackend, match="is no name of a backend"):
        create_backend(name, scenario(SMALL).runner)


@pytest.mark.parametrize("runner", [None, "runner", scenario(SMALL).batch])
def test_a_backend_is_made_for_a_runner(runner: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)the runner is .*; it is a ModelRunner"):
        create_backend("torch_native", runner)


def test_a_hybrid_pair_is_no_name() -> None:
    with pytest.raises(UnknownBackend):
        create_backend("torch_native+flex_attention", scenario(SMALL).runner)
