"""Remembers judgements: most launches of a tree differ in nothing that a rule asks for."""

from __future__ import annotations

from typing import Any

from ..judge import Judge, Judgement, Launch

#: Judgements kept.
_MOST = 2048
#: Flags whose value the judge itself looks at.
_LOOKED_AT = frozenset(
    {"model_path", "speculative_draft_model_path", "speculative_algorithm",
     "json_model_override_args", "config"}
)  # fmt: skip
_TYPES = ("int", "str")


class Judged:
    """Judges launches by one release, each kind of launch once.

    A launch is known where its words are those of another, but for values that no rule asked for
    on the other one's way through the release.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._count = 0
        self._known: dict[Any, list[tuple[frozenset[str], dict[str, str], Judgement]]] = {}
        table = judge.flags
        inert = {entry["without"] for entry in judge.statements.inert}
        self._watched = frozenset(
            name
            for name, flag in table.by_field.items()
            if flag.type in _TYPES and flag.takes_value and flag.nargs is None
            and flag.choices is None and not flag.parser_only
            and name not in _LOOKED_AT and name not in inert
        )  # fmt: skip

    def __call__(self, launch: Launch) -> Judgement:
        """Judge a launch, or find what was said of one that is no different."""
        shape, values = self._shape(launch)
        key = (
            shape, launch.unknown, tuple(sorted(launch.environment.items())), launch.gpu,
            launch.kind, launch.cuda, launch.model, launch.draft, launch.partial,
        )  # fmt: skip
        several = self._known.setdefault(key, [])
        for asked, given, judgement in several:
            if all(values.get(name) == given.get(name) for name in asked):
                return judgement
        recorded = self.judge.program.record(self._watched)
        judgement = self.judge.judge(launch)
        # The states of every machine that was tried are heavy, and said all they had to say.
        judgement.contexts = []
        if self._count < _MOST:
            self._count += 1
            several.append((frozenset(recorded & values.keys()), values, judgement))
        return judgement

    def _shape(self, launch: Launch) -> tuple[tuple[str, ...], dict[str, str]]:
        """The words of a launch without values that may not matter, and these by their flags."""
        table = self.judge.flags
        words = list(launch.argv)
        values: dict[str, str] = {}
        for place, word in enumerate(words):
            name, equals, value = word.partition("=")
            flag = table.by_name.get(name)
            if flag is None or flag.field not in self._watched:
                continue
            at = place if equals else place + 1
            if at >= len(words) or at in launch.unknown:
                continue
            value = value if equals else words[at]
            plain = value.isdigit() and len(value) < 10 if flag.type == "int" else (
                bool(value) and not value.startswith("-")
            )  # fmt: skip
            if plain:
                values[flag.field] = value
                words[at] = f"{name}=" if equals else ""
        return tuple(words), values
