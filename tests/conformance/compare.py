"""Compares attn-lint's verdicts with judged launches, field by field.

    python -m tests.conformance.compare JUDGED… [--models FOLDER] [--show N] [--only TEXT]

JUDGED is JSON lines (or .jsonl.gz) with id, argv, platform, model, draft, env and verdict, or a
file of cases and, after a comma, the file of their verdicts.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn_lint.lintcfg.judge import Judge, Launch
from attn_lint.matrix.loader import load

#: What is compared for launches that both accept.
FIELDS = (
    "attention_backend", "prefill_effective", "decode_effective", "page_size", "kv_cache_dtype",
    "speculative_eagle_topk", "speculative_num_steps", "speculative_num_draft_tokens",
    "speculative_attention_mode", "speculative_draft_attention_backend", "dsa_prefill_backend",
    "dsa_decode_backend", "linear_attn_backend", "linear_attn_decode_backend",
    "linear_attn_prefill_backend", "linear_attn_verify_backend", "disable_radix_cache",
    "cuda_graph_decode_backend", "cuda_graph_prefill_backend", "mm_attention_backend",
)  # fmt: skip


@dataclass
class Report:
    """Agreement over a set of launches."""

    launches: int = 0
    verdicts: collections.Counter[str] = field(default_factory=collections.Counter)
    fields: collections.Counter[str] = field(default_factory=collections.Counter)
    accepted: int = 0
    disagreements: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        for key, count in sorted(self.verdicts.items()):
            yield f"{key:28} {count:6} {100 * count / max(1, self.launches):7.2f} %"
        wrong = sum(self.fields.values())
        yield f"resolved fields: {self.accepted} launches accepted by both, {wrong} differences"
        for name, count in self.fields.most_common():
            share = 100 * (1 - count / max(1, self.accepted))
            yield f"  {name:36} {count:5}  ({share:.2f} % equal)"


def read_jsonl(path: str) -> Iterator[Any]:
    """Yield the JSON values of a file of lines, compressed or not."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def judged(source: str) -> Iterator[dict[str, Any]]:
    """Yield cases with their `verdict`."""
    cases, comma, verdicts = source.partition(",")
    if not comma:
        yield from read_jsonl(cases)
        return
    for case, verdict in zip(read_jsonl(cases), read_jsonl(verdicts), strict=True):
        yield {**case, "verdict": verdict}


def launch_of(case: dict[str, Any], models: Path) -> Launch:
    """The case as a launch; model names are folders below `models`."""
    argv = [text.replace("{models}", str(models)) for text in case["argv"]]
    argv = [str(models / text[6:]) if text.startswith("model:") else text for text in argv]
    return Launch(
        argv,
        environment=case.get("env") or {},
        gpu=case["platform"],
        model=str(models / case["model"]) if case.get("model") else None,
        draft=str(models / case["draft"]) if case.get("draft") else None,
    )


def compare(source: str, judge: Judge, models: Path, report: Report) -> None:
    """Judge every case of a source and note where the verdicts differ."""
    for case in judged(source):
        verdict = case["verdict"]
        if verdict["ok"] is None:
            continue
        report.launches += 1
        real = "starts" if verdict["ok"] else "refuses"
        try:
            judgement = judge.judge(launch_of(case, models))
        except Exception as error:
            report.verdicts[f"crash {type(error).__name__}"] += 1
            report.disagreements.append({"kind": "crash", "case": case, "error": repr(error)})
            continue
        ours = judgement.startup
        report.verdicts["agree" if ours == real else f"sglang {real}, ours {ours}"] += 1
        if ours != real:
            report.disagreements.append(
                {
                    "kind": f"{real}->{ours}",
                    "where": verdict.get("where"),
                    "stage": verdict.get("stage"),
                    "error": verdict.get("error"),
                    "ours": [
                        (finding.rule, finding.message)
                        for finding in judgement.findings
                        if finding.severity == "error" or not finding.certain
                    ],
                    "depends": sorted(judgement.outcome.open_names),
                    "case": case,
                }
            )
            continue
        if real == "starts":
            report.accepted += 1
            resolved = judgement.resolved()
            for name in FIELDS:
                if name not in verdict["resolved"]:
                    continue
                if resolved.get(name) != verdict["resolved"][name]:
                    report.fields[name] += 1
                    report.disagreements.append(
                        {
                            "kind": f"field {name}",
                            "sglang": verdict["resolved"][name],
                            "ours": resolved.get(name),
                            "sources": (verdict.get("sources") or {}).get(name),
                            "case": case,
                        }
                    )


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("judged", nargs="+")
    home = os.environ.get("ORACLE_HOME") or "~/.cache/attn-lint-oracle"
    parser.add_argument("--models", type=Path, default=Path(home).expanduser() / "models")
    parser.add_argument("--show", type=int, default=10, help="examples per kind of difference")
    parser.add_argument("--only", default="", help="show kinds that contain this text")
    options = parser.parse_args()
    judge = Judge(load())
    report = Report()
    for source in options.judged:
        compare(source, judge, options.models, report)
    for line in report.lines():
        print(line)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for item in report.disagreements:
        groups[item["kind"], str(item.get("where"))].append(item)
    for (kind, where), items in sorted(groups.items(), key=lambda group: -len(group[1])):
        if options.only not in f"{kind} {where}":
            continue
        print(f"\n== {kind} [{where}] {len(items)}")
        for item in items[: options.show]:
            case = item["case"]
            context = f"{case['platform']} {case['model']} {case.get('draft', '')}"
            print(f"  {case['id']} {context} {' '.join(case['argv'])}")
            rest = {
                key: value for key, value in item.items() if key not in {"case", "kind", "where"}
            }
            print(f"     {json.dumps(rest, default=str)[:600]}")
    sys.exit(1 if report.disagreements else 0)


if __name__ == "__main__":
    main()
