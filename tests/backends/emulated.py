"""Kernel libraries as their documentation describes them, in plain torch.

They stand in for the libraries at the call: each reads exactly the arguments, layouts and buffers
that the real one reads, and computes in float64 what the real one would. Whatever an adapter gets
wrong about an argument gives a wrong result here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

I32 = torch.int32


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: torch.Tensor,
    scale: float,
    cap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """One row: q [n, heads, d] against k, v [kv, kv_heads, d]; `seen` is bool [n, kv]."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.double().repeat_interleave(group, 1) for x in (k, v))
    score = torch.einsum("qhd,khd->hqk", q.double(), keys) * scale
    if cap > 0:
        score = cap * torch.tanh(score / cap)
    score = score.masked_fill(~seen, float("-inf"))
    if sinks is None:
        weight = score.softmax(-1)
    else:
        column = sinks.double()[:, None, None].expand(-1, len(q), 1)
        weight = torch.cat((score, column), -1).softmax(-1)[..., :-1]
    return torch.einsum("hqk,khd->qhd", weight, values)


def positions(queries: int, keys: int, causal: bool, window: int) -> torch.Tensor:
    """What queries at the end of `keys` see."""
    query = torch.arange(keys - queries, keys)[:, None]
    key = torch.arange(keys)
    seen = key <= query if causal else torch.ones(queries, keys, dtype=torch.bool)
    return seen & (key >= query - window) if window >= 0 else seen


class Wrapper:
    """What FlashInfer's paged wrappers share: planned bounds, pages, and buffers in graphs."""

    made: list[Wrapper]

    def __init__(self, buffers: dict[str, torch.Tensor] | None) -> None:
        self.buffers = buffers
        self.held: dict[str, torch.Tensor] = {}

    def hold(self, **tensors: torch.Tensor) -> None:
        """Keep planned tensors: copied into the buffers of a graph, or as they are."""
        for name, tensor in tensors.items():
            assert tensor.dtype is I32, name
            if self.buffers is None:
                self.held[name] = tensor.clone()
            else:
                assert len(tensor) <= len(self.buffers[name]), name
                self.buffers[name][: len(tensor)].copy_(tensor)
                self.held[name] = self.buffers[name]

    def rows(self, k: torch.Tensor, v: torch.Tensor, lens: list[int]) -> Any:
        """Keys and values of each row."""
        bounds = self.held["indptr"].tolist()
        for first, last, length in zip(bounds, bounds[1:], lens, strict=False):
            pages = self.held["indices"][first:last].long()
            yield tuple(x[pages].flatten(0, 1)[:length] for x in (k, v))


