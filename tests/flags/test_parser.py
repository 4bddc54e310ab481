"""Single rules of argparse, each with the smallest command line that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from attn_lint.lintcfg.flags import FlagTable, ParsedLaunch, parse
from attn_lint.lintcfg.resolver.values import Unknown

MODEL = ["--model-path", "m"]


def run(table: FlagTable, *words: str, **options: Any) -> ParsedLaunch:
    """Parse a command line that names a model."""
    return parse([*MODEL, *words], table, **options)


def kinds(launch: ParsedLaunch) -> list[str]:
    return [problem.kind for problem in launch.problems]


def test_every_field_has_a_value(table: FlagTable) -> None:
    launch = run(table)
    assert launch.values.keys() == table.defaults.keys()
    assert launch.values["model_path"] == "m"
    assert launch.problems == []
    assert list(launch.typed) == ["model_path"]


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--tp-size", "4"], "tp_size", 4),
        (["--tensor-parallel-size=4"], "tp_size", 4),
        (["--tp", "4"], "tp_size", 4),
        (["--tp=4"], "tp_size", 4),
        (["--page-size", "-1"], "page_size", -1),
        (["--page-size", " 1_6 "], "page_size", 16),
        (["--mem-fraction-static", "-.5"], "mem_fraction_static", -0.5),
        (["--context-length", "1.5k"], "context_length", 1500),
        (["--context-length", "2Ki"], "context_length", 2048),
        (["--disable-radix-cache"], "disable_radix_cache", True),
        (["--dllm-fdfo"], "dllm_fdfo", True),
        (["--no-dllm-fdfo"], "dllm_fdfo", False),
        (["--no-dllm-f"], "dllm_fdfo", False),
        (["--cuda-graph-bs-decode", "1", "2", "--enable-lora"], "cuda_graph_bs_decode", [1, 2]),
        (["--cuda-graph-bs-decode=3"], "cuda_graph_bs_decode", [3]),
        (["--lora-target-modules"], "lora_target_modules", []),
        (["--model-checksum"], "model_checksum", ""),
        (["--model-checksum", "f"], "model_checksum", "f"),
        (["--quantization-param-path", "None"], "quantization_param_path", None),
        (["--served-model-name", "--not a flag"], "served_model_name", "--not a flag"),
        (["--served-model-name="], "served_model_name", ""),
        (["--served-model-name=a=b"], "served_model_name", "a=b"),
        (["--attention-backend=--"], "attention_backend", []),
        (["--preferred-sampling-params", '{"a": [1]}'], "preferred_sampling_params", {"a": [1]}),
        (["--sidecar-args", "[18446744073709551616]"], "sidecar_args", [1.8446744073709552e19]),
        (["--lora-paths", " a ", '{"lora_name":"n","lora_path":"p"}'], "lora_paths",
         ["a", {"lora_name": "n", "lora_path": "p"}]),
        (["--cuda-graph-config", '{"decode": {"max_bs": 4}}'], "cuda_graph_config",
         {"decode": {"max_bs": 4}}),
        (["--log-level", "WARN"], "log_level", "WARN"),
        (["--radix-eviction-policy=lru"], "_radix_eviction_policy_explicitly_set", True),
        (["--page-size", "1"], "_radix_eviction_policy_explicitly_set", False),
    ],
)  # fmt: skip
def test_accepted(table: FlagTable, words: list[str], field: str, value: Any) -> None:
    launch = run(table, *words)
    assert launch.refusal is None
    assert launch.values[field] == value
    assert type(launch.values[field]) is type(value)


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        (["--page-size"], "missing-value", "argument --page-size: expected one argument"),
        (["--page-size", "--tp", "1"], "missing-value", "argument --page-size: expected one"),
        (["--cuda-graph-bs-decode"], "missing-value", "expected at least one argument"),
        (["--page-size", "x"], "bad-type", "invalid int value: 'x'"),
        (["--page-size", "1.0"], "bad-type", "invalid int value: '1.0'"),
        (["--mem-fraction-static", "a"], "bad-type", "invalid float value"),
        (["--mm-process-config", "{"], "bad-type", "invalid loads value: '{'"),
        (["--sidecar-args", "[NaN]"], "bad-type", "not a valid JSON list"),
        (["--context-length", "1.5Ki"], "bad-type", "no decimals"),
        (["--cuda-graph-config", '{"x": {}}'], "bad-type", "unknown section 'x'"),
        (["--cuda-graph-config", '{"decode": {"x": 1}}'], "bad-type", "no key 'x'"),
        (["--cuda-graph-backend-decode", "tc_piecewise"], "bad-type", "was removed"),
        (["--lora-paths", "{x}"], "bad-type", "looks like JSON"),
        (["--dtype", "fp64"], "invalid-choice", "invalid choice: 'fp64' (choose from 'auto',"),
        (["--max-lora-chunk-size", "17"], "invalid-choice", "invalid choice"),
        (["--disable-radix-cache=1"], "unexpected-value", "ignored explicit argument '1'"),
        (["--disable-radix-cache", "true"], "stray-value", "unrecognized arguments"),
        (["--nonsense", "1"], "unknown-flag", "unrecognized arguments"),
        (["--tp_size", "1"], "unknown-flag", "unrecognized arguments"),
        (["--no-disable-radix-cache"], "unknown-flag", "unrecognized arguments"),
        (["--"], "stray-value", "unrecognized arguments"),
        (["-x"], "unknown-flag", "unrecognized arguments"),
        (["-5"], "stray-value", "unrecognized arguments"),
        (["--speculative-draft", "d"], "ambiguous", "ambiguous option: --speculative-draft could"),
        (["--="], "ambiguous", "ambiguous option: --="),
        (["--log-level", "trace"], "invalid-choice", "module 'logging' has no attribute 'TRACE'"),
        (["-h"], "help", "usage"),
        (["--help"], "help", "usage"),
        (["-hh"], "help", "usage"),
        (["-hx"], "unexpected-value", "ignored explicit argument 'x'"),
        (["--help=x"], "unexpected-value", "ignored explicit argument 'x'"),
    ],
)
def test_refused(table: FlagTable, words: list[str], kind: str, says: str) -> None:
    launch = run(table, *words)
    assert launch.refusal is not None
    assert launch.refusal.kind == kind
    assert says in launch.refusal.says


def test_the_last_occurrence_wins(table: FlagTable) -> None:
    launch = run(table, "--tp", "2", "--tensor-parallel-size", "4")
    assert launch.values["tp_size"] == 4
    assert launch.typed["tp_size"].index == 4
    assert [item.value for item in launch.occurrences if item.field == "tp_size"] == [2, 4]


def test_typed_tells_where_and_how(table: FlagTable) -> None:
    typed = run(table, "--attention-back=fa3").typed["attention_backend"]
    assert (typed.index, typed.end) == (2, 3)
    assert (typed.spelling, typed.name) == ("--attention-back", "--attention-backend")
    assert typed.abbreviated
    assert typed.raw == ("fa3",)
    assert (typed.file, typed.line) == (None, None)


def test_a_refused_value_leaves_the_default(table: FlagTable) -> None:
    launch = run(table, "--page-size", "x", "--tp", "2")
    assert launch.values["page_size"] is None
    assert "page_size" not in launch.typed
    assert launch.values["tp_size"] == 2


def test_all_problems_are_told_in_the_order_of_argparse(table: FlagTable) -> None:
    launch = parse(
        ["stray", "--tp", "x", "--bogus", "--speculative-draft", "d", "--page-size"], table
    )
    assert kinds(launch) == [
        "ambiguous", "bad-type", "missing-value", "missing-required", "stray-value",
        "unknown-flag",
    ]  # fmt: skip
    assert launch.refusal is launch.problems[0]


def test_a_required_flag_may_be_invalid_and_is_not_missing_then(table: FlagTable) -> None:
    assert kinds(parse(["--model-path"], table)) == ["missing-value"]
    assert kinds(parse([], table)) == ["missing-required"]
    assert parse([], table, partial=True).problems == []


def test_values_after_an_unknown_flag_belong_to_its_problem(table: FlagTable) -> None:
    launch = run(table, "--bogus", "1", "2", "--tp", "2")
    (problem,) = launch.problems
    assert (problem.index, problem.end, problem.value) == (2, 5, "1 2")


def test_a_stray_word_says_why(table: FlagTable) -> None:
    switch = run(table, "--disable-radix-cache", "true")
    assert switch.problems[0].message.endswith("--disable-radix-cache takes no value")
    second = run(table, "--tp=2", "4")
    assert second.problems[0].message == "4 belongs to no flag"


def test_deprecated_flags_still_work(table: FlagTable) -> None:
    launch = run(table, "--disable-cuda-graph")
    assert launch.values["disable_cuda_graph"] is True
    assert launch.refusal is None
    (problem,) = launch.problems
    assert (problem.kind, problem.refuses) == ("deprecated", False)
    assert problem.replacement == "--cuda-graph-backend-{decode,prefill}=disabled"


@pytest.mark.parametrize(
    ("word", "suggested"),
    [
        ("--attention-backedn", "--attention-backend"),
        ("--attention_backend", "--attention-backend"),
        ("--page-siez", "--page-size"),
        ("--disable-radix", None),
    ],
)
def test_unknown_flags_bring_near_names(table: FlagTable, word: str, suggested: str | None) -> None:
    launch = run(table, word, "1") if suggested else run(table, word)
    if suggested is None:
        assert launch.refusal is None
        return
    assert launch.refusal is not None
    assert launch.refusal.suggestions[0] == suggested
    assert launch.refusal.hint == f"did you mean {' or '.join(launch.refusal.suggestions)}?"


@pytest.mark.parametrize(
    ("flag", "value", "suggested"),
    [
        ("--attention-backend", "TRTLLM_MHA", ("trtllm_mha",)),
        ("--attention-backend", "trtllm-mla", ("trtllm_mla",)),
        ("--attention-backend", "flashinfr", ("flashinfer",)),
        ("--kv-cache-dtype", "fp8", ("fp8_e5m2", "fp8_e4m3")),
    ],
)
def test_invalid_choices_bring_near_values(
    table: FlagTable, flag: str, value: str, suggested: tuple[str, ...]
) -> None:
    launch = run(table, flag, value)
    assert launch.refusal is not None
    assert launch.refusal.suggestions[: len(suggested)] == suggested


def test_the_environment_widens_choices(table: FlagTable) -> None:
    words = ["--sampling-backend", "token_oracle"]
    variable = next(iter(table.by_field["sampling_backend"].choices_env or {}))
    assert kinds(run(table, *words)) == ["invalid-choice"]
    assert kinds(run(table, *words, env={variable: "0"})) == ["invalid-choice"]
    assert kinds(run(table, *words, env={variable: "Yes"})) == []


def test_words_that_only_a_shell_knows(table: FlagTable) -> None:
    launch = run(table, "--tp", "$TP", "--attention-backend", "$B", "$MORE", unknown={3, 5, 6})
    assert launch.problems == []
    assert isinstance(launch.values["tp_size"], Unknown)
    backend = launch.values["attention_backend"]
    assert isinstance(backend, Unknown)
    assert backend.candidates == table.by_field["attention_backend"].choices
    assert launch.open_ended


def test_a_value_that_looks_like_a_flag_gets_a_hint(table: FlagTable) -> None:
    launch = run(table, "--served-model-name", "-mine")
    assert launch.refusal is not None
    assert "--served-model-name=-mine" in launch.refusal.message


def test_flags_can_be_looked_up(table: FlagTable) -> None:
    assert table.by_name["--tp-size"] is table.by_field["tp_size"]
    assert "--help" not in table.by_name
    assert table.by_name.get("--nope") is None
    assert table.spelling("tp_size") == "--tp-size"
    assert table.spelling("uses_mamba_radix_cache") == "uses_mamba_radix_cache"
    assert table.by_field["tp_size"].declared
    assert len(table.by_field) == len(table.defaults)


def test_every_flag_has_a_converter_and_a_source(table: FlagTable) -> None:
    for name in table.by_name:
        flag = table.by_name[name]
        assert callable(flag.convert)
        assert flag.source["file"].endswith(".py")
        assert flag.source["symbol"]
