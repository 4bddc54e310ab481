"""Evidence files: reading, merging, writing, and the cells that follow from them.

Imported when evidence is authored or checked; what `matrix show` needs is in the compiled form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import MatrixDataError

Json = dict[str, Any]
#: Changed when a reader of older files would misread a new one.
EVIDENCE_SCHEMA = 1
MODES = ("decode", "extend", "target_verify")
BAD = ("wrong", "crashed")
OUTCOMES = ("right", "refused", *BAD, "unavailable")


def read(path: Path) -> list[Json]:
    """The runs of an evidence file.

    Raises:
        MatrixDataError: unreadable, not JSON, or not evidence; the text has the places.
    """
    try:
        # With a byte order mark too, as some editors and shells write UTF-8.
        text = path.read_text(encoding="utf-8-sig")
        data = json.loads(text, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise MatrixDataError([f"{path}: not UTF-8 (byte {error.start})"]) from None
    except OSError as error:
        raise MatrixDataError([f"{path}: {error.strerror or error}"]) from None
    except ValueError as error:
        raise MatrixDataError([f"{path}: not JSON: {error}"]) from None
    except RecursionError:
        raise MatrixDataError([f"{path}: nested too deeply"]) from None
    if isinstance(data, dict) and not _is_ours(data.get("schema", EVIDENCE_SCHEMA)):
        raise MatrixDataError([f"{path}: {_other_schema(data['schema'])}"])
    # What only shows or compares evidence does without pydantic.
    from pydantic import ValidationError

    from .schema_bundled import EvidenceFile

    try:
        # Strict, as what is read is used as it stands; of the text, as JSON has no tuples.
        EvidenceFile.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems = [
            f"{path}: {'.'.join(str(part) for part in item['loc']) or 'document'}: {item['msg']}"
            for item in error.errors()[:10]
        ]
        raise MatrixDataError(problems) from None
    runs: list[Json] = data["runs"]
    return runs


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """A JSON object; of a key given twice, one half of the evidence would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return found


def _is_ours(schema: Any) -> bool:
    return type(schema) is int and schema == EVIDENCE_SCHEMA  # `true` and 1.0 equal 1


def _other_schema(schema: Any) -> str:
    text = f"evidence of schema {schema!r}; this reads {EVIDENCE_SCHEMA}"
    if isinstance(schema, int) and schema > EVIDENCE_SCHEMA:
        return f"{text}: a newer attn-lint made it, and can read it"
    return f"{text}: run attn-lint verify on that machine again"


def dump(runs: Sequence[Json]) -> str:
    """Runs as the text of an evidence file: a probe a line, so that changes are readable."""
    parts: list[str] = []
    _write(parts, {"schema": EVIDENCE_SCHEMA, "runs": list(runs)}, 0)
    return "".join(parts) + "\n"


def _write(parts: list[str], value: Any, depth: int) -> None:
    flat = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, (dict, list)) and any(
        isinstance(item, (dict, list))
        for item in (value.values() if isinstance(value, dict) else value)
    )
    if not value or not nested:
        parts.append(flat)
        return
    pad = " " * (depth + 1)
    named = isinstance(value, dict)
    parts.append("{\n" if named else "[\n")
    items = list(value.items()) if named else [(None, item) for item in value]
    for position, (key, item) in enumerate(items):
        parts.append(pad + (f"{json.dumps(key, ensure_ascii=False)}: " if named else ""))
        _write(parts, item, depth + 1)
        parts.append(",\n" if position + 1 < len(items) else "\n")
    parts.append(" " * depth + ("}" if named else "]"))


def merge(groups: Iterable[Sequence[Json]]) -> list[Json]:
    """Runs of several files as one list: by architecture, the newest last.

    Of two runs on the same kind of machine with the same versions and probes, what the newer one
    says of a cell replaces what the older one said; the rest of the older one joins it where both
    began with the same seed. Runs that differ in any of those stand side by side. Of two runs of
    one date the one with more seeds counts as the newer, whatever the order of the files.
    """
    ordered = sorted((run for group in groups for run in group), key=_age)
    merged: dict[str, list[Json]] = {}
    for run in ordered:
        key = json.dumps([run["machine"], run["versions"], run["probes"]], sort_keys=True)
        apart = []
        for known in merged.get(key, []):
            rest = _without(known, run)
            if not (rest["seeds"] and run["seeds"]) or rest["seeds"][0] == run["seeds"][0]:
                run = _joined(rest, run)
            else:
                apart.append(rest)
        merged[key] = [run, *apart]
    return sorted(
        (run for runs in merged.values() for run in runs),
        key=lambda run: (run["machine"]["architecture"], run["date"], run["seeds"]),
    )


def _age(run: Json) -> tuple[str, int, str]:
    """Ascends towards the newest run; what is left of it tells apart all that differ."""
    return run["date"], len(run["seeds"]), json.dumps(run, sort_keys=True)


