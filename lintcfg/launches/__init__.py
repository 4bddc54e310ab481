"""Finds SGLang launches in the files that people keep, with the exact place of every word.

extraction = find_launches("deploy/serve.sh", text, commands)
extraction.launches[0].variants[0].words[1].start
"""

from __future__ import annotations

from ..context import Context
from .files import KINDS, find_launches, kind_of, worth_reading
from .model import Extraction, Found, Skipped, Variant
from .text import Lines, Source

__all__ = [
    "KINDS", "Context", "Extraction", "Found", "Lines", "Skipped", "Source", "Variant",
    "find_launches", "kind_of", "worth_reading",
]  # fmt: skip
