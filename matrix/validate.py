"""Checks that go beyond the schema: dead rules, shadowed branches, sources that do not exist.

`compile_release` already refuses unknown names; what it accepts is examined here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .compile import compile_release
from .conditions import names_in
from .facts import FACTS

Json = Any
#: What can come of a phase on a GPU architecture: the lists of a GPU cell.
_OUTCOMES = ("runs", "starts", "refused", "advised", "replaced")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with the data: where, and what."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def validate(folder: Path, tree: Path | None = None) -> list[Problem]:
    """Return the problems of one release's data.

    Args:
        folder: the release's YAML.
        tree: an unzipped `sglang` package or a checkout; sources are looked up in it.

    Raises:
        MatrixDataError: the data does not even compile.
    """
    sections = compile_release(folder)
    problems = [*_dead_rules(sections), *_unused(sections), *_machines_of_cells(sections)]
    if tree is not None:
        problems += _sources(sections, SourceTree(tree))
    return problems


def _walk(rules: list[Json], place: str) -> Iterator[tuple[str, Json]]:
    for number, rule in enumerate(rules):
        here = f"{place}: {rule['id']}" if "id" in rule else f"{place}[{number}]"
        yield here, rule
        for key in ("rules", "choose"):
            if key in rule:
                yield from _walk(rule[key], here if "id" in rule else f"{place}[{number}]")


def rules_of(sections: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield every rule with its place, nested ones and libraries included."""
    program = sections["program"]
    for stage in program["stages"]:
        yield from _walk(stage["rules"], stage["name"])
    for name, rules in program["libraries"].items():
        yield from _walk(rules, f"library {name}")


def _literals(expression: Json) -> Iterator[Any]:
    """Every value that an expression can give, as far as it is written out; `...` for the rest."""
    head = expression[0]
    if head == "lit":
        yield expression[1]
    elif head == "if":
        yield from _literals(expression[2])
        yield from _literals(expression[3])
    elif head == "table":
        yield from expression[1].values()
        yield from _literals(expression[3])
    else:
        yield ...


def _possible_values(sections: dict[str, Json]) -> dict[str, set[Any]]:
    """For flags with choices: the values that a launch or a rule can give them."""
    possible: dict[str, set[Any]] = {}
    for flag in sections["flags"]["flags"]:
        if flag.get("choices"):
            possible[flag["field"]] = {None, flag.get("default"), *flag["choices"]}
    for _, rule in rules_of(sections):
        for name, expression in rule.get("set", ()):
            if name in possible:
                values = [
                    v if not isinstance(v, (list, dict)) else ... for v in _literals(expression)
                ]
                possible[name].update(values)
    return possible


def _conjuncts(node: Json) -> list[Json]:
    if node[0] == "all":
        return [part for child in node[1:] for part in _conjuncts(child)]
    return [] if node[0] == "true" else [node]


def _comparisons(node: Json) -> Iterator[Json]:
    if node[0] == "is":
        yield node
    elif node[0] in ("all", "any", "not"):
        for child in node[1:]:
            yield from _comparisons(child)


def _dead_rules(sections: dict[str, Json]) -> Iterator[Problem]:
    possible = _possible_values(sections)
    for place, rule in rules_of(sections):
        if "when" in rule:
            yield from _impossible(place, rule["when"], possible)
        if "choose" in rule:
            yield from _shadowed(place, rule["choose"])


def _impossible(place: str, node: Json, possible: dict[str, set[Any]]) -> Iterator[Problem]:
    for _, op, name, operand in _comparisons(node):
        values = possible.get(name.removeprefix("raw."))
        if values is None or ... in values or operand[0] != "lit":
            continue
        wanted = operand[1] if op == "in" else [operand[1]] if op == "eq" else []
        for value in wanted:
            if value not in values:
                yield Problem(place, f"{name} is never {value!r}")
    fixed: dict[str, Any] = {}
    for part in _conjuncts(node):
        if part[0] == "is" and part[1] == "eq" and part[3][0] == "lit":
            name, value = part[2], part[3][1]
            if name in fixed and fixed[name] != value:
                yield Problem(place, f"{name} cannot be both {fixed[name]!r} and {value!r}")
            fixed[name] = value


def _shadowed(place: str, branches: list[Json]) -> Iterator[Problem]:
    earlier: list[tuple[int, set[str]]] = []
    for number, branch in enumerate(branches):
        parts = {json.dumps(part) for part in _conjuncts(branch.get("when", ["true"]))}
        for other, conditions in earlier:
            if conditions <= parts:
                yield Problem(
                    f"{place} branch {number}", f"never reached: branch {other} already covers it"
                )
                break
        earlier.append((number, parts))


def _expression_names(rule: Json) -> Iterator[str]:
    for _, expression in rule.get("set", ()):
        yield from names_in(expression)
    for binding in rule.get("each", ()):
        yield from names_in(binding.get("when", ["true"]))
        for _, expression in binding.get("names", ()):
            yield from names_in(expression)


