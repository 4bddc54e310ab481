"""The batch of one forward pass, built and checked on the host.

Constructors take plain lists, check them against the tables' host copy and put tensors on the
device, so that a checked batch needs no read-back. `recheck` finds tensors that were written to
after that, by torch's version counters, and only then reads the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .checks import all_whole, listed, whole
from .errors import InvalidInput
from .modes import ForwardMode
from .pool import KVPool, ReqToTokenPool
from .staging import HOST, staged


class Stamp:
    """Which tensors a batch had, and how often each had been written to.

    Holds the tensors themselves: the identity of one that is gone may be another's by now.
    """

    def __init__(self, batch: ForwardBatch) -> None:
        self.sizes = batch._sizes()
        self.tensors = batch._tensors()
        self.versions = tuple(map(_version, self.tensors))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stamp)
            and self.sizes == other.sizes
            and self.versions == other.versions
            and all(a is b for a, b in zip(self.tensors, other.tensors, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def still_of(self, batch: ForwardBatch) -> bool:
        """Whether the batch is as it was; asked in every layer, so without a stamp of its own."""
        return self.sizes == batch._sizes() and all(
            now is then and (now is None or _version(now) == version)
            for now, then, version in zip(
                batch._tensors(), self.tensors, self.versions, strict=True
            )
        )


def _version(x: torch.Tensor | None) -> int:
    """How often a tensor was written to; -1 where nobody counts, which `recheck` refuses."""
    return -1 if not isinstance(x, torch.Tensor) or x.is_inference() else x._version


@dataclass(slots=True)
class VerifyInput:
    """What a target-verify pass adds: draft tokens, and who among them sees whom.

    `tree_mask` is bool [batch, draft_token_num, draft_token_num]; row i says which drafts token i
    sees, itself included. None is a chain: each sees those before it.
    """

    draft_token_num: int
    topk: int = 1
    tree_mask: torch.Tensor | None = None


@dataclass(slots=True, weakref_slot=True)
class ForwardBatch:
    """One forward pass (SGLang: `ForwardBatch`), for every layer alike.

    `seq_lens` int32 [batch]: in DECODE and EXTEND all tokens with the new ones; in TARGET_VERIFY
    the prefix without drafts, as in SGLang. `out_cache_loc` int64 [tokens]: slots of the new
    tokens. `extend_*` are int32 [batch]. `kv_limit` int32 [tokens]: last position that a query of
    an extend with multimodal blocks sees; None without such blocks. What ends in `_cpu` is the same
    on the host: backends read the one or the other, so who changes one changes both.
    """

    forward_mode: ForwardMode
    batch_size: int
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    positions: torch.Tensor
    req_to_token_pool: ReqToTokenPool
    token_to_kv_pool: KVPool
    seq_lens_cpu: torch.Tensor
    req_pool_indices_cpu: torch.Tensor
    extend_seq_lens: torch.Tensor | None = None
    extend_prefix_lens: torch.Tensor | None = None
    extend_start_loc: torch.Tensor | None = None
    extend_seq_lens_cpu: list[int] | None = None
    extend_prefix_lens_cpu: list[int] | None = None
    spec_info: VerifyInput | None = None
    mm_spans: Sequence[Sequence[tuple[int, int]]] | None = None
    kv_limit: torch.Tensor | None = None
    captured: bool = False  # its tensors are those of a CUDA graph
    seq_len_fill_value: int = 1  # of rows that fill it up, as the backend that captured it has it
    _seen: Stamp | None = field(default=None, repr=False)

    @property
    def num_tokens(self) -> int:
        """Queries of the pass, over all requests."""
        return int(self.out_cache_loc.shape[0])

    @property
    def seq_lens_sum(self) -> int:
        return int(self.seq_lens_cpu.sum())

    @property
    def max_kv_len(self) -> int:
        """Most keys that one request has in this pass."""
        if not self.batch_size:
            return 0
        return int(self.seq_lens_cpu.max()) + self._drafts

    @property
    def kv_lens_cpu(self) -> torch.Tensor:
        """Keys of each request in this pass, drafts included, int32 on the host."""
        return self.seq_lens_cpu + self._drafts

    @property
    def query_lens_cpu(self) -> list[int]:
        """Queries of each request."""
        if self.forward_mode.is_extend():
            return list(self.extend_seq_lens_cpu or [])
        return [self._drafts or 1] * self.batch_size

    @property
    def _drafts(self) -> int:
        return self.spec_info.draft_token_num if self.spec_info else 0

    @property
    def device(self) -> torch.device:
        return self.seq_lens.device

    # Constructors

    @classmethod
    def idle(cls, reqs: ReqToTokenPool, kv: KVPool) -> ForwardBatch:
        """A pass without requests (data parallelism keeps ranks in step with it)."""
        return _build(ForwardMode.IDLE, reqs, kv, [], [], [])

    @classmethod
    def decode(
        cls, reqs: ReqToTokenPool, kv: KVPool, requests: Sequence[int], seq_lens: Sequence[int]
    ) -> ForwardBatch:
        """One new token a request; `seq_lens` count it."""
        seq_lens = all_whole("length", seq_lens)
        return _build(ForwardMode.DECODE, reqs, kv, requests, [n - 1 for n in seq_lens], seq_lens)

    @classmethod
    def extend(
        cls,
        reqs: ReqToTokenPool,
        kv: KVPool,
        requests: Sequence[int],
        prefix_lens: Sequence[int],
        extend_lens: Sequence[int],
        mm_spans: Sequence[Sequence[tuple[int, int]]] | None = None,
    ) -> ForwardBatch:
        """New tokens after a cached prefix.

        `mm_spans` gives, for each request, blocks `[start, end)` of positions whose tokens see
        one another both ways (the tokens of one image); a block lies within the new tokens.
        """
        prefix_lens = all_whole("prefix length", prefix_lens)
        extend_lens = all_whole("extend length", extend_lens)
        if len(prefix_lens) != len(extend_lens):
            raise InvalidInput(
                [f"{len(prefix_lens)} prefix lengths and {len(extend_lens)} extend lengths"]
            )
        ends = [p + n for p, n in zip(prefix_lens, extend_lens, strict=True)]
        batch = _build(ForwardMode.EXTEND, reqs, kv, requests, prefix_lens, ends)
        if mm_spans is not None:
            spans = _blocks(mm_spans)
            limits = _limits(spans, prefix_lens, ends)
            if any(spans):
                batch.mm_spans, batch.kv_limit = spans, _to(limits, reqs.device)
                batch._seen = Stamp(batch)
        return batch

    @classmethod
    def target_verify(
        cls,
        reqs: ReqToTokenPool,
        kv: KVPool,
        requests: Sequence[int],
        prefix_lens: Sequence[int],
        draft_token_num: int,
        tree_mask: torch.Tensor | None = None,
        topk: int = 1,
    ) -> ForwardBatch:
        """`draft_token_num` draft tokens after each prefix, to be judged by the target model."""
        problems = []
        requests = all_whole("request", requests)
        prefix_lens = all_whole("prefix length", prefix_lens)
        draft_token_num = whole("draft_token_num", draft_token_num)
        topk = whole("topk", topk)
        if draft_token_num < 1:
            raise InvalidInput([f"draft_token_num is {draft_token_num}; it must be positive"])
        if topk < 1:
            problems.append(f"topk is {topk}; it must be positive")
        if topk > 1 and tree_mask is None:
            problems.append("topk > 1 makes a tree, which needs a tree_mask")
        if tree_mask is not None:
            problems += _tree_problems(tree_mask, len(requests), draft_token_num)
        if problems:
            raise InvalidInput(problems)
        ends = [n + draft_token_num for n in prefix_lens]
        batch = _build(ForwardMode.TARGET_VERIFY, reqs, kv, requests, prefix_lens, ends)
        # A copy: what the caller does to its own mask later must not reach a kernel.
        mask = None if tree_mask is None else _to(tree_mask.detach(), reqs.device)
        batch.spec_info = VerifyInput(draft_token_num, topk, mask)
        batch._seen = Stamp(batch)
        return batch

    # Checks

    def recheck(self) -> None:
        """Raise InvalidInput if a tensor was changed to something no kernel may see.

        Free of host synchronisation while nothing was written since the last check.
        """
        if self._seen is not None and self._seen.still_of(self):
            return
        seen = Stamp(self)
        problems = _mode_problems(self) or _shape_problems(self)
        if not problems:
            problems = _device_problems(self)
        if problems:
            raise InvalidInput(problems)
        self._seen = seen

    def _tensors(self) -> tuple[torch.Tensor | None, ...]:
        """Whatever a kernel takes an address or a length from."""
        return (
            self.req_pool_indices,
            self.seq_lens,
            self.req_pool_indices_cpu,
            self.seq_lens_cpu,
            self.out_cache_loc,
            self.req_to_token_pool.req_to_token,
            self.extend_seq_lens,
            self.extend_prefix_lens,
            self.extend_start_loc,
            self.kv_limit,
            self.spec_info.tree_mask if self.spec_info else None,
        )

    def _sizes(self) -> tuple[object, ...]:
        """The same for what the host alone has."""
        counts = (*(self.extend_seq_lens_cpu or ()), *(self.extend_prefix_lens_cpu or ()))
        mode = self.forward_mode  # its type too: a mode's name is equal to it
        return (type(mode), mode, self.mm_spans, self.batch_size, self._drafts, *counts)

    def load_(self, other: ForwardBatch) -> int:
        """Fill this static batch with the values of a checked one, for a CUDA-graph replay.

        `other` may have fewer requests; the rest become padding (request 0, of length
        `seq_len_fill_value`). Returns how many requests are real. No host synchronisation.
        """
        problems = []
        if other.req_to_token_pool is not self.req_to_token_pool:
            problems.append("the batch has another table than the graph")
        if other.token_to_kv_pool is not self.token_to_kv_pool:
            problems.append("the batch has another pool than the graph")
        if other.forward_mode is not self.forward_mode:
            problems.append(f"a {other.forward_mode} batch in a {self.forward_mode} graph")
        if self.forward_mode.is_extend():
            problems.append("extend batches are not replayed")
        if other.batch_size > self.batch_size:
            problems.append(f"{other.batch_size} requests in a graph of {self.batch_size}")
        if other._drafts != self._drafts:
            problems.append(f"{other._drafts} draft tokens in a graph of {self._drafts}")
        mine = self.spec_info.tree_mask if self.spec_info else None
        theirs = other.spec_info.tree_mask if other.spec_info else None
        if (mine is None) != (theirs is None):
            problems.append("a tree mask and a chain don't share a graph")
        fill = self.seq_len_fill_value
        low, high = _lengths(self)
        if other.batch_size < self.batch_size and not low <= fill <= high:
            problems.append(f"rows are filled up with a length of {fill}; it is {low} to {high}")
        if problems:
            raise InvalidInput(problems)
        other.recheck()
        per = self._drafts or 1
        n, tokens = other.batch_size, other.batch_size * per
        self.seq_lens[:n].copy_(other.seq_lens, non_blocking=True)
        self.seq_lens[n:].fill_(fill)
        self.seq_lens_cpu[:n] = other.seq_lens_cpu
        self.seq_lens_cpu[n:] = fill
        self.req_pool_indices[:n].copy_(other.req_pool_indices, non_blocking=True)
        self.req_pool_indices[n:].fill_(0)
        self.req_pool_indices_cpu[:n] = other.req_pool_indices_cpu
        self.req_pool_indices_cpu[n:] = 0
        self.out_cache_loc[:tokens].copy_(other.out_cache_loc, non_blocking=True)
        self.out_cache_loc[tokens:].fill_(0)
        self.positions[:tokens].copy_(other.positions, non_blocking=True)
        self.positions[tokens:].fill_(0)
        if mine is not None and theirs is not None:
            mine[:n].copy_(theirs, non_blocking=True)
            mine[n:].fill_(True)
        # The values were checked on the host when `other` was built.
        self._seen = Stamp(self)
        return n


def _build(
    mode: ForwardMode,
    reqs: ReqToTokenPool,
    kv: KVPool,
    requests: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
) -> ForwardBatch:
    """A checked batch whose new tokens are positions `starts[i]` to `ends[i] - 1`."""
    problems = _pool_problems(reqs, kv)
    requests = all_whole("request", requests)
    if not len(requests) == len(starts) == len(ends):
        problems.append(f"{len(requests)} requests and {len(ends)} lengths")
    else:
        problems += _request_problems(mode, reqs, requests, starts, ends)
    if problems:
        raise InvalidInput(problems)
    device = reqs.device
    host = reqs.host
    slots = [host[r, s:e] for r, s, e in zip(requests, starts, ends, strict=True)]
    problems = _slot_twice(requests, slots) or _overwritten(reqs, requests, starts, slots)
    if problems:
        raise InvalidInput(problems)
    positions = [torch.arange(s, e, device=HOST) for s, e in zip(starts, ends, strict=True)]
    verify = mode.is_target_verify()
    lengths = list(starts) if verify else list(ends)
    seq_lens = torch.tensor(lengths, dtype=torch.int32, device=HOST)
    indices = torch.tensor(requests, dtype=torch.int64, device=HOST)
    none = torch.zeros(0, dtype=torch.int64, device=HOST)
    batch = ForwardBatch(
        forward_mode=mode,
        batch_size=len(requests),
        req_pool_indices=_to(indices, device),
        seq_lens=_to(seq_lens, device),
        out_cache_loc=_to(torch.cat(slots).long() if slots else none, device),
        positions=_to(torch.cat(positions) if positions else none, device),
        req_to_token_pool=reqs,
        token_to_kv_pool=kv,
        seq_lens_cpu=_to(seq_lens, HOST),
        req_pool_indices_cpu=_to(indices, HOST),
    )
    if mode.is_extend():
        counts = [e - s for s, e in zip(starts, ends, strict=True)]
        count = torch.tensor(counts, dtype=torch.int32, device=HOST)
        prefix = torch.tensor(list(starts), dtype=torch.int32, device=HOST)
        batch.extend_seq_lens_cpu = counts
        batch.extend_prefix_lens_cpu = list(starts)
        batch.extend_seq_lens = _to(count, device)
        batch.extend_prefix_lens = _to(prefix, device)
        batch.extend_start_loc = _to((count.cumsum(0) - count).to(torch.int32), device)
    batch._seen = Stamp(batch)
    return batch


def _to(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy to the device without waiting for it; a copy in any case.

    Out of inference mode, whose tensors have no version counter for `recheck` to look at.
    """
    with torch.inference_mode(False):
        if x.is_inference():
            x = x.clone()
        moved = staged(x, device)
        return moved.clone() if moved is x else moved


