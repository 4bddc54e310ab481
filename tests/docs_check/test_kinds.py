"""Kinds of code that once led to a wrong finding, or to none, each as an addition to a tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from attn_lint.docs_check.facts import kvdtype

from .support import FIXTURES, MODERN, copied, drift, facts, ill_worded

RIGHT = (FIXTURES / "right.mdx").read_text(encoding="utf-8")
DIFFUSION = (FIXTURES / "right_diffusion.mdx").read_text(encoding="utf-8")
ATTENTION = "srt/layers/attention"
GENERATE = "multimodal_gen/runtime"


def added(tmp_path: Path, file: str, code: str, old: str = "") -> Path:
    """A copy of the tree with code at the end of a file, or in place of some."""
    tree = copied(MODERN, tmp_path / "tree")
    path = tree / "sglang" / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    assert old in text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(old, code) if old else text + code, encoding="utf-8")
    return tree


def messages(page: str, tree: Path) -> list[str]:
    """Certainty and message of each finding."""
    return [f"{one.certainty}: {one.message}" for one in drift(page, tree)]


HARMLESS = {
    "a dtype that one model needs": (
        "srt/arg_groups/overrides.py",
        """

def _model_defaults(server_args, model_arch):
    server_args.attention_backend = "sparse"
    assert server_args.kv_cache_dtype in ["bf16"], f"not supported for {model_arch}"
""",
    ),
    "a class with a second name": (
        f"{ATTENTION}/sparse_backend.py",
        "\nOldSparseBackend = SparseAttnBackend\nSparseAttnBackend = SparseAttnBackend\n",
    ),
    "a sub-backend that is compared to be refused": (
        f"{ATTENTION}/sparse_backend.py",
        """
    def check(self):
        if self.decode_impl == "dense_rows":
            raise ValueError("dense_rows is for prefill only")
""",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_code_that_takes_nothing_from_a_right_page(name: str, tmp_path: Path) -> None:
    assert messages(RIGHT, added(tmp_path, *HARMLESS[name])) == []


def test_a_dtype_that_is_refused_for_itself_counts_for_no_backend(tmp_path: Path) -> None:
    code = """

def configure(kv_cache_dtype, device):
    if kv_cache_dtype == "auto":
        return None
    elif kv_cache_dtype == "nvfp4":
        raise ValueError("--kv-cache-dtype=nvfp4 is gone.")
"""
    tree = added(tmp_path, "srt/model_executor/lists.py", code)
    assert not [one for one in drift(RIGHT, tree) if one.code == "DOC105"]


WRAPPER = """

def attn_backend_wrapper(runner, full_attn_backend):
    if hybrid_gdn_config(runner) is not None:
        if is_blackwell():
            if get_platform().is_sm120:
                allowed = {"alpha", "gamma"}
            else:
                allowed = FULL_ATTENTION_BACKENDS
            prefill_be = runner.prefill_attention_backend_str
            decode_be = runner.decode_attention_backend_str
            assert prefill_be in allowed and decode_be in allowed, (
                f"Only {allowed} are supported for hybrid GDN models."
            )
        elif is_npu():
            assert (
                runner.prefill_attention_backend_str == "delta"
                or runner.prefill_attention_backend_str == "alpha"
            ), "delta or alpha for hybrid GDN models."


FULL_ATTENTION_BACKENDS = {"alpha", "delta"}
"""
HYBRID = """
### GDN Attention Backends

Beside GDN, these serve the layers with full attention:
- **Blackwell SM120**: `alpha`, `gamma` only.
- **Other Blackwell (SM100)**: `alpha`, `delta` only.
- **NPU**: `alpha`, `delta` only.
"""


def test_limits_of_hybrid_models_by_branch(tmp_path: Path) -> None:
    tree = added(tmp_path, f"{ATTENTION}/attention_registry.py", WRAPPER)
    assert messages(RIGHT + HYBRID, tree) == []
    wrong = HYBRID.replace("**Blackwell SM120**: `alpha`, `gamma`", "**Blackwell**: `alpha`")
    assert messages(RIGHT + wrong, tree) == [
        "proved: full attention beside GDN: delta is admitted as well on Blackwell (SM100),"
        " Blackwell (SM103), Blackwell (SM110); gamma is admitted as well on Blackwell (SM120),"
        " Blackwell (SM121)"
    ]


def _with_dtypes(tree: Path, *names: str) -> None:
    """Give the flag of a tree more KV-cache dtypes."""
    flag = tree / "sglang" / "srt" / "arg_groups" / "fields" / "exec_.py"
    text = flag.read_text(encoding="utf-8")
    more = "".join(f'"{name}", ' for name in names)
    flag.write_text(text.replace('"nvfp4"]', f'{more}"nvfp4"]'), "utf-8")


def test_dtypes_that_some_machines_refuse_or_that_change_the_backend(tmp_path: Path) -> None:
    code = """

