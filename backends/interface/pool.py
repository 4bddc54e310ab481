"""The paged KV cache: which slot holds a token, and what the slots hold.

Slots are numbered through all pages: page `p` is slots `p * page_size` to
`(p + 1) * page_size - 1`. Page 0 and request 0 are padding, as in SGLang: rows that only fill up a
CUDA graph read and write there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from . import fp4
from .checks import is_whole, size_problems, whole
from .dtypes import FP4, FP4_BLOCK, TORCH
from .errors import InvalidInput
from .layer import AttentionLayer
from .staging import HOST

#: Far beyond any model; a pool takes one tensor after another for them.
_MOST_LAYERS = 1 << 16
_FP8_LARGEST = {"fp8_e4m3": 448.0, "fp8_e5m2": 57344.0}


def _usable(device: str | torch.device) -> torch.device:
    """A device as tensors on it say it ("cuda" becomes "cuda:0"); InvalidInput where there is none.

    torch says so by errors of several kinds, an AssertionError among them.
    """
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidInput([f"device {str(device)!r} can't be used: {reason}"]) from None


@contextmanager
def _allocating(what: str) -> Iterator[None]:
    """InvalidInput where there is no memory, or no address, for tensors of the sizes asked for.

    Not in inference mode: tensors made there can't be written outside of it, and have no version
    counter, which `ForwardBatch.recheck` needs.
    """
    try:
        with torch.inference_mode(False):
            yield
    except (RuntimeError, TypeError, OverflowError, MemoryError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidInput([f"{what} can't be allocated: {reason}"]) from None


def _slot_problems(num_pages: int, page_size: int) -> list[str]:
    """What is wrong with as many slots: tables have their numbers as int32."""
    slots = int(num_pages) * int(page_size)
    if slots <= 2**31:
        return []
    return [f"{num_pages} pages of {page_size} are {slots} slots; int32 numbers 2³¹ of them"]


def _whole_numbers(slots: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Slots on the host; InvalidInput for what would be rounded to one."""
    try:
        given = torch.as_tensor(slots, device=HOST)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidInput([f"slots are whole numbers: {str(error).splitlines()[0]}"]) from None
    kind = given.dtype
    if given.numel() and (kind.is_floating_point or kind.is_complex or kind is torch.bool):
        raise InvalidInput([f"slots are {kind}; they are whole numbers"])
    if given.layout is not torch.strided:
        raise InvalidInput([f"slots are a {given.layout} tensor; they are a dense one"])
    return given.to(torch.int64)


