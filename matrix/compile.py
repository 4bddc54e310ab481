"""Turns a release's YAML files into the JSON that the hot path loads.

    python -m attn_lint.matrix.compile            # every release, into matrix/compiled/

The YAML is parsed, validated (pydantic), normalised and cross-checked here; the result is written
atomically. One release becomes a folder of JSON sections, so that a command reads what it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from .conditions import LanguageError, names_in, normalise_condition, normalise_expression
from .errors import MatrixDataError
from .files import write_atomically
from .loader import MARKERS
from .schema import (
    FactsFile,
    Message,
    PipelineFile,
    PlatformFile,
    Rule,
    SetsFile,
    Source,
    StageFile,
)

Json = Any
Model = TypeVar("Model", bound=BaseModel)

try:
    _Loader: Any = yaml.CSafeLoader
except AttributeError:  # PyYAML built without libyaml
    _Loader = yaml.SafeLoader


class _UniqueKeyLoader(_Loader):  # type: ignore[misc]
    """A safe loader that refuses a key given twice, which YAML itself lets pass."""


def _unique_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        try:
            twice = key in seen
        except TypeError:
            raise yaml.constructor.ConstructorError(
                None, None, "a mapping key must be a scalar", key_node.start_mark
            ) from None
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is given twice", key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def read_yaml(path: Path) -> Any:
    """Parse one YAML file.

    Raises:
        MatrixDataError: unreadable, not UTF-8, or not YAML; the text names file, line and column.
    """
    try:
        if path.exists() and not path.is_file():
            raise MatrixDataError([f"{path}: not a plain file"])
        text = path.read_text(encoding="utf-8")
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except UnicodeDecodeError as error:
        raise MatrixDataError([f"{path}: not UTF-8 (byte {error.start})"]) from None
    except OSError as error:
        raise MatrixDataError([f"{path}: {error.strerror or error}"]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise MatrixDataError([f"{place}: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MatrixDataError([f"{path}: {str(error).splitlines()[0] or 'not YAML'}"]) from None


def read_model(path: Path, model: type[Model]) -> Model:
    """Parse and validate one YAML file against its schema."""
    data = read_yaml(path)
    try:
        return model.model_validate(data if data is not None else {})
    except ValidationError as error:
        problems = [
            f"{path}: {'.'.join(str(part) for part in item['loc']) or 'document'}: {item['msg']}"
            for item in error.errors()
        ]
        raise MatrixDataError(problems) from None
    except RecursionError:
        raise MatrixDataError([f"{path}: nested too deeply"]) from None


class _Names:
    """Every name that a condition may read."""

    def __init__(self, flags: Iterable[str], traits: Iterable[str] | None) -> None:
        self.flags = set(flags)
        self.traits = set(traits) if traits is not None else None
        self.platform: set[str] = set()
        self.env: set[str] = set()
        self.facts: set[str] = set()
        self.definitions: set[str] = set()

    def problem(self, name: str) -> str | None:
        if name in self.definitions:
            return None
        prefix, _, rest = name.partition(".")
        if not rest:
            known = self.flags
        elif prefix in {"raw", "typed"}:
            known, name = self.flags, rest
        elif prefix in {"model", "draft", "worker"}:
            if self.traits is None:
                return None
            known, name = self.traits, rest
        elif prefix == "platform":
            known, name = self.platform, rest
        elif prefix == "env":
            known, name = self.env, rest
        elif prefix == "fact":
            known, name = self.facts, rest
        elif prefix == "each":
            return None
        else:
            return f"unknown namespace {prefix!r}"
        if name in known:
            return None
        import difflib

        close = difflib.get_close_matches(name, sorted(known), 1)
        return f"unknown name {name!r}" + (f" (did you mean {close[0]!r}?)" if close else "")


class _RuleCompiler:
    """Normalises rules and collects every problem instead of stopping at the first."""

    def __init__(self, sets: dict[str, Any], tables: dict[str, Any], names: _Names) -> None:
        self.sets, self.tables, self.names = sets, tables, names
        self.problems: list[str] = []
        self.ids: dict[str, str] = {}
        self.used_libraries: set[str] = set()
        self.used_sets: set[str] = set()

    def _lookup_set(self, name: str) -> Any:
        self.used_sets.add(name)
        return self.sets.get(name)

    def condition(self, condition: Any, place: str) -> Json:
        return self._guard(lambda: normalise_condition(condition, self._lookup_set), place)

    def expression(self, value: Any, place: str) -> Json:
        return self._guard(
            lambda: normalise_expression(value, self._lookup_set, self.tables.get), place
        )

    def _guard(self, build: Callable[[], Json], place: str) -> Json:
        try:
            node = build()
        except LanguageError as error:
            self.problems.append(f"{place}: {error}")
            return ["true"]
        for name in names_in(node):
            problem = self.names.problem(name)
            if problem:
                self.problems.append(f"{place}: {problem}")
        return node

    def message(self, message: Message, place: str) -> Json:
        for field in (*(message.about or ()), *(message.fix or ())):
            if field not in self.names.flags:
                self.problems.append(f"{place}: no flag field named {field!r}")
        return message.model_dump(exclude_none=True)

    def rules(self, rules: list[Rule], place: str, source: Json) -> list[Json]:
        return [self.rule(rule, f"{place}[{n}]", source) for n, rule in enumerate(rules)]

    def rule(self, rule: Rule, place: str, source: Json) -> Json:
        if rule.id:
            place = f"{place.split(':')[0]}: rule {rule.id}"
            if rule.id in self.ids:
                self.problems.append(f"{place}: the id is taken by {self.ids[rule.id]}")
            self.ids[rule.id] = place
        source = _plain(rule.source) or source
        out: dict[str, Json] = {}
        if rule.id:
            out["id"] = rule.id
        if rule.id or rule.refuse or rule.warn or rule.set or rule.advise:
            out["source"] = source
        if rule.doc:
            out["doc"] = rule.doc
        if rule.when is not None:
            out["when"] = self.condition(rule.when, place)
        for key in ("warn", "advise", "refuse"):
            message = getattr(rule, key)
            if message is not None:
                out[key] = self.message(message, place)
        if rule.set is not None:
            for field in rule.set:
                if field not in self.names.flags:
                    self.problems.append(f"{place}: set: no field named {field!r}")
            out["set"] = [
                [field, self.expression(value, place)] for field, value in rule.set.items()
            ]
        if rule.worker is not None:
            out["worker"] = rule.worker
        if rule.each is not None:
            bindings = []
            for binding in rule.each:
                bound: dict[str, Json] = {}
                for key, value in binding.items():
                    if key == "when":
                        bound["when"] = self.condition(value, place)
                    elif key == "worker":
                        bound["worker"] = value
                    else:
                        bound.setdefault("names", []).append(
                            ["each." + key, self.expression(value, place)]
                        )
                bindings.append(bound)
            out["each"] = bindings
        if rule.use is not None:
            out["use"] = rule.use
            self.used_libraries.add(rule.use)
        if rule.rules is not None:
            out["rules"] = self.rules(rule.rules, place, source)
        if rule.choose is not None:
            out["choose"] = self.rules(rule.choose, place, source)
        if rule.unchecked is not None:
            out["unchecked"] = rule.unchecked
        if rule.stop:
            out["stop"] = True
        return out


def _plain(source: Source | None) -> Json:
    return source.model_dump(exclude_none=True) if source else None


def _sources_of_uses(files: Iterable[StageFile]) -> dict[str, list[Json]]:
    """Each library with the different sources that rules which use it name; None: the stage's."""
    found: dict[str, list[Json]] = {}

    def walk(rules: Iterable[Rule], source: Json) -> None:
        for rule in rules:
            own = _plain(rule.source) or source
            if rule.use is not None and own not in found.setdefault(rule.use, []):
                found[rule.use].append(own)
            walk((*(rule.rules or ()), *(rule.choose or ())), own)

    for file in files:
        for rules in (file.rules, *file.library.values()):
            walk(rules, None)
    return found


