"""Backends that go wrong on purpose; loaded by name into the processes that run probes."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any

import fake_graphs
import torch
from attn_lint.backends.interface.capabilities import NO, Capabilities, Refusal, one_of
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


@bad("crashes_leaving_a_child")
class CrashesLeavingAChild(TorchNativeAttnBackend):
    """As with a pool of compilers: the child has every pipe of its parent."""

    def _decode(self, *arguments: Any) -> torch.Tensor:
        child = os.fork()
        if not child:
            time.sleep(600)
        print(child, file=sys.stderr, flush=True)
        return self._end()

    def _end(self) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError


@bad("hangs_leaving_a_child")
class HangsLeavingAChild(CrashesLeavingAChild):
    def _end(self) -> torch.Tensor:
        time.sleep(600)
        raise AssertionError


@bad("takes_its_time")
class TakesItsTime(TorchNativeAttnBackend):
    """Right, after fifteen seconds."""

    def _decode(self, *arguments: Any) -> torch.Tensor:
        time.sleep(15)
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


class _Other(TorchNativeAttnBackend):
    """Attends with another layer or batch than it is given."""

    def _instead(self, layer: Any, batch: Any) -> tuple[Any, Any]:
        return layer, batch

    def _attend(self, q: torch.Tensor, layer: Any, batch: Any, sinks: Any) -> torch.Tensor:
        return super()._attend(q, *self._instead(layer, batch), sinks)

    _decode = _extend = _verify = _attend


@bad("one_window")
class OneWindow(_Other):
    """Plans its first layer's window for all of them."""

    def _instead(self, layer: Any, batch: Any) -> tuple[Any, Any]:
        window = self.runner.layers[0].sliding_window_size
        return replace(layer, sliding_window_size=window), batch


@bad("one_scale")
class OneScale(_Other):
    """Reads all layers' caches with the first one's scales."""

    def _instead(self, layer: Any, batch: Any) -> tuple[Any, Any]:
        first = self.runner.layers[0]
        return replace(layer, k_scale=first.k_scale, v_scale=first.v_scale), batch


@bad("keeps_plan", graph=one_of(False, True))
class KeepsPlan(_Other):
    """Goes on with the lengths of the first decode that it planned."""

    first: torch.Tensor | None = None

    def _plan(self, batch: Any, *, in_capture: bool) -> None:
        if self.first is None and batch.forward_mode.is_decode():
            self.first = batch.seq_lens_cpu.clone()

    def _instead(self, layer: Any, batch: Any) -> tuple[Any, Any]:
        if not batch.forward_mode.is_decode():
            return layer, batch
        return layer, replace(batch, seq_lens_cpu=self.first)


@bad("plans_once", graph=one_of(False, True))
class PlansOnce(_Other):
    """Replays with the lengths that it planned last, those of an eager pass if that came after."""

    last: torch.Tensor | None = None

    def _plan(self, batch: Any, *, in_capture: bool) -> None:
        if in_capture or not batch.captured:
            self.last = batch.seq_lens_cpu.clone()

    def _instead(self, layer: Any, batch: Any) -> tuple[Any, Any]:
        return layer, replace(batch, seq_lens_cpu=self.last)


@bad("counts_itself")
class CountsItself(_Other):
    """Keeps lengths of its own, as if every pass of a request came here; a verify resets them."""

    def __init__(self, runner: Any) -> None:
        super().__init__(runner)
        self._lengths: dict[int, int] = {}

    def _plan(self, batch: Any, *, in_capture: bool) -> None:
        requests = batch.req_pool_indices_cpu.tolist()
        for request, new, total in zip(
            requests, batch.query_lens_cpu, batch.kv_lens_cpu.tolist(), strict=True
        ):
            known = self._lengths.get(request, total - new)
            self._lengths[request] = known + new
        if batch.forward_mode.is_target_verify():
            self._lengths.clear()

    def _instead(self, layer: Any, batch: Any) -> tuple[Any, Any]:
        if not batch.forward_mode.is_decode():
            return layer, batch
        counted = [self._lengths[request] for request in batch.req_pool_indices_cpu.tolist()]
        return layer, replace(batch, seq_lens_cpu=torch.tensor(counted, dtype=torch.int32))


@bad("idle_row")
class IdleRow(TorchNativeAttnBackend):
    """Gives a row for a pass of none."""

    def forward(self, q: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        out = super().forward(q, *arguments, **options)
        return out if len(q) else out.new_zeros(1, out.shape[1])


@bad("idle_sticks")
class IdleSticks(TorchNativeAttnBackend):
    """Stays idle after an idle pass."""

    idle = False

    def forward(self, q: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        out = super().forward(q, *arguments, **options)
        self.idle = self.idle or not len(q)
        return out * 0 if self.idle else out


@bad("idle_raises")
class IdleRaises(TorchNativeAttnBackend):
    def forward(self, q: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        if not len(q):
            raise ZeroDivisionError("no requests to share the work among")
        return super().forward(q, *arguments, **options)


@bad("trusting")
class Trusting(TorchNativeAttnBackend):
    """Checks nothing that it is given."""

    def validate(self, *arguments: Any, **options: Any) -> None:
        pass

    def _check_admitted(self, *arguments: Any) -> None:
        pass

    def _rows(self, name: str, x: Any, n: int, heads: int, dim: int) -> torch.Tensor:
        return torch.as_tensor(x).reshape(n, heads, -1)


@bad("makes_late", graph=one_of(False, True))
class MakesLate(TorchNativeAttnBackend):
    """Makes a tensor for each layer when it is first called, but the first one's before that."""

    def __init__(self, runner: Any) -> None:
        super().__init__(runner)
        self._scales: dict[int, torch.Tensor] = {}

    def _plan(self, batch: Any, *, in_capture: bool) -> None:
        self._scale(0)

    def _scale(self, layer_id: int) -> torch.Tensor:
        if layer_id not in self._scales:
            fake_graphs.must_not_capture()
            self._scales[layer_id] = torch.ones((), device=self.device)
        return self._scales[layer_id]

    def _decode(self, q: torch.Tensor, layer: Any, *arguments: Any) -> torch.Tensor:
        return self._attend(q * self._scale(layer.layer_id), layer, *arguments)


@bad("captures", graph=one_of(False, True))
class Captures(TorchNativeAttnBackend):
    """Right; its graphs are those of `fake_graphs`."""


@bad("talks")
class Talks(TorchNativeAttnBackend):
    """Right, but prints where answers of the process would go."""

    def _decode(self, *arguments: Any) -> torch.Tensor:
        print('{"seed": 0, "kind": "wrong"}', flush=True)
        return self._attend(*arguments)
