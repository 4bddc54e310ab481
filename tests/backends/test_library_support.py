"""What adapters refuse, and the parts they share: page lists, tails, built modules."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attn_lint.backends import bundled, registry  # noqa: F401  # registers
from attn_lint.backends.interface.capabilities import Request
from attn_lint.backends.interface.errors import NotInstalled, Refused, UnknownBackend
from attn_lint.backends.not_bundled import NOT_BUNDLED
from attn_lint.backends.registry import CAPABILITIES

HOPPER = Request(device="cuda", capability=(9, 0))
LATENT = replace(
    HOPPER, family="mla", page_size=64, q_heads=128, kv_heads=1, qk_head_dim=576, v_head_dim=512
)
VERIFY: dict[str, Any] = {"mode": "target_verify", "draft_tokens": 4}
LIBRARY = ("flashinfer", "fa3", "fa4", "trtllm_mha", "flashmla")


def reasons(name: str, request: Request) -> list[str]:
    return [refusal.reason for refusal in CAPABILITIES[name].refusals(request)]


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("flashinfer", HOPPER),
        ("flashinfer", replace(HOPPER, page_size=1)),
        ("flashinfer", replace(HOPPER, **VERIFY, tree=True, window=True)),
        ("flashinfer", replace(HOPPER, mode="extend", multimodal=True)),
        ("flashinfer", replace(HOPPER, kv_dtype="fp8_e5m2")),
        ("flashinfer", replace(HOPPER, kv_dtype="fp4_e2m1")),
        ("flashinfer", LATENT),
        ("fa3", HOPPER),
        ("fa3", replace(HOPPER, kv_dtype="fp8_e4m3")),
        ("fa3", LATENT),
        ("fa4", replace(HOPPER, sinks=True, window=True, mode="extend")),
        ("trtllm_mha", replace(HOPPER, **VERIFY, tree=True)),
        ("trtllm_mha", replace(HOPPER, page_size=128, window=True, sinks=True)),
        ("trtllm_mha", replace(HOPPER, mode="extend", kv_dtype="fp8_e4m3")),
        ("flashmla", LATENT),
        ("flashmla", replace(LATENT, kv_dtype="fp8_e4m3", **VERIFY)),
        *[(name, replace(HOPPER, mode="idle", page_size=7)) for name in LIBRARY],
    ],
    ids=str,
)
def test_carried(name: str, request_: Request) -> None:
    assert reasons(name, request_) == []


@pytest.mark.parametrize(
    ("name", "request_", "said"),
    [
        # XQA would read e5m2 as 16-bit numbers and answer.
        ("trtllm_mha", replace(HOPPER, kv_dtype="fp8_e5m2"), "fp8_e5m2"),
        ("trtllm_mha", replace(HOPPER, kv_dtype="fp4_e2m1"), "fp4_e2m1"),
        ("trtllm_mha", replace(HOPPER, page_size=1), "page size 1"),
        ("trtllm_mha", replace(HOPPER, page_size=256), "page size 256"),
        ("trtllm_mha", replace(HOPPER, q_heads=64, kv_heads=1), "64"),
        ("trtllm_mha", replace(HOPPER, **VERIFY, window=True), "window"),
        ("trtllm_mha", replace(HOPPER, logit_cap=True), "logit cap"),
        ("trtllm_mha", replace(HOPPER, qk_head_dim=192), "192"),
        ("trtllm_mha", replace(HOPPER, **VERIFY, capability=(10, 0), tree=True), "mask"),
        ("trtllm_mha", replace(HOPPER, capability=(8, 0)), "8.0"),
        ("trtllm_mha", LATENT, "mla"),
        ("fa3", replace(HOPPER, **VERIFY, tree=True), "tree"),
        ("fa3", replace(HOPPER, mode="extend", multimodal=True), "multimodal"),
        ("fa3", replace(HOPPER, kv_dtype="fp8_e4m3", sinks=True), "sinks"),
        ("fa3", replace(HOPPER, kv_dtype="fp8_e4m3", logit_cap=True), "logit cap"),
        ("fa3", replace(HOPPER, kv_dtype="fp8_e5m2"), "fp8_e5m2"),
        ("fa3", replace(HOPPER, capability=(10, 0)), "10.0"),
        ("fa4", replace(HOPPER, kv_dtype="fp8_e4m3"), "fp8_e4m3"),
        ("fa4", replace(HOPPER, page_size=1), "page size 1"),
        ("fa4", replace(HOPPER, capability=(12, 0)), "12.0"),
        ("flashmla", replace(LATENT, page_size=16), "page size 16"),
        ("flashmla", replace(LATENT, dtype="float16", kv_dtype="float16"), "float16"),
        ("flashmla", replace(LATENT, **VERIFY, tree=True), "tree"),
        ("flashmla", replace(LATENT, mode="extend", kv_dtype="fp8_e4m3"), "e4m3"),
        ("flashmla", replace(LATENT, capability=(10, 0)), "10.0"),
        ("flashmla", HOPPER, "mha"),
        ("flashinfer", replace(HOPPER, dtype="float32", kv_dtype="float32"), "float32"),
        ("flashinfer", replace(HOPPER, kv_dtype="float16"), "queries' dtype"),
        ("flashinfer", replace(HOPPER, sinks=True, **VERIFY, tree=True), "sinks"),
        ("flashinfer", replace(HOPPER, sinks=True, mode="extend", multimodal=True), "sinks"),
        ("flashinfer", replace(HOPPER, sinks=True, logit_cap=True), "logit cap"),
        ("flashinfer", replace(HOPPER, qk_head_dim=80, v_head_dim=80), "80"),
        ("flashinfer", replace(HOPPER, qk_head_dim=128, v_head_dim=64), "strides"),
        ("fa3", replace(HOPPER, qk_head_dim=256, v_head_dim=128), "strides"),
        ("flashinfer", replace(LATENT, kv_dtype="fp8_e4m3"), "queries' dtype"),
        ("flashinfer", replace(LATENT, **VERIFY, tree=True), "custom mask"),
        ("flashinfer", replace(LATENT, window=True), "sliding window"),
        ("flashinfer", replace(LATENT, qk_head_dim=256, v_head_dim=128), "latents of 512"),
        ("flashinfer", replace(HOPPER, qk_head_dim=576, v_head_dim=512), "for MLA"),
        *[(name, replace(HOPPER, device="cpu", capability=None), "cpu") for name in LIBRARY],
        *[(name, replace(HOPPER, causal=False), "bidirectional") for name in LIBRARY[:4]],
    ],
    ids=str,
)
def test_refused(name: str, request_: Request, said: str) -> None:
    given = reasons(name, request_)
    assert given
    assert any(said in reason for reason in given), given


def test_every_reason_is_given() -> None:
    request = replace(
        HOPPER, device="cpu", capability=None, kv_dtype="fp8_e5m2", page_size=1, logit_cap=True
    )
    assert len(reasons("trtllm_mha", request)) == 5


def test_not_bundled() -> None:
    with pytest.raises(UnknownBackend, match=r"trtllm_mla is not bundled: .*Hopper"):
        registry.capabilities_of("trtllm_mla")
    assert not set(NOT_BUNDLED) & set(CAPABILITIES)


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        if "." in name:
            raise ModuleNotFoundError(name)

    monkeypatch.setattr(registry.importlib.util, "find_spec", absent)
    runner: Any = SimpleNamespace(device=SimpleNamespace(type="cpu"))
    for name in LIBRARY:
        with pytest.raises(Refused, match="needs cuda"):
            registry.create_backend(name, runner)
    monkeypatch.setattr(registry, "unfit", lambda *_: None)
    for name in LIBRARY:
        with pytest.raises(NotInstalled, match="pip install"):
            registry.create_backend(name, runner)


def test_listing_imports_no_library() -> None:
    code = (
        "import sys; from attn_lint.backends import bundled;"
        "print([m for m in ('torch', 'flashinfer', 'flash_mla', 'triton') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


class TestModules:
    """Modules that are not built are refused with what to do."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        pytest.importorskip("torch")
        env = SimpleNamespace(FLASHINFER_AOT_DIR=tmp_path / "aot", FLASHINFER_JIT_DIR=tmp_path)
        monkeypatch.setitem(sys.modules, "flashinfer", SimpleNamespace())
        monkeypatch.setitem(sys.modules, "flashinfer.jit", SimpleNamespace(env=env))
        for name in ("FLASHINFER_NVCC", "CUDA_PATH", "FLASHINFER_DISABLE_JIT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))
        monkeypatch.setenv("PATH", "")
        return tmp_path

    def missing(self, *names: str) -> list[str]:
        from attn_lint.backends.library import modules

        return [refusal.reason for refusal in modules.missing(names)]

    def test_no_compiler(self, folder: Path) -> None:
        (reason,) = self.missing("alpha", "alpha")
        assert "alpha is not built, and there is no CUDA compiler" in reason

    def test_built(self, folder: Path) -> None:
        for base, name in (("aot", "alpha"), (".", "beta")):
            module = folder / base / name / f"{name}.so"
            module.parent.mkdir(parents=True)
            module.touch()
        assert self.missing("alpha") == []
        # Compiled by the library itself: it asks its compiler before it loads such a one.
        assert len(self.missing("alpha", "beta", "delta")) == 2

    def test_what_was_found_is_not_looked_for_again(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert len(self.missing("alpha")) == 1
        module = folder / "aot" / "alpha" / "alpha.so"
        module.parent.mkdir(parents=True)
        module.touch()
        assert self.missing("alpha") == []  # built in the meantime
        with monkeypatch.context() as patched:
            for function in (os, "stat"), (shutil, "which"):
                patched.setattr(*function, lambda *a, **b: pytest.fail("looked for again"))
            assert self.missing("alpha") == []

    def test_a_compiler_is_enough(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        nvcc = folder / "none" / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.touch(mode=0o755)
        assert self.missing("alpha") == []
        nvcc.unlink()
        assert self.missing("alpha") == []  # found once is enough
        monkeypatch.setenv("FLASHINFER_DISABLE_JIT", "1")
        (reason,) = self.missing("alpha")
        assert "FLASHINFER_DISABLE_JIT is set" in reason


class TestBatches:
    """Page lists and tables against what the table of slots says."""

    def draw(self, **traits: Any) -> Any:
        pytest.importorskip("torch")
        from attn_lint.backends.verify.scenario import draw

        return draw(Request(q_heads=2, kv_heads=1, qk_head_dim=16, v_head_dim=16, **traits), 3)

    @pytest.mark.parametrize("page", [1, 16, 64])
    @pytest.mark.parametrize("traits", [{"mode": "decode"}, {"mode": "extend"}, VERIFY])
    def test_pages(self, page: int, traits: dict[str, Any]) -> None:
        batch = self.draw(page_size=page, **traits).batch
        from attn_lint.backends.library import paging

        lengths = paging.host_lengths(batch)
        listed = paging.page_list(batch, lengths)
        table = paging.page_table(batch, paging.columns_of(batch))
        bounds = paging.query_bounds(batch).tolist()
        assert listed.dtype == table.dtype == lengths.kv_indptr.dtype
        first = 0
        for row, length in enumerate(batch.kv_lens_cpu.tolist()):
            slots = batch.req_to_token_pool.host[int(batch.req_pool_indices_cpu[row]), :length]
            want = (slots[::page] // page).tolist()
            assert listed[first : first + len(want)].tolist() == want
            assert table[row, : len(want)].tolist() == want
            assert lengths.kv_indptr[row : row + 2].tolist() == [first, first + len(want)]
            assert (len(want) - 1) * page + int(lengths.last_page_len[row]) == length
            first += len(want)
        assert len(listed) == lengths.total_pages == first
        assert bounds == lengths.qo_indptr.tolist()
        assert 0 <= int(table.min()) <= int(table.max()) < batch.token_to_kv_pool.num_pages

    def test_tails_are_cleaned(self) -> None:
        """NaN in unused slots of last pages becomes 0; nothing else is touched."""
        scenario = self.draw(mode="extend", page_size=16)
        from attn_lint.backends.library.tails import TailCleaner

        batch, pool = scenario.batch, scenario.runner.token_to_kv_pool
        before = pool.v_buffer[0].clone()
        cleaner = TailCleaner(pool, [0])
        cleaner.clean(batch)
        changed = (pool.v_buffer[0] == 0).all(-1).all(-1) & before.isnan().all(-1).all(-1)
        want = set()
        for row, length in enumerate(batch.kv_lens_cpu.tolist()):
            last = int(
                batch.req_to_token_pool.host[int(batch.req_pool_indices_cpu[row]), length - 1]
            )
            want |= set(range(last + 1, (last // 16 + 1) * 16))
        assert set(changed.nonzero().flatten().tolist()) == want
        pool.poison(changed.nonzero().flatten())
        cleaner.clean(batch)  # the same pages at the same lengths, come back from elsewhere
        assert bool((pool.v_buffer[0][changed] == 0).all())

    @pytest.mark.parametrize("family", ["mha", "mla"])
    @pytest.mark.parametrize(
        "dtype", ["float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"]
    )
    def test_what_is_finite_behind_an_end_stays(self, dtype: str, family: str) -> None:
        """It may be a longer request's that shares the page, or the same one's later on."""
        torch = pytest.importorskip("torch")
        from attn_lint.backends.interface.batch import ForwardBatch
        from attn_lint.backends.interface.pool import MLATokenToKVPool
        from attn_lint.backends.library.tails import TailCleaner

        from .support import PAGE, filled, pool

        kv = pool(dtype=dtype)
        if family == "mla":
            dims = {"kv_lora_rank": 32, "qk_rope_head_dim": 16}
            kv = MLATokenToKVPool(num_pages=8, page_size=PAGE, kv_cache_dtype=dtype, **dims)
        # Pages have four slots; the first of them may be read by a request of another batch.
        batch = ForwardBatch.decode(filled([[1, 2], [5, 3]]), kv, [1, 2], [2, 7])
        values = kv.get_value_buffer(0)
        narrow = values.element_size() == 1
        drawn = torch.tensor([1.5, float("nan"), -2.0, float("inf"), float("-inf"), 0.25, -0.0])
        if narrow:
            values, drawn = values.view(torch.uint8), torch.arange(256)
        values.copy_(drawn.repeat(values.numel())[: values.numel()].view(values.shape))
        before = values.clone()
        TailCleaner(kv, [0]).clean(batch)
        want = before.clone()
        for slot in () if dtype == "fp4_e2m1" else (6, 7, 15):  # of pages 1 and 3
            was = want[slot].view(kv.get_value_buffer(0).dtype).float()
            want[slot][~was.isfinite()] = 0
        assert torch.equal(values.view(torch.uint8), want.view(torch.uint8))

    def test_too_long_a_mask(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scenario = self.draw(tree=True, **VERIFY)
        from attn_lint.backends.library import limits

        bits = sum(4 * n for n in scenario.batch.kv_lens_cpu.tolist())
        monkeypatch.setattr(limits, "MOST_BITS", bits)
        assert limits.too_many_mask_bits(scenario.batch, scenario.layer) == []
        monkeypatch.setattr(limits, "MOST_BITS", bits - 1)
        (refusal,) = limits.too_many_mask_bits(scenario.batch, scenario.layer)
        assert refusal.traits == ("tree",)
        assert "split the batch" in refusal.reason


def build_script() -> Any:
    path = Path(__file__).parents[2] / "scripts" / "flashinfer_modules.py"
    spec = importlib.util.spec_from_file_location("flashinfer_modules", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_lean_modules_fail_where_kernels_are_left_out() -> None:
    """Explicit instances become specializations of the same name and arguments."""
    script = build_script()
    instances = """
constexpr auto use_custom_mask = MaskMode::kNone == MaskMode::kCustom;
template cudaError_t Launch<
    /*CTA_TILE_Q=*/16, MaskMode::kNone, Variant<use_custom_mask, true>,
    Params>(Params params, half* v, bool on);
template cudaError_t Launch<
    /*CTA_TILE_Q=*/64, MaskMode::kCustom, Variant<use_custom_mask, true>,
    Params>(Params& params, bool on);
"""
    out = " ".join(script._failing(instances).split())
    assert out == (
        "template <> cudaError_t Launch< 16, MaskMode::kNone, Variant<false, true>, Params>"
        "(Params, half*, bool) { return cudaErrorNotSupported; } "
        "template <> cudaError_t Launch< 64, MaskMode::kCustom, Variant<true, true>, Params>"
        "(Params&, bool) { return cudaErrorNotSupported; }"
    )


def linked(folder: Path, name: str, source: str, *flags: str) -> Path:
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", name, "-L.", *flags]
    subprocess.run(command, input=source, text=True, check=True, cwd=folder)
    return folder / name


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A folder with a driver's library that has one function."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    linked(tmp_path, "libcuda.so.1", "int cuAsk(void) { return 7; }", "-Wl,-soname,libcuda.so.1")
    return tmp_path


CALLER = "int cuAsk(void); int ask(void) { return cuAsk(); }"


def answer_of(module: Path, *, shared: bool) -> subprocess.CompletedProcess[str]:
    """Load a module in a process that has the driver's library open for itself, and call it."""
    code = f"""
import ctypes
from attn_lint.backends.library.driver import share_driver
ctypes.CDLL("libcuda.so.1")
{"share_driver()" if shared else ""}
print(ctypes.CDLL({str(module)!r}).ask())
"""
    env = os.environ | {
        "LD_LIBRARY_PATH": str(module.parent),
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_modules_that_lost_the_driver_find_it(driver: Path) -> None:
    module = linked(driver, "module.so", CALLER)
    assert "undefined symbol" in answer_of(module, shared=False).stderr
    assert answer_of(module, shared=True).stdout == "7\n"


def test_built_modules_name_the_driver(driver: Path) -> None:
    """Linked against a stand-in that lacks the function, as on a machine without a driver."""
    spec = SimpleNamespace(extra_ldflags=["-lcuda"], needs_device_linking=False)
    script = build_script()
    script._need_driver(spec)
    stubs = driver / "stubs"
    stubs.mkdir()
    linked(stubs, "libcuda.so", script._STUB, "-Wl,-soname,libcuda.so.1")
    module = linked(driver, "module.so", CALLER, "-Lstubs", "-Wl,--as-needed", *spec.extra_ldflags)
    assert answer_of(module, shared=False).stdout == "7\n"


def test_a_build_stops_when_its_time_is_up() -> None:
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    assert "the time is up" in build_script()._run(command, time.monotonic() + 1)
