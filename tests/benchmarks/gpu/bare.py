"""Library kernels called as their own documentation does, without a backend around them.

Each function takes a workload and returns a call that computes the same attention with the same
kernel as the adapter beside it: a decode is planned for graphs, an extend for its lengths alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
from attn_lint.backends.library.driver import share_driver

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


def _scales(work: Workload) -> dict[str, float]:
    """Scales of keys and values as the wrappers of heads take them; none for a 16-bit cache."""
    if work.request.same_dtype:
        return {}
    return {"k_scale": work.layer.k_scale, "v_scale": work.layer.v_scale}


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
        sm_scale=layer.scaling,
    )
    out = work.q.new_empty(len(work.q), layer.tp_q_head_num, layer.v_head_dim)
    scales = _scales(work)
    return lambda: wrapper.run(work.q, (keys, values), out=out, **scales)


def _prefill(kind: str) -> Callable[[Workload], Call]:
    def maker(work: Workload) -> Call:
        import flashinfer

        indptr, indices, last, _ = _pages(work)
        lens = torch.tensor([0, *work.batch.query_lens_cpu], dtype=torch.int32)
        decode = work.request.mode == "decode"
        # An extend is planned for these lengths alone: a wrapper for graphs splits keys whatever
        # they are, and asks for more than a gigabyte to merge an extend of this size.
        buffers = {
            "use_cuda_graph": True,
            "qo_indptr_buf": torch.zeros_like(lens, device="cuda"),
            "paged_kv_indptr_buf": torch.zeros_like(indptr, device="cuda"),
            "paged_kv_indices_buf": torch.zeros_like(indices),
            "paged_kv_last_page_len_buf": torch.ones_like(last, device="cuda"),
        }
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            _workspace(), "NHD", backend=kind, **(buffers if decode else {})
        )
        keys, values = _paged(work)
        layer = work.layer
        # fa3 multiplies an e4m3 cache by e4m3 queries, with a scale for each head.
        narrow = kind == "fa3" and keys.dtype is torch.float8_e4m3fn
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
            causal=not decode,
            q_data_type=keys.dtype if narrow else work.q.dtype,
            kv_data_type=keys.dtype,
            o_data_type=work.q.dtype,
            sm_scale=layer.scaling,
        )
        out = work.q.new_empty(len(work.q), layer.tp_q_head_num, layer.v_head_dim)
        if narrow:
            per_head = [
                torch.full((heads,), scale, device="cuda")
                for heads, scale in (
                    (layer.tp_q_head_num, 1.0),
                    (layer.tp_k_head_num, layer.k_scale),
                    (layer.tp_k_head_num, layer.v_scale),
                )
            ]
            return lambda: wrapper.run(
                work.q.clamp(-448, 448).to(keys.dtype), (keys, values), *per_head, out=out
            )
        scales = _scales(work)
        return lambda: wrapper.run(work.q, (keys, values), out=out, **scales)

    return maker


def _fa3(work: Workload) -> Call:
    """`sgl_kernel`'s FlashAttention-3 where it is installed, as the adapter chooses."""
    if importlib.util.find_spec("sgl_kernel") is None:
        return _prefill("fa3")(work)
    from sgl_kernel.flash_attn import flash_attn_with_kvcache

    _, _, _, table = _pages(work)
    keys, values = _paged(work)
    layer = work.layer
    lens = torch.tensor([0, *work.batch.query_lens_cpu], dtype=torch.int32)
    bounds = lens.cumsum(0).to("cuda", torch.int32)
    options: dict[str, torch.Tensor] = {}
    if keys.dtype is torch.float8_e4m3fn:
        shape = (work.batch.batch_size, layer.tp_k_head_num)
        options = {
            "k_descale": torch.full(shape, layer.k_scale, device="cuda"),
            "v_descale": torch.full(shape, layer.v_scale, device="cuda"),
        }

    def call() -> object:
        q = work.q.clamp(-448, 448).to(keys.dtype) if options else work.q
        return flash_attn_with_kvcache(
            q, keys, values, page_table=table, cache_seqlens=work.batch.seq_lens,
            cu_seqlens_q=bounds, max_seqlen_q=int(lens.max()), softmax_scale=layer.scaling,
            causal=True, **options,
        )  # fmt: skip

    return call


def _xqa_decode(work: Workload) -> Call:
    import flashinfer

    share_driver()
    _, _, _, table = _pages(work)
    workspace = _workspace()
    lens = work.batch.seq_lens.to(torch.uint32)
    keys, values = _paged(work)
    longest = work.batch.max_kv_len
    layer = work.layer
    scales = _scales(work)
    k_scale, v_scale = scales.get("k_scale", 1.0), scales.get("v_scale", 1.0)

    def call() -> object:
        return flashinfer.decode.trtllm_batch_decode_with_kv_cache(
            work.q,
            (keys, values),
            workspace,
            table,
            lens,
            longest,
            bmm1_scale=layer.scaling * k_scale,
            bmm2_scale=v_scale,
            kv_layout="NHD",
            backend="xqa",
            q_len_per_req=1,
        )

    return call


def _mla(kind: str) -> Callable[[Workload], Call]:
    def maker(work: Workload) -> Call:
        import flashinfer

        indptr, indices, last, _ = _pages(work)
        layer = work.layer
        rank = layer.v_head_dim
        lens = torch.tensor([0, *work.batch.query_lens_cpu], dtype=torch.int32)
        wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(
            _workspace(),
            use_cuda_graph=True,
            qo_indptr=torch.zeros_like(lens, device="cuda"),
            kv_indptr=torch.zeros_like(indptr, device="cuda"),
            kv_indices=torch.zeros_like(indices),
            kv_len_arr=torch.ones_like(last, device="cuda"),
            backend=kind,
        )
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


def _fa4(work: Workload) -> Call:
    from flash_attn.cute.interface import flash_attn_varlen_func

    _, _, _, table = _pages(work)
    keys, values = _paged(work)
    layer = work.layer
    lens = torch.tensor([0, *work.batch.query_lens_cpu], dtype=torch.int32)
    bounds = lens.cumsum(0).to("cuda", torch.int32)
    queries, longest = int(lens.max()), work.batch.max_kv_len

    def call() -> object:
        return flash_attn_varlen_func(
            work.q, keys, values, cu_seqlens_q=bounds, seqused_k=work.batch.seq_lens,
            max_seqlen_q=queries, max_seqlen_k=longest, page_table=table,
            softmax_scale=layer.scaling, causal=True,
        )  # fmt: skip

    return call


_CALLS: dict[tuple[str, str, str], Callable[[Workload], Call]] = {
    ("flashinfer", "mha", "decode"): _fa2_decode,
    ("flashinfer", "mha", "extend"): _prefill("fa2"),
    # `auto` is fa3 on Hopper, as in the adapter.
    ("flashinfer", "mla", "decode"): _mla("auto"),
    ("fa3", "mha", "decode"): _fa3,
    ("fa3", "mha", "extend"): _fa3,
    ("fa3", "mla", "decode"): _mla("fa3"),
    ("fa4", "mha", "decode"): _fa4,
    ("fa4", "mha", "extend"): _fa4,
    ("trtllm_mha", "mha", "decode"): _xqa_decode,
    ("trtllm_mha", "mha", "extend"): _prefill("fa2"),
    ("flashmla", "mla", "decode"): _flashmla,
}