class ReqToTokenPool:
    """The slot of each token of each request: `req_to_token`, int32 [requests, context].

    The table is written through `write` only, which checks every slot on the host; a copy stays
    there (`host`, -1 where nothing was written), so that batches are checked without reading the
    device back.
    """

    def __init__(
        self,
        size: int,
        max_context_len: int,
        *,
        page_size: int,
        num_pages: int,
        device: str | torch.device = "cpu",
    ) -> None:
        problems = size_problems(
            size=size, max_context_len=max_context_len, page_size=page_size, num_pages=num_pages
        )
        if problems or (problems := _slot_problems(num_pages, page_size)):
            raise InvalidInput(problems)
        # Plain integers: what NumPy computes with its own has a width, and wraps around.
        size, max_context_len = int(size), int(max_context_len)
        page_size, num_pages = int(page_size), int(num_pages)
        self.size = size
        self.max_context_len = max_context_len
        self.page_size = page_size
        self.num_slots = page_size * num_pages
        usable = _usable(device)
        with _allocating(f"a table of {size} requests and {max_context_len} tokens"):
            # Row 0 is the padding request: all its tokens are slots of page 0.
            shape = (size + 1, max_context_len)
            self.host = torch.full(shape, -1, dtype=torch.int32, device=HOST)
            position = torch.arange(max_context_len, dtype=torch.int32, device=HOST)
            self.host[0] = position % page_size
            self.req_to_token = self.host.clamp(min=0).to(usable, copy=True)
        self.device = self.req_to_token.device

    def write(self, request: int, slots: Sequence[int] | torch.Tensor, start: int = 0) -> None:
        """Put the slots of tokens `start` and following of a request into the table.

        Raises InvalidInput for a request or a position outside the table, a slot outside the
        pool, and for slots that don't fill whole pages in order.
        """
        request, start = whole("request", request), whole("start", start)
        row = _whole_numbers(slots)
        problems = []
        if not 1 <= request <= self.size:
            problems.append(f"request {request} is not in 1..{self.size}")
        if row.ndim != 1:
            problems.append(f"slots have shape {tuple(row.shape)}; they are a list")
        elif start < 0 or start + len(row) > self.max_context_len:
            problems.append(
                f"tokens {start}..{start + len(row) - 1} are outside a context of "
                f"{self.max_context_len}"
            )
        elif len(row):
            low, high = int(row.min()), int(row.max())
            if low < 0 or high >= self.num_slots:
                bad = low if low < 0 else high
                problems.append(f"slot {bad} is outside the pool of {self.num_slots} slots")
            elif low < self.page_size:
                problems.append(f"slot {low} is in page 0, which is padding")
        if problems:
            raise InvalidInput(problems)
        if not len(row):
            return
        full = self.host[request].clone()
        full[start : start + len(row)] = row.to(torch.int32)
        self._check_pages(request, full, start, len(row))
        self._check_twice(request, full)
        self.host[request] = full
        self.req_to_token[request] = full.clamp(min=0).to(self.device)

    def _check_twice(self, request: int, full: torch.Tensor) -> None:
        # Whole pages in order were checked, so that a page is known by its first slot.
        first = full[:: self.page_size]
        pages, counts = first[first >= 0].unique(return_counts=True)
        if bool((counts > 1).any()):
            page = int(pages[counts > 1][0]) // self.page_size
            raise InvalidInput([f"request {request} has page {page} twice"])

    def _check_pages(self, request: int, full: torch.Tensor, start: int, count: int) -> None:
        size = self.page_size
        first = start // size * size
        part = full[first : start + count].long()
        position = torch.arange(first, start + count, device=HOST)
        written = part >= 0
        base = full[position // size * size].long()
        wrong = written & ((base < 0) | (base % size != 0) | (part != base + position % size))
        if bool(wrong.any()):
            token = int(position[wrong][0])
            raise InvalidInput(
                [
                    f"token {token} of request {request} is in slot {int(full[token])}, which is "
                    f"not place {token % size} of its page (page size {size})"
                ]
            )


def _saturated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`x` in a dtype that may end before it does, with the last number for what is beyond.

    SGLang casts, by which one such value is infinite and attention over it NaN; but its cache is
    as wide as the model or bfloat16, in which nearly nothing is beyond, so that it has no such
    values. A narrower one is there here only.
    """
    if x.dtype is dtype:
        return x
    largest = torch.finfo(dtype).max
    if largest < torch.finfo(x.dtype).max:
        # As float32: bfloat16 has no 65504, and would make 65536 of it.
        x = x.float().clamp(-largest, largest)
    return x.to(dtype)


class KVPool:
    """What every pool has; slots count through pages, page 0 is padding.

    A value beyond the range of `kv_cache_dtype` is stored as the largest that there is, so that
    a cache narrower than the model gives a finite answer.
    """

    family: str

    def __init__(
        self,
        *,
        num_pages: int,
        page_size: int,
        kv_cache_dtype: str,
        layer_num: int,
        device: str | torch.device,
    ) -> None:
        problems = size_problems(num_pages=num_pages, page_size=page_size, layer_num=layer_num)
        if not problems:
            problems = _slot_problems(num_pages, page_size)
            if layer_num > _MOST_LAYERS:
                problems.append(f"layer_num is {layer_num}; it is at most {_MOST_LAYERS}")
        if not isinstance(kv_cache_dtype, str) or kv_cache_dtype not in (*TORCH, FP4):
            known = ", ".join([*TORCH, FP4])
            problems.append(f"kv_cache_dtype is {kv_cache_dtype!r}; it is one of {known}")
        if problems:
            raise InvalidInput(problems)
        self.num_pages, self.page_size = int(num_pages), int(page_size)
        self.num_slots = self.num_pages * self.page_size
        self.kv_cache_dtype = kv_cache_dtype
        self.layer_num = int(layer_num)
        self.device = _usable(device)

    def _new(self, heads: int, dim: int) -> list[torch.Tensor]:
        """One buffer a layer: [slots, heads, dim], FP4 packed to [slots, heads, dim / 2]."""
        if self.kv_cache_dtype == FP4:
            if dim % FP4_BLOCK:
                raise InvalidInput([f"head dim {dim} is no multiple of {FP4_BLOCK} (FP4 blocks)"])
            shape, dtype = (self.num_slots, heads, dim // 2), torch.uint8
        else:
            shape, dtype = (self.num_slots, heads, dim), TORCH[self.kv_cache_dtype]
        return self._zeros(shape, dtype)

    def _scales(self, heads: int, dim: int) -> list[torch.Tensor]:
        """FP4 block scales, e4m3 [slots, heads, dim / 16]; none for other dtypes."""
        if self.kv_cache_dtype != FP4:
            return []
        return self._zeros((self.num_slots, heads, dim // FP4_BLOCK), torch.float8_e4m3fn)

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
        with _allocating(f"a pool of {self.num_slots} slots"):
            return [
                torch.zeros(shape, dtype=dtype, device=self.device) for _ in range(self.layer_num)
            ]

    def _store(
        self,
        buffers: list[torch.Tensor],
        scales: list[torch.Tensor],
        layer_id: int,
        loc: torch.Tensor,
        x: torch.Tensor,
        scale: float,
    ) -> None:
        """Write rows [tokens, heads, dim] to slots `loc`; recordable in a CUDA graph."""
        buffer = buffers[layer_id]
        if self.kv_cache_dtype == FP4:
            packed, block_scale = fp4.quantize(x, scale)
            buffer[loc] = packed
            scales[layer_id].view(torch.uint8)[loc] = block_scale.view(torch.uint8)
        elif self.kv_cache_dtype in _FP8_LARGEST:
            # torch casts what overflows to NaN (e4m3) or infinity (e5m2); a cache saturates.
            largest = _FP8_LARGEST[self.kv_cache_dtype]
            stored = (x.float() / scale).clamp(-largest, largest).to(buffer.dtype)
            buffer.view(torch.uint8)[loc] = stored.view(torch.uint8)
        else:
            buffer[loc] = _saturated(x, buffer.dtype)

    def _load(
        self,
        buffers: list[torch.Tensor],
        scales: list[torch.Tensor],
        layer_id: int,
        loc: torch.Tensor,
        scale: float,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """What slots `loc` mean, [tokens, heads, dim] in `dtype`."""
        buffer = buffers[layer_id]
        if self.kv_cache_dtype == FP4:
            return fp4.dequantize(buffer[loc], scales[layer_id][loc], scale, dtype)
        if self.kv_cache_dtype in _FP8_LARGEST:
            rows = buffer.view(torch.uint8)[loc].view(buffer.dtype)
            return rows.to(dtype) * scale
        return buffer[loc].to(dtype)

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(keys, values) of a layer, [slots, heads, dim] as stored."""
        raise NotImplementedError

    def spans(self, layer_id: int) -> list[tuple[int, int]]:
        """Where a layer's buffers are in memory: first address and the one after the last."""
        buffers = self.get_kv_buffer(layer_id)
        return [(x.data_ptr(), x.data_ptr() + x.nbytes) for x in buffers]

    def load(
        self, layer: AttentionLayer, loc: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of slots `loc`, [tokens, heads, dim] each, dequantized to `dtype`."""
        raise NotImplementedError

    def set_kv_buffer(
        self, layer: AttentionLayer, loc: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> None:
        """Store keys and values [tokens, heads, dim] in slots `loc`."""
        raise NotImplementedError

    def poison(self, slots: torch.Tensor) -> None:
        """Fill slots with NaN in every layer, so that a kernel that reads them is found out."""
        raise NotImplementedError

    def _poison(
        self, buffers: list[torch.Tensor], scales: list[torch.Tensor], slots: torch.Tensor
    ) -> None:
        for buffer in scales or buffers:
            if buffer.element_size() == 1:
                buffer.view(torch.uint8)[slots] = 0x7F  # NaN in e4m3 and in e5m2
            else:
                buffer[slots] = float("nan")


class MHATokenToKVPool(KVPool):
    """Keys and values in buffers of their own, [slots, heads, head_dim] a layer."""

    family = "mha"

    def __init__(
        self,
        *,
        num_pages: int,
        page_size: int,
        kv_cache_dtype: str,
        head_num: int,
        head_dim: int,
        v_head_dim: int | None = None,
        layer_num: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__(
            num_pages=num_pages,
            page_size=page_size,
            kv_cache_dtype=kv_cache_dtype,
            layer_num=layer_num,
            device=device,
        )
        v_head_dim = head_dim if v_head_dim is None else v_head_dim
        problems = size_problems(head_num=head_num, head_dim=head_dim, v_head_dim=v_head_dim)
        if problems:
            raise InvalidInput(problems)
        self.head_num, self.head_dim, self.v_head_dim = (
            int(head_num),
            int(head_dim),
            int(v_head_dim),
        )
        self.k_buffer = self._new(self.head_num, self.head_dim)
        self.v_buffer = self._new(self.head_num, self.v_head_dim)
        self.k_scale_buffer = self._scales(self.head_num, self.head_dim)
        self.v_scale_buffer = self._scales(self.head_num, self.v_head_dim)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return self.k_buffer[layer_id]

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self.v_buffer[layer_id]

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(keys, values) of a layer, [slots, heads, dim] as stored."""
        return self.k_buffer[layer_id], self.v_buffer[layer_id]

    def get_kv_scale_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """FP4 block scales of keys and values, e4m3 [slots, heads, dim / 16]."""
        return self.k_scale_buffer[layer_id], self.v_scale_buffer[layer_id]

    def set_kv_buffer(
        self, layer: AttentionLayer, loc: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> None:
        self._store(self.k_buffer, self.k_scale_buffer, layer.layer_id, loc, k, layer.k_scale)
        self._store(self.v_buffer, self.v_scale_buffer, layer.layer_id, loc, v, layer.v_scale)

    def load(
        self, layer: AttentionLayer, loc: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        i = layer.layer_id
        return (
            self._load(self.k_buffer, self.k_scale_buffer, i, loc, layer.k_scale, dtype),
            self._load(self.v_buffer, self.v_scale_buffer, i, loc, layer.v_scale, dtype),
        )

    def poison(self, slots: torch.Tensor) -> None:
        self._poison(self.k_buffer, self.k_scale_buffer, slots)
        self._poison(self.v_buffer, self.v_scale_buffer, slots)


class MLATokenToKVPool(KVPool):
    """One latent a token, [slots, 1, kv_lora_rank + qk_rope_head_dim] a layer."""

    family = "mla"

    def __init__(
        self,
        *,
        num_pages: int,
        page_size: int,
        kv_cache_dtype: str,
        kv_lora_rank: int = 512,
        qk_rope_head_dim: int = 64,
        layer_num: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__(
            num_pages=num_pages,
            page_size=page_size,
            kv_cache_dtype=kv_cache_dtype,
            layer_num=layer_num,
            device=device,
        )
        whole_dims = is_whole(kv_lora_rank) and is_whole(qk_rope_head_dim)
        if not whole_dims or kv_lora_rank < 1 or qk_rope_head_dim < 0:
            raise InvalidInput([f"latent dims are {kv_lora_rank} and {qk_rope_head_dim}"])
        self.kv_lora_rank, self.qk_rope_head_dim = int(kv_lora_rank), int(qk_rope_head_dim)
        self.kv_cache_dim = self.kv_lora_rank + self.qk_rope_head_dim
        self.kv_buffer = self._new(1, self.kv_cache_dim)
        self.scale_buffer = self._scales(1, self.kv_cache_dim)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return self.kv_buffer[layer_id]

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self.kv_buffer[layer_id][..., : self.kv_lora_rank]

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(latent with rope, latent) of a layer; the second is a view of the first."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def set_kv_buffer(
        self, layer: AttentionLayer, loc: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> None:
        """Store latents `k`, [tokens, 1, kv_lora_rank + rope]; `v` is a part of them."""
        self._store(self.kv_buffer, self.scale_buffer, layer.layer_id, loc, k, layer.k_scale)

    def load(
        self, layer: AttentionLayer, loc: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        k = self._load(self.kv_buffer, self.scale_buffer, layer.layer_id, loc, layer.k_scale, dtype)
        return k, k[..., : self.kv_lora_rank]

    def poison(self, slots: torch.Tensor) -> None:
        self._poison(self.kv_buffer, self.scale_buffer, slots)
