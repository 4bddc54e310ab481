"""Runs inside the installation of the real SGLang: answers launches for one simulated machine.

    real_child.py MACHINE_JSON        # JSON lines {"id","argv","env"?} in, verdicts out

Each launch runs in a fork, so that what SGLang caches of one cannot reach the next.

The stages are SGLang's own: `parse` (prepare_server_args), `resolve` (resolve_once), `check`
(check_server_args), and `factory`: its registry builds the attention backends of target, draft and
vision encoder over a runner that carries real configuration and pretended memory pools. What fails
there for want of a GPU is ignored; only explicit guards whose inputs are real count as refusals.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import io
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from simulated_machine import Nothing, StubModule, pretend, settle

FIELDS = (
    "attention_backend", "prefill_attention_backend", "decode_attention_backend", "page_size",
    "kv_cache_dtype", "speculative_algorithm", "speculative_eagle_topk", "speculative_num_steps",
    "speculative_num_draft_tokens", "speculative_attention_mode",
    "speculative_draft_attention_backend", "dsa_prefill_backend", "dsa_decode_backend",
    "linear_attn_backend", "linear_attn_decode_backend", "linear_attn_prefill_backend",
    "linear_attn_verify_backend", "mm_attention_backend", "disable_radix_cache",
)  # fmt: skip

LAYERS = "sglang.srt.layers.attention."
BACKEND_MODULES = tuple(
    LAYERS + name
    for name in (
        "flashinfer_backend", "flashinfer_mla_backend", "trtllm_mla_backend", "trtllm_mha_backend",
        "tokenspeed_mla_backend", "cutedsl_mla_backend", "flashmla_backend",
        "flashattention_backend", "triton_backend", "torch_native_backend", "torch_flex_backend",
        "dsa_backend", "hpc_ops_backend", "intel_amx_backend", "xpu_backend", "aiter_backend",
        "wave_backend", "hybrid_attn_backend", "hybrid_linear_attn_backend", "linear.gdn_backend",
        "linear.kda_backend", "linear.lightning_backend", "linear.short_conv_backend",
    )
)  # fmt: skip
#: Modules that exist for one kind of machine only.
ONLY_ON = {"aiter_backend": "hip", "wave_backend": "hip"}
NPU = "sglang.srt.hardware_backend.npu.attention."
NPU_MODULES = tuple(
    NPU + name
    for name in (
        "ascend_backend", "ascend_gdn_backend", "ascend_hybrid_linear_attn_backend",
        "ascend_kda_backend",
    )
)  # fmt: skip
XPU_MODULES = ("sglang.srt.hardware_backend.xpu.attention.xpu_gdn_backend",)

#: Files whose guards read only the machine, the arguments and the model configuration.
TRUSTED_FILES = (
    "layers/attention/attention_registry.py", "attention_backend_setup.py",
    "speculative/draft_utils.py", "layers/attention/vision.py", "layers/attention/linear/utils.py",
    "configs/model_config.py", "runtime_context.py",
)  # fmt: skip
#: Guards of backends themselves that read nothing else either.
TRUSTED_GUARDS = (
    "only supports topk=1", "DSA backend only supports DeepSeek DSA",
    "Sliding window and cross attention", "hpc_ops attention backend",
    "dynamic tokens-per-page kernels", "requires --kv-cache-dtype fp8_e4m3",
    "requires page_size in {32, 64}", "Native NVFP4 prefill with trtllm_mha requires SM100",
    "backend requires CUDA", "supports KDA only, not GDN", "Unsupported GDN", "Unsupported KDA",
    "requires Intel XPU", "Lightning (seg_la)", "does not support multi-item scoring", "GDN", "KDA",
    "Helion package", "encoder-decoder models", "requires SM9", "requires SM10", "head_dim == ",
    "Aiter MLA supports num_head", "DSV4 MQA head_dim",
)  # fmt: skip


class CommandLineRefused(Exception):
    """argparse would have printed this and left."""


class Runner(Nothing):
    """A model runner of which everything that is not set is an absent feature."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Runner()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Runner()

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> Any:
        return Runner()


