"""Draws launches, asks attn-lint and the real SGLang, and reports where they differ.

    python -m tests.conformance --seed 1 --count 2000
    python -m tests.conformance --seed 1 --count 200 --platforms h100,b200 --models FOLDER

Differences are minimised: flags are left out one by one for as long as the two still differ.
Exit code 1 where agreement is below the bar.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attn_lint.lintcfg.judge import Judge, Launch
from attn_lint.matrix.loader import load

from .compare import FIELDS
from .draw import Case, draw
from .install import home, install
from .models import Models, write_catalogue
from .real import RealSGLang

#: The least agreement of startup verdicts and of each resolved field, in per cent.
BAR = 99.5
MAX_UNCHECKED = 1.5
#: Refusals that the simulation brings about and a real machine does not: no verdict.
ARTEFACTS = (
    # Stubbed scalar types of the kernel package are unequal, so no checkpoint converts to Marlin.
    "Unknown quantization method: gptq",
    "Unknown quantization method: awq_marlin",
    "Unknown quantization method: gptq_marlin",
    # No process groups exist beside a simulated machine.
    "parallel name 'attn_tp_rank' has not been written",
    "parallel name 'dcp_group' has not been written",
)


@dataclass(frozen=True)
class Difference:
    """What the two do not agree on."""

    kind: str
    real: Any
    ours: Any


def difference(judge: Judge, case: Case, verdict: dict[str, Any]) -> list[Difference]:
    """Compare one verdict; an empty list is agreement."""
    judgement = judge.judge(
        Launch(["--model-path", case.model, *case.argv], environment=case.environment,
               gpu=case.platform),
    )  # fmt: skip
    real = "starts" if verdict["ok"] else "refuses"
    ours = judgement.startup
    if ours != real:
        return [Difference(f"{real}, ours {ours}", verdict.get("error"), ours)]
    if ours != "starts":
        return []
    resolved = judgement.resolved()
    return [
        Difference(name, verdict["resolved"][name], resolved.get(name))
        for name in FIELDS
        if name in verdict["resolved"] and resolved.get(name) != verdict["resolved"][name]
    ]


def _is_artefact(verdict: dict[str, Any]) -> bool:
    return any(text in (verdict.get("error") or "") for text in ARTEFACTS)


def minimised(judge: Judge, real: RealSGLang, case: Case, kinds: set[str]) -> Case:
    """The case with every group of flags left out that the difference does not need."""
    position = 0
    while position < len(case.groups):
        shorter = replace(case, groups=case.groups[:position] + case.groups[position + 1 :])
        (verdict,) = real.ask(case.platform, [shorter])
        if verdict["ok"] is not None and kinds & {
            item.kind for item in difference(judge, shorter, verdict)
        }:
            case = shorter
        else:
            position += 1
    return case


def main() -> None:
    """Run the suite as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--platforms", default="")
    parser.add_argument("--models", type=Path, help="folder of model folders, not the catalogue")
    parser.add_argument("--minimise", type=int, default=10, help="differences to minimise")
    parser.add_argument("--output", type=Path, help="write every difference as JSON lines")
    options = parser.parse_args()

    install()
    release = load()
    judge = Judge(release)
    machines = {row["name"]: row for row in release["platforms"] if row["kind"] != "musa"}
    platforms = [name for name in options.platforms.split(",") if name] or list(machines)
    models = Models(options.models or write_catalogue(release, home() / "models"))
    if not models.targets:
        sys.exit(f"no model folders in {options.models}")
    cases = list(
        draw(options.seed, options.count, judge.flags, platforms, models.targets, models.drafts)
    )

    verdicts: collections.Counter[str] = collections.Counter()
    fields: collections.Counter[str] = collections.Counter()
    accepted = 0
    different: list[tuple[Case, list[Difference]]] = []
    with RealSGLang(machines) as real:
        for platform in platforms:
            own = [case for case in cases if case.platform == platform]
            if not own:
                continue
            for case, verdict in zip(own, real.ask(platform, own), strict=True):
                if verdict["ok"] is None or _is_artefact(verdict):
                    verdicts["no verdict"] += 1
                    continue
                found = difference(judge, case, verdict)
                startup = [item for item in found if ", ours " in item.kind]
                verdicts[startup[0].kind if startup else "agree"] += 1
                accepted += verdict["ok"] and not startup
                fields.update(item.kind for item in found if item not in startup)
                if found:
                    different.append((case, found))
            for case, found in [item for item in different if item[0].platform == platform]:
                if options.minimise > 0:
                    options.minimise -= 1
                    small = minimised(judge, real, case, {item.kind for item in found})
                    print(f"\n{case.id} on {platform}: {found}")
                    print(f"  --model-path {small.model} {' '.join(small.argv)}")
            real.forget(platform)
    if options.output:
        options.output.write_text(
            "".join(
                json.dumps({"id": case.id, "platform": case.platform, "model": case.model,
                            "argv": case.argv, "differences": [vars(item) for item in found]},
                           default=str) + "\n"
                for case, found in different
            ),
            encoding="utf-8",
        )  # fmt: skip
    sys.exit(report(verdicts, fields, accepted))


def report(
    verdicts: collections.Counter[str], fields: collections.Counter[str], accepted: int
) -> int:
    """Print the agreement; return 1 where it is below the bar."""
    total = sum(verdicts.values()) - verdicts["no verdict"]
    unchecked = sum(count for kind, count in verdicts.items() if kind.endswith("ours unchecked"))
    print(f"\nstartup verdicts: {total} launches")
    for kind, count in verdicts.most_common():
        print(f"  {kind:28} {count:6}  {100 * count / max(1, total):6.2f} %")
    print(f"resolved fields of {accepted} launches that both accept:")
    below = []
    for name in FIELDS:
        share = 100 * (1 - fields[name] / max(1, accepted))
        print(f"  {name:36} {share:6.2f} %")
        if share < BAR:
            below.append(name)
    agreement = 100 * verdicts["agree"] / max(1, total - unchecked)
    false_refusals = verdicts["starts, ours refuses"]
    print(f"agreement {agreement:.2f} % (unchecked {unchecked}), false refusals {false_refusals}")
    failed = (
        agreement < BAR
        or below
        or false_refusals
        or 100 * unchecked / max(1, total) > MAX_UNCHECKED
    )
    return 1 if failed else 0


if __name__ == "__main__":
    main()
