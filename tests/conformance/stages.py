"""Compares one stage of the rules with the part of SGLang that it restates.

    python -m tests.conformance.stages model-adjustments --seed 1 --count 200
    python -m tests.conformance.stages moe --last handle_a2a_moe

Both start from SGLang's own state at that point, so that what other stages get wrong does not
count. The stage's `source` names the step of SGLang's pipeline; `--last` names the last step where
a stage restates several.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_lint.lintcfg.flags import load_flags
from attn_lint.lintcfg.models import ModelProblem, resolve_model
from attn_lint.lintcfg.platforms import Platforms
from attn_lint.lintcfg.resolver.engine import Outcome, Program
from attn_lint.lintcfg.resolver.values import Unknown
from attn_lint.matrix.conditions import names_in
from attn_lint.matrix.facts import FACTS
from attn_lint.matrix.loader import Release, load
from attn_lint.matrix.validate import rules_of

from .compare import FIELDS, read_jsonl
from .draw import Case, draw
from .install import install
from .real import RealSGLang

CHILD = Path(__file__).with_name("stage_child.py")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "models"


@dataclass(frozen=True)
class Difference:
    """A launch on which stage and release do not agree."""

    kind: str
    case: Case
    detail: str


class StageRunner:
    """Runs one stage from a given state."""

    def __init__(self, release: Release, stage: str) -> None:
        self.release = release
        self.program = Program(release)
        found = [one for one in self.program.stages if one.name == stage]
        if not found:
            names = ", ".join(one.name for one in self.program.stages)
            sys.exit(f"no stage {stage!r}; there are: {names}")
        self.program.stages = found
        self._virtual = self.program.virtual_fields
        self._platforms = Platforms(release["platforms"])
        self._traits: dict[str, Any] = {}
        #: Values that a rule of some stage asks for, or that a verdict shows.
        self.asked_for = {*FIELDS, *_names_read(release)}

    def traits(self, model: str) -> dict[str, Any] | None:
        """Traits of a model folder; None where its configuration is refused."""
        if model not in self._traits:
            found = resolve_model(model, self.release)
            self._traits[model] = None if isinstance(found, ModelProblem) else found.traits
        traits: dict[str, Any] | None = self._traits[model]
        return traits

    def run(self, case: Case, state: dict[str, Any], traits: dict[str, Any]) -> Outcome:
        """The outcome of the stage alone."""
        self.program.virtual_fields = {
            name: value for name, value in self._virtual.items() if name not in state
        }
        return self.program.run(
            state,
            platform=self._platforms.values(case.platform),
            model=traits,
            environment=case.environment,
        )


def differences(runner: StageRunner, case: Case, answer: dict[str, Any]) -> list[Difference]:
    """Compare one launch; an empty list is agreement."""
    traits = runner.traits(case.model)
    if traits is None:
        return []
    outcome = runner.run(case, answer["before"], traits)
    real = "refuses" if "error" in answer else "starts"
    if outcome.startup != real:
        rules = ", ".join(str(event.rule.id) for event in outcome.events if event.kind == "refuse")
        detail = f"{answer.get('error', '')} [{answer.get('where', '')}] rules: {rules}"
        return [Difference(f"{real}, ours {outcome.startup}", case, detail)]
    if "error" in answer:
        return []
    out = []
    for name, value in answer["after"].items():
        ours = outcome.state[name]
        if name in runner.asked_for and (type(ours) is Unknown or ours != value):
            before = answer["before"].get(name)
            out.append(Difference(f"field {name}", case, f"{before!r} -> {value!r}, ours {ours!r}"))
    return out


def _names_read(release: Release) -> Iterator[str]:
    sections = {"program": release["program"]}
    for node in release["program"]["definitions"].values():
        yield from names_in(node)
    for fact in FACTS.values():
        yield from fact.arguments
    for _, rule in rules_of(sections):
        yield from names_in(rule.get("when"))
        for _, expression in rule.get("set", ()):
            yield from names_in(expression)


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.stages")
    parser.add_argument("stage")
    parser.add_argument("--first", help="step of SGLang's pipeline at which the stage begins")
    parser.add_argument("--last", help="step at which it ends")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--cases", type=Path, help="JSON lines of launches, instead of drawing")
    parser.add_argument("--platforms", default="")
    parser.add_argument("--models", type=Path, default=FIXTURES, help="folder of model folders")
    parser.add_argument("--show", type=int, default=5, help="examples per kind of difference")
    options = parser.parse_args()

    install()
    release = load()
    runner = StageRunner(release, options.stage)
    source = next(
        stage["source"]["symbol"]
        for stage in release["program"]["stages"]
        if stage["name"] == options.stage
    )
    first = options.first or source
    machines = {row["name"]: row for row in release["platforms"] if row["kind"] != "musa"}
    platforms = [name for name in options.platforms.split(",") if name] or list(machines)
    folders = sorted(path.parent for path in options.models.resolve().glob("*/config.json"))
    if options.cases:
        cases = [
            Case(str(row["id"]), row["platform"], str(options.models.resolve() / row["model"]),
                 tuple((word,) for word in row["argv"]), row.get("env") or {})
            for row in read_jsonl(str(options.cases))
        ]  # fmt: skip
    else:
        models = [str(folder) for folder in folders if "-draft" not in folder.name]
        cases = list(draw(options.seed, options.count, load_flags(release), platforms, models))

    counts: collections.Counter[str] = collections.Counter()
    found: dict[str, list[Difference]] = collections.defaultdict(list)
    with RealSGLang(machines, CHILD, (first, options.last or first)) as real:
        for platform in platforms:
            own = [case for case in cases if case.platform == platform]
            for case, answer in zip(own, real.ask(platform, own) if own else (), strict=True):
                if "before" not in answer:
                    counts["not reached"] += 1
                    continue
                counts["compared"] += 1
                for item in differences(runner, case, answer):
                    found[item.kind].append(item)
            real.forget(platform)
    print(json.dumps(counts))
    for kind, items in sorted(found.items(), key=lambda entry: -len(entry[1])):
        print(f"\n== {kind}: {len(items)}")
        for item in items[: options.show]:
            case = item.case
            print(f"  {case.platform} --model-path {case.model} {' '.join(case.argv)}")
            print(f"    {item.detail}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