def _more_dtype_checks(view):
    prefill_backend, decode_backend = attention_backends_of(view)
    if prefill_backend == "beta_mla" and get_platform().is_sm120 and (
        view.kv_cache_dtype == "fp8_e4m3" or view.threshold > 0
    ):
        raise ValueError("beta_mla prefill takes no FP8 on SM120.")


def _fallback(view):
    if view.attention_backend == "delta" and view.kv_cache_dtype == "fp8_e4m3":
        return {"attention_backend": "alpha"}
    return {}
"""
    # A column for all of FP8: `delta` takes fp8_e5m2.
    page = RIGHT.replace("(native) | FP4 KV Cache", "(native) | FP8 KV Cache")
    page = page.replace("| **Delta** | ✅ | ❌ |", "| **Delta** | ✅ | ✅ |")
    tree = added(tmp_path, "srt/arg_groups/overrides.py", code)
    _with_dtypes(tree, "fp8_e5m2")
    assert messages(page, tree) == [
        "partial: Delta: with fp8_e4m3 the backend becomes alpha",
        "partial: Beta MLA: fp8_e4m3 is refused for prefill on Blackwell (SM120),"
        " Blackwell (SM121)",
    ]
    found = drift(page, tree)
    assert [one.condition for one in found] == [
        "except with fp8_e4m3",
        "except with fp8_e4m3 for prefill on Blackwell (SM120), Blackwell (SM121)",
    ]
    assert ill_worded(found) == []
    # A column for the one: it is not what serves it.
    assert (
        "proved: Delta is said to take an fp8_e4m3 KV cache; it does not: with fp8_e4m3 the"
        " backend becomes alpha" in messages(page.replace("FP8 KV", "fp8_e4m3 KV", 1), tree)
    )
    assert not any("Delta" in one for one in messages(page.replace("FP8", "fp8_e5m2", 1), tree))


def test_a_list_whose_file_says_which_dtype_it_is_about(tmp_path: Path) -> None:
    code = """

_CPU_FP8_BACKENDS = frozenset({"delta"})
_FP4_MX_BACKENDS = ["alpha"]
METHODS = {"cpu_fp8_e4m3": _CPU_FP8_BACKENDS}
"""
    tree = added(tmp_path, "srt/arg_groups/choices.py", code)
    _with_dtypes(tree, "mxfp8", "fp4_mx_block16")
    own = facts(tree)
    dtypes = ("fp8", "fp8_e4m3", "fp8_e5m2", "mxfp8")
    for name, told in zip(dtypes, ("yes", "yes", None, None), strict=True):
        found = kvdtype.support(own, "delta", "mha", name)[0]
        assert (found.value if found else None) == told, name
    for name, told in (("fp4_mx_block16", "yes"), ("nvfp4", "no")):
        found = kvdtype.support(own, "alpha", "mha", name)[0]
        assert found is None or found.value == told


def test_a_dtype_that_a_list_has_for_one_phase(tmp_path: Path) -> None:
    code = """

