"""Draws command lines and compares the parser with the real one, value by value.

    python tests/conformance/parser_check.py --seed 1 --count 20000

needs the real release in an environment of its own: `ATTN_LINT_ORACLE` names the folder with the
harness (or it stands beside the checkout), `ORACLE_HOME` the folder with its `venv`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from attn_lint.lintcfg.flags import FlagTable, ParsedLaunch, load_flags, parse

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("parser_child.py")
DATA = ROOT / "matrix" / "data" / "sglang"


@dataclass(frozen=True)
class Oracle:
    """Where the real release can be asked."""

    python: Path
    folder: Path
    home: Path

    def run(self, *options: str, lines: str = "") -> str:
        """Output of the child; its chatter on stderr is dropped."""
        command = [str(self.python), str(CHILD), str(self.folder), *options]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=3600, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        return done.stdout


def find_oracle() -> Oracle | None:
    """The real release's environment, or None where it is not installed."""
    named = os.environ.get("ATTN_LINT_ORACLE")
    folder = Path(named) if named else ROOT.parent / "shared" / "oracle"
    home = Path(os.environ.get("ORACLE_HOME") or Path.home() / ".cache" / "attn-lint-oracle")
    python = home / "venv" / "bin" / "python"
    if not (folder / "fakeplat.py").is_file() or not python.exists():
        return None
    return Oracle(python, folder, home)


def load_table(release: str = "0.5.22") -> FlagTable:
    """The flag table straight from the YAML."""
    sections: dict[str, Any] = {"history": None}
    for name in ("flags", "history"):
        path = DATA / release / f"{name}.yaml"
        if path.exists():
            sections[name] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return load_flags(sections)


# ---------------------------------------------------------------------- drawing

_INTEGERS = [
    "0", "1", "2", "8", "64", "-1", "-5", "007", "1_000", " 3 ", "+4", "9" * 30, "1e3", "0x10", "",
    "4.0", "٣", "--5", "-", "1k", "2.5k", "1Ki", "1.5Ki", "3M", "k", "2 k",
]  # fmt: skip
_FLOATS = ["0.9", "-0.5", ".5", "-.5", "1e-3", "-1e3", "nan", "-inf", "1_0.0", "", "x", "0,5", "1."]
_JSONS = [
    "{}", "[]", "[1, 2]", '{"a": 1}', '{"a": {"b": [null, true]}}', "null", "3", '"x"', "nope",
    "{'a': 1}", "[1,]", "NaN", "[NaN]", "1e999", "18446744073709551616", "-0", "", " [1] ",
    '["\\ud800"]', '["a", "b"]', "[-9223372036854775809]", '{"decode": {"backend": "full"}}',
    '{"decode": {"max_bs": 4}, "prefill": {"bs": [1]}}', '{"draft": {}}', '{"decode": 1}',
    '{"decode": {"nope": 1}}', '{"prefill": {"backend": "tc_piecewise"}}', '{"decode": []}',
]  # fmt: skip
_TEXTS = [
    "x", "meta-llama/Llama-3.1-8B", "", " ", "a b", "-x", "-5", "-1.5", "--", "--x y", "=", "a=b",
    "None", "é", "日本", "-a b", "@file", "'", "\\", "*", "0", "true", "\t", "auto",
]  # fmt: skip
_JUNK = [
    "foo", "--", "-", "-x", "-5", "-.5", "--nope", "--nope=1", "--=x", "--=", "-h", "--help",
    "-hh", "-hx", "-h=", "-h=h", "--help=1", "a b", "--no-such thing", "", "-1e5", "---", "--t",
    "--model-path", "--no-", "--attention-backend fa3", "-9-9", "--é", "=", "--tp_size", "-tp",
]  # fmt: skip


