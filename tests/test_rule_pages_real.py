"""What the pages of the finding codes show, in front of the real SGLang.

A page whose example is a refusal must show one that SGLang itself refuses, and what it says to use
instead must start. Skipped where the real release is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attn_lint.lintcfg import options as o
from attn_lint.lintcfg.commands.common import read_request
from attn_lint.matrix.loader import load

from .conformance import install, real
from .conformance.draw import Case
from .conformance.models import write_catalogue
from .conformance.real import RealSGLang
from .rule_pages import Shown, shown

RELEASE = load()
CODES = RELEASE["codes"]["codes"]
#: Codes whose examples SGLang starts with: deprecations, changed values, advice.
STARTS = [code for code in CODES if code == "ATT106" or "ATT3" <= code < "ATT4"]
REFUSES = [code for code in CODES if code < "ATT3" and code not in STARTS]
#: The command itself is what these show; only a whole command line can tell it.
COMMANDS = ("ATT107", "ATT110")
PATHS = ("--model-path", "--speculative-draft-model-path")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every model of the catalogue as a folder."""
    return write_catalogue(RELEASE, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def sglang() -> Iterator[RealSGLang]:
    """The real release."""
    home = Path(os.environ.get("ORACLE_HOME") or Path.home() / ".cache" / "attn-lint-oracle")
    other = home / "venv" / "bin" / "python"
    if not install.is_installed() and not other.exists():
        pytest.skip("the real release is not installed (python -m tests.conformance.install)")
    with pytest.MonkeyPatch.context() as patch:
        if not install.is_installed():
            patch.setattr(real, "interpreter", lambda: other)
        machines = {row["name"]: row for row in RELEASE["platforms"]}
        with RealSGLang(machines) as asked:
            yield asked


def as_case(name: str, command: Shown, folders: Path) -> Case:
    """The launch with its models as folders."""
    request = read_request(command.words, o.LAUNCH_OPTIONS)
    argv = list(request.command.argv)
    for flag in PATHS:
        if flag in argv:
            place = argv.index(flag) + 1
            folder = folders / argv[place].replace("/", "--")
            assert folder.is_dir(), f"{name}: the catalogue has no model of its own for this"
            argv[place] = str(folder)
    model = argv.index(PATHS[0])
    path = argv[model + 1]
    del argv[model : model + 2]
    return Case(name, request.option(o.GPU) or "h100", path, (tuple(argv),))


def test_the_pages_hold(sglang: RealSGLang, folders: Path) -> None:
    cases: dict[str, list[Case]] = {}
    expected = {}
    for code in [*REFUSES, *STARTS]:
        if code in COMMANDS:
            continue
        for heading in ("Example", "Use instead"):
            case = as_case(f"{code} {heading}", shown(code, heading), folders)
            cases.setdefault(case.platform, []).append(case)
            expected[case.id] = heading == "Use instead" or code in STARTS
    verdicts: dict[str, Any] = {}
    for platform, asked in cases.items():
        verdicts.update(zip([case.id for case in asked], sglang.ask(platform, asked), strict=True))
        sglang.forget(platform)
    wrong = {
        name: (verdict["ok"], verdict.get("error"))
        for name, verdict in verdicts.items()
        if verdict["ok"] is not expected[name]
    }
    assert not wrong
