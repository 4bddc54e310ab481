"""The hybrid backend: which of its two serves which mode."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from attn_lint.backends.flex_attention.backend import FlexAttnBackend  # noqa: E402
from attn_lint.backends.hybrid import HybridAttnBackend  # noqa: E402
from attn_lint.backends.interface.batch import ForwardBatch  # noqa: E402
from attn_lint.backends.interface.errors import InvalidInput, Refused  # noqa: E402
from attn_lint.backends.interface.modes import ForwardMode  # noqa: E402
from attn_lint.backends.reference import attention, relative_error  # noqa: E402
from attn_lint.backends.torch_native.backend import TorchNativeAttnBackend  # noqa: E402
from attn_lint.backends.torch_native.capabilities import CAPABILITIES  # noqa: E402
from attn_lint.backends.verify.scenario import Scenario  # noqa: E402

from .support import MODES, SMALL, scenario  # noqa: E402

#: (mode, speculative_attention_mode): the side that SGLang's HybridAttnBackend takes.
SIDES = {
    ("extend", "prefill"): "prefill",
    ("extend", "decode"): "prefill",
    ("decode", "prefill"): "decode",
    ("decode", "decode"): "decode",
    ("idle", "prefill"): "decode",
    ("idle", "decode"): "decode",
    ("target_verify", "prefill"): "prefill",
    ("target_verify", "decode"): "decode",
}


class Recorded(TorchNativeAttnBackend):
    """torch_native, with a list of what it was asked."""

    def __init__(self, runner: Any, side: str, log: list[str]) -> None:
        super().__init__(runner)
        self.side, self.log = side, log

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        self.log.append(f"{self.side} plan")

    def _plan_in_graph(self, batch: ForwardBatch) -> None:
        self.log.append(f"{self.side} in graph")

    def _attend(self, *args: Any) -> Any:
        self.log.append(f"{self.side} forward")
        return super()._attend(*args)

    _decode = _extend = _verify = _attend


class Buffered(TorchNativeAttnBackend):
    """torch_native as if it could be captured, with buffers as the adapters of libraries have."""

    capabilities = replace(
        CAPABILITIES, allows={k: v for k, v in CAPABILITIES.allows.items() if k != "graph"}
    )
    max_bs: int | None = None

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens)
        self.max_bs = max_bs

    def _plan(self, batch: ForwardBatch, *, in_capture: bool) -> None:
        if self.max_bs is None:
            raise InvalidInput(["init_cuda_graph_state was not called before a capture"])


def recorded(drawn: Scenario, mode: str) -> tuple[HybridAttnBackend, list[str]]:
    log: list[str] = []
    runner = replace(drawn.runner, speculative_attention_mode=mode)
    both = (Recorded(runner, side, log) for side in ("prefill", "decode"))
    return HybridAttnBackend(*both), log


def test_every_pair_of_modes_is_listed() -> None:
    modes = [mode.value for mode in ForwardMode]
    assert set(SIDES) == set(itertools.product(modes, ("prefill", "decode")))


@pytest.mark.parametrize(("mode", "speculative"), sorted(SIDES))
def test_dispatch(mode: str, speculative: str) -> None:
    side = SIDES[mode, speculative]
    drawn = scenario(MODES.get(mode, SMALL))
    hybrid, log = recorded(drawn, speculative)
    batch = drawn.batch
    if mode == "idle":
        batch = ForwardBatch.idle(batch.req_to_token_pool, batch.token_to_kv_pool)
    assert hybrid.select(batch.forward_mode) is getattr(hybrid, f"{side}_backend")
    hybrid.init_forward_metadata(batch)
    if mode == "idle":
        out = hybrid.forward(drawn.q[:0], drawn.k[:0], drawn.v[:0], drawn.layer, batch)
        assert out.shape == (0, 128)
        assert log == []
        return
    out = hybrid.forward(drawn.q, drawn.k, drawn.v, drawn.layer, batch)
    assert log == [f"{side} plan", f"{side} in graph", f"{side} forward"]
    assert relative_error(out, attention(drawn.q, drawn.layer, batch)) < 1e-6


@pytest.mark.parametrize("speculative", ["prefill", "decode"])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_whichever_side_is_captured_has_its_buffers(mode: str, speculative: str) -> None:
    drawn = scenario(MODES[mode])
    runner = replace(drawn.runner, speculative_attention_mode=speculative)
    hybrid = HybridAttnBackend(Buffered(runner), Buffered(runner))
    batch = drawn.batch
    with pytest.raises(InvalidInput, match="init_cuda_graph_state was not called"):
        hybrid.init_forward_metadata_out_graph(batch, in_capture=True)
    hybrid.init_cuda_graph_state(batch.batch_size, batch.num_tokens)
    hybrid.init_forward_metadata_out_graph(batch, in_capture=True)
    hybrid.init_forward_metadata_in_graph(batch)
    out = hybrid.forward(drawn.q, drawn.k, drawn.v, drawn.layer, batch)
    assert relative_error(out, attention(drawn.q, drawn.layer, batch)) < 1e-6


@pytest.mark.parametrize("mode", sorted(MODES))
def test_two_different_backends(mode: str) -> None:
    drawn = scenario(MODES[mode], seed=2)
    hybrid = HybridAttnBackend(FlexAttnBackend(drawn.runner), TorchNativeAttnBackend(drawn.runner))
    hybrid.init_forward_metadata(drawn.batch)
    out = hybrid.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)
    assert relative_error(out, attention(drawn.q, drawn.layer, drawn.batch)) < 1e-6


def test_a_refusal_is_that_of_the_side_which_serves_the_mode() -> None:
    capped = {mode: scenario(replace(MODES[mode], logit_cap=True)) for mode in MODES}
    for mode, drawn in capped.items():
        hybrid = HybridAttnBackend(
            FlexAttnBackend(drawn.runner), TorchNativeAttnBackend(drawn.runner)
        )
        if SIDES[mode, "prefill"] == "prefill":
            hybrid.validate(drawn.batch, drawn.layer)
            assert hybrid.refusals(drawn.batch, drawn.layer) == []
        else:
            with pytest.raises(Refused, match=r"torch_native refuses: .*a logit cap"):
                hybrid.init_forward_metadata(drawn.batch)


def test_both_sides_serve_one_runner() -> None:
    first, second = scenario(SMALL), scenario(SMALL)
    with pytest.raises(InvalidInput, match="the same runner"):
        HybridAttnBackend(
            TorchNativeAttnBackend(first.runner), TorchNativeAttnBackend(second.runner)
        )


def test_a_hybrid_call_needs_a_plan_for_its_side() -> None:
    drawn = scenario(SMALL)
    hybrid, log = recorded(drawn, "prefill")
    hybrid.prefill_backend.init_forward_metadata(drawn.batch)
    log.clear()
    with pytest.raises(InvalidInput, match="was not called for this batch"):
        hybrid.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch)
    assert log == []


def test_the_name_says_both() -> None:
    drawn = scenario(SMALL)
    hybrid = HybridAttnBackend(FlexAttnBackend(drawn.runner), TorchNativeAttnBackend(drawn.runner))
    assert hybrid.capabilities.name == "flex_attention+torch_native"
