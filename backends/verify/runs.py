"""Runs one probe of one backend from a seed, on this process's device.

A way of running (`run` of a probe) builds its scenario, drives the backend through its public
methods and yields pairs of an output and its reference. `attempt` turns what happens into an
`Outcome`; it is the one place that knows what counts as right.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from ..hybrid import HybridAttnBackend
from ..interface.base import AttentionBackend
from ..interface.batch import ForwardBatch
from ..interface.capabilities import Request
from ..interface.errors import InvalidInput, NotInstalled, Refused
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..interface.staging import HOST
from ..reference import attention
from ..registry import capabilities_of, create_backend
from .damage import damaged
from .outcome import CRASHED, REFUSED, RIGHT, UNAVAILABLE, WRONG, Outcome
from .poison import poisoned_memory
from .probes import SETTINGS, Task
from .scenario import Lengths, Scenario, changed, draw, fill, tensors

#: A single query may be off by this much more than the whole: what one bad row does to a norm
#: over hundreds is little.
ROW_FACTOR = 5.0
#: Longest prefix by device, in tokens; pages that are larger bring longer ones.
LONGEST = {"cpu": 45, "cuda": 300}
#: Most requests of a batch by device, lengths of kind `many` aside.
REQUESTS = {"cpu": 4, "cuda": 8}


class Answered(Exception):
    """A call that was to be refused gave an answer, or left its traces."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An output, and what it should be."""

    out: torch.Tensor  # [tokens, q_heads * v_head_dim]
    ref: torch.Tensor  # [tokens, q_heads, v_head_dim], float64


Runs = Callable[[Task, int, Sequence[str]], Iterator[Pair]]
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # queries, keys and values of new tokens


def attempt(task: Task, seed: int, partners: Sequence[str] = ()) -> Outcome:
    """Run a probe once. `partners` are the other backends that run here (for hybrids)."""
    tolerance = capabilities_of(task.backend).tolerance(task.request)
    try:
        error, row = _measure(RUNS[task.probe.run](task, _mixed(task, seed), partners))
    except Refused as refused:
        return _refused(task, refused)
    except NotInstalled as missing:
        return Outcome(UNAVAILABLE, str(missing))
    except Answered as answered:
        return Outcome(WRONG, str(answered))
    except Exception as crash:
        return Outcome(CRASHED, f"{type(crash).__name__}: {crash}")
    if task.refusals:
        reasons = "; ".join(refusal.reason for refusal in task.refusals)
        return Outcome(WRONG, f"answers what it declares to refuse: {reasons}")
    # NaN compares false: written so that it is never right.
    if error <= tolerance and row <= ROW_FACTOR * tolerance:
        return Outcome(RIGHT, error=error, row=row)
    if error <= tolerance:
        return Outcome(WRONG, f"one query is off by {row:.1e} of its norm", error, row)
    return Outcome(WRONG, f"off by {error:.1e} of the norm, tolerance {tolerance:g}", error, row)


def _refused(task: Task, refused: Refused) -> Outcome:
    text = "; ".join(refusal.reason for refusal in refused.refusals)
    if any(not refusal.traits for refusal in refused.refusals):
        return Outcome(UNAVAILABLE, text)  # something is not built here
    if task.refusals:
        return Outcome(REFUSED, text)
    return Outcome(WRONG, f"refuses what it declares to carry: {text}")


def _mixed(task: Task, seed: int) -> int:
    """A seed of this probe's own, so that probes don't all see the same lengths."""
    return zlib.crc32(" ".join((*task.key[1:], str(seed))).encode())


def _measure(pairs: Iterable[Pair]) -> tuple[float, float]:
    """The largest relative error of all outputs, and of any single query of any head.

    Infinite where either is no number. Raises where nothing was compared, which proves nothing.
    """
    found: list[tuple[float, float]] = []
    for pair in pairs:
        out = pair.out.double().view(pair.ref.shape)
        if out.numel() == 0:
            continue
        difference = out - pair.ref
        rows = difference.norm(dim=-1) / pair.ref.norm(dim=-1).clamp(min=1e-30)
        # In one copy: each would be waited for.
        whole, row = torch.stack((difference.norm() / pair.ref.norm(), rows.max())).tolist()
        if not (math.isfinite(whole) and math.isfinite(row)):
            return math.inf, math.inf
        found.append((whole, row))
    if not found:
        raise RuntimeError("no output was compared with its reference")
    return max(whole for whole, _ in found), max(row for _, row in found)


