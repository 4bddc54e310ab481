"""Conditions, effects and paths through functions, read from small sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from attn_lint.docs_check.facts.code import CodeFacts
from attn_lint.docs_check.facts.conditions import say
from attn_lint.docs_check.facts.effects import effects_of
from attn_lint.docs_check.facts.model import Effect
from attn_lint.docs_check.source.tree import SourceTree

from .support import MODERN, copied, facts

HEAD = """\
from sglang.srt.runtime_context import get_platform

KNOWN = {"one", "two"}


def check(args, view):
"""


def effects(tmp_path: Path, body: str) -> list[Effect]:
    """Effects of a function of which this is the body."""
    folder = tmp_path / "sglang" / "srt" / "arg_groups"
    folder.mkdir(parents=True)
    indented = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    (folder / "hook.py").write_text(HEAD + indented, encoding="utf-8")
    facts = CodeFacts(SourceTree.find(tmp_path))
    module = facts.codebase.module("srt/arg_groups/hook.py")
    assert module is not None
    return effects_of(facts.codebase, facts.conditions, module.find("check")[0])


CASES = [
    (
        'if view.attention_backend == "one":\n    raise ValueError("no")',
        "attention_backend is one", ("one",),
    ),
    (
        'if not (view.attention_backend != "one"):\n    raise ValueError("no")',
        "attention_backend is one", ("one",),
    ),
    (
        'if view.attention_backend in KNOWN:\n    raise ValueError("no")',
        "attention_backend is one of one, two", ("one", "two"),
    ),
    (
        'backend = view.attention_backend\nif backend == "one" and view.page_size > 1:\n'
        '    raise ValueError("no")',
        "backend is one and page size > 1", ("one",),
    ),
    (
        'if view.attention_backend == "one" or view.attention_backend == "two":\n'
        '    raise ValueError("no")',
        "attention_backend is one of one, two", ("one", "two"),
    ),
    (
        'if view.attention_backend == "one":\n    return\nif view.page_size == 1:\n'
        '    raise ValueError("no")',
        "attention_backend is not one and page size is 1", (),
    ),
    (
        'assert view.attention_backend != "one", "no"',
        "attention_backend is one", ("one",),
    ),
    (
        'if view.attention_backend == "one":\n    if get_platform().is_sm100:\n'
        '        raise ValueError("no")',
        "attention_backend is one and sm100", ("one",),
    ),
    (
        'if view.attention_backend == "one":\n    pass\nelse:\n    raise ValueError("no")',
        "attention_backend is not one", (),
    ),
    (
        'for name in ("attention_backend", "decode_attention_backend"):\n'
        '    if getattr(view, name) == "one":\n        raise ValueError("no")',
        "attention_backend is one", ("one",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "condition", "backends"), CASES)
def test_a_refusal(body: str, condition: str, backends: tuple[str, ...], tmp_path: Path) -> None:
    (effect,) = [one for one in effects(tmp_path, body) if one.kind == "refuse"]
    assert say(effect.condition) == condition
    assert effect.backends == backends
    assert effect.message in {"no", ""}


def test_settings(tmp_path: Path) -> None:
    body = 'view.page_size = 64\nif view.attention_backend == "two":\n    view.kv_cache_dtype = "x"'
    found = effects(tmp_path, body)
    assert [(one.kind, one.field, say(one.condition)) for one in found] == [
        ("set", "page_size", ""),
        ("set", "kv_cache_dtype", "attention_backend is two"),
    ]


def test_a_message_with_values(tmp_path: Path) -> None:
    body = 'if view.page_size > 1:\n    raise ValueError(f"got {view.page_size} of " "{1}")'
    (effect,) = effects(tmp_path, body)
    assert effect.message == "got … of {1}"


@pytest.mark.parametrize(
    ("code", "machines"),
    [
        ("is_blackwell_supported = is_blackwell = lru_cache(maxsize=1)(\n    partial(\n"
         "        _check_version,\n        device_capability_majors=[10, 12],\n"
         "        cuda_version=(12, 8),\n    )\n)\n", ["sm100", "sm103", "sm120", "sm121"]),
        ("@lru_cache\ndef is_blackwell(device=None) -> bool:\n    if not is_cuda():\n"
         "        return False\n\n    return torch.cuda.get_device_capability(device)[0] == 10\n",
         ["sm100", "sm103"]),
        ("def is_blackwell():\n    return torch.cuda.get_device_capability()[0] >= 11\n",
         ["sm110", "sm120", "sm121"]),
        ("def is_blackwell():\n    return torch.cuda.get_device_capability()[0] in (12,)\n",
         ["sm120", "sm121"]),
        ("def is_blackwell():\n    return probe()\n",
         ["sm100", "sm103", "sm110", "sm120", "sm121"]),
    ],
)  # fmt: skip
def test_questions_that_a_release_answers_itself(
    code: str, machines: list[str], tmp_path: Path
) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    Path(tree, "sglang/srt/utils.py").write_text(code, encoding="utf-8")
    assert facts(tree).machines.predicates["is_blackwell"] == machines
