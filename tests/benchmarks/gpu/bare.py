"""Library kernels called as their own documentation does, without a backend around them.

Each function takes a workload and returns a call that computes the same attention.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .workload import Workload

Call = Callable[[], object]
_WORKSPACE = 512 << 20


def calls_for(backend: str, work: Workload) -> Call | None:
    """The bare call behind a backend, None where it has none of its own."""
    key = (backend, work.request.family, work.request.mode)
    maker = _CALLS.get(key)
    return None if maker is None else maker(work)


def _workspace() -> torch.Tensor:
    return torch.zeros(_WORKSPACE, dtype=torch.uint8, device="cuda")


def _pages(work: Workload) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(indptr, indices, last_page_len) on the host but indices, and a table [batch, pages]."""
    page = work.request.page_size
    batch = work.batch
    host = batch.req_to_token_pool.host
    counts = [-(-int(n) // page) for n in batch.kv_lens_cpu]
    rows = [
        host[int(r), : c * page : page] // page
        for r, c in zip(batch.req_pool_indices_cpu, counts, strict=True)
    ]
    table = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to("cuda", torch.int32)
    indptr = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0).to(torch.int32)
    last = (batch.kv_lens_cpu - 1) % page + 1
    return indptr, torch.cat(rows).to("cuda", torch.int32), last.to(torch.int32), table


def _paged(work: Workload) -> tuple[torch.Tensor, torch.Tensor]:
    page = work.request.page_size
    keys, values = work.runner.token_to_kv_pool.get_kv_buffer(0)  # type: ignore[attr-defined]
    return keys.unflatten(0, (-1, page)), values.unflatten(0, (-1, page))


def _fa2_decode(work: Workload) -> Call:
    import flashinfer

    indptr, indices, last, _ = _pages(work)
    size = work.batch.batch_size
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        _workspace(),
        "NHD",
        use_cuda_graph=True,
        use_tensor_cores=True,
        paged_kv_indptr_buffer=torch.zeros(size + 1, dtype=torch.int32, device="cuda"),
        paged_kv_indices_buffer=torch.zeros_like(indices),
        paged_kv_last_page_len_buffer=torch.ones(size, dtype=torch.int32, device="cuda"),
        backend="fa2",
    )
    keys, values = _paged(work)
    layer = work.layer
    wrapper.plan(
        indptr,
        indices,
        last,
        layer.tp_q_head_num,
        layer.tp_k_head_num,
        layer.head_dim,
        work.request.page_size,
        q_data_type=work.q.dtype,
        kv_data_type=keys.dtype,
        sm_scale=layer.scaling * layer.k_scale,
    )
    out = work.q.new_empty(len(work.q), layer.tp_q_head_num, layer.v_head_dim)
    return lambda: wrapper.run(work.q, (keys, values), out=out)


def _prefill(kind: str) -> Callable[[Workload], Call]:
    def maker(work: Workload) -> Call:
        import flashinfer

        indptr, indices, last, _ = _pages(work)
        lens = torch.tensor([0, *work.batch.query_lens_cpu], dtype=torch.int32)
        # Planned for these lengths alone: a wrapper for graphs splits keys whatever they are,
        # and asks for more than a gigabyte to merge an extend of this size.
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(_workspace(), "NHD", backend=kind)
        keys, values = _paged(work)
        layer = work.layer
        wrapper.plan(
            lens.cumsum(0).to(torch.int32),
            indptr,
            indices,
            last,
            layer.tp_q_head_num,
            layer.tp_k_head_num,
            layer.head_dim,
            work.request.page_size,
            head_dim_vo=layer.v_head_dim,
            causal=True,
            q_data_type=work.q.dtype,
            kv_data_type=keys.dtype,
            sm_scale=layer.scaling * layer.k_scale,
        )
        out = work.q.new_empty(len(work.q), layer.tp_q_head_num, layer.v_head_dim)
        return lambda: wrapper.run(work.q, (keys, values), out=out)

    return maker


def _xqa_decode(work: Workload) -> Call:
    import flashinfer

    _, _, _, table = _pages(work)
    workspace = _workspace()
    lens = work.batch.seq_lens.to(torch.uint32)
    keys, values = _paged(work)
    longest = work.batch.max_kv_len
    layer = work.layer

    def call() -> object:
        return flashinfer.decode.trtllm_batch_decode_with_kv_cache(
            work.q,
            (keys, values),
            workspace,
            table,
            lens,
            longest,
            bmm1_scale=layer.scaling * layer.k_scale,
            bmm2_scale=layer.v_scale,
            kv_layout="NHD",
            backend="xqa",
            q_len_per_req=1,
        )

    return call


def _mla(kind: str) -> Callable[[Workload], Call]:
    def maker(work: Workload) -> Call:
        import flashinfer

        indptr, indices, _, _ = _pages(work)
        layer = work.layer
        rank = layer.v_head_dim
        wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(_workspace(), backend=kind)
        lens = torch.tensor([0, *work.batch.query_lens_cpu], dtype=torch.int32)
        keys, _ = _paged(work)
        wrapper.plan(
            lens.cumsum(0).to(torch.int32),
            indptr,
            indices,
            work.batch.kv_lens_cpu,
            layer.tp_q_head_num,
            rank,
            layer.head_dim - rank,
            work.request.page_size,
            False,
            layer.scaling,
            work.q.dtype,
            keys.dtype,
        )
        nope, rope = work.q[..., :rank].contiguous(), work.q[..., rank:].contiguous()
        latent, key_rope = keys[:, :, 0, :rank], keys[:, :, 0, rank:]
        out = torch.empty_like(nope)
        return lambda: wrapper.run(nope, rope, latent, key_rope, out=out)

    return maker


def _flashmla(work: Workload) -> Call:
    import flash_mla

    _, _, _, table = _pages(work)
    meta, _ = flash_mla.get_mla_metadata()
    keys, _ = _paged(work)
    layer = work.layer
    q = work.q.view(work.batch.batch_size, 1, layer.tp_q_head_num, layer.head_dim)
    lens = work.batch.seq_lens

    def call() -> object:
        return flash_mla.flash_mla_with_kvcache(
            q, keys, table, lens, layer.v_head_dim, meta,
            softmax_scale=layer.scaling, use_legacy=True,
        )  # fmt: skip

    return call


_CALLS: dict[tuple[str, str, str], Callable[[Workload], Call]] = {
    ("flashinfer", "mha", "decode"): _fa2_decode,
    ("flashinfer", "mha", "extend"): _prefill("fa2"),
    ("flashinfer", "mla", "decode"): _mla("fa2"),
    ("fa3", "mha", "decode"): _prefill("fa3"),
    ("fa3", "mha", "extend"): _prefill("fa3"),
    ("fa3", "mla", "decode"): _mla("fa3"),
    ("trtllm_mha", "mha", "decode"): _xqa_decode,
    ("trtllm_mha", "mha", "extend"): _prefill("fa2"),
    ("flashmla", "mla", "decode"): _flashmla,
}
