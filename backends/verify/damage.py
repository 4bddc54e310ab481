"""Ways to spoil a call after its batch was checked, each of which has to be found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .scenario import Scenario


@dataclass(slots=True)
class Call:
    """What is passed to the backend: queries, and whether the pass is planned first."""

    q: torch.Tensor
    plan: bool = True


def damaged(kind: str, scenario: Scenario) -> Call:
    """Spoil a scenario; raises KeyError for a kind that there is not."""
    call = Call(scenario.q)
    _KINDS[kind](scenario, call)
    return call


def _last_request(scenario: Scenario) -> int:
    return int(scenario.batch.req_pool_indices_cpu[-1])


def _slot(value: Callable[[int, int], int]) -> Callable[[Scenario, Call], None]:
    """Put another slot into the table, where the last request's last token is."""

    def spoil(scenario: Scenario, call: Call) -> None:
        reqs = scenario.batch.req_to_token_pool
        place = int(scenario.batch.kv_lens_cpu[-1]) - 1
        request = _last_request(scenario)
        slot = int(reqs.host[request, place])
        reqs.req_to_token[request, place] = value(slot, reqs.num_slots)

    return spoil


def _length(value: Callable[[int], int]) -> Callable[[Scenario, Call], None]:
    """Change a length on the device and on the host alike."""

    def spoil(scenario: Scenario, call: Call) -> None:
        new = value(scenario.batch.req_to_token_pool.max_context_len)
        scenario.batch.seq_lens[0] = new
        scenario.batch.seq_lens_cpu[0] = new

    return spoil


def _request(scenario: Scenario, call: Call) -> None:
    scenario.batch.req_pool_indices[0] = scenario.batch.req_to_token_pool.size + 3


def _extend_lens(scenario: Scenario, call: Call) -> None:
    assert scenario.batch.extend_seq_lens is not None
    scenario.batch.extend_seq_lens[0] += 1


def _dtype(scenario: Scenario, call: Call) -> None:
    call.q = call.q.double()


def _shape(scenario: Scenario, call: Call) -> None:
    call.q = call.q[..., :-8]


def _unplanned(scenario: Scenario, call: Call) -> None:
    call.plan = False


_KINDS: dict[str, Callable[[Scenario, Call], None]] = {
    "slot_beyond": _slot(lambda slot, slots: slots + 7),
    "slot_negative": _slot(lambda slot, slots: -5),
    "torn_page": _slot(lambda slot, slots: slot - 1 if slot % 2 else slot + 1),
    "length_beyond": _length(lambda most: most + 1),
    "length_zero": _length(lambda most: 0),
    "request_beyond": _request,
    "extend_lens": _extend_lens,
    "other_dtype": _dtype,
    "other_shape": _shape,
    "not_planned": _unplanned,
}