def _slot_twice(requests: Sequence[int], slots: Sequence[torch.Tensor]) -> list[str]:
    """Say which two requests would write their new tokens to one slot.

    Cached tokens may be shared, as those of a common prefix are.
    """
    if not slots:
        return []
    every = torch.cat(list(slots))
    ordered, order = every.sort()
    same = (ordered[1:] == ordered[:-1]).nonzero().flatten()
    if not len(same):
        return []
    row = _row_of(slots)
    first = int(same[0])
    pair = sorted(requests[int(row[order[i]])] for i in (first, first + 1))
    return [f"requests {pair[0]} and {pair[1]} both write to slot {int(ordered[first])}"]


def _row_of(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """For each element of parts that are put one behind the other, which part it is of."""
    return torch.repeat_interleave(torch.tensor([len(part) for part in parts], device=HOST))


def _overwritten(
    reqs: ReqToTokenPool,
    requests: Sequence[int],
    starts: Sequence[int],
    slots: Sequence[torch.Tensor],
) -> list[str]:
    """Say which request would write a new token over one that another has cached.

    Pages are compared first, so that the tokens of long prefixes need not be looked at one by one.
    """
    if len(requests) < 2:
        return []
    page = reqs.page_size
    cached = [reqs.host[r, :start] for r, start in zip(requests, starts, strict=True)]
    first = [part[::page] // page for part in cached]
    reader = _row_of(first).int()
    pages = torch.cat(first)
    new = torch.cat([part.to(pages.dtype) for part in slots])
    writer = _row_of(slots).int()
    # Most pages have no writer, or one whose own they are: its new tokens go on where the cached
    # ones of its last page end.
    number = -(-reqs.num_slots // page)
    least = torch.full((number,), len(requests), dtype=torch.int32, device=HOST)
    least.scatter_reduce_(0, (new // page).long(), writer, "amin")
    most = torch.full((number,), -1, dtype=torch.int32, device=HOST)
    most.scatter_reduce_(0, (new // page).long(), writer, "amax")
    foreign = (most[pages] > reader) | (least[pages] < reader)
    for place in foreign.nonzero().flatten().tolist():
        row = int(reader[place])
        others = (new // page == pages[place]) & (writer != row)
        for slot, other in zip(new[others].tolist(), writer[others].tolist(), strict=True):
            if bool((cached[row] == slot).any()):
                return [
                    f"request {requests[other]} writes a new token to slot {slot}, where request "
                    f"{requests[row]} has a cached one"
                ]
    return []


def _pool_problems(reqs: ReqToTokenPool, kv: KVPool) -> list[str]:
    problems = [
        f"{name} is a {type(given).__name__}; it is a {wanted.__name__}"
        for name, given, wanted in (("the table", reqs, ReqToTokenPool), ("the pool", kv, KVPool))
        if not isinstance(given, wanted)
    ]
    if problems:
        raise InvalidInput(problems)
    if reqs.page_size != kv.page_size:
        problems.append(f"page size {reqs.page_size} in the table, {kv.page_size} in the pool")
    if reqs.num_slots > kv.num_slots:
        problems.append(f"the table has {reqs.num_slots} slots, the pool {kv.num_slots}")
    if reqs.device != kv.device:
        problems.append(f"the table is on {reqs.device}, the pool on {kv.device}")
    return problems


def _request_problems(
    mode: ForwardMode,
    reqs: ReqToTokenPool,
    requests: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
) -> list[str]:
    problems = []
    if len(set(requests)) != len(requests):
        problems.append("a request is in the batch twice")
    for request, start, end in zip(requests, starts, ends, strict=True):
        if not 1 <= request <= reqs.size:
            problems.append(f"request {request} is not in 1..{reqs.size}")
        elif start < 0:
            what = f"length {end}" if mode.is_decode() else f"prefix {start}"
            problems.append(f"request {request} has {what}")
        elif end <= start:
            problems.append(f"request {request} has no new token")
        elif end > reqs.max_context_len:
            problems.append(
                f"request {request} has {end} tokens, beyond a context of {reqs.max_context_len}"
            )
        elif int(reqs.host[request, :end].min()) < 0:
            token = int((reqs.host[request, :end] < 0).nonzero()[0])
            problems.append(f"request {request} has no slot for token {token}")
    return problems


def _blocks(
    mm_spans: Sequence[Sequence[tuple[int, int]]],
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The multimodal blocks of each request as whole numbers."""
    if isinstance(mm_spans, torch.Tensor):
        raise InvalidInput(["mm_spans is a tensor; it is a list of blocks for each request"])
    return tuple(
        tuple(_block(row, block) for block in listed(f"mm_spans of row {row}", blocks))
        for row, blocks in enumerate(listed("mm_spans", mm_spans))
    )


def _block(row: int, block: Sequence[int]) -> tuple[int, int]:
    where = f"block of row {row}"
    ends = [whole(f"{where}:", end) for end in listed(where, block)]
    if len(ends) != 2:
        raise InvalidInput([f"block {block!r} of row {row} is not a pair [start, end)"])
    return ends[0], ends[1]


def _limits(
    mm_spans: Sequence[Sequence[tuple[int, int]]], starts: Sequence[int], ends: Sequence[int]
) -> torch.Tensor:
    if len(mm_spans) != len(starts):
        raise InvalidInput([f"multimodal blocks for {len(mm_spans)} of {len(starts)} requests"])
    problems, parts = [], []
    for i, (spans, start, end) in enumerate(zip(mm_spans, starts, ends, strict=True)):
        limit = torch.arange(start, end, dtype=torch.int32, device=HOST)
        last = start
        for low, high in sorted(spans):
            if not (last <= low < high <= end):
                problems.append(
                    f"block {low}..{high} of row {i} is empty, overlaps another, or is not within "
                    f"the new tokens {start}..{end}"
                )
                break
            limit[low - start : high - start] = high - 1
            last = high
        parts.append(limit)
    if problems:
        raise InvalidInput(problems)
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int32, device=HOST)


def _tree_problems(mask: torch.Tensor, batch: int, drafts: int) -> list[str]:
    want = (batch, drafts, drafts)
    if not isinstance(mask, torch.Tensor):
        kind = type(mask).__name__
        return [f"tree_mask is a {kind}; it is a tensor, torch.bool {list(want)}"]
    if mask.is_nested or mask.layout is not torch.strided or mask.is_meta:
        return [f"tree_mask is not a dense tensor with values, torch.bool {list(want)}"]
    if mask.dtype is not torch.bool or tuple(mask.shape) != want:
        return [f"tree_mask is {mask.dtype} {list(mask.shape)}; it is torch.bool {list(want)}"]
    host = mask.cpu()
    problems = []
    if not bool(host.diagonal(dim1=1, dim2=2).all()):
        problems.append("tree_mask hides a draft token from itself")
    if bool(host.triu(1).any()):
        problems.append("tree_mask shows a draft token one that comes after it")
    return problems


def _lengths(batch: ForwardBatch) -> tuple[int, int]:
    """The least and the largest that `seq_lens` may say of a request."""
    low = 0 if batch.forward_mode.is_target_verify() else 1
    return low, batch.req_to_token_pool.max_context_len - batch._drafts


def _mode_problems(batch: ForwardBatch) -> list[str]:
    """What a batch has that its mode does not, and the other way round."""
    mode = batch.forward_mode
    if not isinstance(mode, ForwardMode):
        return [f"forward_mode is a {type(mode).__name__}; it is a ForwardMode"]
    problems = []
    if mode.is_idle() and batch.batch_size:
        problems.append(f"a pass of {batch.batch_size} requests is marked as {mode}")
    if mode.is_target_verify() != (batch.spec_info is not None):
        problems.append(f"spec_info comes with target_verify alone; the mode is {mode}")
    extends = (
        batch.extend_seq_lens, batch.extend_prefix_lens, batch.extend_start_loc,
        batch.extend_seq_lens_cpu, batch.extend_prefix_lens_cpu,
    )  # fmt: skip
    if any((each is not None) != mode.is_extend() for each in extends):
        problems.append(f"extend_… come with an extend alone, and all of them; the mode is {mode}")
    if (batch.kv_limit is None) != (batch.mm_spans is None):
        problems.append("kv_limit and mm_spans come together")
    return problems


def _shape_problems(batch: ForwardBatch) -> list[str]:
    bs, queries = batch.batch_size, sum(batch.query_lens_cpu)
    device = batch.req_to_token_pool.req_to_token.device
    wanted: list[tuple[str, torch.dtype, int, torch.device]] = [
        ("req_pool_indices", torch.int64, bs, device),
        ("seq_lens", torch.int32, bs, device),
        ("req_pool_indices_cpu", torch.int64, bs, HOST),
        ("seq_lens_cpu", torch.int32, bs, HOST),
    ]
    if batch.forward_mode.is_extend():
        wanted += [
            ("extend_seq_lens", torch.int32, bs, device),
            ("extend_prefix_lens", torch.int32, bs, device),
            ("extend_start_loc", torch.int32, bs, device),
        ]
    wanted.append(("out_cache_loc", torch.int64, queries, device))
    if batch.kv_limit is not None:
        wanted.append(("kv_limit", torch.int32, queries, device))
    problems = []
    for name, dtype, length, place in wanted:
        tensor = getattr(batch, name)
        if tensor is None:
            problems.append(f"{name} is missing")
        elif not isinstance(tensor, torch.Tensor):
            problems.append(f"{name} is a {type(tensor).__name__}; it is a tensor")
        else:
            if tensor.dtype is not dtype or tensor.shape != (length,):
                problems.append(
                    f"{name} is {tensor.dtype} {list(tensor.shape)}; it is {dtype} [{length}]"
                )
            problems += _place_problems(name, tensor, place)
    mask = batch.spec_info.tree_mask if batch.spec_info else None
    if mask is not None:
        problems += _tree_problems(mask, bs, batch._drafts)
        if isinstance(mask, torch.Tensor):
            problems += _place_problems("tree_mask", mask, device)
    return problems


def _place_problems(name: str, tensor: torch.Tensor, device: torch.device) -> list[str]:
    problems = []
    if tensor.device != device:
        problems.append(f"{name} is on {tensor.device}; it belongs on {device}")
    if tensor.is_inference():
        problems.append(
            f"{name} was made in torch.inference_mode, so that later changes to it can't be seen: "
            "make it outside"
        )
    return problems


def _device_problems(batch: ForwardBatch) -> list[str]:
    """Read the device back and check every value that becomes an address."""
    reqs = batch.req_to_token_pool
    table = reqs.req_to_token.cpu()
    indices = batch.req_pool_indices.cpu()
    lens = batch.seq_lens.cpu()
    problems = []
    if bool(((indices < 0) | (indices > reqs.size)).any()):
        problems.append(f"req_pool_indices has values outside 0..{reqs.size}")
    if not torch.equal(indices, batch.req_pool_indices_cpu):
        problems.append("req_pool_indices and req_pool_indices_cpu differ")
    if not torch.equal(lens, batch.seq_lens_cpu):
        problems.append("seq_lens and seq_lens_cpu differ")
    kv_lens = lens + batch._drafts
    low, high = _lengths(batch)
    if bool((lens < low).any()):
        problems.append(f"seq_lens has values below {low}")
    if bool((lens > high).any()):
        problems.append(f"seq_lens goes beyond a context of {reqs.max_context_len}")
    loc = batch.out_cache_loc.cpu()
    if bool(((loc < 0) | (loc >= reqs.num_slots)).any()):
        problems.append(f"out_cache_loc has slots outside the pool of {reqs.num_slots}")
    if batch.forward_mode.is_extend():
        problems += _extend_problems(batch, lens)
    if problems:
        return problems
    first = 0
    for row, (request, length, count) in enumerate(
        zip(indices.tolist(), kv_lens.tolist(), batch.query_lens_cpu, strict=True)
    ):
        slots = table[request, :length].long()
        # Rows that fill up a graph write to one slot of the padding page.
        if request and not torch.equal(slots[length - count :], loc[first : first + count]):
            problems.append(
                f"out_cache_loc of row {row} (request {request}) is not where the table has "
                "its new tokens"
            )
        first += count
        if bool(((slots < 0) | (slots >= reqs.num_slots)).any()):
            problems.append(f"row {row} (request {request}) has slots outside the pool")
            continue
        position = torch.arange(length, device=HOST)
        base = slots[position // reqs.page_size * reqs.page_size]
        if bool((slots != base + position % reqs.page_size).any()) or bool(
            (base % reqs.page_size != 0).any()
        ):
            problems.append(f"row {row} (request {request}) has tokens outside whole pages")
        elif not torch.equal(slots, reqs.host[request, :length].long()):
            problems.append(f"row {row} (request {request}) has other slots than `write` gave it")
    return problems or _shared_slots(batch, indices, kv_lens, loc)


def _shared_slots(
    batch: ForwardBatch, indices: torch.Tensor, kv_lens: torch.Tensor, loc: torch.Tensor
) -> list[str]:
    """What writes over another, without rows that fill up a graph: they share a slot."""
    counts = batch.query_lens_cpu
    rows = [
        (request, length - count, slots)
        for request, length, count, slots in zip(
            indices.tolist(), kv_lens.tolist(), counts, loc.split(counts), strict=True
        )
        if request
    ]
    requests, starts, slots = ([row[at] for row in rows] for at in range(3))
    return _slot_twice(requests, slots) or _overwritten(
        batch.req_to_token_pool, requests, starts, slots
    )


def _extend_problems(batch: ForwardBatch, lens: torch.Tensor) -> list[str]:
    assert batch.extend_seq_lens is not None
    assert batch.extend_prefix_lens is not None
    assert batch.extend_start_loc is not None
    count, prefix = batch.extend_seq_lens.cpu(), batch.extend_prefix_lens.cpu()
    problems = []
    if count.tolist() != batch.extend_seq_lens_cpu:
        problems.append("extend_seq_lens and extend_seq_lens_cpu differ")
    if prefix.tolist() != batch.extend_prefix_lens_cpu:
        problems.append("extend_prefix_lens and extend_prefix_lens_cpu differ")
    if not torch.equal(prefix + count, lens):
        problems.append("prefix and extend lengths don't add up to seq_lens")
    if not torch.equal(batch.extend_start_loc.cpu(), (count.cumsum(0) - count).to(torch.int32)):
        problems.append("extend_start_loc is not the running sum of extend_seq_lens")
    if batch.kv_limit is not None and not problems:
        limit = batch.kv_limit.cpu()
        last = torch.repeat_interleave(lens - 1, count.long())
        if bool(((limit < 0) | (limit > last)).any()):
            problems.append("kv_limit goes beyond the tokens of its request")
        elif not torch.equal(limit, _limits(batch.mm_spans or (), prefix.tolist(), lens.tolist())):
            problems.append("kv_limit and mm_spans differ")
    return problems