def _optional(path: Path, model: type[Model]) -> Model | None:
    return read_model(path, model) if path.exists() else None


def _fact_names() -> set[str]:
    from .facts import FACTS

    return set(FACTS)


#: Data files that are carried over as they are, once validated: file name -> section name.
PLAIN_SECTIONS = (
    "flags", "history", "commands", "architectures", "config_defaults", "models", "codes",
    "features",
)  # fmt: skip


def _plain_section(folder: Path, name: str) -> Json:
    """One carried-over section, validated by its own schema module where it has one."""
    path = folder / f"{name}.yaml"
    if not path.exists():
        return None
    from . import sections

    model = sections.SCHEMAS.get(name)
    if model is not None:
        read_model(path, model)
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise MatrixDataError([f"{path}: a mapping belongs here, not {type(content).__name__}"])
    return content


def compile_release(folder: Path) -> dict[str, Json]:
    """Compile one release's folder of YAML into its JSON sections.

    Raises:
        MatrixDataError: every problem found, each with its place.
    """
    if (folder / "bundled.yaml").exists():
        from .compile_bundled import compile_bundled

        return compile_bundled(folder)
    problems: list[str] = []
    sections: dict[str, Json] = {}
    for name in PLAIN_SECTIONS:
        try:
            content = _plain_section(folder, name)
        except MatrixDataError as error:
            problems += error.problems
            content = None
        sections[name] = content
    if problems:
        raise MatrixDataError(problems)

    pipeline = read_model(folder / "pipeline.yaml", PipelineFile)
    facts = _facts(folder, problems)
    platforms = read_model(folder / "platforms.yaml", PlatformFile)
    sets: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    for path in sorted(folder.glob("sets*.yaml")):
        file = read_model(path, SetsFile)
        for key, named in file.sets.items():
            if key in sets:
                problems.append(f"{path}: set {key!r} is defined twice")
            sets[key] = named.members
        tables.update({key: table.rows for key, table in file.tables.items()})
    for key, named in ((sections["architectures"] or {}).get("sets") or {}).items():
        sets.setdefault(key, named["members"])

    fields = {entry["field"] for entry in (sections["flags"] or {"flags": []})["flags"]}
    traits = (sections["architectures"] or {}).get("traits")
    names = _Names(fields, traits)
    names.flags |= set(facts.virtual_fields)
    names.env = set(facts.environment)
    names.platform = {*_platform_values(platforms.platforms[0].model_dump())}
    names.facts = _fact_names()
    for key in facts.definitions:
        if key.startswith("platform."):
            names.platform.add(key.removeprefix("platform."))
        else:
            names.definitions.add(key)

    compiler = _RuleCompiler(sets, tables, names)
    definitions = {
        key: compiler.condition(definition.when, f"facts.yaml: {key}")
        for key, definition in facts.definitions.items()
    }
    stages: dict[str, Json] = {}
    libraries: dict[str, Json] = {}
    files: dict[str, StageFile] = {}
    for path in sorted((folder / "stages").glob("*.yaml")):
        try:
            files[path.name] = read_model(path, StageFile)
        except MatrixDataError as error:
            problems += error.problems
    uses = _sources_of_uses(files.values())
    for place, stage in files.items():
        source = _plain(stage.source)
        if stage.stage in stages:
            problems.append(f"{place}: a second file for stage {stage.stage!r}")
        stages[stage.stage] = {
            "name": stage.stage,
            "label": stage.label,
            "summary": stage.summary,
            "source": source,
            "rules": compiler.rules(stage.rules, f"{place}: rules", source),
        }
        for key, rules in stage.library.items():
            # Where one function alone asks for a library, its rules are that function's.
            asking = uses.get(key, [])
            own = asking[0] if len(asking) == 1 and asking[0] else source
            libraries[key] = compiler.rules(rules, f"{place}: library {key}", own)
    problems += compiler.problems
    problems += [f"no library named {key!r}" for key in compiler.used_libraries - set(libraries)]
    problems += [
        f"pipeline.yaml: no stage file for {key!r}" for key in pipeline.stages if key not in stages
    ]
    problems += [
        f"stages: {key!r} is not named in pipeline.yaml"
        for key in stages
        if key not in pipeline.stages and stages[key]["rules"]
    ]
    if problems:
        raise MatrixDataError(problems)

    sections["program"] = {
        "stages": [stages[key] for key in pipeline.stages],
        "libraries": libraries,
        "definitions": definitions,
        "virtual_fields": facts.virtual_fields,
        "environment": {
            key: {"type": variable.type, "default": variable.default}
            for key, variable in facts.environment.items()
        },
        "archetypes": facts.archetypes,
        "typical_machines": list(facts.typical_machines),
    }
    sections["platforms"] = [platform.model_dump() for platform in platforms.platforms]
    sections["sets"] = {"sets": sets, "tables": tables}
    backends = _backends(folder, problems)
    if problems:
        raise MatrixDataError(problems)
    sections["backends"] = backends
    sections["meta"] = {"engine": pipeline.engine, "release": pipeline.release}
    return sections


