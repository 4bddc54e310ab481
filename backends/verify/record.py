"""A run's results as evidence: plain JSON, counted by probe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..interface.capabilities import Capabilities, Request
from .machine import Here
from .outcome import BAD, OUTCOMES, RIGHT
from .pool import Result

Json = dict[str, Any]
#: Characters of a reason or an error that evidence keeps.
LONGEST_TEXT = 500


def run_of(
    results: Sequence[Result],
    here: Here,
    digest: str,
    not_run: Mapping[str, str],
    capabilities: Mapping[str, Capabilities],
) -> Json:
    """The evidence of one run."""
    backends: dict[str, dict[str, dict[str, dict[str, Json]]]] = {}
    for result in results:
        task = result.task
        families = backends.setdefault(task.backend, {})
        cells = families.setdefault(task.family, {})
        cells.setdefault(task.probe.cell, {})[task.probe.name] = _probe(
            result, capabilities[task.backend]
        )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "tool": own_version(),
        "probes": digest,
        "machine": here.to_json(),
        "versions": dict(here.versions),
        "seeds": sorted({seed for result in results for seed, _ in result.outcomes}),
        "backends": backends,
        "not_run": dict(not_run),
    }


def own_version() -> str:
    """The version of attn-lint that runs, as evidence has it."""
    from importlib import metadata

    try:
        return metadata.version("attn-lint")
    except metadata.PackageNotFoundError:
        return "unknown"


def _probe(result: Result, capabilities: Capabilities) -> Json:
    request = result.task.request
    outcomes = [outcome for _, outcome in result.outcomes]
    out: Json = {"call": said(request)}
    for kind in OUTCOMES:
        count = sum(outcome.kind == kind for outcome in outcomes)
        if count:
            out[kind] = count
    bad = next(((seed, o) for seed, o in result.outcomes if o.kind in BAD), None)
    texts = [outcome.text for outcome in outcomes if outcome.text]
    if bad is not None:
        out["text"] = _line(f"seed {bad[0]}: {bad[1].text}")
    elif texts:
        out["text"] = _line(texts[0])
    if any(outcome.kind == RIGHT for outcome in outcomes) or bad is not None:
        errors = [o.error for o in outcomes if o.error is not None and math.isfinite(o.error)]
        rows = [o.row for o in outcomes if o.row is not None and math.isfinite(o.row)]
        if errors:
            out["error"] = _short(max(errors))
        if rows:
            out["row"] = _short(max(rows))
        out["tolerance"] = capabilities.tolerance(request)
    return out


def _line(text: str) -> str:
    """A reason as evidence keeps it: one line, whatever a compiler has put into it."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split())[:LONGEST_TEXT]


def _short(value: float) -> float:
    return float(f"{value:.2e}")


def said(request: Request) -> str:
    """A call in words."""
    cache = "" if request.same_dtype else f", {request.kv_dtype} cache"
    drafts = f", {request.draft_tokens} drafts" if request.draft_tokens else ""
    return (
        f"{request.dtype}{cache}, page {request.page_size}, heads {request.q_heads}/"
        f"{request.kv_heads}, dims {request.qk_head_dim}/{request.v_head_dim}{drafts}"
    )
