"""Adapters of library kernels against the float64 reference, with the libraries emulated."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import weakref
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from attn_lint.backends import bundled, registry  # noqa: E402, F401  # registers
from attn_lint.backends.interface import base  # noqa: E402
from attn_lint.backends.interface.capabilities import Request  # noqa: E402
from attn_lint.backends.interface.errors import InvalidInput  # noqa: E402
from attn_lint.backends.library import modules, paged  # noqa: E402
from attn_lint.backends.reference import attention, relative_error  # noqa: E402
from attn_lint.backends.registry import CAPABILITIES  # noqa: E402
from attn_lint.backends.verify.scenario import Lengths, Scenario, changed, draw  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from . import emulated  # noqa: E402

MHA = Request(q_heads=4, kv_heads=1, qk_head_dim=64, v_head_dim=64)
MLA = Request(family="mla", page_size=64, q_heads=4, kv_heads=1, qk_head_dim=576, v_head_dim=512)
PAGE = MHA.page_size
VERIFY = {"mode": "target_verify", "draft_tokens": 4}
CELLS: list[tuple[str, Request]] = [
    *[
        (name, replace(MHA, **cell))
        for name in ("flashinfer", "fa3", "fa4", "trtllm_mha", "sgl")
        for cell in (
            {"mode": "decode"},
            {"mode": "extend"},
            {"mode": "extend", "causal": False},
            VERIFY,
            {"mode": "decode", "page_size": 64},
            {"mode": "decode", "window": True},
            {"mode": "extend", "window": True},
            {"mode": "decode", "sinks": True},
            {"mode": "extend", "sinks": True},
        )
    ],
    *[
        (name, replace(MHA, kv_dtype="fp8_e4m3", **cell))
        for name in ("flashinfer", "fa3", "trtllm_mha", "sgl")
        for cell in ({"mode": "decode"}, {"mode": "extend"}, VERIFY)
    ],
    *[("trtllm_mha", replace(MHA, **cell)) for cell in (VERIFY | {"tree": True},)],
    ("trtllm_mha", replace(MHA, mode="target_verify", draft_tokens=20, tree=True)),
    ("trtllm_mha", replace(MHA, mode="target_verify", draft_tokens=1)),
    *[
        ("flashinfer", replace(MHA, **cell))
        for cell in (
            VERIFY | {"tree": True},
            VERIFY | {"tree": True, "window": True},
            {"mode": "extend", "multimodal": True},
            {"mode": "extend", "multimodal": True, "window": True},
            {"mode": "decode", "page_size": 1},
            {"mode": "extend", "page_size": 1},
            {"mode": "decode", "kv_heads": 2},  # on CUDA cores
            {"mode": "decode", "kv_heads": 4, "window": True},
            {"mode": "decode", "kv_heads": 4, "logit_cap": True},
            {"mode": "decode", "logit_cap": True},
            {"mode": "extend", "logit_cap": True},
            {"mode": "decode", "kv_dtype": "fp8_e5m2"},
            {"mode": "decode", "kv_dtype": "fp4_e2m1"},
            {"mode": "extend", "kv_dtype": "fp4_e2m1"},
            {"mode": "extend", "dtype": "float16", "kv_dtype": "float16"},
        )
    ],
    *[
        (name, replace(MLA, **cell))
        for name in ("flashinfer", "fa3", "flashmla")
        for cell in ({"mode": "decode"}, {"mode": "extend"}, VERIFY)
    ],
    ("flashmla", replace(MLA, mode="decode", kv_dtype="fp8_e4m3")),
    ("flashmla", replace(MLA, kv_dtype="fp8_e4m3", **VERIFY)),
]


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Hopper device with every library, as far as adapters can tell."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny
    real = importlib.import_module
    monkeypatch.setattr(
        importlib,
        "import_module",
        lambda name, *a, **b: emulated.LIBRARIES.get(name) or real(name, *a, **b),
    )
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: name == "flashinfer" or found(name, *a)
    )
    monkeypatch.setattr(modules, "missing", lambda names: [])
    monkeypatch.setattr(paged, "WORKSPACE_BYTES", 16)
    monkeypatch.setattr(paged, "module_names", lambda backend, request: [])
    monkeypatch.setattr(paged.PagedWrappers, "_sink_options", lambda self, kind: {"jit_args": []})
    asked = base.AttentionBackend.request

    def on_hopper(self: Any, *args: Any, **options: Any) -> Request:
        return replace(asked(self, *args, **options), device="cuda", capability=(9, 0))

    monkeypatch.setattr(base.AttentionBackend, "request", on_hopper)
    for room in ("flashinfer", "fa3", "trtllm_mha", "flashmla"):
        module = real(f"attn_lint.backends.{room}.backend")
        if hasattr(module, "capability_of"):
            monkeypatch.setattr(module, "capability_of", lambda device: (9, 0))
    for room in ("flashinfer", "fa3", "flashmla"):
        module = real(f"attn_lint.backends.{room}.backend")
        monkeypatch.setattr(module.latent, "module_names", lambda backend, request: [])
    module = real("attn_lint.backends.trtllm_mha.backend")
    monkeypatch.setattr(module, "module_names", lambda request: [])
    yield
    torch.set_num_threads(threads)


def create(name: str, scenario: Scenario) -> base.AttentionBackend:
    backend = registry.ATTENTION_BACKENDS["fa3" if name == "sgl" else name](scenario.runner)
    if name == "sgl":
        backend._uses_sgl = True  # type: ignore[attr-defined]
    return backend


def error_of(backend: base.AttentionBackend, scenario: Scenario) -> float:
    batch, n = scenario.batch, scenario.batch.num_tokens
    out = backend.forward(
        scenario.q[:n], scenario.k[:n], scenario.v[:n], scenario.layer, batch, sinks=scenario.sinks
    )
    assert out.shape == (n, scenario.layer.tp_q_head_num * scenario.layer.v_head_dim)
    assert out.dtype is scenario.runner.dtype
    want = attention(scenario.q[:n], scenario.layer, batch, scenario.sinks)
    return relative_error(out, want)


def held_by(backend: Any) -> list[int]:
    """Addresses that a captured pass reads besides the pool and the batch."""
    found: list[int] = []
    engines = [backend, *(getattr(backend, a, None) for a in ("_paged", "_latent", "_engine"))]
    for engine in engines:
        for planned in getattr(engine, "_planned", {}).values():
            wrapper = getattr(planned, "wrapper", planned)
            assert wrapper.buffers is not None, "planned without the buffers of a graph"
            found += [x.data_ptr() for x in wrapper.buffers.values() if x is not None]
        if (now := getattr(engine, "_pass", None)) is not None:
            found += [x.data_ptr() for x in (now.table, now.kv_lens, *now.more.values())]
    return found


def limit(name: str, request: Request) -> float:
    """Narrow queries cost the emulated kernels what they cost the real ones."""
    narrow = CAPABILITIES["fa3" if name == "sgl" else name].tolerances
    return narrow.get((request.dtype, request.kv_dtype), 5e-3)


@pytest.mark.parametrize(("name", "request_"), CELLS, ids=str)
def test_right(name: str, request_: Request) -> None:
    scenario = draw(request_, 1, longest=70)
    backend = create(name, scenario)
    backend.init_forward_metadata(scenario.batch)
    assert error_of(backend, scenario) < limit(name, request_)


@pytest.mark.parametrize(
    ("name", "request_"),
    [(n, r) for n, r in CELLS if r.mode != "extend"],
    ids=str,
)
def test_replays_with_other_lengths(name: str, request_: Request) -> None:
    """A captured batch is refilled, prepared outside of the graph, and run with its buffers."""
    scenario = draw(request_, 2, longest=70)
    backend = create(name, scenario)
    size = scenario.batch.batch_size
    backend.init_cuda_graph_state(size, scenario.batch.num_tokens)
    backend.init_forward_metadata_out_graph(scenario.batch, in_capture=True)
    backend.init_forward_metadata_in_graph(scenario.batch)
    assert error_of(backend, scenario) < limit(name, request_)
    held = held_by(backend)
    assert held
    static, lens = scenario.batch, scenario.batch.kv_lens_cpu.tolist()
    new = request_.draft_tokens or 1
    shorter = tuple(max(0, (n - new) * 2 // 3) for n in lens)
    fewer = size - 1
    other = changed(scenario, Lengths(shorter[:fewer], (new,) * fewer))
    real = static.load_(other)
    assert real == fewer
    backend.init_forward_metadata_out_graph(static)
    backend.init_forward_metadata_in_graph(static)
    assert held_by(backend) == held  # what a graph has recorded is what is filled
    n = fewer * new
    rows = [x[: static.num_tokens] for x in (scenario.q, scenario.k, scenario.v)]
    out = backend.forward(*rows, scenario.layer, static, sinks=scenario.sinks)
    want = attention(scenario.q[:n], scenario.layer, other, scenario.sinks)
    assert relative_error(out[:n], want) < limit(name, request_)


@pytest.mark.parametrize("name", ["flashinfer", "fa3", "fa4", "trtllm_mha", "sgl"])
def test_a_captured_extend_keeps_its_plan(name: str) -> None:
    """Another pass in between must not pull the plan from under a captured one."""
    request = replace(MHA, mode="extend")
    scenario = draw(request, 4, longest=70)
    backend = create(name, scenario)
    backend.init_cuda_graph_state(scenario.batch.batch_size, scenario.batch.num_tokens)
    backend.init_forward_metadata_out_graph(scenario.batch, in_capture=True)
    backend.init_forward_metadata_in_graph(scenario.batch)
    assert error_of(backend, scenario) < limit(name, request)
    lens = scenario.batch.kv_lens_cpu.tolist()
    other = changed(scenario, Lengths(tuple(n - 1 for n in lens), (1,) * len(lens)))
    backend.init_forward_metadata(other)
    backend.init_forward_metadata_out_graph(scenario.batch)
    assert error_of(backend, scenario) < limit(name, request)


def captured_extend(name: str = "flashinfer") -> tuple[Any, Scenario]:
    """A backend, and a captured extend of three requests in seven pages of eight."""
    request = replace(MHA, mode="extend")
    scenario = draw(request, 5, lengths=Lengths((40, 20, 0), (5, 3, 9)))
    backend = create(name, scenario)
    backend.init_cuda_graph_state(3, scenario.batch.num_tokens)
    backend.init_forward_metadata_out_graph(scenario.batch, in_capture=True)
    return backend, scenario


def moved(scenario: Scenario) -> None:
    """Put the first page of the first request, none of its new tokens, where there is room."""
    reqs, pool = scenario.batch.req_to_token_pool, scenario.batch.token_to_kv_pool
    used = set((reqs.host[reqs.host >= 0] // PAGE).tolist())
    free = next(page for page in range(1, pool.num_pages) if page not in used)
    old = int(reqs.host[scenario.ids[0], 0])
    for buffer in (pool.k_buffer[0], pool.v_buffer[0]):
        buffer[free * PAGE : (free + 1) * PAGE] = buffer[old : old + PAGE].flip(0)
    reqs.write(scenario.ids[0], range(free * PAGE, (free + 1) * PAGE))


@pytest.mark.parametrize(("name", "request_"), [("trtllm_mha", MHA), ("flashmla", MLA)], ids=str)
def test_room_for_extends_is_made_for_extends_alone(name: str, request_: Request) -> None:
    """FlashInfer's workspace is large, and graphs of decodes need none."""
    scenario = draw(request_, 10, longest=70)
    backend: Any = create(name, scenario)
    batch = scenario.batch
    backend.init_cuda_graph_state(batch.batch_size, batch.num_tokens)
    backend.init_forward_metadata_out_graph(batch, in_capture=True)
    backend.init_forward_metadata_in_graph(batch)
    assert error_of(backend, scenario) < 5e-3
    assert backend._extend_wrappers is None
    extend = replace(request_, mode="extend")
    lens = batch.kv_lens_cpu.tolist()
    scenario.batch = changed(
        scenario, Lengths(tuple(n - 1 for n in lens), (1,) * len(lens)), extend
    )
    backend.init_forward_metadata_out_graph(scenario.batch, in_capture=True)
    made = backend._extend_wrappers
    backend.init_forward_metadata_in_graph(scenario.batch)
    assert error_of(backend, scenario) < 5e-3
    assert made is backend._extend_wrappers is not None