class Prefill(Wrapper):
    """`BatchPrefillWithPagedKVCacheWrapper`."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: Any = None,
        paged_kv_indptr_buf: Any = None,
        paged_kv_indices_buf: Any = None,
        paged_kv_last_page_len_buf: Any = None,
        custom_mask_buf: Any = None,
        mask_indptr_buf: Any = None,
        backend: str = "auto",
        jit_args: Any = None,
        jit_kwargs: Any = None,
    ) -> None:
        assert kv_layout == "NHD"
        buffers = None
        if use_cuda_graph:
            buffers = {
                "qo": qo_indptr_buf,
                "indptr": paged_kv_indptr_buf,
                "indices": paged_kv_indices_buf,
                "last": paged_kv_last_page_len_buf,
            }
        super().__init__(buffers)
        self.mask_buffers = (custom_mask_buf, mask_indptr_buf)
        self.backend, self.jit_args = backend, jit_args
        self.mask: torch.Tensor | None = None

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
        causal: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: Any = None,
        kv_data_type: Any = None,
        o_data_type: Any = None,
        seq_lens: torch.Tensor | None = None,
        max_token_per_sequence: int | None = None,
    ) -> None:
        self.hold(
            qo=qo_indptr,
            indptr=paged_kv_indptr,
            indices=paged_kv_indices,
            last=paged_kv_last_page_len,
        )
        lens = (paged_kv_indptr[1:] - paged_kv_indptr[:-1] - 1) * page_size
        assert seq_lens is not None
        assert torch.equal(lens + paged_kv_last_page_len, seq_lens)
        counts = (qo_indptr[1:] - qo_indptr[:-1]).tolist()
        assert max_token_per_sequence == max(counts)
        self.options = SimpleNamespace(
            heads=(num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo),
            page=page_size,
            causal=causal,
            scale=sm_scale,
            window=window_left,
            cap=logits_soft_cap,
            dtypes=(q_data_type, kv_data_type, o_data_type),
        )
        self.mask = custom_mask
        if packed_custom_mask is not None:
            self.mask_buffers[0][: len(packed_custom_mask)].copy_(packed_custom_mask)
            # The library counts bits here, where its kernel reads bytes.
            bits = [0, *(c * int(n) for c, n in zip(counts, seq_lens, strict=True))]
            self.mask_buffers[1].copy_(torch.tensor(bits).cumsum(0))

    def seen(self, row: int, count: int, length: int) -> torch.Tensor:
        o = self.options
        window = positions(count, length, False, o.window)
        packed, bounds = self.mask_buffers
        if packed is not None:
            first = int(bounds[row])
            raw = packed[first : first + (count * length + 7) // 8].int()
            bits = (raw[:, None] >> torch.arange(8)) & 1
            return bits.flatten()[: count * length].bool().view(count, length) & window
        if self.mask is not None:
            return self.mask.view(-1)[self.passed :][: count * length].view(count, length) & window
        return positions(count, length, o.causal, o.window)

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: tuple[torch.Tensor, torch.Tensor],
        *args: Any,
        k_scale: float | None = None,
        v_scale: float | None = None,
        out: torch.Tensor,
        kv_cache_sf: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        o = self.options
        k, v = paged_kv_cache
        assert (q.dtype, k.dtype, out.dtype) == o.dtypes
        assert (q.shape[1], k.shape[2], q.shape[2]) == o.heads[:3]
        assert k.shape[1] == o.page
        assert k.stride() == v.stride()
        scale, cap, sinks = o.scale * (k_scale or 1.0), o.cap, None
        weights = (k_scale or 1.0, v_scale or 1.0)
        if self.jit_args is not None:
            sinks, scale = args
            assert sinks.dtype is torch.float32
        elif q.dtype is torch.float8_e4m3fn:
            for_q, for_k, for_v = args
            assert len(for_q) == q.shape[1]
            assert len(for_k) == len(for_v) == k.shape[2]
            scale, weights = o.scale * float(for_q[0] * for_k[0]), (1.0, float(for_v[0]))
        if kv_cache_sf is not None:
            k, v = (_fp4(x, s) for x, s in zip((k, v), kv_cache_sf, strict=True))
        bounds = self.held["qo"].tolist()
        pages = self.held["indptr"].tolist()
        last = self.held["last"].tolist()
        lens = [(b - a - 1) * o.page + n for a, b, n in zip(pages, pages[1:], last, strict=False)]
        self.passed = 0
        for row, (key, value) in enumerate(self.rows(k, v, lens)):
            a, b = bounds[row], bounds[row + 1]
            seen = self.seen(row, b - a, lens[row])
            self.passed += (b - a) * lens[row]
            result = attend(q[a:b], key, value, seen, scale, cap, sinks) * weights[1]
            out[a:b] = result.to(out.dtype)
        return out


def _fp4(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]).double()
    code = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
    signed = values[(code & 7).long()] * torch.where(code > 7, -1.0, 1.0)
    return (signed.unflatten(-1, (-1, 16)) * scales.double().unsqueeze(-1)).flatten(-2)


class Decode(Wrapper):
    """`BatchDecodeWithPagedKVCacheWrapper` on CUDA cores."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        paged_kv_indptr_buffer: Any = None,
        paged_kv_indices_buffer: Any = None,
        paged_kv_last_page_len_buffer: Any = None,
    ) -> None:
        buffers = {
            "indptr": paged_kv_indptr_buffer,
            "indices": paged_kv_indices_buffer,
            "last": paged_kv_last_page_len_buffer,
        }
        super().__init__(buffers if use_cuda_graph else None)

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: Any = None,
        kv_data_type: Any = None,
        sm_scale: float | None = None,
        seq_lens: torch.Tensor | None = None,
    ) -> None:
        self.hold(indptr=indptr, indices=indices, last=last_page_len)
        self.options = (page_size, window_left, logits_soft_cap, sm_scale)

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: tuple[torch.Tensor, torch.Tensor],
        k_scale: float,
        v_scale: float,
        out: torch.Tensor,
    ) -> None:
        page, window, cap, scale = self.options
        pages, last = self.held["indptr"].tolist(), self.held["last"].tolist()
        lens = [(b - a - 1) * page + n for a, b, n in zip(pages, pages[1:], last, strict=False)]
        for row, (k, v) in enumerate(self.rows(*paged_kv_cache, lens)):
            seen = positions(1, lens[row], True, window)
            result = attend(q[row : row + 1], k, v, seen, scale * k_scale, cap)
            out[row] = (result * v_scale)[0].to(out.dtype)


