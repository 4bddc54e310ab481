"""What makes an outcome right, and what is done to a call that has to be refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

torch = pytest.importorskip("torch")

from attn_lint.backends.interface.capabilities import Request  # noqa: E402
from attn_lint.backends.verify import runs  # noqa: E402
from attn_lint.backends.verify.damage import damaged  # noqa: E402
from attn_lint.backends.verify.outcome import Outcome  # noqa: E402
from attn_lint.backends.verify.probes import Probe, Task  # noqa: E402
from attn_lint.backends.verify.runs import Pair  # noqa: E402

from .support import SMALL, scenario  # noqa: E402

ONES = torch.ones(3, 2, 4, dtype=torch.float64)
NOTHING = ONES[:0]


def outcome_of(monkeypatch: pytest.MonkeyPatch, *pairs: Pair) -> Outcome:
    """What a run comes to that yields these pairs."""

    def run(task: Task, seed: int, partners: Sequence[str]) -> Iterator[Pair]:
        yield from pairs

    monkeypatch.setitem(runs.RUNS, "eager", run)
    request = Request(dtype="float32", kv_dtype="float32")
    return runs.attempt(Task("torch_native", "mha", Probe("c", "n", {}, {}), request), 0)


def wide(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).float()


@pytest.mark.parametrize("pairs", [[], [Pair(wide(NOTHING), NOTHING)]], ids=["none", "empty"])
def test_nothing_compared_is_never_right(
    monkeypatch: pytest.MonkeyPatch, pairs: list[Pair]
) -> None:
    outcome = outcome_of(monkeypatch, *pairs)
    assert outcome.kind == "crashed"
    assert "no output was compared" in outcome.text


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["out", "ref"])
@pytest.mark.parametrize("first", [True, False])
def test_one_value_that_is_no_number_is_wrong(
    monkeypatch: pytest.MonkeyPatch, bad: float, where: str, first: bool
) -> None:
    spoilt = ONES.clone()
    spoilt[1, 1, 2] = bad
    out, ref = (spoilt, ONES) if where == "out" else (ONES, spoilt)
    pairs = [Pair(wide(out), ref), Pair(wide(ONES), ONES)]
    outcome = outcome_of(monkeypatch, *(pairs if first else pairs[::-1]))
    assert (outcome.kind, outcome.error) == ("wrong", float("inf"))


def test_an_error_without_a_norm_to_be_held_against_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0 / 0 is no number, which every comparison with a tolerance is silent of."""
    zeros = torch.zeros_like(ONES)
    assert outcome_of(monkeypatch, Pair(wide(zeros), zeros)).kind == "wrong"


@pytest.mark.parametrize("worst_first", [True, False])
def test_the_worst_of_all_outputs_counts(
    monkeypatch: pytest.MonkeyPatch, worst_first: bool
) -> None:
    off = ONES * 1.5
    pairs = [Pair(wide(off), ONES), Pair(wide(ONES), ONES)]
    outcome = outcome_of(monkeypatch, *(pairs if worst_first else pairs[::-1]))
    assert (outcome.kind, outcome.error) == ("wrong", pytest.approx(0.5))
    right = outcome_of(monkeypatch, Pair(wide(NOTHING), NOTHING), Pair(wide(ONES), ONES))
    assert (right.kind, right.error) == ("right", 0.0)


@pytest.mark.parametrize("kind", ["slot_beyond", "slot_negative", "torn_page"])
def test_a_damaged_slot_is_that_of_the_last_token_of_the_last_request(kind: str) -> None:
    spoilt = scenario(SMALL)
    batch, table = spoilt.batch, spoilt.batch.req_to_token_pool
    before = table.req_to_token.clone()
    damaged(kind, spoilt)
    (place,) = (table.req_to_token != before).nonzero().tolist()
    assert place == [int(batch.req_pool_indices_cpu[-1]), int(batch.kv_lens_cpu[-1]) - 1]
