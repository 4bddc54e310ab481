"""Adapters of library kernels on a CUDA device: eager, and replayed in a graph.

Skipped without one. `attn-lint verify --device cuda` asks far more; this is the quick look.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from attn_lint.backends import bundled  # noqa: E402, F401  # registers
from attn_lint.backends.interface.base import AttentionBackend, capability_of  # noqa: E402
from attn_lint.backends.interface.capabilities import Request  # noqa: E402
from attn_lint.backends.interface.errors import NotInstalled, Refused  # noqa: E402
from attn_lint.backends.reference import attention, relative_error  # noqa: E402
from attn_lint.backends.registry import CAPABILITIES, create_backend  # noqa: E402
from attn_lint.backends.verify.scenario import Lengths, Scenario, changed, draw  # noqa: E402

# Kernel libraries warn of one another: FlashInfer calls what CuTe DSL has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore")

HERE = capability_of(torch.device("cuda"))
MHA = Request(device="cuda", capability=HERE, q_heads=8, kv_heads=2)
MLA = replace(
    MHA, family="mla", page_size=64, q_heads=16, kv_heads=1, qk_head_dim=576, v_head_dim=512
)
VERIFY: dict[str, Any] = {"mode": "target_verify", "draft_tokens": 4}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"page_size": 1},
    {"page_size": 64},
    {"page_size": 128},
    {"window": True},
    {"sinks": True},
    {"sinks": True, "window": True},
    {"logit_cap": True},
    {"kv_dtype": "fp8_e4m3"},
    {"kv_dtype": "fp8_e5m2"},
    {"kv_dtype": "fp4_e2m1"},
    {"dtype": "float16", "kv_dtype": "float16"},
    {"q_heads": 4, "kv_heads": 4},
]
#: What extend and verify are looked at with; most kernels are shared with decode.
FEWER = OPTIONS[:2] + OPTIONS[4:6] + OPTIONS[8:9]
CELLS = [
    *[replace(MHA, mode="decode", **option) for option in OPTIONS],
    *[replace(MHA, **mode, **option) for mode in ({"mode": "extend"}, VERIFY) for option in FEWER],
    replace(MHA, mode="extend", causal=False),
    replace(MHA, mode="extend", multimodal=True),
    replace(MHA, tree=True, **VERIFY),
    replace(MHA, tree=True, window=True, **VERIFY),
    *[replace(MLA, **mode) for mode in ({"mode": "decode"}, {"mode": "extend"}, VERIFY)],
    replace(MLA, mode="decode", kv_dtype="fp8_e4m3"),
    replace(MLA, kv_dtype="fp8_e4m3", **VERIFY),
]
CASES = [
    (name, request)
    for name in ("flashinfer", "fa3", "fa4", "trtllm_mha", "flashmla")
    for request in CELLS
    if not CAPABILITIES[name].refusals(request)
]


def prepared(name: str, request: Request, seed: int) -> tuple[Scenario, AttentionBackend]:
    scenario = draw(request, seed)
    try:
        return scenario, create_backend(name, scenario.runner)
    except NotInstalled as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "request_"), CASES, ids=str)
def test_right(name: str, request_: Request) -> None:
    scenario, backend = prepared(name, request_, 1)
    try:
        backend.init_forward_metadata(scenario.batch)
    except Refused as error:
        if any(not refusal.traits for refusal in error.refusals):
            pytest.skip(str(error))  # a module that is not built
        raise
    out = backend.forward(
        scenario.q, scenario.k, scenario.v, scenario.layer, scenario.batch, sinks=scenario.sinks
    )
    want = attention(scenario.q, scenario.layer, scenario.batch, scenario.sinks)
    assert relative_error(out, want) < CAPABILITIES[name].tolerance(request_)


REPLAYED = [
    (name, request)
    for name, request in CASES
    if request.mode != "extend" and (request.same_dtype or request.kv_dtype == "fp8_e4m3")
]


@pytest.mark.parametrize(("name", "request_"), REPLAYED, ids=str)
def test_replayed(name: str, request_: Request) -> None:
    """Captured once, with no call before, then replayed with other lengths and fewer requests."""
    scenario, backend = prepared(name, request_, 2)
    static, layer = scenario.batch, scenario.layer
    backend.init_cuda_graph_state(static.batch_size, static.num_tokens)
    try:
        backend.init_forward_metadata_out_graph(static, in_capture=True)
    except Refused as error:
        if any(not refusal.traits for refusal in error.refusals):
            pytest.skip(str(error))
        raise

    def call() -> torch.Tensor:
        backend.init_forward_metadata_in_graph(static)
        return backend.forward(
            scenario.q, scenario.k, scenario.v, layer, static, sinks=scenario.sinks
        )

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    new = request_.draft_tokens or 1
    lens = [max(0, (n - new) * 2 // 3) for n in static.kv_lens_cpu.tolist()][:-1]
    other = changed(scenario, Lengths(tuple(lens), (new,) * len(lens)))
    static.load_(other)
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            # torch says each time that the mode is a prototype.
            warnings.simplefilter("ignore", UserWarning)
            torch.cuda.set_sync_debug_mode("error")
        backend.init_forward_metadata_out_graph(static)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            torch.cuda.set_sync_debug_mode("default")
    out.fill_(float("nan"))
    graph.replay()
    n = other.num_tokens
    want = attention(scenario.q[:n], layer, other, scenario.sinks)
    assert relative_error(out[:n], want) < CAPABILITIES[name].tolerance(request_)