class Drawer:
    """Draws command lines that exercise every kind of flag, rightly and wrongly."""

    def __init__(self, table: FlagTable, seed: int, folder: Path) -> None:
        self.table = table
        self.random = random.Random(seed)
        self.folder = folder
        self.flags = [table.flag(i) for i in range(len(table.rows)) if table.rows[i].get("names")]
        self.files = 0
        # Flags that follow rules of their own are few, so they are drawn more often.
        named = {entry["field"] for entry in (*table.checks, *table.explicit)}
        marked = {entry["flag"] for entry in table.explicit}
        self.special = [
            flag
            for flag in self.flags
            if flag.field in named
            or marked.intersection(flag.names)
            or flag.nargs is not None
            or flag.choices_env
            or flag.action not in ("store", "store_true")
            or flag.type not in ("str", "int", "float", "bool")
        ]

    def cases(self, count: int) -> Iterator[dict[str, Any]]:
        """`count` cases as the child reads them."""
        for number in range(count):
            case: dict[str, Any] = {"id": number, "argv": self.argv()}
            if self.random.random() < 0.02:
                env = {}
                for flag in self.flags:
                    for variable in flag.choices_env or ():
                        env[variable] = self.random.choice(["1", "true", "0", "Yes", ""])
                case["env"] = env
            yield case

    def argv(self) -> list[str]:
        """One command line."""
        r = self.random
        argv: list[str] = []
        if r.random() < 0.93:
            argv += ["--model-path", "m"] if r.random() < 0.8 else ["--model=m"]
        # Most draws are to be nearly right, or the first error hides all that follows.
        wrong = r.choice([0.0, 0.0, 0.02, 0.15, 0.5])
        for _ in range(r.choice([1, 2, 3, 5, 8, 12])):
            piece = self.piece(wrong)
            place = len(argv) if r.random() < 0.9 else r.randrange(len(argv) + 1)
            argv[place:place] = piece
        if r.random() < 0.12:
            place = r.randrange(len(argv) + 1)
            argv[place:place] = ["--config", self.config(wrong)]
            if r.random() < 0.05:
                argv += r.choice([["--config", "other.yaml"], ["--config"], ["--config=x.yaml"]])
        return argv

    def piece(self, wrong: float) -> list[str]:
        """A flag with its values, or something that is none."""
        r = self.random
        if r.random() < wrong * 0.4:
            return [r.choice(_JUNK)]
        flag = r.choice(self.flags if r.random() < 0.7 else self.special)
        name = r.choice([n for n, i in self.table.names.items() if i == flag.index])
        roll = r.random()
        if roll < 0.1:
            name = self.abbreviation(name)
        elif roll < 0.1 + wrong * 0.2:
            name = r.choice([name + "x", name.upper(), name[1:], "--no-" + name[2:], name[:-3]])
        values = self.values(flag, wrong)
        if values and len(values) == 1 and r.random() < 0.25:
            return [f"{name}={values[0]}"]
        return [name, *values]

    def abbreviation(self, name: str) -> str:
        """A prefix, unique more often than not."""
        r = self.random
        short = name[: r.randrange(3, len(name) + 1)]
        while r.random() < 0.85 and len(self.table.matches(short)) > 1 and short != name:
            short = name[: len(short) + 1]
        return short

    def values(self, flag: Any, wrong: float) -> list[str]:
        """Words after a flag."""
        r = self.random
        if not flag.takes_value:
            return [r.choice(_TEXTS)] if r.random() < wrong * 0.2 else []
        if flag.nargs is None:
            count = 1 if r.random() > wrong * 0.2 else r.choice([0, 2])
        elif flag.nargs == "?":
            count = r.choice([0, 1, 1])
        else:
            count = r.choice([1, 1, 2, 3, 0 if flag.nargs == "*" or r.random() < wrong else 1])
        return [self.value(flag, wrong) for _ in range(count)]

    def value(self, flag: Any, wrong: float) -> str:
        r = self.random
        bad = r.random() < wrong
        if flag.choices and (not bad or r.random() < 0.5):
            text = str(r.choice(flag.choices))
            return text if not bad else r.choice([text.upper(), text + " ", text[:-1], "nope"])
        if bad:
            return r.choice([*_TEXTS, *_INTEGERS, *_FLOATS, *_JSONS])
        pool = {
            "int": ["0", "1", "2", "8", "64", "-1", "1_000", " 3 ", "+4", "9" * 30],
            "human_readable_int": ["0", "8", "-1", "1k", "2.5k", "1Ki", " 7 ", "0.0001k", "8Ti"],
            "float": ["0.9", "-0.5", ".5", "-.5", "1e-3", "nan", "1", "-2"],
            "json": ["{}", "[1, 2]", '{"a": 1}', "null", "3", "[NaN]", "1e999", '["\\ud800"]'],
            "json_list_type": ["[]", '[1, "a"]', "18446744073709551616", "-0", "{}", "[1e3]"],
        }.get(flag.type)
        if pool is None and flag.type in self.table.converters and flag.type.endswith("config_arg"):
            pool = ['{"decode": {"backend": "full"}}', '{"prefill": {"bs": [1]}}', "{}"]
        if flag.action == "lora_paths":
            pool = ["a", "n=p", '{"lora_name": "n", "lora_path": "p"}', " b "]
            if r.random() < wrong:
                pool = ["{x}", '{"lora_name": "n"}', "{}"]
        if any(flag.field == entry["field"] for entry in self.table.checks):
            pool = ["info", "WARNING", "debug", "Error", "fatal", "notset"]
            if r.random() < wrong:
                pool = ["trace", "verbose", "", "INFO ", "10"]
        return r.choice(pool if pool is not None else [*_TEXTS[:3], "y", "z/w", "None", "é"])

    # ----------------------------------------------------------------- config

    def config(self, wrong: float) -> str:
        """Write a configuration file; returns its path."""
        r = self.random
        self.files += 1
        suffix = ".yaml" if r.random() > wrong * 0.2 else r.choice([".yml", ".json", ".YAML", ""])
        path = self.folder / f"c{self.files}{suffix}"
        if r.random() < wrong * 0.1:
            return str(path)
        path.write_text(self.document(wrong), encoding="utf-8")
        return str(path)

    def document(self, wrong: float) -> str:
        """A YAML document of flags."""
        r = self.random
        if r.random() < wrong * 0.3:
            return r.choice(
                ["", "- a\n", "x", "a: [", "? [1]\n: 2\n", "1: 2\n", "a: b: c\n", "null\n", "\x00",
                 "a: !!python/object:x {}\n", "---\na: 1\n---\nb: 2\n", "on: 1\n", "\ta: 1\n"]
            )  # fmt: skip
        lines = []
        for _ in range(r.choice([1, 2, 3, 5])):
            flag = r.choice(self.flags if r.random() < 0.7 else self.special)
            name = r.choice(flag.names)[2:]
            if r.random() < wrong * 0.3:
                short = name[: max(3, len(name) - 4)]
                name = r.choice([flag.field, short, "help", "nope", "config"])
            lines.append(f"{name}: {self.scalar(flag, wrong)}")
        return "\n".join(lines) + "\n"

    def scalar(self, flag: Any, wrong: float) -> str:
        r = self.random
        if not flag.takes_value:
            return r.choice(["true", "false", "yes", "off"] + (["1", "[]", "x"] if wrong else []))
        if r.random() < wrong * 0.3:
            return r.choice(
                ["null", "~", "2020-01-01", "1e3", "0o17", "0x10", ".inf", "{a: 1}", "[1, x]", "[]",
                 "true", "{a: 2020-01-01}", "!!binary aGk=", "!!set {a}", "[true, null]", "1_000",
                 "'on'", "-3", "12:30:45", "&x [1]", "*y", "0.1"]
            )  # fmt: skip
        values = self.values(flag, 0)
        quoted = [json.dumps(v, ensure_ascii=False) if flag.type not in ("int", "float") else v
                  for v in values]  # fmt: skip
        if flag.nargs in ("+", "*"):
            return "[" + ", ".join(quoted) + "]"
        return quoted[0].strip() if quoted else "null"