def _draw(task: Task, seed: int, *, layer_num: int = 1, request: Request | None = None) -> Scenario:
    setting = {**SETTINGS, **task.probe.settings}
    request = request or task.request
    return draw(
        request,
        seed,
        longest=max(LONGEST[request.device], 2 * request.page_size + 2),
        window=setting["window_size"],
        spare=setting["spare"],
        kind=setting["lengths"],
        most=REQUESTS[request.device],
        layer_num=layer_num,
    )


def _forward(
    backend: AttentionBackend, scenario: Scenario, batch: ForwardBatch, layer: AttentionLayer
) -> Pair:
    """One layer of a batch whose metadata is ready."""
    q, k, v = tensors(scenario.request, scenario.runner, batch.num_tokens, scenario.generator)
    with poisoned_memory(batch.device, batch.num_tokens * layer.tp_q_head_num * layer.v_head_dim):
        out = backend.forward(q, k, v, layer, batch, sinks=scenario.sinks)
    return Pair(out, attention(q, layer, batch, scenario.sinks))


def _plan(task: Task, backend: AttentionBackend, scenario: Scenario, *, graph: bool) -> None:
    """Prepare a pass; what is declared as refused must be, with nothing touched."""
    batch = scenario.batch
    with poisoned_memory(batch.device, 1 << 16):
        if not task.refusals:
            _init(backend, batch, graph=graph)
            return
    before = _contents(scenario.runner)
    refused: Refused | None = None
    try:
        _init(backend, batch, graph=graph)
    except Refused as error:
        refused = error
    try:
        backend.forward(
            scenario.q, scenario.k, scenario.v, scenario.layer, batch, sinks=scenario.sinks
        )
    except (Refused, InvalidInput):
        pass
    else:
        raise Answered(_declared(task, "answers"))
    if refused is None:
        raise Answered(_declared(task, "plans"))
    if any(not torch.equal(a, b) for a, b in zip(before, _contents(scenario.runner), strict=True)):
        raise Answered(_declared(task, "stores keys and values for"))
    raise refused


def _declared(task: Task, verb: str) -> str:
    reasons = "; ".join(refusal.reason for refusal in task.refusals)
    return f"{verb} what it declares to refuse: {reasons}"


def _init(backend: AttentionBackend, batch: ForwardBatch, *, graph: bool) -> None:
    if graph:
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
    else:
        backend.init_forward_metadata(batch)


def _contents(runner: ModelRunner) -> list[torch.Tensor]:
    """A copy of the bytes of every buffer of the pool."""
    pool = runner.token_to_kv_pool
    found = []
    for layer in runner.layers:
        for buffer in pool.get_kv_buffer(layer.layer_id):
            found.append(buffer.contiguous().view(torch.uint8).clone())
    return found


# The ways of running