class Latent(Wrapper):
    """`BatchMLAPagedAttentionWrapper`."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        use_cuda_graph: bool = False,
        qo_indptr: Any = None,
        kv_indptr: Any = None,
        kv_indices: Any = None,
        kv_len_arr: Any = None,
        backend: str = "auto",
    ) -> None:
        buffers = {
            "qo": qo_indptr,
            "indptr": kv_indptr,
            "indices": kv_indices,
            "lens": kv_len_arr,
        }
        super().__init__(buffers if use_cuda_graph else None)

    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_indices: torch.Tensor,
        kv_len_arr: torch.Tensor,
        num_heads: int,
        head_dim_ckv: int,
        head_dim_kpe: int,
        page_size: int,
        causal: bool,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        self.hold(qo=qo_indptr, indptr=kv_indptr, indices=kv_indices, lens=kv_len_arr)
        self.options = (num_heads, head_dim_ckv, head_dim_kpe, page_size, causal, sm_scale)

    def run(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        ckv_cache: torch.Tensor,
        kpe_cache: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        heads, rank, rope, page, causal, scale = self.options
        assert q_nope.shape[1:] == out.shape[1:] == (heads, rank)
        assert q_pe.shape[1:] == (heads, rope)
        assert ckv_cache.shape[1:] == (page, rank)
        assert kpe_cache.shape[1:] == (page, rope)
        bounds, lens = self.held["qo"].tolist(), self.held["lens"].tolist()
        q = torch.cat((q_nope, q_pe), -1)
        keys = torch.cat((ckv_cache, kpe_cache), -1).unsqueeze(2)
        for row, (k, v) in enumerate(self.rows(keys, ckv_cache.unsqueeze(2), lens)):
            a, b = bounds[row], bounds[row + 1]
            seen = positions(b - a, lens[row], causal, -1)
            out[a:b] = attend(q[a:b], k, v, seen, scale).to(out.dtype)


def xqa(
    *,
    query: torch.Tensor,
    kv_cache: tuple[torch.Tensor, torch.Tensor],
    workspace_buffer: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    bmm1_scale: float,
    bmm2_scale: float,
    window_left: int,
    out: torch.Tensor,
    sinks: torch.Tensor | None,
    kv_layout: str,
    backend: str,
    q_len_per_req: int,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """`trtllm_batch_decode_with_kv_cache` with the XQA kernel, which loads whole pages of e4m3."""
    assert (kv_layout, backend) == ("NHD", "xqa")
    assert block_tables.dtype is I32
    assert block_tables.is_contiguous()
    assert seq_lens.dtype is torch.uint32
    k, v = kv_cache
    page, per = k.shape[1], q_len_per_req
    assert (mask is None) == (per == 1)
    flat = out.view(-1, *query.shape[1:])
    for row, length in enumerate(seq_lens.view(I32).tolist()):
        pages = block_tables[row, : -(-length // page)].long()
        keys, values = k[pages].flatten(0, 1), v[pages].flatten(0, 1)
        if k.dtype is not torch.float8_e4m3fn:
            keys, values = keys[:length], values[:length]
        seen = torch.zeros(per, len(keys), dtype=torch.bool)
        seen[:, :length] = positions(per, length, per == 1, window_left)
        if mask is not None:
            assert mask.dtype is torch.uint16
            assert mask.shape == (len(seq_lens), per, (per + 31) // 32 * 2)
            words = mask[row].view(torch.int16).int()
            bits = ((words[..., None] >> torch.arange(16)) & 1).flatten(1)[:, :per].bool()
            seen[:, length - per : length] &= bits
        # Masked scores are replaced, so that NaN keys do no harm; NaN values times 0 do.
        keys = torch.where(torch.isnan(keys.float()), 0.0, keys.double())
        result = attend(
            query[row * per : (row + 1) * per], keys, values, seen, bmm1_scale, 0, sinks
        )
        flat[row * per : (row + 1) * per] = (result * bmm2_scale).to(out.dtype)
    return out


def varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    page_table: torch.Tensor,
    lens: torch.Tensor,
    bounds: torch.Tensor,
    scale: float,
    causal: bool,
    window: tuple[Any, Any],
    cap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """FlashAttention over a page table, with pages loaded whole."""
    assert page_table.dtype is lens.dtype is bounds.dtype is I32
    page = k.shape[1]
    left = -1 if window[0] in (None, -1) else window[0]
    edges = bounds.tolist()
    out = torch.empty(q.shape[0], q.shape[1], v.shape[-1], dtype=torch.float64)
    for row, length in enumerate(lens.tolist()):
        a, b = edges[row], edges[row + 1]
        pages = page_table[row, : -(-length // page)].long()
        keys, values = k[pages].flatten(0, 1), v[pages].flatten(0, 1)
        if page < 64:
            values = values[:length]
        keys = torch.where(torch.isnan(keys.float()), 0.0, keys.double())[: len(values)]
        seen = torch.zeros(b - a, len(values), dtype=torch.bool)
        seen[:, :length] = positions(b - a, length, causal, left)
        out[a:b] = attend(q[a:b], keys, values, seen, scale, cap, sinks)
    return out


def fa4(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    cu_seqlens_q: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_k: torch.Tensor,
    page_table: torch.Tensor,
    softmax_scale: float,
    causal: bool,
    window_size: tuple[int | None, int | None],
    learnable_sink: torch.Tensor | None,
    softcap: float,
) -> tuple[torch.Tensor, None]:
    """`flash_attn.cute.flash_attn_varlen_func`."""
    assert max_seqlen_q >= int((cu_seqlens_q[1:] - cu_seqlens_q[:-1]).max())
    assert max_seqlen_k >= int(seqused_k.max())
    assert q.dtype is k.dtype is v.dtype
    out = varlen(
        q,
        k,
        v,
        page_table=page_table,
        lens=seqused_k,
        bounds=cu_seqlens_q,
        scale=softmax_scale,
        causal=causal,
        window=window_size,
        cap=softcap,
        sinks=learnable_sink,
    )
    return out.to(q.dtype), None


def fa3(
    *,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cache_seqlens: torch.Tensor,
    page_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    max_seqlen_q: int,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    softmax_scale: float,
    causal: bool,
    window_size: tuple[int, int],
    softcap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """`sgl_kernel.flash_attn.flash_attn_with_kvcache`."""
    assert max_seqlen_q >= int((cu_seqlens_q[1:] - cu_seqlens_q[:-1]).max())
    assert q.dtype is k_cache.dtype is v_cache.dtype
    scale, weight = softmax_scale, 1.0
    if k_descale is not None and v_descale is not None:
        assert k_descale.shape == v_descale.shape == (len(cache_seqlens), k_cache.shape[2])
        scale, weight = scale * float(k_descale[0, 0]), float(v_descale[0, 0])
    out = varlen(
        q,
        k_cache,
        v_cache,
        page_table=page_table,
        lens=cache_seqlens,
        bounds=cu_seqlens_q,
        scale=scale,
        causal=causal,
        window=window_size,
        cap=softcap,
        sinks=sinks,
    )
    return (out * weight).to(torch.bfloat16)


class FlashMLA:
    """`flash_mla`: the schedule has to be that of the lengths that the call reads."""

    @staticmethod
    def get_mla_metadata() -> tuple[SimpleNamespace, None]:
        return SimpleNamespace(tile_scheduler_metadata=None, num_splits=None), None

    @staticmethod
    def get_mla_decoding_metadata(
        seqlens_k: torch.Tensor,
        num_q_tokens_per_head_k: int,
        h_k: int,
        h_q: int,
        is_fp8_kvcache: bool,
        topk: None,
        use_legacy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert use_legacy
        return seqlens_k.clone(), torch.tensor(num_q_tokens_per_head_k)

    @staticmethod
    def flash_mla_with_kvcache(
        q: torch.Tensor,
        k_cache: torch.Tensor,
        block_table: torch.Tensor,
        cache_seqlens: torch.Tensor,
        head_dim_v: int,
        tile_scheduler_metadata: Any,
        num_splits: None = None,
        *,
        softmax_scale: float,
        causal: bool,
        use_legacy: bool,
        is_fp8_kvcache: bool = False,
        descale_q: torch.Tensor | None = None,
        descale_k: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, None]:
        assert use_legacy
        assert k_cache.shape[1:3] == (64, 1)
        schedule = tile_scheduler_metadata
        assert num_splits is None
        assert torch.equal(schedule.tile_scheduler_metadata, cache_seqlens)
        assert int(schedule.num_splits) == q.shape[1] * q.shape[2]
        key_scale = 1.0
        assert (q.dtype is torch.float8_e4m3fn) == is_fp8_kvcache
        if is_fp8_kvcache:
            assert q.dtype is k_cache.dtype
            assert descale_q is not None
            assert descale_k is not None
            assert descale_q.shape == descale_k.shape == (1,)
            key_scale = float(descale_q) * float(descale_k)
        else:
            assert descale_q is descale_k is None
        out = varlen(
            q.flatten(0, 1).double(),
            k_cache,
            k_cache[..., :head_dim_v],
            page_table=block_table,
            lens=cache_seqlens,
            bounds=torch.arange(len(q) + 1, dtype=I32) * q.shape[1],
            scale=softmax_scale * key_scale,
            causal=causal,
            window=(-1, -1),
            cap=0.0,
            sinks=None,
        )
        shape = (*q.shape[:3], head_dim_v)
        value_scale = 1.0 if descale_k is None else float(descale_k)
        return (out * value_scale).to(torch.bfloat16).view(shape), None


FLASHINFER = SimpleNamespace(
    BatchPrefillWithPagedKVCacheWrapper=Prefill,
    BatchDecodeWithPagedKVCacheWrapper=Decode,
    mla=SimpleNamespace(BatchMLAPagedAttentionWrapper=Latent),
    decode=SimpleNamespace(trtllm_batch_decode_with_kv_cache=xqa),
)
LIBRARIES = {
    "flashinfer": FLASHINFER,
    "flash_mla": FlashMLA,
    "flash_attn.cute.interface": SimpleNamespace(flash_attn_varlen_func=fa4),
    "sgl_kernel.flash_attn": SimpleNamespace(flash_attn_with_kvcache=fa3),
}


def check_arguments(ours: Callable[..., Any], real: list[str], where: object) -> None:
    """Every argument that an emulation takes is one of the library's, at the same place."""
    mine = inspect.signature(ours).parameters
    assert set(mine) <= set(real), (where, set(mine) - set(real))
    required = [
        name
        for name, parameter in mine.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    by_place = [name for name in required if name not in ("out", "k_scale", "v_scale")]
    assert by_place == real[: len(by_place)], where
