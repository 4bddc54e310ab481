"""Pages on other things than attention: what must not alarm anyone."""

from __future__ import annotations

from pathlib import Path

import pytest
from attn_lint.docs_check.names import former_flag, former_names
from attn_lint.lintcfg.docs_judge import MatrixJudge

from .support import MODERN, copied, drift

QUIET = {
    "another runtime behind the same command": "```bash\nsglang serve --model-path some/pictures"
    " --attention-backend-config mask_file=a.json\n```",
    "a command in the background": "```bash\npython3 -m sglang.launch_server --model-path a/model"
    " --attention-backend alpha > log.txt 2>&1 &\n```",
    "a short form": "Set `--speculative-eagle` to 1.",
    "a flag that is on or off": "Set `--no-chunk-log`.",
    "a flag of another program": "See `--shm-page-size` of docker.",
    "a folder outside the package": "The text is in `sglang/docs` and `python/sglang/srt/a/b`.",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a flag that may be switched off."""
    root = copied(MODERN, tmp_path_factory.mktemp("pages") / "tree")
    file = root / "sglang/srt/arg_groups/fields/exec_.py"
    file.write_text(
        file.read_text(encoding="utf-8")
        + "    chunk_log: A[bool, Arg(action=argparse.BooleanOptionalAction)] = True\n",
        encoding="utf-8",
    )
    return root


@pytest.mark.parametrize("name", QUIET)
def test_what_is_right_is_left_alone(name: str, tree: Path) -> None:
    assert [one.message for one in drift(QUIET[name], tree)] == []


def test_a_missing_folder_of_the_package_is_for_a_person_to_look_at(tree: Path) -> None:
    found = drift("Kernels are in `python/sglang/srt/layers/kernels`.", tree)
    assert [(one.code, one.certainty) for one in found] == [("DOC113", "review")]


def test_kernels_of_the_diffusers_library() -> None:
    page = "```bash\nsglang generate --model-path some/pictures{} --attention-backend flash\n```"
    assert [one.code for one in drift(page.format(""))] == ["DOC112"]
    assert drift(page.format(" --backend diffusers")) == []


LAUNCHES = [
    # Nobody knows whether this model is one of those that the algorithm is for.
    ("--model-path nobody/knows-this-model --dllm-algorithm Gemma4Renoise", ()),
    ("--model-path nobody/knows-this-model --attention-backend cutlass_mla", ("cutlass_mla",)),
    ("--config config.yaml", ()),
    ("--host 0.0.0.0", ()),
    ("--model-path deepseek-ai/DeepSeek-V3 --kv-cache-dtype nvfp4", ("Blackwell", "trtllm_mla")),
    ("--model-path meta-llama/Llama-3.1-8B-Instruct --context-length 500000", ()),
]


@pytest.mark.parametrize(("argv", "reasons"), LAUNCHES)
def test_refusals_that_a_page_is_to_blame_for(argv: str, reasons: tuple[str, ...]) -> None:
    verdict = MatrixJudge("0.5.22").judge(argv.split())
    assert verdict.refuses is bool(reasons)
    for reason in reasons:
        assert any(reason in one for one in verdict.reasons), verdict.reasons


@pytest.mark.parametrize(
    ("release", "flag", "backend"),
    [
        ("0.4.1", "first in 0.4.2", "first in 0.4.6.post5"),
        ("0.5.21", "removed in 0.5.20; use --cuda-graph-bs-decode", "removed in 0.5.20"),
        (None, "removed in 0.5.20; use --cuda-graph-bs-decode", "removed in 0.5.20"),
    ],
)
def test_names_that_come_later_were_not_removed(
    release: str | None, flag: str, backend: str
) -> None:
    assert former_flag("--cuda-graph-bs", release) == flag
    former = former_names([], release)["cutlass_mla"]
    assert str(former).startswith(backend)
    assert bool(former.replacement) is backend.startswith("removed")
