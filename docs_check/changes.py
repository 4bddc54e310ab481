"""What changed for attention between two releases, in sentences."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One change: its topic, a sentence, and where the newer (else the older) code has it."""

    topic: str
    kind: str
    subject: str
    text: str
    file: str = ""
    line: int = 0
    symbol: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "topic": self.topic, "kind": self.kind, "subject": self.subject, "text": self.text,
            "file": self.file, "line": self.line, "symbol": self.symbol,
        }  # fmt: skip


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Every change from one listing to another."""
    return [
        *_names(old, new),
        *_flags(old, new),
        *_aliases(old, new),
        *_page_sizes(old, new),
        *_support(old, new),
        *_defaults(old, new),
        *_overrides(old, new),
        *_checks(old, new),
        *_diffusion(old.get("diffusion", {}), new.get("diffusion", {})),
    ]


def _change(topic: str, kind: str, record: Record, subject: str, text: str) -> Change:
    return Change(
        topic, kind, subject, text, record.get("file", ""), record.get("line", 0),
        record.get("symbol", ""),
    )  # fmt: skip


def _by(records: Iterable[Record], *keys: str) -> dict[tuple[Any, ...], Record]:
    return {
        tuple(_hashable(record.get(key)) for key in keys): record for record in reversed([*records])
    }


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _names(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    before, after = _by(old["backends"], "name"), _by(new["backends"], "name")
    for (name,), record in after.items():
        if (name,) not in before:
            taken = "" if record["accepted"] else ", though the flag does not take it"
            yield _change("backends", "added", record, name, f"`{name}` is new{taken}.")
        elif record["only"] != before[name,]["only"]:
            serves = f"{record['only'].upper()} models only" if record["only"] else "all families"
            yield _change("backends", "changed", record, name, f"`{name}` now serves {serves}.")
    for (name,), record in before.items():
        if (name,) not in after:
            yield _change("backends", "removed", record, name, f"`{name}` is gone.")


def _flags(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    before, after = _by(old["flags"], "field"), _by(new["flags"], "field")
    for key, record in after.items():
        name = record["name"]
        earlier = before.get(key)
        if earlier is None:
            yield _change("flags", "added", record, name, f"{name} is new: {_values(record)}.")
            continue
        more = [value for value in record["values"] if value not in earlier["values"]]
        less = [value for value in earlier["values"] if value not in record["values"]]
        if more:
            yield _change("flags", "changed", record, name, f"{name} also takes {_words(more)}.")
        if less:
            yield _change(
                "flags", "changed", record, name, f"{name} no longer takes {_words(less)}."
            )
        if record["default"] != earlier["default"]:
            yield _change(
                "flags", "changed", record, name,
                f"{name} is {record['default']} by default; it was {earlier['default']}.",
            )  # fmt: skip
    for key, record in before.items():
        if key not in after:
            name = record["name"]
            yield _change("flags", "removed", record, name, f"{name} is gone.")


def _values(record: Record) -> str:
    return _words(record["values"])


def _words(values: Sequence[Any], last: str = "and") -> str:
    parts = [f"`{value}`" for value in values]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def _aliases(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    before, after = _by(old["aliases"], "name"), _by(new["aliases"], "name")
    for key, record in after.items():
        if key not in before or before[key]["target"] != record["target"]:
            name, target = record["name"], record["target"]
            yield _change("aliases", "added", record, name, f"`{name}` now stands for `{target}`.")
    for key, record in before.items():
        if key not in after:
            name, target = record["name"], record["target"]
            yield _change(
                "aliases", "removed", record, name, f"`{name}` no longer stands for `{target}`."
            )


def _page_sizes(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    keys = ("name", "family", "others", "when")
    before, after = _by(old["page_sizes"], *keys), _by(new["page_sizes"], *keys)
    known = {record["name"] for record in old["backends"]}
    for key, record in after.items():
        name, earlier = record["name"], before.get(key)
        if name not in known or (earlier and _sizes(earlier) == _sizes(record)):
            continue
        told = f"`{name}`{_for(record)} takes page sizes {_sizes(record)}{_when(record)}"
        if earlier is not None:
            told += f"; it took {_sizes(earlier)}"
        yield _change("page sizes", "changed", record, name, told + ".")
    left = {record["name"] for record in new["backends"]}
    for key, record in before.items():
        if key not in after and record["name"] in left:
            if any(other["name"] == record["name"] for other in after.values()):
                continue
            yield _change(
                "page sizes", "removed", record, record["name"],
                f"`{record['name']}`{_for(record)} is no longer bound to page sizes"
                f" {_sizes(record)}{_when(record)}.",
            )  # fmt: skip


def _sizes(record: Record) -> str:
    sizes = ", ".join(map(str, sorted(record["sizes"])))
    becomes = record["becomes"]
    if record["others"] == "default":
        return f"of any kind, {becomes} by default"
    return f"{sizes} (others become {becomes})" if becomes else f"{sizes} (others are refused)"


def _for(record: Record) -> str:
    return f" with {record['family'].upper()} models" if record.get("family") else ""


def _when(record: Record) -> str:
    return f" when {record['when']}" if record.get("when") else ""


def _support(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    keys = ("name", "family", "feature")
    before, after = _by(old["support"], *keys), _by(new["support"], *keys)
    for key, record in after.items():
        earlier = before.get(key)
        if earlier is None or earlier["value"] == record["value"]:
            continue
        feature = record["feature"].replace("_", " ")
        yield _change(
            "support", "changed", record, record["name"],
            f"`{record['name']}`{_for(record)}: {feature} is {record['value']}"
            f" ({record['when'] or record['why']}); it was {earlier['value']}.",
        )  # fmt: skip


def _defaults(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    before, after = _grouped(old["defaults"]), _grouped(new["defaults"])
    for key, records in after.items():
        earlier = before.get(key)
        if earlier is None:
            continue
        was, now = _choice(earlier), _choice(records)
        if was != now:
            family, machine = key
            yield _change(
                "defaults", "changed", records[0], f"{family} {machine}",
                f"The default for {family.upper()} models on {machine} is {now}; it was {was}.",
            )  # fmt: skip


def _grouped(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record["family"], record["machine"]), []).append(record)
    return found


def _choice(records: Sequence[Record]) -> str:
    return ", else ".join(
        f"`{record['name']}`" + (f" when {record['when']}" if record["when"] else "")
        for record in records
    )


def _overrides(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    before, after = _per_architecture(old["overrides"]), _per_architecture(new["overrides"])
    for key, records in after.items():
        architecture, field = key
        was, now = _choices(before.get(key, {})), _choices(records)
        if was == now:
            continue
        record = next(iter(records.values()))
        flag = "--" + field.replace("_", "-")
        told = f"{architecture} sets {flag} to {now}"
        told += f"; it was {was}." if was else " where it set nothing before."
        yield _change("models", "changed", record, architecture, told)
    for key, records in before.items():
        if key not in after:
            architecture, field = key
            flag = "--" + field.replace("_", "-")
            yield _change(
                "models", "removed", next(iter(records.values())), architecture,
                f"{architecture} no longer sets {flag} to {_choices(records)}.",
            )  # fmt: skip


def _per_architecture(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        for architecture in record["architectures"]:
            found.setdefault((architecture, record["field"]), {})[record["name"]] = record
    return found


def _choices(records: dict[str, Record]) -> str:
    return _words(sorted(records), "or") if records else ""


def _checks(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    before, after = _messages(old["checks"]), _messages(new["checks"])
    gone = {message: record for message, record in before.items() if message not in after}
    for message, record in after.items():
        if message in before:
            continue
        earlier = _reworded(message, record, gone)
        if earlier is not None:
            del gone[earlier]
            yield _change(
                "checks", "changed", record, record["symbol"],
                f"Refuses with other words: “{message}”{_when(record)}; it was “{earlier}”.",
            )  # fmt: skip
        else:
            yield _change(
                "checks", "added", record, record["symbol"],
                f"Refuses now: “{message}”{_when(record)}.",
            )  # fmt: skip
    for message, record in gone.items():
        yield _change(
            "checks", "removed", record, record["symbol"],
            f"No longer refuses: “{message}”{_when(record)}.",
        )  # fmt: skip


def _reworded(message: str, record: Record, gone: dict[str, Record]) -> str | None:
    """The message of the same function that this one most likely took the place of."""
    same = [text for text, other in gone.items() if other["symbol"] == record["symbol"]]
    close = difflib.get_close_matches(message, same, 1, 0.7)
    return close[0] if close else None


def _messages(records: Iterable[Record]) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for record in records:
        if record["effect"] == "refuse" and record["message"]:
            found.setdefault(" ".join(record["message"].split()), record)
    return found


def _diffusion(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    if not old or not new:
        return
    topic = "diffusion"
    before, after = _by(old["backends"], "name"), _by(new["backends"], "name")
    for key, record in after.items():
        if key not in before:
            yield _change(topic, "added", record, key[0], f"`{key[0]}` is new.")
    for key, record in before.items():
        if key not in after:
            yield _change(topic, "removed", record, key[0], f"`{key[0]}` is gone.")
    for change in _aliases(old, new):
        yield Change(
            topic, change.kind, change.subject, change.text, change.file, change.line, change.symbol
        )
    platforms, now = _by(old["platforms"], "name"), _by(new["platforms"], "name")
    for key, record in now.items():
        if key not in platforms:
            yield _change(topic, "added", record, key[0], f"{key[0]} is a platform now.")
        elif platforms[key]["defaults"] != record["defaults"]:
            was = ", ".join(map(str, platforms[key]["defaults"]))
            yield _change(
                topic, "changed", record, key[0],
                f"{key[0]} selects {', '.join(map(str, record['defaults']))}; it was {was}.",
            )  # fmt: skip
    keys, more = _by(old["keys"], "name"), _by(new["keys"], "name")
    for key, record in more.items():
        if key not in keys:
            yield _change(topic, "added", record, key[0], f"The key `{key[0]}` is read now.")
    for key, record in keys.items():
        if key not in more:
            yield _change(topic, "removed", record, key[0], f"The key `{key[0]}` is gone.")


def as_text(found: Sequence[Change], old: str, new: str) -> str:
    """Changes by topic."""
    if not found:
        return f"Nothing changed for attention between {old} and {new}."
    lines = [f"{old} -> {new}: {len(found)} change{'s' if len(found) != 1 else ''} for attention"]
    topic = ""
    for change in found:
        if change.topic != topic:
            topic = change.topic
            lines += ["", f"{topic}:"]
        place = f"{change.file}:{change.line}" if change.file else ""
        lines.append(f"- {change.text}" + (f"  [{place}]" if place else ""))
    return "\n".join(lines)
