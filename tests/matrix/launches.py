"""Launches that show what a cell of the support matrix says, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_lint.lintcfg.judge import Judge, Judgement, Launch
from attn_lint.lintcfg.resolver.engine import Event
from attn_lint.matrix.conditions import normalise_condition
from attn_lint.matrix.loader import Release

#: Advice that says that a launch does not work.
FATAL = ("ATT401", "ATT402")
#: Advice on weights: that of the family's model, whatever the backend.
OF_WEIGHTS = ("fp8-weights-below-sm80", "fp8-activations-below-sm89")
#: Cells that every row has besides its features.
PAGES, GPUS = "page_sizes", ("prefill_gpus", "decode_gpus")
#: What comes of a launch, by the list that a cell has a GPU architecture in.
OUTCOMES = {
    "runs": "works", "starts": "works", "refused": "refused", "advised": "advised",
    "changed": "changed", "replaced": "replaced",
}  # fmt: skip
#: Page sizes that are tried where a backend takes any, and where it takes some.
USUAL_PAGES = (1, 16, 32, 64, 128, 256)
#: Configurations of models that the catalogue does not have.
STAND_INS: dict[str, dict[str, Any]] = {
    "stand-in/qwen-sparse-attention": {
        "architectures": ["Qwen4ExpForConditionalGeneration"],
        "model_type": "qwen4_exp",
        "torch_dtype": "bfloat16",
        "text_config": {
            "model_type": "qwen4_exp_text", "indexer_n_heads": 16, "indexer_kv_heads": 1,
            "indexer_head_dim": 256, "indexer_budget": 8192, "indexer_compress_ratio": 4,
        },
    },
    "stand-in/minicpm-sparse-attention": {
        "architectures": ["MiniCPMForCausalLM"],
        "model_type": "minicpm_sala",
        "torch_dtype": "bfloat16",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "num_hidden_layers": 32,
        "intermediate_size": 16384,
        "vocab_size": 73448,
        "max_position_embeddings": 65536,
        "mixer_types": ["minicpm4"],
        "sparse_config": {
            "kernel_size": 32, "kernel_stride": 16, "init_blocks": 1, "block_size": 64,
            "window_size": 2048, "topk": 64, "dense_len": 8192,
        },
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """One launch of a cell: what it asks for, and what should come of it ("works" or how not)."""

    label: str
    gpu: str
    model: str
    flags: dict[str, Any]
    draft: str | None
    expected: str
    granted: Any = None


class Cells:
    """All cells of a release, and the launches that show them."""

    def __init__(self, release: Release, folder: Path) -> None:
        self.release = release
        self.judge = Judge(release)
        self.features: Mapping[str, Any] = release["features"]["features"]
        self.families: Mapping[str, Any] = release["features"]["families"]
        self.files: list[Mapping[str, Any]] = release["backends"]
        self.machines: dict[str, Mapping[str, Any]] = {}
        for platform in release["platforms"]:
            self.machines.setdefault(platform["architecture"], platform)
        self.folder = folder

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (backend, row); aliases have none of their own."""
        for file in self.files:
            for row in file.get("families", ()):
                yield file["name"], row

    def cells(self) -> Iterator[tuple[str, Mapping[str, Any], str, Mapping[str, Any]]]:
        """Yield (backend, row, cell name, cell)."""
        for backend, row in self.rows():
            for name in (PAGES, *GPUS):
                yield backend, row, name, row[name]
            for name, cell in row["cells"].items():
                yield backend, row, name, cell

    def launches(
        self, backend: str, row: Mapping[str, Any], name: str, cell: Mapping[str, Any]
    ) -> Iterator[Shown]:
        """Yield the launches of one cell; none where it is untested."""
        if cell["support"] == "untested":
            return
        if name == PAGES:
            yield from self._pages(backend, row, cell)
        elif name in GPUS:
            yield from self._gpus(backend, row, name, cell)
        else:
            yield from self._feature(backend, row, name, cell)

    def _shown(
        self,
        backend: str,
        row: Mapping[str, Any],
        label: str,
        expected: str,
        *,
        gpu: str | None = None,
        flags: Mapping[str, Any] | None = None,
        feature: Mapping[str, Any] | None = None,
        model: str | None = None,
        granted: Any = None,
    ) -> Shown:
        family = self.families[row["family"]]
        feature = feature or {}
        own = (feature.get("models") or {}).get(row["family"])
        asked = {"attention_backend": backend}
        # The family's own flags fit its own model.
        asked |= {} if own or model else family.get("flags") or {}
        asked |= row.get("flags") or {}
        asked |= feature.get("flags") or {}
        asked |= flags or {}
        return Shown(
            label,
            gpu or row["gpu"],
            model or own or family["model"],
            asked,
            family.get("draft") if feature.get("draft") else None,
            expected,
            granted,
        )

    def _pages(
        self, backend: str, row: Mapping[str, Any], cell: Mapping[str, Any]
    ) -> Iterator[Shown]:
        if cell.get("cases"):
            yield from self._cases(backend, row, PAGES, cell, {})
        yield from self._sizes(backend, row, cell, None)

    def _sizes(
        self, backend: str, row: Mapping[str, Any], cell: Mapping[str, Any], gpu: str | None
    ) -> Iterator[Shown]:
        sizes = USUAL_PAGES if cell["sizes"] == "any" else cell["sizes"]
        for size in sizes:
            yield self._shown(
                backend, row, f"page {size}", "works", flags={"page_size": size},
                granted={"page_size": size}, gpu=gpu,
            )  # fmt: skip
        if cell["sizes"] == "any":
            return
        for size in (8, *USUAL_PAGES):
            if size not in cell["sizes"]:
                yield self._shown(
                    backend, row, f"page {size}", cell["otherwise"], flags={"page_size": size},
                    granted={"page_size": size}, gpu=gpu,
                )  # fmt: skip
                if cell.get("becomes"):
                    yield self._shown(
                        backend, row, f"page {size} becomes {cell['becomes']}", "works",
                        flags={"page_size": size}, granted={"page_size": cell["becomes"]}, gpu=gpu,
                    )  # fmt: skip

    def served(self, backend: str, row: Mapping[str, Any]) -> list[str]:
        """The machines, one of each GPU architecture, on which the row's plain launch works."""
        found = []
        for machine in self.machines.values():
            shown = self._shown(backend, row, "plain", "works", gpu=machine["name"])
            if self.became(backend, row, "", shown, self.run(shown))[0] == "works":
                found.append(machine["architecture"])
        return found

    def everywhere(
        self, backend: str, row: Mapping[str, Any], name: str, cell: Mapping[str, Any], on: str
    ) -> Iterator[Shown]:
        """Yield what a cell says of one of the row's GPU architectures; none where it only shows.

        A partial cell that lists no architectures is about something else than the machine.
        """
        gpu = self.machines[on]["name"]
        if name == PAGES:
            others = cell.get("others") or ()
            pages = next((pages for pages in others if on in pages["architectures"]), cell)
            becomes = {"becomes": pages.get("becomes")}
            yield from self._sizes(backend, row, {**cell, **pages, **becomes}, gpu)
        elif name not in GPUS:
            elsewhere = cell.get("elsewhere") or {}
            if cell["support"] not in {"yes", "no"} and not elsewhere:
                return
            usual = "works" if cell["support"] != "no" else cell["otherwise"]
            lists = (key for key, listed in elsewhere.items() if on in listed)
            expected = next((OUTCOMES[key] for key in lists), usual)
            feature = self.features[name]
            asked = [case.get("flags") for case in cell.get("cases") or () if not case.get("gpu")]
            for flags in asked or [{}]:
                yield self._shown(
                    backend, row, f"{name} on {on}", expected, gpu=gpu, flags=flags,
                    feature=feature, granted=feature.get("granted"),
                )  # fmt: skip

    def _gpus(
        self, backend: str, row: Mapping[str, Any], name: str, cell: Mapping[str, Any]
    ) -> Iterator[Shown]:
        phase = name.removesuffix("_gpus")
        other = "decode" if phase == "prefill" else "prefill"
        partner = self.families[row["family"]].get("partner")
        for key in OUTCOMES:
            for architecture in cell.get(key, ()):
                machine = self.machines[architecture]
                flags: dict[str, Any] = {}
                if partner and partner != backend and machine["kind"] in {"cuda", "hip", "xpu"}:
                    flags = {
                        "attention_backend": None,
                        f"{phase}_attention_backend": backend,
                        f"{other}_attention_backend": partner,
                    }
                yield self._shown(
                    backend, row, f"{phase} on {architecture}", OUTCOMES[key],
                    gpu=machine["name"], flags=flags,
                )  # fmt: skip

    def _feature(
        self, backend: str, row: Mapping[str, Any], name: str, cell: Mapping[str, Any]
    ) -> Iterator[Shown]:
        feature = self.features[name]
        if cell.get("cases"):
            yield from self._cases(backend, row, name, cell, feature)
            return
        expected = "works" if cell["support"] != "no" else cell["otherwise"]
        yield self._shown(
            backend, row, name, expected, feature=feature, granted=feature.get("granted")
        )

    def _cases(
        self,
        backend: str,
        row: Mapping[str, Any],
        name: str,
        cell: Mapping[str, Any],
        feature: Mapping[str, Any],
    ) -> Iterator[Shown]:
        for number, case in enumerate(cell["cases"]):
            expected = "works" if case["works"] else case.get("otherwise") or cell["otherwise"]
            flags = case.get("flags") or {}
            granted = feature.get("granted")
            if name == PAGES:
                granted = {"page_size": flags["page_size"]}
            yield self._shown(
                backend, row, f"{name} case {number}", expected, gpu=case.get("gpu"),
                flags=flags, feature=feature, model=case.get("model"), granted=granted,
            )  # fmt: skip

    def run(self, shown: Shown) -> Judgement:
        """Judge a launch."""
        argv: list[str] = []
        flags = dict(shown.flags)
        if shown.draft:
            flags["speculative_draft_model_path"] = shown.draft
        for field, value in flags.items():
            if value is None:
                continue
            flag = self.judge.flags.by_field[field].names[0]
            argv += [flag] if value is True else [flag, str(value)]
        return self.judge.judge(Launch(argv, gpu=shown.gpu, model=self._path(shown.model)))

    def _path(self, model: str) -> str:
        if model not in STAND_INS:
            return model
        folder = self.folder / model.replace("/", "-")
        if not folder.exists():
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(STAND_INS[model]), encoding="utf-8")
        return str(folder)

    def became(
        self, backend: str, row: Mapping[str, Any], name: str, shown: Shown, judgement: Judgement
    ) -> tuple[str, list[str]]:
        """What became of a launch, and the rules that decided it."""
        outcome = judgement.outcome
        if any(problem.refuses for problem in judgement.parsed.problems):
            return "refused", []
        besides = (*(row.get("besides") or ()), *OF_WEIGHTS)
        events = [event for event in outcome.events if event.rule.id not in besides]
        refusals = _ids(event for event in events if event.kind == "refuse" and event.certain)
        if refusals:
            return "refused", refusals
        if judgement.startup not in {"starts", "refuses"}:
            return judgement.startup, []
        if not self._serves(backend, row, judgement):
            return "replaced", _writers(judgement, "attention_backend")
        if shown.granted is not None and not self._holds(shown.granted, judgement):
            changed = list(shown.granted)
            return "changed", [rule for field in changed for rule in _writers(judgement, field)]
        denied = self.features.get(name, {}).get("denied_by") or ()
        told = _ids(event for event in events if event.rule.id in denied)
        if told:
            return "changed", told
        fatal = [
            event
            for event in events
            if event.kind == "advise" and (event.rule.advise or {})["code"] in FATAL
        ]
        if fatal:
            return "advised", _ids(fatal)
        return "works", []

    def _serves(self, backend: str, row: Mapping[str, Any], judgement: Judgement) -> bool:
        phases = row.get("phases") or ("prefill", "decode")
        return any(judgement.read(f"fact.{phase}_backend") == backend for phase in phases)

    def _holds(self, condition: Any, judgement: Judgement) -> bool:
        node = normalise_condition(condition, lambda _: None)
        test = judgement.outcome.program.evaluator.condition(node)
        return test(judgement.outcome.state) is True


def _ids(events: Any) -> list[str]:
    return list(dict.fromkeys(event.rule.id for event in events if _has_id(event)))


def _has_id(event: Event) -> bool:
    return event.rule.id is not None


def _writers(judgement: Judgement, field: str) -> list[str]:
    """The rule that wrote a field last."""
    steps = [step for step in judgement.outcome.trace if step.field == field]
    return [steps[-1].rule.id] if steps and steps[-1].rule.id else []
