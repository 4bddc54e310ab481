"""Adapters of library kernels against the float64 reference, with the libraries emulated."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
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

from . import emulated  # noqa: E402

MHA = Request(q_heads=4, kv_heads=1, qk_head_dim=64, v_head_dim=64)
MLA = Request(family="mla", page_size=64, q_heads=4, kv_heads=1, qk_head_dim=576, v_head_dim=512)
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
        importlib, "import_module", lambda name, *a: emulated.LIBRARIES.get(name) or real(name, *a)
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
        if (metadata := getattr(engine, "_metadata", None)) is not None:
            tensors = (getattr(metadata, a, None) for a in ("table", "kv_lens", "words"))
            found += [x.data_ptr() for x in tensors if x is not None]
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


def test_a_changed_captured_extend_is_refused() -> None:
    scenario = draw(replace(MHA, mode="extend"), 5, longest=70)
    backend = create("flashinfer", scenario)
    backend.init_forward_metadata_out_graph(scenario.batch, in_capture=True)
    reqs = scenario.batch.req_to_token_pool
    request = int(scenario.batch.req_pool_indices_cpu[0])
    reqs.write(request, reqs.host[request, :1].clone())
    with pytest.raises(InvalidInput, match="capture it anew"):
        backend.init_forward_metadata_out_graph(scenario.batch)