@pytest.mark.parametrize("error", [ImportError, OSError])
def test_a_build_of_sgl_kernel_without_its_kernel_is_passed_over(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = draw(MHA, 11, longest=70)
    found, imported = importlib.util.find_spec, importlib.import_module
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: name == "sgl_kernel" or found(name, *a)
    )
    assert create("fa3", scenario)._uses_sgl  # type: ignore[attr-defined]

    def broken(name: str, *args: Any) -> Any:
        if name.startswith("sgl_kernel"):
            raise error(name)
        return imported(name, *args)

    monkeypatch.setattr(importlib, "import_module", broken)
    backend = create("fa3", scenario)
    backend.init_forward_metadata(scenario.batch)
    assert error_of(backend, scenario) < 5e-3
    assert isinstance(backend._engine, paged.PagedWrappers)  # type: ignore[attr-defined]


def test_a_changed_captured_extend_is_refused_until_it_is_captured_anew() -> None:
    backend, scenario = captured_extend()
    moved(scenario)
    with pytest.raises(InvalidInput, match="capture it anew"):
        backend.init_forward_metadata_out_graph(scenario.batch)
    for in_capture in (True, False):
        backend.init_forward_metadata_out_graph(scenario.batch, in_capture=in_capture)
        assert error_of(backend, scenario) < 5e-3