def _without(old: Json, new: Json) -> Json:
    """What an older run says of cells that a newer one has not, and the seeds of that."""
    backends: Json = {}
    for name, families in old["backends"].items():
        for family, cells in families.items():
            newer = new["backends"].get(name, {}).get(family, {})
            left = {cell: probes for cell, probes in cells.items() if cell not in newer}
            if left:
                backends.setdefault(name, {})[family] = left
    # Probes count the first of a run's seeds: those behind the longest count went with its cells.
    most = max(
        (
            sum(probe.get(kind, 0) for kind in OUTCOMES)
            for families in backends.values()
            for cells in families.values()
            for probes in cells.values()
            for probe in probes.values()
        ),
        default=0,
    )
    return {**old, "seeds": old["seeds"][:most], "backends": backends}


def _joined(old: Json, new: Json) -> Json:
    backends = {name: dict(families) for name, families in old["backends"].items()}
    for name, families in new["backends"].items():
        for family, cells in families.items():
            known = backends.setdefault(name, {})
            known[family] = {**known.get(family, {}), **cells}
    not_run = {**old.get("not_run", {}), **new.get("not_run", {})}
    return {
        **new,
        "seeds": max(old["seeds"], new["seeds"], key=len),
        "backends": backends,
        "not_run": {name: why for name, why in not_run.items() if name not in backends},
    }


def of_architecture(runs: Iterable[Json], architecture: str) -> list[Json]:
    """The runs made on one architecture."""
    return [run for run in runs if run["machine"]["architecture"] == architecture]


def probes_of(runs: Iterable[Json], backend: str, family: str) -> dict[str, dict[str, list[Json]]]:
    """Cell -> probe -> what each run saw of it."""
    found: dict[str, dict[str, list[Json]]] = {}
    for run in runs:
        for cell, probes in run["backends"].get(backend, {}).get(family, {}).items():
            for name, seen in probes.items():
                found.setdefault(cell, {}).setdefault(name, []).append(seen)
    return found


def disagreement(
    runs: Iterable[Json], backend: str, family: str, cell: str, name: str
) -> dict[str, list[Json]] | None:
    """Runs by what they saw of a probe, where some were right and others were refused."""
    by_verdict: dict[str, list[Json]] = {}
    for run in runs:
        seen = run["backends"].get(backend, {}).get(family, {}).get(cell, {}).get(name)
        if seen is not None:
            by_verdict.setdefault(verdict([seen]), []).append(run)
    return by_verdict if {"right", "refused"} <= set(by_verdict) else None


def verdict(seen: Iterable[Mapping[str, Any]]) -> str:
    """One word for what runs saw of a probe: right, refused, wrong, crashed, or unavailable."""
    total = {
        kind: sum(one.get(kind, 0) for one in seen_)
        for seen_ in [list(seen)]
        for kind in ("right", "refused", *BAD)
    }
    for kind in ("crashed", "wrong"):
        if total[kind]:
            return kind
    if total["right"] and total["refused"]:
        return "wrong"  # runs disagree: one of them carried what another refused
    return next((kind for kind in ("right", "refused") if total[kind]), "unavailable")


def support(probes: Mapping[str, Sequence[Json]], files: Sequence[str]) -> Json:
    """The cell that probes make: `probe` names the evidence files.

    Wrong and crashed probes make no cell: they give `support: bad`, which no matrix may say.
    """
    source = list(files)
    verdicts = {name: verdict(seen) for name, seen in probes.items()}
    if any(kind in BAD for kind in verdicts.values()):
        return {"support": "bad"}
    right = [name for name, kind in verdicts.items() if kind == "right"]
    refused = [name for name, kind in verdicts.items() if kind == "refused"]
    if not right and not refused:
        return {"support": "untested"}
    if not refused:
        return {"support": "yes", "probe": source}
    if not right:
        return {"support": "no", "probe": source}
    return {
        "support": "partial", "when": _in_words(right, refused), "refuses": refused, "probe": source
    }  # fmt: skip


def _in_words(right: Sequence[str], refused: Sequence[str]) -> str:
    """What is carried, or what is not, whichever is shorter to say."""
    yes = ", ".join(_folded(right, (*right, *refused)))
    no = ", ".join(_folded(refused, (*right, *refused)))
    return yes if len(yes) < len(no) else f"not {no}"


def _folded(names: Sequence[str], everything: Sequence[str]) -> Iterator[str]:
    """Probe names with the modes left out where they don't matter, and lists of values folded."""
    modes: dict[str, list[str]] = {}
    for name in names:
        mode, rest = _split(name)
        modes.setdefault(rest, []).append(mode)
    offered: dict[str, list[str]] = {}
    for name in everything:
        mode, rest = _split(name)
        offered.setdefault(rest, []).append(mode)
    values: dict[tuple[str, str], list[str]] = {}
    for rest, found in modes.items():
        whole = set(found) == set(offered[rest]) and rest
        said = "" if whole else " and ".join(mode.replace("_", " ") for mode in found)
        key, equals, value = rest.rpartition("=")
        values.setdefault((said, key if equals else rest), []).append(value if equals else "")
    for (said, key), many in values.items():
        listed = [value for value in many if value]
        text = f"{key}={' '.join(listed)}" if listed else key
        yield " ".join(part for part in (said, text) if part)


def _split(name: str) -> tuple[str, str]:
    mode, _, rest = name.partition(" ")
    return (mode, rest) if mode in MODES else ("", name)