_NVFP4_KV_PREFILL_BACKENDS = ["alpha"]
_NVFP4_KV_DECODE_BACKENDS = ["gamma"]
"""
    page = RIGHT.replace("| **Alpha** | ✅ | ❌ |", "| **Alpha** | ✅ | ✅ |")
    found = drift(page, added(tmp_path, "srt/arg_groups/choices.py", code))
    (one,) = [one for one in found if one.line == 13]
    assert one.message == (
        "Alpha takes an FP4 KV cache only for prefill, with gamma as decode backend: listed in"
        " _NVFP4_KV_PREFILL_BACKENDS (nvfp4)"
    )
    assert ill_worded([one]) == []


def test_a_row_by_a_name_that_is_no_value(tmp_path: Path) -> None:
    (one,) = [
        one for one in drift(RIGHT.replace("**Delta**", "**CutlassFoo**"))
        if one.code == "DOC101"
    ]  # fmt: skip
    assert one.message == "`CutlassFoo` is documented; the code has no such backend"


def test_a_cache_that_is_converted(tmp_path: Path) -> None:
    tree = added(
        tmp_path, f"{ATTENTION}/alpha_backend.py",
        "return kernel(q, self.pool.get_key_buffer(layer.layer_id).to(q.dtype))",
        "return kernel(q, forward_batch.cache)",
    )  # fmt: skip
    assert messages(RIGHT, tree) == [
        "review: Alpha is said to have no FP8 KV cache; the code serves one by conversion:"
        " the cache is converted to the queries' type before each kernel"
    ]


@pytest.mark.parametrize(("guard", "served"), [("save_kv_cache", False), ("layer.fp8", True)])
def test_scales_that_are_for_storing_only(guard: str, served: bool, tmp_path: Path) -> None:
    tree = added(
        tmp_path, f"{ATTENTION}/alpha_backend.py",
        f"""        if {guard}:
            self.pool.note(layer, k, v, layer.k_scale, layer.v_scale)
        return kernel(q, forward_batch.cache)""",
        "        return kernel(q, forward_batch.cache)",
    )  # fmt: skip
    assert [(one.code, one.certainty) for one in drift(RIGHT, tree)] == (
        [("DOC105", "partial")] if served else []
    )


@pytest.mark.parametrize(
    ("guard", "expected"),
    [("sinks is not None", "partial"), ("layer.sliding_window_size > -1", "proved")],
)
def test_a_window_that_is_read_for_sinks_only(guard: str, expected: str, tmp_path: Path) -> None:
    tree = added(
        tmp_path, f"{ATTENTION}/delta_backend.py",
        f"""        if {guard}:
            return kernel(q, layer.sliding_window_size)
        return kernel(q, forward_batch.cache.view(-1, self.page_size, layer.head_dim))""",
        "        return kernel(q, forward_batch.cache.view(-1, self.page_size, layer.head_dim))",
    )  # fmt: skip
    found = drift(RIGHT, tree)
    assert [(one.code, one.certainty, bool(one.fix)) for one in found] == [
        ("DOC107", expected, expected == "proved")
    ]


def test_a_default_page_size_of_the_machine_that_a_row_names(tmp_path: Path) -> None:
    code = """

def _npu_page_size(view):
    if is_npu() and view.attention_backend == "delta":
        if view.page_size not in [128]:
            return {"page_size": 128}
    return {}
"""
    tree = added(tmp_path, "srt/arg_groups/overrides.py", code)
    page = RIGHT.replace("| **Delta** | ✅ |", "| **Delta (NPU)** | 128 |")
    assert messages(page, tree) == []
    assert messages(page.replace("Delta (NPU)", "Delta"), tree) == [
        "partial: Delta page size 128 holds only if npu"
    ]


CUDA = f"{GENERATE}/platforms/cuda.py"


def test_a_backend_that_some_machines_of_a_platform_replace(tmp_path: Path) -> None:
    old = "        elif selected_backend in (AttentionBackendEnum.FA, None):\n"
    code = f"""{old}            if cls.is_sm120():
                return "sglang.multimodal_gen.runtime.layers.attention.backends.sdpa.SDPABackend"
"""
    tree = added(tmp_path, CUDA, code, old)
    assert messages(DIFFUSION, tree) == [
        "partial: `fa` does not run on every CUDA machine: it becomes torch_sdpa on"
        " Blackwell (SM120), Blackwell (SM121)"
    ]
    told = DIFFUSION.replace("| `fa` | Yes | No | |", "| `fa` | Yes | No | Not on SM120. |")
    assert messages(told, tree) == []


def test_a_class_that_needs_a_package_of_another_platform(tmp_path: Path) -> None:
    old = "        elif selected_backend == AttentionBackendEnum.TILE_ATTN:\n"
    path = f"sglang.{GENERATE.replace('/', '.')}.layers.attention.backends.rocm_only"
    code = f"""        elif selected_backend == AttentionBackendEnum.ROCM_ONLY:
            return "{path}.RocmOnlyBackend"
{old}"""
    tree = added(tmp_path, CUDA, code, old)
    module = tree / "sglang" / GENERATE / "layers/attention/backends/rocm_only.py"
    module.write_text("import aiter\n" + module.read_text(encoding="utf-8"), encoding="utf-8")
    assert messages(DIFFUSION, tree) == []


@pytest.mark.parametrize("required", ["masks", "MasksOnDisk"])
def test_a_package_that_is_imported_late_or_goes_by_another_name(
    required: str, tmp_path: Path
) -> None:
    file = f"{GENERATE}/layers/attention/backends/tile_attn.py"
    code = """

