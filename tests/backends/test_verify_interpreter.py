"""Triton's interpreter made quick: the same numbers, the same language after it, less work."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

#: Runs every kernel with and without, in a process of its own: Triton is changed for good.
_CODE = """
import hashlib, json, sys
from dataclasses import replace
import torch, triton.language as tl
from attn_lint.backends import bundled
from attn_lint.backends.interface.capabilities import Request
from attn_lint.backends.registry import create_backend
from attn_lint.backends.verify.interpreter import quicken
from attn_lint.backends.verify.scenario import draw
from triton.runtime import interpreter

def passes():
    found, looks = hashlib.sha256(), [0]
    whole = interpreter._patch_builtin
    def counted(*arguments):
        looks[0] += 1
        return whole(*arguments)
    interpreter._patch_builtin = counted
    for traits in ({"mode": "decode"}, {"mode": "extend", "logit_cap": True, "window": True},
                   {"mode": "target_verify", "draft_tokens": 4, "tree": True, "sinks": True}):
        request = Request(family="mha", q_heads=4, kv_heads=2, qk_head_dim=64, v_head_dim=64,
                          dtype="float32", kv_dtype="float32", page_size=16)
        drawn = draw(replace(request, **traits), 1, longest=40)
        backend = create_backend("triton", drawn.runner)
        backend.init_forward_metadata(drawn.batch)
        out = backend.forward(drawn.q, drawn.k, drawn.v, drawn.layer, drawn.batch,
                              sinks=drawn.sinks)
        found.update(out.numpy().tobytes())
    interpreter._patch_builtin = whole
    builtin = sum(tl.core.is_builtin(getattr(tl, name)) for name in dir(tl))
    return found.hexdigest(), looks[0], builtin

before = passes()
taken = quicken()
print(json.dumps([taken, before, passes()]))
"""


def test_what_is_computed_is_the_same_bit_for_bit() -> None:
    places = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": places},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    taken, before, after = json.loads(done.stdout)
    assert taken
    assert after[0] == before[0]  # outputs
    assert after[1] < before[1] / 5  # looks through the language
    assert after[2] == before[2] > 50  # what of the language is Triton's own, after a launch


def test_a_triton_of_other_insides_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from attn_lint.backends.verify.interpreter import quicken
    from triton.runtime import interpreter

    patch = interpreter._patch_lang
    monkeypatch.delattr(interpreter, "_LangPatchScope")
    quicken.cache_clear()
    assert quicken() is False
    assert interpreter._patch_lang is patch
    quicken.cache_clear()