class Judge:
    """The real SGLang on one simulated machine."""

    def __init__(self, machine: dict[str, Any]) -> None:
        self.machine = machine
        pretend(machine)
        self.server_args = importlib.import_module("sglang.srt.server_args")
        self.package = str(Path(importlib.import_module("sglang").__file__ or "").parent)
        settle(machine)

        def refuse(parser: Any, message: str) -> None:
            raise CommandLineRefused(message)

        argparse.ArgumentParser.error = refuse  # type: ignore[method-assign,assignment]
        logging.basicConfig = lambda *args, **kwargs: None  # type: ignore[assignment]
        logging.getLogger().handlers[:] = [logging.NullHandler()]
        self._trees: dict[str, ast.Module] = {}
        self._prepare_backends()

    # ------------------------------------------------------------------ guards

    def is_guard(self, error: BaseException) -> bool:
        """Whether an exception comes from an explicit raise or assert of SGLang, with a text."""
        frames = traceback.extract_tb(error.__traceback__)
        if not frames or not frames[-1].filename.startswith(self.package) or not str(error):
            return False
        name, line = frames[-1].filename, frames[-1].lineno or 0
        if name not in self._trees:
            self._trees[name] = ast.parse(Path(name).read_text(encoding="utf-8"))
        statement: ast.AST | None = None
        function = ""
        for node in ast.walk(self._trees[name]):
            first = getattr(node, "lineno", None)
            if first is None or not first <= line <= (getattr(node, "end_lineno", None) or first):
                continue
            if isinstance(node, (ast.Raise, ast.Assert)):
                statement = node
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function = node.name
        return statement is not None and not function.endswith("_access")

    def counts(self, error: BaseException) -> bool:
        """Whether a failure of construction is one that a real launch would meet."""
        if isinstance(error, AttributeError) and "'ModelConfig' object has no" in str(error):
            return True
        if not self.is_guard(error):
            return False
        file = traceback.extract_tb(error.__traceback__)[-1].filename
        return file.endswith(TRUSTED_FILES) or any(text in str(error) for text in TRUSTED_GUARDS)

    def place(self, error: BaseException) -> str | None:
        """`file:line function` of an exception, below site-packages."""
        frames = traceback.extract_tb(error.__traceback__)
        if not frames:
            return None
        last = frames[-1]
        return f"{last.filename.split('site-packages/')[-1]}:{last.lineno} {last.name}"

    # ------------------------------------------------------------------ verdict

    def verdict(self, case: dict[str, Any]) -> dict[str, Any]:
        """Judge one launch."""
        os.environ.update({key: str(value) for key, value in (case.get("env") or {}).items()})
        answer: dict[str, Any] = {
            "id": case["id"], "ok": False, "stage": "parse", "error": None, "where": None,
            "resolved": {},
        }  # fmt: skip
        printed = sys.stdout
        sys.stdout = io.StringIO()
        arguments = None
        try:
            arguments = self.server_args.prepare_server_args(list(case["argv"]))
            answer["stage"] = "resolve"
            arguments.resolve_once()
            answer["stage"] = "check"
            arguments.check_server_args()
            answer["ok"] = True
        except BaseException as error:
            answer["error"] = f"{type(error).__name__}: {error}"[:600]
            answer["where"] = self.place(error)
        finally:
            sys.stdout = printed
        if arguments is not None and answer["stage"] != "parse":
            answer["resolved"] = self._resolved(arguments)
        if answer["ok"]:
            self._construct(arguments, answer)
        return answer

    def _resolved(self, arguments: Any) -> dict[str, Any]:
        overrides = importlib.import_module("sglang.srt.arg_groups.overrides")
        values = arguments.resolved_dict()
        out = {name: values.get(name) for name in FIELDS}
        view = overrides.resolved_view(arguments)
        out["prefill_effective"], out["decode_effective"] = overrides.attention_backends_of(view)
        graphs = values.get("cuda_graph_config") or {}
        for phase in ("decode", "prefill"):
            entry = graphs.get(phase) if isinstance(graphs, dict) else None
            out[f"cuda_graph_{phase}_backend"] = (entry or {}).get("backend")
        plain: dict[str, Any] = json.loads(json.dumps(out, default=str))
        return plain

    # ------------------------------------------------------------------ construction

    def _prepare_backends(self) -> None:
        torch = importlib.import_module("torch")
        torch.cuda.Stream = torch.cuda.Event = Nothing
        kind = self.machine["kind"]
        wanted = [
            name for name in BACKEND_MODULES if ONLY_ON.get(name.rsplit(".", 1)[1], kind) == kind
        ]
        wanted += XPU_MODULES if kind == "xpu" else ()
        wanted += NPU_MODULES if kind == "npu" else ()
        for name in wanted:
            try:
                if kind == "npu":
                    raise ImportError("the backends of this machine cannot be imported elsewhere")
                module = importlib.import_module(name)
            except BaseException:
                module = StubModule(name)
                module.__path__ = []
                sys.modules[name] = module
                continue
            for key, cls in list(vars(module).items()):
                if (
                    isinstance(cls, type)
                    and key.endswith("Backend")
                    and cls.__module__ == name
                    and "__init__" in vars(cls)
                ):
                    self._guard_init(cls)

    def _guard_init(self, cls: Any) -> None:
        """Let a backend's constructor stop where memory pools begin to matter."""
        constructor = cls.__init__
        judge = self

        def init(backend: Any, *args: Any, **kwargs: Any) -> None:
            try:
                constructor(backend, *args, **kwargs)
            except Exception as error:
                if judge.counts(error):
                    raise
                if not hasattr(backend, "attn_backends"):
                    backend.attn_backends = []

        cls.__init__ = init
        for name in ("_check_prefill_kv_access", "_check_decode_kv_access",
                     "_check_kv_attention_access"):  # fmt: skip
            if name in vars(cls):  # these look into the real pool
                setattr(cls, name, lambda *args, **kwargs: None)

    def _runner(self, arguments: Any, model: Any, draft: bool, draft_backend: Any) -> Any:
        torch = importlib.import_module("torch")
        overrides = importlib.import_module("sglang.srt.arg_groups.overrides")
        arch = importlib.import_module("sglang.srt.configs.model_config").AttentionArch
        spec = importlib.import_module("sglang.srt.speculative.spec_info").SpeculativeAlgorithm
        view = overrides.resolved_view(arguments)
        prefill, decode = overrides.attention_backends_of(view)
        dtypes = {
            "auto": model.dtype, "bfloat16": torch.bfloat16, "bf16": torch.bfloat16,
            "float16": torch.float16, "fp8_e4m3": torch.float8_e4m3fn,
            "fp8_e5m2": torch.float8_e5m2,
        }  # fmt: skip
        states = {"bfloat16": torch.bfloat16, "float16": torch.float16}
        mamba = Runner()
        mamba.mamba_cache = Runner()
        mamba.mamba_cache.temporal = torch.empty(
            (2, 2, 4, 128, 128),
            dtype=states.get(view.mamba_ssm_dtype, torch.float32),
            device="meta",
        )
        mamba.mamba_cache.conv = [torch.empty((2, 2, 512, 3), device="meta")]
        requests = Runner()
        requests.mamba_pool, requests.size = mamba, 32
        requests.req_to_token = torch.empty((33, 4096), dtype=torch.int32, device="meta")
        pool = Runner()
        pool.swa_page_size, pool.present_ratios, pool.page_size = 256, (4, 128), view.page_size
        runner = Runner()
        settings = {
            "model_config": model, "server_args": arguments, "gpu_id": 0, "dtype": model.dtype,
            "device": {"hip": "cuda"}.get(self.machine["kind"], self.machine["kind"]),
            "kv_cache_dtype": dtypes.get(view.kv_cache_dtype, torch.uint8),
            "kv_cache_dtype_str": view.kv_cache_dtype, "page_size": view.page_size,
            "use_mla_backend": model.attention_arch == arch.MLA,
            "sliding_window_size": model.sliding_window_size, "is_draft_worker": draft,
            "draft_attention_backend": draft_backend, "prefill_attention_backend_str": prefill,
            "decode_attention_backend_str": decode, "is_hybrid_swa": model.is_hybrid_swa,
            "req_to_token_pool": requests, "token_to_kv_pool": pool, "is_hybrid": False,
            "attention_chunk_size": model.attention_chunk_size, "max_total_num_tokens": 65536,
            "tp_size": view.tp_size, "dp_size": 1, "plan_stream_for_flashinfer": None,
            "use_ngram_embedding": False, "max_running_requests": 32, "enable_elastic_ep": False,
            "spec_algorithm": spec.from_string(view.speculative_algorithm),
            "init_new_workspace": False,
        }  # fmt: skip
        for name, value in settings.items():
            setattr(runner, name, value)
        return runner

    def _construct(self, arguments: Any, answer: dict[str, Any]) -> None:
        """Build target, draft and vision backends; the first real refusal ends it."""
        importlib.import_module("sglang.srt.runtime_context").publish(arguments, role="scheduler")
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("sglang.") and "load_jit" in vars(module):
                module.load_jit = lambda *args, **kwargs: Nothing()  # type: ignore[attr-defined]
        if self.machine["kind"] == "cuda":
            utils = importlib.import_module("flashinfer.utils")
            utils.get_device_sm_count = lambda *a, **k: self.machine["sms"]  # type: ignore[attr-defined]
            utils.get_trtllm_gen_multi_ctas_kv_counter_bytes = lambda *a, **k: 1024  # type: ignore[attr-defined]
        steps = [self._target, self._draft, self._vision]
        parallel = importlib.import_module("sglang.srt.runtime_context").get_parallel()
        for step in steps:
            try:
                with parallel.override(tp_rank=0), _on_meta():
                    step(arguments)
            except Exception as error:
                if self.counts(error):
                    answer.update(
                        ok=False, stage="factory", error=f"{type(error).__name__}: {error}"[:600],
                        where=self.place(error),
                    )  # fmt: skip
                    return
        answer["stage"] = "factory"

    def _build(self, runner: Any) -> None:
        setup = importlib.import_module(
            "sglang.srt.model_executor.model_runner_components.attention_backend_setup"
        )
        setup._build_resolved_backend(
            model_runner=runner,
            resolved=setup.resolve_attention_backend_strs(model_runner=runner),
            init_new_workspace=False,
        )

    def _target(self, arguments: Any) -> None:
        arch = importlib.import_module("sglang.srt.configs.model_config").AttentionArch
        model = arguments._model_config
        if model.attention_arch != arch.SSM:
            self._build(self._runner(arguments, model, False, None))

    def _draft(self, arguments: Any) -> None:
        view = importlib.import_module("sglang.srt.arg_groups.overrides").resolved_view(arguments)
        if view.speculative_algorithm not in ("EAGLE", "EAGLE3", "STANDALONE"):
            return
        config = importlib.import_module("sglang.srt.configs.model_config").ModelConfig
        runner_module = importlib.import_module("sglang.srt.model_executor.model_runner")
        factory = importlib.import_module("sglang.srt.speculative.draft_utils").DraftBackendFactory
        model = config.from_server_args(
            arguments,
            model_path=view.speculative_draft_model_path or view.model_path,
            is_draft_model=True,
        )
        backend = runner_module.resolve_draft_attention_backend(
            draft_attention_backend=None, is_draft_worker=True
        )
        runner = self._runner(arguments, model, True, backend)
        self._build(runner)
        drafts = factory(runner, view.speculative_eagle_topk, view.speculative_num_steps)
        drafts.create_decode_backend()
        drafts.create_draft_extend_backend()

    def _vision(self, arguments: Any) -> None:
        if arguments._model_config.is_multimodal:
            vision = importlib.import_module("sglang.srt.layers.attention.vision")
            vision.VisionAttention._determine_attention_backend(None, None)