def load():
    try:
        from masks import read
    except ImportError:
        raise ImportError("pip install git+https://example.org/masksondisk.git")
    return read
"""
    page = DIFFUSION.replace("Needs a mask file.", f"Requires `{required}`.")
    assert messages(page, added(tmp_path, file, code)) == []
    assert len(messages(page, MODERN)) == 1


def test_a_member_for_no_attention(tmp_path: Path) -> None:
    page = DIFFUSION.replace("`NO_ATTENTION` is for layers that have none.", "")
    assert messages(page, MODERN) == [
        "review: `NO_ATTENTION` (`no_attention`) is a member of AttentionBackendEnum and has no"
        " row; it stands for none of the backends"
    ]


def test_keys_of_a_backend_that_a_branch_names_by_value(tmp_path: Path) -> None:
    code = """

def _metadata(server_args):
    if server_args.attention_backend != "rocm_only":
        return None
    config = server_args.attention_backend_config or {}
    return config.get("block_rows")


def _step(self, server_args):
    if self.attn_backend.get_enum() == AttentionBackendEnum.TILE_ATTN:
        config = server_args.attention_backend_config or {}
        return config.get("tile_rows", 4)
"""
    tree = added(tmp_path, f"{GENERATE}/pipelines_core/stages/denoising.py", code)
    assert messages(DIFFUSION, tree) == [
        "proved: the keys of `rocm_only` are not documented: block_rows",
        "proved: `tile_rows` of `tile_attn` is not documented",
    ]


def test_keys_that_only_a_condition_reads_and_values_in_another_spelling(tmp_path: Path) -> None:
    code = """

def _check(server_args):
    config = server_args.attention_backend_config or {}
    if not config.get("tile_check", False):
        raise ValueError("no")
"""
    tree = added(tmp_path, f"{GENERATE}/pipelines_core/stages/denoising.py", code)
    page = DIFFUSION.replace(
        "| `fast` |\n", "| `fast` |\n| `tile_check` | `bool` | - | `false` |\n"
    )
    assert messages(page, tree) == []
    assert [one.code for one in drift(page.replace("`false`", "`true`"), tree)] == ["DOC115"]


def test_a_default_that_a_page_tells_in_its_own_words(tmp_path: Path) -> None:
    tree = added(
        tmp_path, CUDA,
        f"""        if selected_backend is None and cls.is_blackwell():
            return "sglang.{GENERATE.replace("/", ".")}.layers.attention.backends.tile_attn."""
        """TileAttentionBackend"
        if selected_backend == AttentionBackendEnum.TORCH_SDPA:
""",
        "        if selected_backend == AttentionBackendEnum.TORCH_SDPA:\n",
    )  # fmt: skip
    page = DIFFUSION.replace(
        "## Backend options", "- **CUDA**: prefers `fa`.\n\n## Backend options"
    )
    assert messages(page, tree) == [
        "partial: CUDA uses tile_attn by default on Blackwell (SM100), Blackwell (SM103)"
    ]
    assert messages(page.replace("`fa`.", "`fa`; on SM100 it takes tiles (`TILE`)."), tree) == []


def test_aliases_that_are_turned_where_all_arguments_are(tmp_path: Path) -> None:
    tree = added(
        tmp_path, f"{GENERATE}/server_args/server_args.py", "def __post_init__(self):",
        "def _adjust_attention_backend(self):",
    )  # fmt: skip
    assert messages(DIFFUSION, tree) == []


