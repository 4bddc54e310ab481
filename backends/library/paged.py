"""FlashInfer's paged wrappers for keys and values of heads: fa2 or fa3, planned on the host.

One wrapper serves extend, verify and tensor-core decode: the kernel is the same, a decode is one
query a row. Wrappers are planned once a pass for each kind of layer; bounds go in from the host,
pages from the device, so that planning a decode reads nothing back.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ..interface.batch import ForwardBatch
from ..interface.capabilities import Request
from ..interface.dtypes import FP4, TORCH
from ..interface.errors import InvalidInput
from ..interface.layer import AttentionLayer
from ..interface.runner import ModelRunner
from ..interface.staging import staged
from . import modules
from .graphs import GraphBuffers, Shape, Stage
from .kinds import Kind, fp4_scales, kv_buffers, scales_of, stored_dtype
from .masks import flat_mask, pack_trees, packed_bounds
from .paging import HostLengths, host_lengths, page_list, plan_source
from .scales import ScaleTensors, to_e4m3
from .wrappers import Wrappers

#: Room to merge split keys in: SGLang's default, above FlashInfer's advice.
WORKSPACE_BYTES = 384 << 20
#: Query heads a key head for which FlashInfer's CUDA-core decode is compiled and leaves nothing to
#: tensor cores, which are worth while from four on.
_CUDA_CORE_GROUPS = (1, 2, 3)


@dataclass(slots=True)
class _Planned:
    """A wrapper as planned for the current pass."""

    wrapper: Any
    cuda_cores: bool


@dataclass(slots=True)
class _Fixed:
    """A captured extend: what its plan was made of, and the plan."""

    batch: weakref.ref[ForwardBatch]
    source: torch.Tensor
    planned: dict[Kind, _Planned]


@dataclass(slots=True)
class _Mask:
    """Buffers of a captured tree."""

    packed: torch.Tensor
    bounds: torch.Tensor


class PagedWrappers(Wrappers):
    """Plans and runs FlashInfer for every kind of MHA layer of a runner."""

    def __init__(
        self, runner: ModelRunner, backend: str, workspace: torch.Tensor, library: Any = None
    ) -> None:
        super().__init__(runner, backend, workspace, library)
        self.kv_dtype = stored_dtype(self.pool)
        # fa3 multiplies e4m3 keys by e4m3 queries.
        narrow = backend == "fa3" and self.kv_dtype is torch.float8_e4m3fn
        self.q_dtype = self.kv_dtype if narrow else runner.dtype
        self._masks: dict[Shape, _Mask] = {}
        self._planned: dict[Kind, _Planned] = {}
        #: Captured extends by the id of their batch, for as long as there is that batch.
        self._fixed: dict[int, _Fixed] = {}
        self._scales = ScaleTensors(runner)

    # Planning

    def plan(self, batch: ForwardBatch, stage: Stage) -> None:
        """Plan every kind of layer for a pass, in the buffers of a graph where it is captured."""
        if stage.captured and batch.forward_mode.is_extend():
            self._plan_fixed(batch, stage)
            return
        self._planned = self._plan_kinds(batch, Shape.of(batch) if stage.captured else None)

    def _plan_fixed(self, batch: ForwardBatch, stage: Stage) -> None:
        """Plan an extend for its capture; it is replayed as it is, with its plan's own tensors.

        Wrappers made for graphs would leave room for any lengths, which takes gigabytes here.
        """
        source = plan_source(batch)
        known = self._fixed.get(id(batch))
        if known is None or stage is Stage.CAPTURE:
            self._planned = self._plan_apart(batch)
            self._fixed[id(batch)] = _Fixed(self._forgetting(batch), source, self._planned)
        elif not torch.equal(known.source, source):
            raise InvalidInput(
                ["lengths or pages of a captured extend were changed; capture it anew"]
            )
        else:
            self._planned = known.planned

    def _plan_apart(self, batch: ForwardBatch) -> dict[Kind, _Planned]:
        """Plans of wrappers that no other pass uses."""
        eager, self._eager = self._eager, {}
        try:
            return self._plan_kinds(batch, None)
        finally:
            self._eager = eager

    def _forgetting(self, batch: ForwardBatch) -> weakref.ref[ForwardBatch]:
        """A reference that drops the batch's plan once the batch is gone."""
        key, fixed = id(batch), self._fixed
        return weakref.ref(batch, lambda _: fixed.pop(key, None))

    def _plan_kinds(self, batch: ForwardBatch, shape: Shape | None) -> dict[Kind, _Planned]:
        lengths = host_lengths(batch)
        pages = page_list(batch, lengths, self._pages.of(batch) if shape else None)
        mask = self._tree(batch, lengths, shape) if shape and shape.tree else None
        planned = {}
        for kind in self.kinds:
            cuda_cores = self._uses_cuda_cores(kind, batch)
            new = partial(self._new, kind, cuda_cores, mask)
            wrapper = self._wrapper((kind, cuda_cores), batch, shape, new)
            planned[kind] = _Planned(wrapper, cuda_cores)
            if cuda_cores:
                self._plan_decode(wrapper, kind, lengths, pages)
            else:
                self._plan_prefill(wrapper, kind, batch, lengths, pages, mask)
        return planned

    def _plan_decode(
        self, wrapper: Any, kind: Kind, lengths: HostLengths, pages: torch.Tensor
    ) -> None:
        self._planner.plan(
            wrapper,
            lengths.kv_indptr,
            pages,
            lengths.last_page_len,
            kind.q_heads,
            kind.kv_heads,
            kind.qk_head_dim,
            self.pool.page_size,
            window_left=kind.window,
            logits_soft_cap=kind.logit_cap,
            q_data_type=self.q_dtype,
            kv_data_type=self.kv_dtype,
            sm_scale=kind.scaling,
            seq_lens=lengths.kv_lens,
        )

    def _plan_prefill(
        self,
        wrapper: Any,
        kind: Kind,
        batch: ForwardBatch,
        lengths: HostLengths,
        pages: torch.Tensor,
        mask: _Mask | None,
    ) -> None:
        bounds = (lengths.qo_indptr, lengths.kv_indptr)
        last = lengths.last_page_len
        options: dict[str, Any] = {}
        masked = kind.causal and _has_mask(batch)
        if mask is not None:
            options["packed_custom_mask"] = mask.packed
        elif masked:
            # FlashInfer packs a mask where the bounds are.
            device = batch.device
            bounds = (bounds[0].to(device), bounds[1].to(device))
            last = last.to(device)
            options["custom_mask"] = flat_mask(batch)
        self._planner.plan(
            wrapper,
            bounds[0],
            bounds[1],
            pages,
            last,
            kind.q_heads,
            kind.kv_heads,
            kind.qk_head_dim,
            self.pool.page_size,
            head_dim_vo=kind.v_head_dim,
            causal=kind.causal and not masked and not batch.forward_mode.is_decode(),
            sm_scale=kind.scaling,
            window_left=kind.window,
            logits_soft_cap=kind.logit_cap,
            q_data_type=self.q_dtype,
            kv_data_type=self.kv_dtype,
            o_data_type=self.runner.dtype,
            seq_lens=lengths.kv_lens,
            max_token_per_sequence=lengths.max_q_len,
            **options,
        )
        if mask is not None:
            # plan() counts bits where the kernel reads bytes; the buffer is ours to correct.
            mask.bounds.copy_(staged(packed_bounds(lengths), batch.device), non_blocking=True)

    def _tree(self, batch: ForwardBatch, lengths: HostLengths, shape: Shape) -> _Mask:
        mask = self._mask_of(batch, shape)
        bounds = staged(packed_bounds(lengths), batch.device)
        pack_trees(batch, bounds, mask.packed)
        return mask

    def _mask_of(self, batch: ForwardBatch, shape: Shape) -> _Mask:
        if shape not in self._masks:
            context = self.runner.req_to_token_pool.max_context_len
            size = shape.batch_size * ((shape.drafts * context + 7) // 8)
            self._masks[shape] = _Mask(
                torch.zeros(size, dtype=torch.uint8, device=batch.device),
                torch.zeros(shape.batch_size + 1, dtype=torch.int32, device=batch.device),
            )
        return self._masks[shape]

    # Wrappers

    def _uses_cuda_cores(self, kind: Kind, batch: ForwardBatch) -> bool:
        return batch.forward_mode.is_decode() and uses_cuda_cores(
            self.backend,
            group=kind.q_heads // kind.kv_heads,
            same_dtype=self.kv_dtype is self.runner.dtype,
            sinks=kind.sinks,
        )

    def _new(
        self, kind: Kind, cuda_cores: bool, mask: _Mask | None, buffers: GraphBuffers | None
    ) -> Any:
        if cuda_cores:
            graph = (
                {}
                if buffers is None
                else {
                    "use_cuda_graph": True,
                    "paged_kv_indptr_buffer": buffers.kv_indptr,
                    "paged_kv_indices_buffer": buffers.pages,
                    "paged_kv_last_page_len_buffer": buffers.kv_lens,
                }
            )
            return self.library.BatchDecodeWithPagedKVCacheWrapper(self.workspace, "NHD", **graph)
        options: dict[str, Any] = (
            {}
            if buffers is None
            else {
                "use_cuda_graph": True,
                "qo_indptr_buf": buffers.qo_indptr,
                "paged_kv_indptr_buf": buffers.kv_indptr,
                "paged_kv_indices_buf": buffers.pages,
                "paged_kv_last_page_len_buf": buffers.kv_lens,
            }
        )
        if mask is not None:
            options["custom_mask_buf"] = mask.packed
            options["mask_indptr_buf"] = mask.bounds
        if kind.sinks:
            options |= self._sink_options(kind)
        return self.library.BatchPrefillWithPagedKVCacheWrapper(
            self.workspace, "NHD", backend=self.backend, **options
        )

    def _sink_options(self, kind: Kind) -> dict[str, Any]:
        """The variant of the kernel with sinks.

        The library's own wrapper for it names its module by query dtype and window alone, so that
        two dtypes of keys or two head dims would share one; the name here tells all apart.
        """
        from flashinfer.jit.attention.variants import attention_sink_decl

        name = modules.prefill(
            self.backend,
            q=self.q_dtype,
            kv=self.kv_dtype,
            out=self.runner.dtype,
            qk_head_dim=kind.qk_head_dim,
            v_head_dim=kind.v_head_dim,
            window=kind.window >= 0,
            logit_cap=False,
            sinks=True,
        )
        dtypes = (self.q_dtype, self.kv_dtype, self.runner.dtype, torch.int32)
        return {
            "jit_args": [
                name,
                *dtypes,
                kind.qk_head_dim,
                kind.v_head_dim,
                ["sink"],
                ["float"],
                ["sm_scale"],
                ["double"],
                "AttentionSink",
                attention_sink_decl[self.backend],
            ],
            "jit_kwargs": {"use_sliding_window": kind.window >= 0},
        }

    # Running

    def run(
        self, q: torch.Tensor, layer: AttentionLayer, sinks: torch.Tensor | None
    ) -> torch.Tensor:
        """Attention of the planned pass: [tokens, q_heads, v_head_dim]."""
        planned = self._planned[Kind.of(layer)]
        k, v = kv_buffers(self.pool, layer.layer_id)
        k_scale, v_scale = scales_of(layer, self.pool)
        out = q.new_empty(q.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        if planned.cuda_cores:
            planned.wrapper.run(q, (k, v), k_scale=k_scale, v_scale=v_scale, out=out)
        elif sinks is not None:
            # The variant takes its scale as an argument of its own.
            scale = layer.scaling * k_scale
            planned.wrapper.run(q, (k, v), sinks, scale, v_scale=v_scale, out=out)
        elif self.q_dtype is not self.runner.dtype:
            planned.wrapper.run(to_e4m3(q), (k, v), *self._scales.of(layer), out=out)
        elif self.pool.kv_cache_dtype == FP4:
            planned.wrapper.run(
                q,
                (k, v),
                k_scale=k_scale,
                v_scale=v_scale,
                out=out,
                kv_cache_sf=fp4_scales(self.pool, layer.layer_id),
            )
        else:
            planned.wrapper.run(q, (k, v), k_scale=k_scale, v_scale=v_scale, out=out)
        return out


def module_names(backend: str, request: Request) -> list[str]:
    """FlashInfer's modules that a request needs; `request` is one that capabilities allow."""
    dtype = TORCH[request.dtype]
    kv = torch.uint8 if request.kv_dtype == FP4 else TORCH[request.kv_dtype]
    narrow = backend == "fa3" and kv is torch.float8_e4m3fn
    if request.mode == "decode" and uses_cuda_cores(
        backend,
        group=request.group,
        same_dtype=request.same_dtype,
        sinks=request.sinks,
    ):
        return [
            modules.decode(
                q=dtype,
                kv=kv,
                qk_head_dim=request.qk_head_dim,
                v_head_dim=request.v_head_dim,
                window=request.window,
                logit_cap=request.logit_cap,
            )
        ]
    names = [
        modules.prefill(
            backend,
            q=kv if narrow else dtype,
            kv=kv,
            out=dtype,
            qk_head_dim=request.qk_head_dim,
            v_head_dim=request.v_head_dim,
            window=request.window,
            logit_cap=request.logit_cap,
            sinks=request.sinks,
        )
    ]
    if request.multimodal or (request.tree and not request.graph):
        names.append(modules.PACKING)
    return names


def uses_cuda_cores(backend: str, *, group: int, same_dtype: bool, sinks: bool) -> bool:
    """Whether a decode is better off without tensor cores, which small groups leave idle."""
    return backend == "fa2" and group in _CUDA_CORE_GROUPS and same_dtype and not sinks


def new_workspace(device: torch.device) -> torch.Tensor:
    """The buffer that split keys are merged through, zeroed as the library asks."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def _has_mask(batch: ForwardBatch) -> bool:
    spec = batch.spec_info
    return batch.kv_limit is not None or (spec is not None and spec.tree_mask is not None)