# -------------------------------------------------------------------- comparing


def canonical(value: Any) -> Any:
    """A value in a form that two processes can compare."""
    if isinstance(value, float):
        return {"float": "nan" if math.isnan(value) else repr(value)}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if value is None or isinstance(value, (str, int)):
        return value
    return repr(value)


def error_class(error: str) -> str:
    """Kind of a refusal in the real parser's words."""
    if error == "SystemExit":
        return "help"
    if not error.startswith("ArgumentError: "):
        return "crash"
    text = error.removeprefix("ArgumentError: ")
    if text.startswith("argument "):
        label, _, says = text.removeprefix("argument ").partition(": ")
        for start in ("expected ", "ignored explicit argument", "invalid choice"):
            if says.startswith(start):
                return f"{label}: {start.strip()}"
        return f"{label}: value"
    for start in ("ambiguous option", "the following arguments are required", "unrecognized"):
        if text.startswith(start):
            return start
    return text


def refusal_class(launch: ParsedLaunch) -> str | None:
    """Kind of our refusal in the same words."""
    problem = launch.refusal
    if problem is None:
        return None
    if problem.kind in ("help", "config-file"):
        return {"help": "help", "config-file": "crash"}[problem.kind]
    if problem.says.startswith("module 'logging'"):
        return "crash"
    if problem.kind == "bad-type" and problem.says.endswith("it looks like JSON but is none"):
        return "crash"
    if problem.kind == "bad-type" and "an object needs the keys" in problem.says:
        return "crash"
    return error_class("ArgumentError: " + problem.says)