@pytest.mark.parametrize("stem", ["tile_attn", "tiles_of_some_kind"])
def test_classes_that_do_not_say_which_member_they_are(stem: str, tmp_path: Path) -> None:
    tree = copied(MODERN, tmp_path / "tree")
    package = tree / "sglang" / GENERATE
    old = package / "layers/attention/backends/tile_attn.py"
    old.rename(old.with_stem(stem)).write_text(
        "class TileAttentionBackend:\n    @staticmethod\n    def get_name():\n"
        '        return "TILES"\n',
        encoding="utf-8",
    )
    for file in package.glob("platforms/*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("tile_attn.Tile", f"{stem}.Tile"), encoding="utf-8")
    assert not [one for one in drift(DIFFUSION, tree) if one.code == "DOC109"]
    wrong = DIFFUSION.replace("| `tile_attn` | Yes |", "| `tile_attn` | No |")
    told = [one.certainty for one in drift(wrong, tree) if one.code == "DOC109"]
    assert told == (["proved"] if stem == "tile_attn" else [])


#: A check on topk inside a class, and the ways in which its instances are made.
CHECKED = """from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class DeltaAttnBackend(AttentionBackend):
    def __init__(self, model_runner, topk=1):
        self.page_size = model_runner.page_size
        self.topk = topk

    def init_forward_metadata(self, forward_batch):
        if forward_batch.forward_mode.is_decode():
            self.plan_decode()
        elif forward_batch.forward_mode.is_draft_extend_v2():
            self._ensure_one_branch()

    def _ensure_one_branch(self):
        if self.topk > 1:
            raise NotImplementedError("Delta extends chains only.")

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return kernel(q, forward_batch.cache.view(-1, self.page_size, layer.head_dim))

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return kernel(q, forward_batch.cache.view(-1, self.page_size, layer.head_dim))


class DeltaDraftBackend:
    def __init__(self, model_runner, topk, steps):
        self.steps = [DeltaAttnBackend(model_runner, topk=topk) for _ in range(steps)]
"""
DRAFTS = "srt/speculative/draft_utils.py"
MADE = "return DeltaAttnBackend(self.runner)"


def _with_checked_topk(tmp_path: Path, file: str = "", new: str = "", old: str = "") -> Path:
    """The tree with the class above, whose draft steps are made by a class of their own."""
    tree = copied(MODERN, tmp_path / "tree")
    backend = tree / "sglang" / ATTENTION / "delta_backend.py"
    backend.write_text(CHECKED, encoding="utf-8")
    drafts = tree / "sglang" / DRAFTS
    text = drafts.read_text(encoding="utf-8")
    text = text.replace('"delta": self._create_delta', '"delta": self._create_delta_steps', 1)
    text += """
    def _create_delta_steps(self):
        from sglang.srt.layers.attention.delta_backend import DeltaDraftBackend

        return DeltaDraftBackend(self.runner, self.topk, 3)
"""
    drafts.write_text(text, encoding="utf-8")
    if file:
        path = tree / "sglang" / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    return tree


def test_a_topk_that_no_instance_is_given_where_it_is_checked(tmp_path: Path) -> None:
    assert messages(RIGHT, _with_checked_topk(tmp_path)) == []


@pytest.mark.parametrize(
    ("file", "new", "old"),
    [
        (DRAFTS, "return DeltaAttnBackend(self.runner, topk=self.topk)", MADE),
        (DRAFTS, "return DeltaAttnBackend(self.runner, self.topk)", MADE),
        (DRAFTS, "return DeltaAttnBackend(self.runner, **self.given)", MADE),
        (f"{ATTENTION}/delta_backend.py", "self.topk = model_runner.topk", "self.topk = topk"),
        (f"{ATTENTION}/delta_backend.py", "model_runner, topk)", "model_runner, topk=1)"),
        (f"{ATTENTION}/delta_backend.py", "self._ensure_one_branch()", "self.plan_decode()"),
    ],
    ids=["named", "placed", "starred", "read elsewhere", "without default", "while steps decode"],
)
def test_a_topk_that_an_instance_may_be_given_where_it_is_checked(
    file: str, new: str, old: str, tmp_path: Path
) -> None:
    assert messages(RIGHT, _with_checked_topk(tmp_path, file, new, old)) == [
        "partial: Delta is said to support topk > 1; it does not: Delta extends chains only."
    ]