def test_a_captured_extend_minds_its_own_requests_alone() -> None:
    backend, scenario = captured_extend()
    reqs = scenario.batch.req_to_token_pool
    other = next(i for i in range(1, reqs.size + 1) if i not in scenario.ids)
    reqs.write(other, reqs.host[scenario.ids[0], :20].clone())
    reqs.write(scenario.ids[0], reqs.host[scenario.ids[0], :20].clone())  # as they are
    backend.init_forward_metadata_out_graph(scenario.batch)
    assert error_of(backend, scenario) < 5e-3


@pytest.mark.parametrize("name", ["flashinfer", "fa3"])
def test_plans_of_captured_extends_go_with_their_batch(name: str) -> None:
    backend, scenario = captured_extend(name)
    plans = weakref.WeakSet(planned.wrapper for planned in backend._engine._planned.values())
    scenario.batch = changed(scenario, Lengths((40, 20, 0), (5, 3, 9)))
    for _ in range(2):  # the second one takes the place of the first
        backend.init_forward_metadata_out_graph(scenario.batch, in_capture=True)
        plans |= {planned.wrapper for planned in backend._engine._planned.values()}
    gc.collect()
    assert len(plans) == 1


class Launched(TorchDispatchMode):
    """Notes every operation that is more than a view or room for an output."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view and func.overloadpacket.__name__ not in ("new_empty", "empty"):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


def replace_kernel(backend: Any, name: str, scenario: Scenario) -> list[object]:
    """Let the library's kernel do nothing from now on; the list gets its calls."""
    layer = scenario.layer
    out = torch.zeros(scenario.batch.num_tokens, layer.tp_q_head_num, layer.v_head_dim)
    out = out.to(scenario.runner.dtype)
    calls: list[object] = []

    def kernel(*args: Any, **options: Any) -> tuple[torch.Tensor, None]:
        calls.append(args or options)
        return out, None

    engines = [getattr(backend, a, None) for a in ("_paged", "_latent", "_engine")]
    for engine in (*engines, getattr(backend, "_extend_wrappers", None)):
        for planned in getattr(engine, "_planned", {}).values():
            getattr(planned, "wrapper", planned).run = kernel
    if name in ("trtllm_mha", "flashmla"):
        backend._library = SimpleNamespace(
            decode=SimpleNamespace(trtllm_batch_decode_with_kv_cache=kernel),
            get_mla_metadata=lambda: (SimpleNamespace(), None),
            flash_mla_with_kvcache=kernel,
        )
    if name == "sgl":
        backend._engine.library = SimpleNamespace(
            flash_attn_with_kvcache=lambda **options: kernel(**options)[0]
        )
    return calls


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("trtllm_mha", replace(MHA, mode="decode")),
        ("trtllm_mha", replace(MHA, mode="decode", kv_dtype="fp8_e4m3")),
        ("trtllm_mha", replace(MHA, tree=True, **VERIFY)),
        ("trtllm_mha", replace(MHA, mode="extend")),
        ("flashinfer", replace(MHA, mode="decode")),
        ("flashinfer", replace(MHA, mode="extend")),
        ("flashinfer", replace(MLA, mode="decode")),
        ("fa3", replace(MHA, mode="decode")),
        ("fa3", replace(MHA, mode="decode", sinks=True)),
        ("flashmla", replace(MLA, mode="decode")),
    ],
    ids=str,
)
def test_a_graph_records_the_kernel_alone(name: str, request_: Request) -> None:
    """Around the library's call a captured forward launches nothing of its own."""
    scenario = draw(request_, 6, longest=70)
    backend: Any = create(name, scenario)
    batch, layer = scenario.batch, scenario.layer
    backend.init_cuda_graph_state(batch.batch_size, batch.num_tokens)
    backend.init_forward_metadata_out_graph(batch, in_capture=True)
    backend.init_forward_metadata_in_graph(batch)
    calls = replace_kernel(backend, name, scenario)
    with Launched() as launched:
        backend.forward(
            scenario.q, scenario.k, scenario.v, layer, batch, False, sinks=scenario.sinks
        )
    assert len(calls) == 1
    assert launched.found == []


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("sgl", replace(MHA, kv_dtype="fp8_e4m3")),
        ("sgl", replace(MHA, kv_dtype="fp8_e4m3", mode="extend")),
        ("fa3", replace(MHA, kv_dtype="fp8_e4m3")),
        ("flashmla", replace(MLA, kv_dtype="fp8_e4m3")),
    ],
    ids=str,
)
def test_scales_are_made_before_a_capture(name: str, request_: Request) -> None:
    """Of every layer, though one of each kind warms up: a capture only records what makes them."""
    scenario = draw(request_, 9, longest=70, layer_num=3)
    backend: Any = create(name, scenario)
    batch = scenario.batch
    backend.init_cuda_graph_state(batch.batch_size, batch.num_tokens)
    backend.init_forward_metadata_out_graph(batch, in_capture=True)
    backend.init_forward_metadata_in_graph(batch)
    calls = replace_kernel(backend, name, scenario)
    with Launched() as launched:
        for layer in scenario.runner.layers:
            backend.forward(scenario.q, scenario.k, scenario.v, layer, batch, False)
    assert len(calls) == 3
    assert {op.split(".")[1] for op in launched.found} <= {"clamp", "_to_copy"}  # the queries


