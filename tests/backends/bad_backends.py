"""Backends that go wrong on purpose; loaded by name into the processes that run probes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import Any

import torch
from attn_lint.backends.interface.capabilities import NO, Capabilities, Refusal
from attn_lint.backends.registry import register_attention_backend
from attn_lint.backends.torch_native.backend import TorchNativeAttnBackend
from attn_lint.backends.torch_native.capabilities import CAPABILITIES

NAMES: dict[str, Capabilities] = {}


def bad(name: str, **allows: Any) -> Any:
    """Register a class under a name; `allows` narrows what torch_native declares."""
    own = replace(CAPABILITIES, name=name, allows={**CAPABILITIES.allows, **allows})
    NAMES[name] = own

    def decorator(backend: Any) -> Any:
        backend.capabilities = own
        register_attention_backend(name, own)(backend)
        return backend

    return decorator


@bad("off_by_a_bit")
class OffByABit(TorchNativeAttnBackend):
    def _decode(self, *arguments: Any) -> torch.Tensor:
        return self._attend(*arguments) * 1.001


@bad("one_bad_query")
class OneBadQuery(TorchNativeAttnBackend):
    """A small part of the whole norm, all of it in one query of one head."""

    def _decode(self, *arguments: Any) -> torch.Tensor:
        out = self._attend(*arguments)
        smallest = out.norm(dim=-1).flatten().argmin()
        out.view(-1, out.shape[-1])[smallest] *= 1 + 1.5e-4
        return out


@bad("unwritten")
class Unwritten(TorchNativeAttnBackend):
    def _decode(self, q: torch.Tensor, *arguments: Any) -> torch.Tensor:
        out = torch.empty_like(q)
        out[1:] = self._attend(q, *arguments)[1:]
        return out


@bad("reads_on")
class ReadsOn(TorchNativeAttnBackend):
    """Takes one key more than a request has."""

    def _decode(self, q: torch.Tensor, layer: Any, batch: Any, sinks: Any) -> torch.Tensor:
        batch.seq_lens_cpu += 1
        try:
            return self._attend(q, layer, batch, sinks)
        finally:
            batch.seq_lens_cpu -= 1


@bad("crashes")
class Crashes(TorchNativeAttnBackend):
    def _decode(self, *arguments: Any) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGSEGV)
        return self._attend(*arguments)


@bad("raises")
class Raises(TorchNativeAttnBackend):
    def _decode(self, *arguments: Any) -> torch.Tensor:
        raise RuntimeError("no kernel image is available")


@bad("hangs")
class Hangs(TorchNativeAttnBackend):
    def _decode(self, *arguments: Any) -> torch.Tensor:
        time.sleep(600)
        return self._attend(*arguments)


@bad("answers_anyway", window=NO)
class AnswersAnyway(TorchNativeAttnBackend):
    def refusals(self, *arguments: Any, **options: Any) -> list[Refusal]:
        return []


@bad("refuses_late", window=NO)
class RefusesLate(TorchNativeAttnBackend):
    """Refuses as declared, having written to the pool before."""

    def validate(self, batch: Any, layer: Any, *, graph: bool = False) -> None:
        self.token_to_kv_pool.k_buffer[0][batch.out_cache_loc] = 0.0
        super().validate(batch, layer, graph=graph)


@bad("refuses_more")
class RefusesMore(TorchNativeAttnBackend):
    def refusals(self, batch: Any, layer: Any, *, graph: bool = False) -> list[Refusal]:
        return [Refusal(("window",), "no windows on Sundays")]


@bad("not_built")
class NotBuilt(TorchNativeAttnBackend):
    def refusals(self, batch: Any, layer: Any, *, graph: bool = False) -> list[Refusal]:
        return [Refusal((), "the module is not built")]


@bad("talks")
class Talks(TorchNativeAttnBackend):
    """Right, but prints where answers of the process would go."""

    def _decode(self, *arguments: Any) -> torch.Tensor:
        print('{"seed": 0, "kind": "wrong"}', flush=True)
        return self._attend(*arguments)
