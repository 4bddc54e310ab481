"""`attn-lint matrix show`: what each backend supports, cell by cell."""

from __future__ import annotations

import json

from ...matrix import show
from ...matrix.loader import load
from ..errors import EXIT_CLEAN, UsageError


def run(
    engine: str, sglang: str, backend: str | None, family: str | None, output_format: str
) -> int:
    """Print the rows that were asked for."""
    release = load(engine, sglang)
    if not release["backends"]:
        raise UsageError(f"{engine} {release.name} has no support matrix")
    rows = show.rows(release, backend, family)
    if output_format == "json":
        print(json.dumps(show.as_json(release, rows), indent=1))
        return EXIT_CLEAN
    detail = backend is not None  # one backend: every cell with its source
    layout = show.as_markdown if output_format == "markdown" else show.as_text
    print(layout(release, rows, detail=detail))
    return EXIT_CLEAN