@pytest.mark.parametrize("captured", [False, True])
def test_bounds_of_a_generated_extend(captured: bool) -> None:
    scenario = draw(replace(MHA, mode="extend"), 7, longest=70)
    batch = scenario.batch
    backend: Any = create("trtllm_mha", scenario)
    backend.kernel = "trtllm-gen"
    seen: dict[str, Any] = {}
    backend._library = SimpleNamespace(
        prefill=SimpleNamespace(trtllm_batch_context_with_kv_cache=lambda **o: seen.update(o))
    )
    backend.init_cuda_graph_state(batch.batch_size, batch.num_tokens)
    backend.init_forward_metadata_out_graph(batch, in_capture=captured)
    backend.init_forward_metadata_in_graph(batch)
    backend.forward(scenario.q, scenario.k, scenario.v, scenario.layer, batch)
    for name, lengths in (
        ("cum_seq_lens_q", batch.query_lens_cpu),
        ("cum_seq_lens_kv", batch.kv_lens_cpu.tolist()),
    ):
        assert seen[name].dtype is torch.int32
        assert seen[name].tolist() == [sum(lengths[:i]) for i in range(len(lengths) + 1)]


class Device:
    """A CUDA device as a planner sees it: a stream whose copies are made when they are waited for.

    Wrappers have one host buffer each, so that none may be planned while a copy of it is queued.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queued: set[object] = set()
        self.plans = 0
        device = self

        class Event:
            def record(self, stream: object) -> None:
                assert stream is device
                self.behind = set(device.queued)

            def synchronize(self) -> None:
                device.queued -= self.behind

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda where: self)
        for wrapper in (emulated.Prefill, emulated.Decode, emulated.Latent):
            monkeypatch.setattr(wrapper, "plan", self.queueing(wrapper.plan))

    def queueing(self, plan: Any) -> Any:
        def queued(wrapper: object, *args: Any, **options: Any) -> None:
            assert wrapper not in self.queued, "the plan of an earlier pass is overwritten"
            plan(wrapper, *args, **options)
            self.queued.add(wrapper)
            self.plans += 1

        return queued


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("request_", [MHA, replace(MHA, kv_heads=2), MLA], ids=str)
def test_a_queued_plan_is_not_overwritten(
    request_: Request, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(monkeypatch)
    scenario = draw(request_, 8, longest=70)
    backend: Any = create("flashinfer", scenario)
    backend.init_cuda_graph_state(scenario.batch.batch_size, scenario.batch.num_tokens)
    backend._engine._planner.device = torch.device("cuda")
    for _ in range(3):
        backend.init_forward_metadata_out_graph(scenario.batch, in_capture=captured)
    assert device.plans == 3
    assert device.queued  # nothing waits for the last one
