"""What a release's own questions about the machine come to: which generations say yes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..source.tree import SourceTree

Holds = Callable[[int], bool]

#: `is_a = is_b = lru_cache(…)(partial(_check, device_capability_majors=[10, 12], …))`.
_TABLE = re.compile(
    r"^((?:\w+\s*=\s*)+)lru_cache\([^()]*\)\(\s*partial\(\s*\w+\s*,\s*"
    r"device_capability_majors\s*=\s*\[([\d,\s]+)\]",
    re.M,
)
_FUNCTION = re.compile(
    r"^def (is_\w+)\([^()]*\)[^:\n]*:[^\n]*\n((?:[ \t]+[^\n]*\n|[ \t]*\n)+)", re.M
)
_MAJOR = re.compile(
    r"get_device_capability\([^()]*\)\[0\]\s*(==|>=|in)\s*(\[[\d,\s]+\]|\([\d,\s]+\)|\d+)"
)


def generations(tree: SourceTree, files: Iterable[str]) -> dict[str, Holds]:
    """For each question by its name: whether a compute capability's major number says yes."""
    found: dict[str, Holds] = {}
    known = set(tree.files())
    for file in files:
        text = (tree.text(file) if file in known else None) or ""
        for match in _TABLE.finditer(text):
            majors = _numbers(match[2])
            for name in re.findall(r"\w+", match[1]):
                found[name] = majors.__contains__
        for match in _FUNCTION.finditer(text):
            asked = _MAJOR.findall(match[2])
            if len(asked) == 1:
                op, numbers = asked[0]
                majors = _numbers(numbers)
                found[match[1]] = min(majors).__le__ if op == ">=" else majors.__contains__
    return found


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in re.findall(r"\d+", text))