def _unused(sections: dict[str, Json]) -> Iterator[Problem]:
    read: set[str] = set()
    libraries: set[str] = set()
    for _, rule in rules_of(sections):
        read.update(names_in(rule.get("when", ["true"])))
        read.update(_expression_names(rule))
        if "use" in rule:
            libraries.add(rule["use"])
    program = sections["program"]
    for node in program["definitions"].values():
        read.update(names_in(node))
    waiting = [name for name in read if name.startswith("fact.")]
    while waiting:  # what a fact is applied to is read as well, through other facts too
        for name in FACTS[waiting.pop().removeprefix("fact.")].arguments:
            if name.startswith("fact.") and name not in read:
                waiting.append(name)
            read.add(name)
    for name in program["libraries"]:
        if name not in libraries:
            yield Problem(f"library {name}", "no rule uses it")
    for name in program["environment"]:
        if f"env.{name}" not in read:
            yield Problem(f"environment {name}", "no rule reads it")
    for name in program["definitions"]:
        if name not in read and not name.startswith("platform."):
            yield Problem(f"definition {name}", "no rule reads it")


def _machines_of_cells(sections: dict[str, Json]) -> Iterator[Problem]:
    """GPU cells that leave an architecture out or say two things of it, and unknown names."""
    known = {machine["architecture"] for machine in sections["platforms"]}
    for file in sections["backends"]:
        for row in file.get("families", ()):
            place = f"backends {file['name']} {row['family']}"
            for phase in ("prefill_gpus", "decode_gpus"):
                cell = row[phase]
                if cell["support"] == "untested":
                    continue
                listed = [name for key in _OUTCOMES for name in cell.get(key, ())]
                for name in sorted(known - set(listed)):
                    yield Problem(f"{place} {phase}", f"nothing is said of {name}")
                yield from _listed_well(f"{place} {phase}", listed, known)
            for feature, cell in row["cells"].items():
                elsewhere = (cell.get("elsewhere") or {}).values()
                listed = [name for names in elsewhere for name in names]
                yield from _listed_well(f"{place} {feature}", listed, known)
            others = row["page_sizes"].get("others") or ()
            pages = [name for entry in others for name in entry["architectures"]]
            yield from _listed_well(f"{place} page_sizes", pages, known)


def _listed_well(place: str, listed: list[str], known: set[str]) -> Iterator[Problem]:
    for name in sorted(set(listed)):
        if name not in known:
            yield Problem(place, f"no machine has the architecture {name}")
        elif listed.count(name) > 1:
            yield Problem(place, f"{name} is listed twice")


class SourceTree:
    """Looks up files and symbols in a release's source without importing it."""

    def __init__(self, root: Path) -> None:
        self.root = next(
            (
                candidate
                for candidate in (root / "python" / "sglang", root / "sglang", root)
                if (candidate / "srt").is_dir()
            ),
            root,
        )
        self._symbols: dict[str, set[str] | None] = {}

    def problem(self, source: dict[str, Any]) -> str | None:
        """Why a source cannot be found, or None."""
        file, symbol = source.get("file"), source.get("symbol")
        if not file:
            return None
        symbols = self.symbols(file)
        if symbols is None:
            return f"no file {file}"
        if symbol and symbol not in symbols:
            return f"no symbol {symbol} in {file}"
        return None

    def symbols(self, file: str) -> set[str] | None:
        """Names defined in a file: functions, classes, `Class.method`, assigned names."""
        if file not in self._symbols:
            path = self.root / file
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, ValueError):
                self._symbols[file] = {""} if path.exists() else None
            else:
                self._symbols[file] = set(_defined(tree, ""))
        return self._symbols[file]


def _defined(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield prefix + child.name
            if prefix:
                yield child.name
            yield from _defined(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.Assign):
            for target in child.targets:
                yield from _targets(target, prefix)
        elif isinstance(child, ast.AnnAssign):
            yield from _targets(child.target, prefix)
        else:
            yield from _defined(child, prefix)


def _targets(target: ast.AST, prefix: str) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield prefix + target.id
        if prefix:
            yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _targets(element, prefix)


def _sources(sections: dict[str, Json], tree: SourceTree) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for place, source in all_sources(sections):
        problem = tree.problem(source)
        if problem and (place, problem) not in seen:
            seen.add((place, problem))
            yield Problem(place, problem)


def all_sources(sections: dict[str, Json]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every source of a release's data with its place."""
    for stage in sections["program"]["stages"]:
        if stage["source"]:
            yield f"stage {stage['name']}", stage["source"]
    for place, rule in rules_of(sections):
        if rule.get("source"):
            yield place, rule["source"]
        for key in ("refuse", "warn", "advise"):
            if rule.get(key, {}).get("source"):
                yield place, rule[key]["source"]
    for name in ("backends", "architectures", "history"):
        yield from _nested_sources(sections[name], name)


def _nested_sources(node: Json, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        label = node.get("name") or node.get("backend")
        here = f"{place} {label}" if isinstance(label, str) else place
        for key, value in node.items():
            if key == "source" and isinstance(value, dict):
                yield here, value
            else:
                yield from _nested_sources(value, f"{here} {key}" if key != "rows" else here)
    elif isinstance(node, list):
        for item in node:
            yield from _nested_sources(item, place)