def _on_meta() -> Any:
    """Tensors for accelerators go to the meta device: shapes are real, memory is not."""
    overrides = importlib.import_module("torch.overrides")
    accelerators = ("cuda", "xpu", "npu", "mps")

    class ToMeta(overrides.TorchFunctionMode):  # type: ignore[name-defined,misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            if str(kwargs.get("device", "")).split(":")[0] in accelerators:
                kwargs["device"] = "meta"
            kwargs.pop("pin_memory", None)
            if getattr(function, "__name__", "") == "to":
                args = tuple(
                    "meta" if isinstance(a, str) and a.split(":")[0] in accelerators else a
                    for a in args
                )
            return function(*args, **kwargs)

    return ToMeta()


def in_fork(judge: Judge, case: dict[str, Any]) -> str:
    """Answer in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            try:
                answer = judge.verdict(case)
            except BaseException as error:
                answer = {"id": case["id"], "ok": None, "error": f"{type(error).__name__}: {error}"}
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(answer, default=str).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data.decode() or json.dumps({"id": case["id"], "ok": None, "error": "it crashed"})


def main() -> None:
    """Serve launches until standard input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever SGLang prints goes to standard error
    judge = Judge(json.loads(sys.argv[1]))
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        if line.strip():
            out.write(in_fork(judge, json.loads(line)) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
