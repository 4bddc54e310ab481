"""Random inputs for one request of support: tables, pool, batch, tensors, all from a seed.

Pages are in random order over the pool; every slot that no token of the batch has,
the page of padding included, holds NaN, so that a kernel that reads beyond a length is found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..interface.batch import ForwardBatch
from ..interface.capabilities import Request
from ..interface.dtypes import TORCH
from ..interface.layer import AttentionLayer
from ..interface.modes import AttentionType
from ..interface.pool import KVPool, MHATokenToKVPool, MLATokenToKVPool, ReqToTokenPool
from ..interface.runner import ModelRunner
from ..interface.staging import HOST


@dataclass(slots=True)
class Scenario:
    """Everything that one forward pass needs, and the generator that drew it."""

    request: Request
    runner: ModelRunner
    layer: AttentionLayer
    batch: ForwardBatch
    q: torch.Tensor  # [tokens, q_heads, head_dim]
    k: torch.Tensor  # [tokens, kv_heads, head_dim]: of the new tokens
    v: torch.Tensor  # [tokens, kv_heads, v_head_dim]
    sinks: torch.Tensor | None
    generator: torch.Generator
    ids: list[int]  # the requests in the table; the batch forgets them when it is loaded anew


@dataclass(frozen=True, slots=True)
class Lengths:
    """Cached prefix and new tokens of each request; a decode has one new token."""

    prefix: tuple[int, ...]
    new: tuple[int, ...]


def lengths_for(
    request: Request,
    generator: torch.Generator,
    *,
    longest: int,
    kind: str = "ragged",
    most: int = 8,
) -> Lengths:
    """Lengths of a kind, prefixes up to `longest`; of `most` requests, drawn, where it has more.

    `ragged`: 1, both sides of a page boundary, and random ones. `edges`: nothing but both sides of
    page boundaries. `one`: a batch of one. `ones`: nothing cached and one new token. `cold`:
    nothing cached. `many`: more requests, short ones.
    """
    page = request.page_size

    def random(count: int, low: int, high: int) -> list[int]:
        return [
            int(n) for n in torch.randint(low, high + 1, (count,), generator=generator, device=HOST)
        ]

    if kind == "ragged":
        prefix = [n for n in (0, page - 1, page, page + 1, 2 * page - 1) if n <= longest]
        prefix += random(3, 1, longest)
    elif kind == "edges":
        prefix = [page - 1, page, page + 1, 2 * page - 2, 2 * page - 1, 2 * page]
    elif kind == "one":
        prefix = random(1, 1, longest)
    elif kind == "ones":
        prefix = [0] * 3
    elif kind == "cold":
        prefix = [0] * 4
    elif kind == "many":
        prefix = random(19, 0, 6)
    else:
        raise ValueError(f"no lengths called {kind!r}")
    if kind != "many" and len(prefix) > most:
        kept = torch.randperm(len(prefix), generator=generator, device=HOST)[:most]
        prefix = [prefix[i] for i in kept.tolist()]
    prefix = [max(n, 0) for n in prefix]
    if request.mode == "decode" or kind == "ones":
        new = [request.draft_tokens or 1] * len(prefix)
    elif request.mode == "target_verify":
        new = [request.draft_tokens] * len(prefix)
    else:
        new = random(len(prefix), 1, max(2, min(longest, 2 * page + 3)))
        if kind == "ragged":
            new[0] = 1
        elif kind == "edges":
            # Ends at boundaries as well: the first of its new tokens or the last opens a page.
            new = [page if n % page else 1 for n in prefix]
    if request.multimodal:
        new = [max(n, 6) for n in new]
    return Lengths(tuple(prefix), tuple(new))


def layer_for(request: Request, *, window: int = 37, layer_id: int = 0) -> AttentionLayer:
    """The layer that a request describes."""
    return AttentionLayer(
        layer_id=layer_id,
        tp_q_head_num=request.q_heads,
        tp_k_head_num=request.kv_heads,
        head_dim=request.qk_head_dim,
        v_head_dim=request.v_head_dim,
        # MLA scales by the width before absorption (128 + 64 in DeepSeek).
        scaling=(192 if request.family == "mla" else request.qk_head_dim) ** -0.5,
        logit_cap=5.0 if request.logit_cap else 0.0,
        sliding_window_size=window if request.window else -1,
        attn_type=AttentionType.DECODER if request.causal else AttentionType.ENCODER_ONLY,
        uses_sinks=request.sinks,
        kv_lora_rank=request.v_head_dim if request.family == "mla" else None,
        # A scale other than 1 shows a kernel that forgets it, or that minds it where it must not:
        # with a cache of 16 or 32 bits it has no meaning. One of each layer's own shows a backend
        # that goes on with another layer's.
        k_scale=0.5 + layer_id / 8,
        v_scale=0.75 + layer_id / 4 if request.family == "mha" else 1.0,
    )


def draw(
    request: Request,
    seed: int,
    *,
    lengths: Lengths | None = None,
    longest: int = 200,
    window: int = 37,
    spare: float = 1.3,
    kind: str = "ragged",
    most: int = 8,
    layer_num: int = 1,
) -> Scenario:
    """Draw a scenario. The same request and seed give the same scenario on every machine.

    `longest` bounds prefixes in tokens, `kind` and `most` say which lengths (see `lengths_for`),
    `spare` is how much larger the pool is than needed. With `layer_num` 2 or more, every second
    layer is without the first one's window and scaled otherwise.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = lengths or lengths_for(request, generator, longest=longest, kind=kind, most=most)
    layers = [layer_for(request, window=window, layer_id=i) for i in range(layer_num)]
    layers = [
        replace(layer, sliding_window_size=-1, scaling=layer.scaling / 2) if i % 2 else layer
        for i, layer in enumerate(layers)
    ]
    totals = [p + n for p, n in zip(lengths.prefix, lengths.new, strict=True)]
    page = request.page_size
    pages = [-(-n // page) for n in totals]
    num_pages = int(sum(pages) * spare) + 3
    reqs = ReqToTokenPool(
        len(totals) + 2,
        max([*totals, 1]) + page,
        page_size=page,
        num_pages=num_pages,
        device=request.device,
    )
    pool = pool_for(request, num_pages, layer_num)
    order = torch.randperm(num_pages - 1, generator=generator, device=HOST) + 1
    ids = torch.randperm(len(totals) + 2, generator=generator, device=HOST)[: len(totals)] + 1
    first = 0
    for request_id, total, count in zip(ids.tolist(), totals, pages, strict=True):
        mine = order[first : first + count]
        slots = (mine[:, None] * page + torch.arange(page, device=HOST)).flatten()[:total]
        reqs.write(request_id, slots)
        first += count
    batch = batch_of(request, reqs, pool, ids.tolist(), lengths, generator)
    runner = ModelRunner(layers, reqs, pool, TORCH[request.dtype])
    scenario = Scenario(
        request,
        runner,
        layers[0],
        batch,
        *tensors(request, runner, batch.num_tokens, generator),
        _normal((request.q_heads,), generator).to(request.device) if request.sinks else None,
        generator,
        ids.tolist(),
    )
    fill(scenario, batch)
    return scenario


def pool_for(request: Request, num_pages: int, layer_num: int = 1) -> KVPool:
    """An empty pool for a request."""
    if request.family == "mla":
        return MLATokenToKVPool(
            num_pages=num_pages,
            page_size=request.page_size,
            kv_cache_dtype=request.kv_dtype,
            kv_lora_rank=request.v_head_dim,
            qk_rope_head_dim=request.qk_head_dim - request.v_head_dim,
            layer_num=layer_num,
            device=request.device,
        )
    return MHATokenToKVPool(
        num_pages=num_pages,
        page_size=request.page_size,
        kv_cache_dtype=request.kv_dtype,
        head_num=request.kv_heads,
        head_dim=request.qk_head_dim,
        v_head_dim=request.v_head_dim,
        layer_num=layer_num,
        device=request.device,
    )


def fill(scenario: Scenario, batch: ForwardBatch) -> None:
    """Poison the whole pool, then store random keys and values of a batch's cached prefixes.

    New tokens stay poisoned: storing them is the forward pass's own work.
    """
    pool = scenario.runner.token_to_kv_pool
    pool.poison(torch.arange(pool.num_slots, device=pool.device))
    host = batch.req_to_token_pool.host
    slots: list[torch.Tensor] = []
    stored: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {
        layer.layer_id: ([], []) for layer in scenario.runner.layers
    }
    for row, new in enumerate(batch.query_lens_cpu):
        prefix = int(batch.kv_lens_cpu[row]) - new
        slots.append(host[int(batch.req_pool_indices_cpu[row]), :prefix].long())
        for keys, values in stored.values():
            _, k, v = _drawn(scenario.request, scenario.runner.dtype, prefix, scenario.generator)
            keys.append(k)
            values.append(v)
    # In one piece: a GPU that others share makes each copy from the host wait.
    where = torch.cat(slots).to(pool.device)
    for layer in scenario.runner.layers:
        k, v = (torch.cat(parts).to(pool.device) for parts in stored[layer.layer_id])
        pool.set_kv_buffer(layer, where, k, v)


def changed(scenario: Scenario, lengths: Lengths, request: Request | None = None) -> ForwardBatch:
    """Another batch over the same requests and pages, none longer; of another mode if given."""
    batch = scenario.batch
    ids = scenario.ids[: len(lengths.new)]
    return batch_of(
        request or scenario.request,
        batch.req_to_token_pool,
        batch.token_to_kv_pool,
        ids,
        lengths,
        scenario.generator,
    )


def batch_of(
    request: Request,
    reqs: ReqToTokenPool,
    pool: KVPool,
    ids: list[int],
    lengths: Lengths,
    generator: torch.Generator,
) -> ForwardBatch:
    """A batch of a request's mode over requests that are in the table."""
    if request.mode == "decode":
        return ForwardBatch.decode(reqs, pool, ids, [n + 1 for n in lengths.prefix])
    if request.mode == "target_verify":
        mask = random_trees(len(ids), request.draft_tokens, generator) if request.tree else None
        return ForwardBatch.target_verify(
            reqs,
            pool,
            ids,
            lengths.prefix,
            request.draft_tokens,
            mask,
            topk=4 if request.tree else 1,
        )
    spans = None
    if request.multimodal:
        spans = [_spans(p, n, generator) for p, n in zip(lengths.prefix, lengths.new, strict=True)]
    return ForwardBatch.extend(reqs, pool, ids, lengths.prefix, lengths.new, spans)


def _spans(prefix: int, new: int, generator: torch.Generator) -> Sequence[tuple[int, int]]:
    """One block of at least two tokens somewhere in the new ones."""
    low = int(torch.randint(0, new - 1, (1,), generator=generator, device=HOST))
    high = int(torch.randint(low + 2, new + 1, (1,), generator=generator, device=HOST))
    return [(prefix + low, prefix + high)]


def random_trees(batch: int, drafts: int, generator: torch.Generator) -> torch.Tensor:
    """Masks of random trees, bool [batch, drafts, drafts]: a token sees itself and ancestors."""
    mask = torch.zeros(batch, drafts, drafts, dtype=torch.bool, device=HOST)
    for row in range(batch):
        for i in range(drafts):
            if i:
                parent = int(torch.randint(0, i, (1,), generator=generator, device=HOST))
                mask[row, i] = mask[row, parent]
            mask[row, i, i] = True
    return mask


def tensors(
    request: Request, runner: ModelRunner, tokens: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values of so many tokens, on the runner's device."""
    q, k, v = _drawn(request, runner.dtype, tokens, generator)
    return q.to(runner.device), k.to(runner.device), v.to(runner.device)


def _drawn(
    request: Request, dtype: torch.dtype, tokens: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same on the host."""
    return (
        _normal((tokens, request.q_heads, request.qk_head_dim), generator).to(dtype),
        _normal((tokens, request.kv_heads, request.qk_head_dim), generator).to(dtype),
        _normal((tokens, request.kv_heads, request.v_head_dim), generator).to(dtype),
    )


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float32, device=HOST)
