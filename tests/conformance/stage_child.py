"""Runs inside the installation of the real SGLang: states before and after a part of resolution.

    stage_child.py MACHINE_JSON FIRST LAST    # JSON lines {"id","argv","env"?} in, states out

FIRST and LAST name steps of SGLang's own pipeline (functions that it calls through `run_hook` or
`run_post_process_pass`). An answer has `before`, the values when FIRST is called, and `after`,
those when LAST has returned, or `error` and `where` if SGLang stopped in between. Launches that do
not come that far have no `before`.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from real_child import Judge, in_fork

PHASES = ("decode", "prefill")
GRAPH_VALUES = ("backend", "max_bs", "bs", "max_context_size", "max_seq_len")


class StageJudge(Judge):
    """The real SGLang on one simulated machine, watched at two points."""

    def __init__(self, machine: dict[str, Any], first: str, last: str) -> None:
        super().__init__(machine)
        self.first, self.last = first, last
        self.pipeline = importlib.import_module("sglang.srt.arg_groups.pipeline")
        self.overrides = importlib.import_module("sglang.srt.arg_groups.overrides")
        records = importlib.import_module("sglang.srt.arg_groups.arg_utils").record_fields
        self.fields = [field.name for field in records(self.server_args.ServerArgs)]

    def _prepare_backends(self) -> None:
        """Resolution alone constructs none."""

    def verdict(self, case: dict[str, Any]) -> dict[str, Any]:
        """The states of one launch."""
        os.environ.update({key: str(value) for key, value in (case.get("env") or {}).items()})
        answer: dict[str, Any] = {"id": case["id"]}
        self.pipeline.run_hook = self._watched(self.pipeline.run_hook, answer, function_first=True)
        self.pipeline.run_post_process_pass = self._watched(
            self.pipeline.run_post_process_pass, answer, function_first=False
        )
        printed, sys.stdout = sys.stdout, io.StringIO()
        try:
            arguments = self.server_args.prepare_server_args(list(case["argv"]))
            arguments.resolve_once()
        except BaseException as error:
            if "before" in answer and "after" not in answer:
                answer["error"] = f"{type(error).__name__}: {error}"[:600]
                answer["where"] = self.place(error)
        finally:
            sys.stdout = printed
        return answer

    def _watched(
        self, call: Callable[..., Any], answer: dict[str, Any], *, function_first: bool
    ) -> Callable[..., Any]:
        def watch(one: Any, other: Any) -> Any:
            step, arguments = (one, other) if function_first else (other, one)
            if step.__name__ == self.first and "before" not in answer:
                answer["before"] = self._state(arguments)
            result = call(one, other)
            if step.__name__ == self.last and "before" in answer and "after" not in answer:
                answer["after"] = self._state(arguments)
            return result

        return watch

    def _state(self, arguments: Any) -> dict[str, Any]:
        """Every value as resolution stands, and what attn-lint keeps beside the fields."""
        view = self.overrides.resolving_view(arguments)
        state = {name: _plain(getattr(view, name)) for name in self.fields}
        graphs = getattr(view, "cuda_graph_config", None)
        locked = getattr(arguments, "_cuda_graph_config_locked", ())
        for phase in PHASES:
            for key in GRAPH_VALUES:
                value = getattr(getattr(graphs, phase, None), key, None)
                state[f"cuda_graph_{phase}_{key}"] = _plain(value)
                state[f"cuda_graph_{phase}_{key}_locked"] = (phase, key) in locked
            state[f"cuda_graph_{phase}_locked"] = (phase, "backend") in locked
        state["quantization_explicitly_unset"] = getattr(
            arguments, "_quantization_explicitly_unset", False
        )
        model = getattr(arguments, "_model_config", None)
        if model is not None:
            state["model_quantization"] = model.quantization
            state["model_context_length"] = model.context_len
        common = importlib.import_module("sglang.srt.utils.common")
        state["device_memory_mib"] = common.get_device_memory_capacity(view.device)
        return state


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)


def main() -> None:
    """Serve launches until standard input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever SGLang prints goes to standard error
    judge = StageJudge(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        if line.strip():
            out.write(in_fork(judge, json.loads(line)) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
