"""`attn-lint matrix show`: what each backend supports, cell by cell."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ...matrix import loader, show
from ..errors import EXIT_CLEAN, UsageError

if TYPE_CHECKING:
    from ...backends.verify.claims import Claim

BUNDLED = "bundled"


def run(
    engine: str,
    sglang: str | None,
    backend: str | None,
    family: str | None,
    output_format: str,
    folder: os.PathLike[str] | None = None,
) -> int:
    """Print the rows that were asked for."""
    if engine == BUNDLED:
        if folder is not None:
            raise UsageError("--matrix is for SGLang's data; our own backends have one matrix")
        return _bundled(sglang, backend, family, output_format)
    release = loader.load(engine, sglang or loader.DEFAULT_RELEASE, folder=folder)
    if not release["backends"]:
        raise UsageError(f"{engine} {release.name} has no support matrix")
    rows = show.rows(release, backend, family)
    found = _claims(release, rows)
    if output_format == "json":
        data = show.as_json(release, rows)
        data["claims"] = [claim.to_json() for claim in found]
        print(json.dumps(data, indent=1))
        return EXIT_CLEAN
    detail = backend is not None  # one backend: every cell with its source
    layout = show.as_markdown if output_format == "markdown" else show.as_text
    print(layout(release, rows, detail=detail))
    print()
    print(_claims_text(found, detail=detail))
    return EXIT_CLEAN


def _bundled(release: str | None, backend: str | None, family: str | None, layout: str) -> int:
    """The rows of our own backends."""
    from ...backends import bundled  # noqa: F401  # registers
    from ...backends.not_bundled import NOT_BUNDLED
    from ...backends.registry import CAPABILITIES
    from ...backends.verify import show as own

    data = loader.load(BUNDLED, release or loader.releases(BUNDLED)[-1])
    rows = own.rows(data, CAPABILITIES, NOT_BUNDLED, backend, family)
    if layout == "json":
        print(json.dumps(own.as_json(data, CAPABILITIES, NOT_BUNDLED, rows), indent=1))
        return EXIT_CLEAN
    text = own.as_text(
        data, CAPABILITIES, NOT_BUNDLED, rows,
        detail=backend is not None, markdown=layout == "markdown",
    )  # fmt: skip
    print(text)
    return EXIT_CLEAN


def _claims(release: loader.Release, rows: list[show.Row]) -> list[Claim]:
    """What runs of the bundled backends say of each row's claims."""
    from ...backends import bundled  # noqa: F401  # registers
    from ...backends.registry import CAPABILITIES
    from ...backends.verify.claims import claims

    data = loader.load(BUNDLED, loader.releases(BUNDLED)[-1])
    return [
        claim
        for row in rows
        if row.alias_of is None
        for claim in claims(release, data, CAPABILITIES, row.backend, row.family, row.cells)
    ]


def _claims_text(found: list[Claim], *, detail: bool) -> str:
    """Claims one by one, or counted by status."""
    from ...backends.verify.claims import CONTRADICTED
    from ...backends.verify.show import claim_lines

    if not detail:
        counts: dict[str, int] = {}
        for claim in found:
            counts[claim.status] = counts.get(claim.status, 0) + 1
        said = ", ".join(f"{count} {status}" for status, count in counts.items())
        told = [claim for claim in found if claim.status == CONTRADICTED]
        lines = [
            f"Claims held against runs of the same kernels: {said} (--backend NAME lists them)"
        ]
        return "\n".join([*lines, *claim_lines(told)])
    blocks = []
    for backend, family in dict.fromkeys((claim.backend, claim.family) for claim in found):
        own = [c for c in found if (c.backend, c.family) == (backend, family)]
        blocks.append(
            "\n".join(
                [f"{backend}, {family}: claims held against runs of the same kernels, through our "
                 "own adapter and not SGLang's wrapper", *claim_lines(own)]
            )
        )  # fmt: skip
    return "\n\n".join(blocks)
