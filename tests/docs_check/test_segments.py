"""Cutting modules by text."""

from __future__ import annotations

import ast

import pytest
from attn_lint.docs_check.source.segments import blank, split
from hypothesis import given
from hypothesis import strategies as st

MODULE = '''\
"""A docstring.

def not_a_function(): pass
"""
import os
from a import (
    b,
c)

VALUES = [
"def neither",
    1,
]  # class NotEither:
x: int = 3

@decorated(
    "with arguments"
)
@twice
def first(a, b=")"):
    """Says def inner."""
    def inner():
        return 1
    return inner

class Second(Base, key=1):
    """Text with
class Third: in it."""

    name = "x"

    @property
    def method(self):
        return """
def fourth(): pass
"""

    async def later(self): ...
if True:
    y = 1
else:
    y = 2
'''


def test_statements() -> None:
    found = [(one.kind, one.name, one.line) for one in split("m.py", MODULE)]
    assert found == [
        ("import", "", 5), ("import", "", 6), ("assign", "VALUES", 10), ("assign", "x", 14),
        ("def", "first", 16), ("class", "Second", 26), ("block", "", 39),
    ]  # fmt: skip


def test_members() -> None:
    second = next(one for one in split("m.py", MODULE) if one.name == "Second")
    found = [(one.kind, one.qualname, one.line) for one in second.members()]
    assert found == [
        ("assign", "Second.name", 30), ("def", "Second.method", 32), ("def", "Second.later", 38),
    ]  # fmt: skip
    assert second.header() == "class Second(Base, key=1):"


def test_each_piece_parses_on_its_own() -> None:
    for segment in split("m.py", MODULE):
        ast.parse(segment.text)
        for member in segment.members():
            ast.parse(member.text)


def test_an_unclosed_bracket_swallows_one_statement_only() -> None:
    text = "def one(:\n    pass\n\n@decorated\ndef two():\n    pass\n\ndef three():\n    pass\n"
    assert [(one.name, one.line) for one in split("m.py", text)] == [
        ("one", 1), ("two", 4), ("three", 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a = 'x'  # c", "a ="),
        ('a = "it\'s" + b', "a = + b"),
        ('a = """x\ny""" + b', "a = \n + b"),
        ("a = r'\\' + b'", "a = r"),
        ("a = 'x\\'y' + b", "a = + b"),
        ("f'{x}' + y", "f + y"),
    ],
)
def test_blanking(text: str, kept: str) -> None:
    masked = blank(text)
    assert len(masked) == len(text)
    assert masked.count("\n") == text.count("\n")
    assert masked.split() == kept.split()


@given(st.text(st.sampled_from("ab'\"#\\\n (){}[]:=@,"), max_size=80))
def test_blanking_keeps_every_place(text: str) -> None:
    masked = blank(text)
    assert len(masked) == len(text)
    assert [at for at, char in enumerate(masked) if char == "\n"] == [
        at for at, char in enumerate(text) if char == "\n"
    ]
    assert all(new in (old, "\f") or old == "\n" for old, new in zip(text, masked, strict=True))


@given(st.text(st.sampled_from("ab'\"#\\\n (){}[]:=@,"), max_size=120))
def test_any_text_can_be_cut(text: str) -> None:
    segments = split("m.py", text)
    assert sum(len(one.text) for one in segments) <= len(text)
    for segment in segments:
        assert text.split("\n")[segment.line - 1].startswith(segment.text.split("\n")[0])
        segment.members()