def _eager(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    scenario = _draw(task, seed)
    backend = create_backend(task.backend, scenario.runner)
    _plan(task, backend, scenario, graph=False)
    yield _forward(backend, scenario, scenario.batch, scenario.layer)


def _layers(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    """Layers of two kinds after one planning, twice each."""
    scenario = _draw(task, seed, layer_num=4)
    backend = create_backend(task.backend, scenario.runner)
    _plan(task, backend, scenario, graph=False)
    for layer in scenario.runner.layers:
        yield _forward(backend, scenario, scenario.batch, layer)


def _idle(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    scenario = _draw(task, seed)
    backend = create_backend(task.backend, scenario.runner)
    pool = scenario.batch.token_to_kv_pool
    batch = ForwardBatch.idle(scenario.batch.req_to_token_pool, pool)
    backend.init_forward_metadata(batch)
    layer = scenario.layer
    q, k, v = scenario.q[:0], scenario.k[:0], scenario.v[:0]
    out = backend.forward(q, k, v, layer, batch, sinks=scenario.sinks)
    if out.shape != (0, layer.tp_q_head_num * layer.v_head_dim):
        raise Answered(f"an idle pass gives {list(out.shape)}")
    # A pass with requests after it is not disturbed.
    backend.init_forward_metadata(scenario.batch)
    yield _forward(backend, scenario, scenario.batch, layer)


def _life(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    scenario = _life_scenario(task, seed)
    backend = create_backend(task.backend, scenario.runner)
    yield from _passes(task, scenario, backend, ("extend", "decode", "target_verify"))


def _hybrid(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    """A request's life, its passes shared with another backend; which one is drawn."""
    verify_by = task.probe.settings.get("verify_by", "prefill")
    mine = {"decode": "decode", "extend": "prefill"}.get(task.probe.mode, verify_by)
    able = [name for name in partners if _carries(name, task.request)]
    if not able:
        raise NotInstalled("another backend", "no other backend that runs here carries this call")
    scenario = _life_scenario(task, seed)
    runner = replace(scenario.runner, speculative_attention_mode=verify_by)
    partner = create_backend(random.Random(seed).choice(able), runner)
    backend = create_backend(task.backend, runner)
    pair = (backend, partner) if mine == "prefill" else (partner, backend)
    hybrid = HybridAttnBackend(*pair)
    for mode, expected in (("extend", pair[0]), ("decode", pair[1])):
        batch = _pass(scenario, mode, [1], [2])
        if hybrid.select(batch.forward_mode) is not expected:
            raise Answered(f"the hybrid gives {mode} to the wrong backend")
    verify = _pass(scenario, "target_verify", [1], [4])
    if hybrid.select(verify.forward_mode) is not pair[verify_by == "decode"]:
        raise Answered("the hybrid gives target verify to the wrong backend")
    yield from _passes(task, scenario, hybrid, ("extend", "decode", "target_verify"))


def _carries(name: str, request: Request) -> bool:
    """A backend carries all three passes of a call."""
    capabilities = capabilities_of(name)
    return not any(
        capabilities.refusals(replace(request, mode=mode, draft_tokens=drafts))
        for mode, drafts in (("extend", 0), ("decode", 0), ("target_verify", 4))
    )


def _life_scenario(task: Task, seed: int) -> Scenario:
    """A scenario of three requests with room for all passes of a life."""
    page = task.request.page_size
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(20, 20 + 2 * page, (3,), generator=generator, device=HOST).tolist()
    request = replace(task.request, mode="extend", draft_tokens=0)
    return draw(request, seed, lengths=Lengths((0,) * 3, tuple(n + 30 for n in lengths)))


def _pass(scenario: Scenario, mode: str, prefix: Sequence[int], new: Sequence[int]) -> ForwardBatch:
    drafts = new[0] if mode == "target_verify" else 0
    request = replace(scenario.request, mode=mode, draft_tokens=drafts, tree=False)
    return changed(scenario, Lengths(tuple(prefix), tuple(new)), request)


def _passes(
    task: Task, scenario: Scenario, backend: AttentionBackend, modes: Sequence[str]
) -> Iterator[Pair]:
    """Two chunks of prefill, two decodes, a verify of which a part is accepted, a decode."""
    totals = [int(n) for n in scenario.batch.seq_lens_cpu]
    cached = [0] * len(totals)
    first = [(n - 20) // 2 for n in totals]
    rest = [n - 20 - part for n, part in zip(totals, first, strict=True)]
    one, four = [1] * len(totals), [4] * len(totals)
    accepted = [1, 3, 4][: len(totals)]
    for mode, new, kept in (
        ("extend", first, first),
        ("extend", rest, rest),
        ("decode", one, one),
        ("decode", one, one),
        ("target_verify", four, accepted),
        ("decode", one, one),
    ):
        batch = _pass(scenario, mode, cached, new)
        backend.init_forward_metadata(batch)
        yield _forward(backend, scenario, batch, scenario.layer)
        cached = [n + k for n, k in zip(cached, kept, strict=True)]


def _bad(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    scenario = _draw(task, seed)
    backend = create_backend(task.backend, scenario.runner)
    kind = task.probe.settings["damage"]
    call = damaged(kind, scenario)
    try:
        if call.plan:
            backend.init_forward_metadata(scenario.batch)
        backend.forward(call.q, scenario.k, scenario.v, scenario.layer, scenario.batch)
    except InvalidInput:
        pass
    else:
        raise Answered(f"answers a call with damage ({kind})")
    if scenario.batch.device.type == "cuda":
        torch.cuda.synchronize()
    # The process is as good as before.
    again = _draw(task, seed + 1)
    other = create_backend(task.backend, again.runner)
    other.init_forward_metadata(again.batch)
    yield _forward(other, again, again.batch, again.layer)


def _graph(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
    """Capture a pass of all layers in the documented order of calls and no other, then replay it.

    A call before the capture would make what a backend makes late, and hide that it does. Between
    two replays there is an eager pass of other lengths.
    """
    scenario = _draw(task, seed, layer_num=task.probe.settings.get("layers", 1))
    backend = create_backend(task.backend, scenario.runner)
    batch, layers = scenario.batch, scenario.runner.layers
    if not task.refusals:
        backend.init_cuda_graph_state(batch.batch_size, batch.num_tokens)
    _plan(task, backend, scenario, graph=True)

    def drawn() -> Inputs:
        return tensors(task.request, scenario.runner, batch.num_tokens, scenario.generator)

    inputs = [(scenario.q, scenario.k, scenario.v), *(drawn() for _ in layers[1:])]

    def forward() -> list[torch.Tensor]:
        backend.init_forward_metadata_in_graph(batch)
        return [
            backend.forward(q, k, v, layer, batch, sinks=scenario.sinks)
            for (q, k, v), layer in zip(inputs, layers, strict=True)
        ]

    between = _halved(scenario)
    outs, replay = captured(forward)
    for number, other in enumerate(_replays(scenario)):
        if number == 1:
            fill(scenario, between)
            backend.init_forward_metadata(between)
            for layer in layers:
                yield _forward(backend, scenario, between, layer)
        fill(scenario, other)
        for mine in inputs:
            for held, new in zip(mine, drawn(), strict=True):
                held.copy_(new)
        if other is not batch:
            batch.load_(other)
        backend.init_forward_metadata_out_graph(batch)
        for out in outs:
            out.fill_(float("nan"))
        replay()
        tokens = other.num_tokens
        for (q, _, _), layer, out in zip(inputs, layers, outs, strict=True):
            want = attention(q[:tokens], layer, other, scenario.sinks)
            yield Pair(out[:tokens].clone(), want)


def captured(
    forward: Callable[[], list[torch.Tensor]],
) -> tuple[list[torch.Tensor], Callable[[], None]]:
    """Outputs of a call that is recorded in a CUDA graph, and what replays the graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = forward()
    return outs, graph.replay


def _halved(scenario: Scenario) -> ForwardBatch:
    """A batch of half the cached tokens; an extend has half the new ones too."""
    batch = scenario.batch
    new = batch.query_lens_cpu
    prefix = [(int(n) - own) // 2 for n, own in zip(batch.kv_lens_cpu, new, strict=True)]
    if batch.forward_mode.is_extend():
        new = [-(-own // 2) for own in new]
    return changed(scenario, Lengths(tuple(prefix), tuple(new)))


def _replays(scenario: Scenario) -> Iterator[ForwardBatch]:
    """Batches to replay a graph with: of other lengths, and of fewer requests.

    A captured extend is one for its lengths and slots; what it is replayed with is other tokens.
    """
    batch = scenario.batch
    if batch.forward_mode.is_extend():
        yield from (batch, batch)
        return
    largest = [int(n) for n in batch.kv_lens_cpu]
    per = scenario.request.draft_tokens or 1
    for count in (len(largest), len(largest), max(1, len(largest) // 2), 1, len(largest)):
        room = torch.tensor(largest[:count], device=HOST) - per
        part = torch.rand(
            count, generator=scenario.generator, dtype=torch.float32, device=HOST
        )  # fmt: skip
        lens = (part * (room + 1)).long().tolist()
        yield changed(scenario, Lengths(tuple(lens), (per,) * count))


RUNS: dict[str, Runs] = {
    "eager": _eager,
    "layers": _layers,
    "idle": _idle,
    "life": _life,
    "hybrid": _hybrid,
    "bad": _bad,
    "graph": _graph,
}