def compare(table: FlagTable, case: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """Differences between the real answer and ours; none is what is hoped for."""
    launch = parse(case["argv"], table, case.get("env"))
    ours, theirs = refusal_class(launch), error_class(answer["error"]) if answer["error"] else None
    if ours != theirs:
        return [f"outcome: ours {ours!r}, theirs {theirs!r} ({answer['error']})"]
    if not answer["ok"]:
        return []
    expected = {**table.defaults, **answer["changed"]}
    return [
        f"{name}: ours {launch.values[name]!r}, theirs {expected[name]!r}"
        for name in expected
        if name not in ("config", "help")
        and canonical(launch.values[name]) != canonical(expected[name])
    ]


@dataclass
class Report:
    """What a run found."""

    total: int
    accepted: int
    kinds: Counter[str]
    differing: list[tuple[dict[str, Any], list[str]]]


def check(
    oracle: Oracle, table: FlagTable, seed: int, count: int, tree: Path | None = None
) -> Report:
    """Draw, ask both, compare; `tree` is another release than the installed one."""
    with tempfile.TemporaryDirectory() as folder:
        cases = list(Drawer(table, seed, Path(folder)).cases(count))
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        options = [] if tree is None else ["--tree", str(tree)]
        answers = oracle.run(*options, lines=lines).splitlines()
        assert len(answers) == len(cases), f"{len(answers)} answers to {len(cases)} cases"
        return report(table, cases, map(json.loads, answers))


def report(
    table: FlagTable, cases: list[dict[str, Any]], answers: Iterable[dict[str, Any]]
) -> Report:
    """Compare every case with its answer."""
    out = Report(len(cases), 0, Counter(), [])
    for case, answer in zip(cases, answers, strict=True):
        out.accepted += answer["ok"]
        if answer["error"]:
            out.kinds[error_class(answer["error"]).split(": ")[-1]] += 1
        differences = compare(table, case, answer)
        if differences:
            out.differing.append((case, differences))
    return out


def main() -> int:
    """Run the command line; exit 1 where anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    oracle = find_oracle()
    if oracle is None:
        print("the real release is not installed here", file=sys.stderr)
        return 2
    result = check(oracle, load_table(), options.seed, options.count)
    for case, differences in result.differing[:20]:
        print(json.dumps(case["argv"], ensure_ascii=False))
        for difference in differences[:5]:
            print("   ", difference)
    print(f"seed {options.seed}: {result.total} drawn, {result.accepted} accepted, "
          f"{len(result.differing)} differ")  # fmt: skip
    print(", ".join(f"{kind} {count}" for kind, count in result.kinds.most_common()))
    return 1 if result.differing else 0


if __name__ == "__main__":
    sys.exit(main())