def _facts(folder: Path, problems: list[str]) -> FactsFile:
    """All `facts*.yaml` files as one."""
    merged: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("facts*.yaml")):
        file = read_model(path, FactsFile)
        for section in FactsFile.model_fields:
            known = merged.setdefault(section, {})
            for key, value in getattr(file, section).items():
                if key in known and known[key] != value:
                    problems.append(f"{path}: {section}: {key!r} is defined twice, differently")
                known[key] = value
    return FactsFile.model_validate(merged)


def _backends(folder: Path, problems: list[str]) -> Json:
    from . import sections

    model = sections.SCHEMAS.get("backends")
    rows: list[Json] = []
    for path in sorted((folder / "backends").glob("*.yaml")):
        try:
            if model is not None:
                read_model(path, model)
            rows.append(read_yaml(path))
        except MatrixDataError as error:
            problems += error.problems
    return rows


def _platform_values(platform: Json) -> dict[str, Any]:
    from .platforms import platform_values

    return platform_values(platform)


def write_release(folder: Path, target: Path) -> None:
    """Compile `folder` and write its sections below `target`, each file atomically."""
    sections = compile_release(folder)
    target.mkdir(parents=True, exist_ok=True)
    for derived in target.glob("derived-*.json"):
        derived.unlink(missing_ok=True)
    # `meta` goes last: its age tells whether the rest is complete.
    for name, content in sorted(sections.items(), key=lambda item: item[0] == "meta"):
        write_atomically(
            target / f"{name}.json",
            json.dumps(content, separators=(",", ":"), ensure_ascii=True, sort_keys=False),
        )


def main() -> None:
    """Compile every release below `data/` into `compiled/`."""
    room = Path(__file__).parent
    markers = [path for name in MARKERS for path in room.glob(f"data/*/*/{name}")]
    for marker in sorted(markers):
        folder = marker.parent
        write_release(folder, room / "compiled" / f"{folder.parent.name}-{folder.name}")


if __name__ == "__main__":
    import sys

    try:
        main()
    except MatrixDataError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
