"""What tests of files share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attn_lint.lintcfg.check.runner import Runner
from attn_lint.lintcfg.judge import Judge


@pytest.fixture(scope="module")
def shared_judges() -> Iterator[None]:
    """One judge for all runs; making one takes longer than anything else here."""
    kept: dict[str, Judge] = {}
    make = Runner.judge

    def judge(self: Runner, release: str) -> Judge:
        if release not in kept:
            kept[release] = make(self, release)
        return kept[release]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "judge", judge)
        yield
