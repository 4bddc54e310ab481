"""Fixes of every class in every kind of file: what is written is what a person would write.

Each kind has a writer that puts flags into a whole file. A fix of the file with the old flags must
give, to the byte, the file that the writer makes of the new ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.result import FileReport
from attn_lint.lintcfg.cli import dispatch, guarded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("shared_judges")

MODEL = "deepseek-ai/DeepSeek-V3.2"
Flag = tuple[str, str | None]


@dataclass(frozen=True)
class Style:
    """How somebody spells words: quotes, an equals sign, a remark behind them."""

    quote: str
    equals: bool
    remark: str


def words(flags: list[Flag], style: Style) -> list[str]:
    """Words as argv has them; what is spelled with an equals sign is one."""
    out = []
    for name, value in flags:
        if value is None:
            out += f"--{name}".split()
        elif style.equals or "=" in name:
            out.append(f"--{name}={value}")
        else:
            out += [f"--{name}", value]
    return out


def line(flags: list[Flag], style: Style, between: str = " ") -> str:
    """A command line for a shell."""
    parts = []
    for name, value in flags:
        if value is None:
            parts.append(f"--{name}")
        else:
            quoted = f"{style.quote}{value}{style.quote}"
            parts.append(f"--{name}={value}" if style.equals else f"--{name} {quoted}")
    return between.join(parts)


def listed(flags: list[Flag], style: Style, quote: str = '"', between: str = ", ") -> str:
    return between.join(f"{quote}{word}{quote}" for word in words(flags, style))


# A decoy in each: the old names in a remark must stay as they are.
DECOY = "--nsa-decode-backend x --disable-cuda-graph --page-size 16 nsa"


def shell(flags: list[Flag], style: Style) -> str:
    between = " \\\n    "
    return (
        f"#!/bin/bash\n# sglang: {DECOY} é\nset -e\n\npython3 -m sglang.launch_server \\\n"
        f"    {line(flags, style, between)} {style.remark}\necho done \u2713\n"
    )


def shell_array(flags: list[Flag], style: Style) -> str:
    body = "".join(f"  {line([flag], style)} {style.remark}\n" for flag in flags)
    return f'ARGS=(\n{body})\nsglang serve "${{ARGS[@]}}"  # {DECOY}\n'


def docker_shell(flags: list[Flag], style: Style) -> str:
    between = " \\\n  "
    return (
        f"FROM base\n# {DECOY}\nENTRYPOINT python3 -m sglang.launch_server "
        f"{line(flags, style, between)}\n"
    )


def docker_exec(flags: list[Flag], style: Style) -> str:
    head = '"python3", "-m", "sglang.launch_server", '
    return f"FROM base\n# {DECOY}\nCMD [{head}{listed(flags, style)}]\n"


def compose_line(flags: list[Flag], style: Style) -> str:
    body = "\n".join(f"      {line([flag], style)}" for flag in flags)
    return (
        f"# {DECOY}\nservices:\n  s:\n    image: base\n    command: >\n"
        f'      python3 -m sglang.launch_server\n{body}\n    ports: ["1:1"]\n'
    )


def kubernetes(flags: list[Flag], style: Style, command: str) -> str:
    return (
        f"# {DECOY}\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n"
        "  template:\n    spec:\n      containers:\n      - name: s\n        image: base\n"
        f"{command}        ports:\n        - containerPort: 1  # port\n"
    )


def kubernetes_list(flags: list[Flag], style: Style) -> str:
    quote = style.quote or '"'
    plain = [word if not word[0].isdigit() else f"{quote}{word}{quote}"
             for word in words(flags, style)]  # fmt: skip
    items = "".join(f"        - {word}\n" for word in plain)
    head = "        command: [python3, -m, sglang.launch_server]\n        args:\n"
    return kubernetes(flags, style, head + items)


def kubernetes_quoted_list(flags: list[Flag], style: Style) -> str:
    quote = style.quote or "'"
    items = "".join(f"          - {quote}{word}{quote}\n" for word in words(flags, style))
    head = "        command:\n          - python3\n          - -m\n"
    return kubernetes(flags, style, f"{head}          - sglang.launch_server\n{items}")


def kubernetes_flow(flags: list[Flag], style: Style) -> str:
    body = listed(flags, style, style.quote or '"')
    head = "        command: [python3, -m, sglang.launch_server]\n"
    return kubernetes(flags, style, f"{head}        args: [{body}]  # {DECOY}\n")


def kubernetes_shell(flags: list[Flag], style: Style) -> str:
    body = "\n".join(f"          {line([flag], style)} \\" for flag in flags)
    head = "        command: [sh, -c]\n        args:\n        - |\n"
    return kubernetes(
        flags, style,
        f"{head}          exec python3 -m sglang.launch_server \\\n{body}\n          --port 1\n",
    )  # fmt: skip


def helm_values(flags: list[Flag], style: Style) -> str:
    items = "".join(f"    - {word!r}\n" for word in words(flags, style))
    return f"# {DECOY}\nsglang:\n  image: base\n  extraArgs:\n{items}  replicas: 1\n"


def makefile(flags: list[Flag], style: Style) -> str:
    return f"# {DECOY}\nserve:\n\tsglang serve {line(flags, style)} {style.remark}\n"


def justfile(flags: list[Flag], style: Style) -> str:
    return f"# {DECOY}\nserve:\n    sglang serve {line(flags, style)}\n"


def systemd(flags: list[Flag], style: Style) -> str:
    between = " \\\n  "
    return (
        f"[Unit]\n# {DECOY}\nDescription=s\n\n[Service]\n"
        f"ExecStart=/usr/bin/python3 -m sglang.launch_server {line(flags, style, between)}\n"
    )


def json_list(flags: list[Flag], style: Style) -> str:
    head = '"python3", "-m", "sglang.launch_server", '
    return f'{{\n  "note": "{DECOY}",\n  "cmd": [{head}{listed(flags, style)}]\n}}\n'


def json_lines(flags: list[Flag], style: Style) -> str:
    items = ",\n".join(f'    "{word}"' for word in ["sglang", "serve", *words(flags, style)])
    return f'{{\n  "command": [\n{items}\n  ]\n}}\n'


def json_text(flags: list[Flag], style: Style) -> str:
    body = json.dumps(f"sglang serve {line(flags, style)}")
    return f'{{"note": "{DECOY}", "command": {body}}}\n'


def toml(flags: list[Flag], style: Style) -> str:
    head = '"python3", "-m", "sglang.launch_server", '
    return f"# {DECOY}\n[job]\ncommand = [{head}{listed(flags, style)}]  # é\n"


def config(flags: list[Flag], style: Style) -> str:
    out = [f"# {DECOY}"]
    for name, value in flags:
        quote, remark = ("", "") if value in FRESH else (style.quote, f" {style.remark}")
        out.append(f"{name}: " + ("true" if value is None else f"{quote}{value}{quote}{remark}"))
    return "\n".join(out) + "\n"


def program_list(flags: list[Flag], style: Style) -> str:
    quote = style.quote or '"'
    head = f"{quote}python3{quote}, {quote}-m{quote}, {quote}sglang.launch_server{quote}, "
    return (
        f"import subprocess\n\n# {DECOY}\nsubprocess.run([{head}{listed(flags, style, quote)}])\n"
    )


def program_call(flags: list[Flag], style: Style) -> str:
    quote = style.quote or '"'
    parts = []
    for name, value in flags:
        given = "True" if value is None else value
        if value is not None and not value.isdigit():
            given = f'"{value}"' if value in FRESH else f"{quote}{value}{quote}"
        remark = "" if value is None or value in FRESH else "  # why é"
        parts.append(f"    {name.replace('-', '_')}={given},{remark}\n")
    return f"import sglang as sgl\n\n# {DECOY}\nengine = sgl.Engine(\n{''.join(parts)})\n"


def notebook(flags: list[Flag], style: Style) -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": [DECOY]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
         "source": ["# é\n", f"!sglang serve {line(flags, style)}"]},
    ]  # fmt: skip
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def markdown(flags: list[Flag], style: Style) -> str:
    between = " \\\n  "
    return (
        f"# Title\n\nSome words on `{DECOY}`.\n\n```bash\npython3 -m sglang.launch_server \\\n"
        f"  {line(flags, style, between)}\n```\n\nMore words.\n"
    )


def rst(flags: list[Flag], style: Style) -> str:
    return (
        f"Title\n=====\n\n.. {DECOY}\n\n.. code-block:: bash\n\n"
        f"   sglang serve {line(flags, style)}\n\nMore.\n"
    )


def slime(flags: list[Flag], style: Style) -> str:
    body = "".join(
        f"   {line([(f'sglang-{name}', value)], style)}\n".replace(" --c", " --sglang-c")
        for name, value in flags
    )
    return (
        f"SGLANG_ARGS=(\n{body})\n# {DECOY}\npython3 train.py --hf-checkpoint {MODEL} "
        "--rollout-num-gpus-per-engine 8 ${SGLANG_ARGS[@]}\n"
    )


def workflow(flags: list[Flag], style: Style) -> str:
    return (
        f"# {DECOY}\non: push\njobs:\n  a:\n    runs-on: x\n    steps:\n    - name: s\n"
        f"      run: |\n        sglang serve {line(flags, style)} {style.remark}\n"
    )


WRITERS: dict[str, tuple[str, Callable[[list[Flag], Style], str]]] = {
    "shell": ("serve.sh", shell),
    "shell array": ("array.sh", shell_array),
    "dockerfile shell": ("Dockerfile", docker_shell),
    "dockerfile exec": ("a.Dockerfile", docker_exec),
    "compose": ("compose.yaml", compose_line),
    "kubernetes list": ("list.yaml", kubernetes_list),
    "kubernetes quoted list": ("quoted.yaml", kubernetes_quoted_list),
    "kubernetes flow": ("flow.yaml", kubernetes_flow),
    "kubernetes shell line": ("shell.yaml", kubernetes_shell),
    "helm values": ("values.yaml", helm_values),
    "makefile": ("Makefile", makefile),
    "justfile": ("justfile", justfile),
    "systemd": ("s.service", systemd),
    "json list": ("job.json", json_list),
    "json lines": ("lines.json", json_lines),
    "json text": ("text.json", json_text),
    "toml": ("job.toml", toml),
    "config": ("server.yaml", config),
    "python list": ("run.py", program_list),
    "python call": ("engine.py", program_call),
    "notebook": ("demo.ipynb", notebook),
    "markdown": ("guide.md", markdown),
    "rst": ("guide.rst", rst),
    "slime": ("slime.sh", slime),
    "workflow": (".github/workflows/w.yml", workflow),
}
#: Values of flags that had none before: in a mapping nothing tells how to write them.
FRESH = {"disabled", "pytorch"}
#: Kinds in which a flag is a key, so that one without a value cannot become one with a value as
#: the writers of this test would spell it.
KEYED = {"config", "python call"}

#: What is written, what a safe fix makes of it, and the code of the finding.
CLASSES: dict[str, tuple[Flag, list[Flag], str]] = {
    "rename": (("nsa-decode-backend", "flashmla_kv"), [("dsa-decode-backend", "flashmla_kv")],
               "ATT105"),
    "rename of a prefix": (("cuda-graph-max-bs", "64"), [("cuda-graph-max-bs-decode", "64")],
                           "ATT102"),
    "rename without value": (("stream-output", None), [("incremental-streaming-output", None)],
                             "ATT105"),
    "alias": (("attention-backend", "nsa"), [("attention-backend", "dsa")], "ATT106"),
    "page size": (("page-size", "16"), [("page-size", "64")], "ATT302"),
    "deprecated": (("disable-cuda-graph", None),
                   [("cuda-graph-backend-decode=disabled --cuda-graph-backend-prefill=disabled",
                     None)], "ATT106"),
    "flag with a value now": (("disable-flashinfer-sampling", None),
                              [("sampling-backend=pytorch", None)], "ATT105"),
}  # fmt: skip
NEUTRAL: list[Flag] = [
    ("port", "30000"), ("host", "0.0.0.0"), ("trust-remote-code", None),
    ("mem-fraction-static", "0.8"), ("served-model-name", "nsa"),
]  # fmt: skip
STYLES = st.builds(
    Style,
    quote=st.sampled_from(["", '"', "'"]),
    equals=st.booleans(),
    remark=st.sampled_from(["", "# keep --page-size 16"]),
)


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def fix(path: Path, *more: str) -> int:
    return guarded(dispatch, ["check", "--isolated", "--gpu", "h200", "--fix", *more, str(path)])


def codes(path: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    capsys.readouterr()
    guarded(
        dispatch,
        ["check", "--isolated", "--gpu", "h200", "--output-format", "json", str(path)],
    )
    found = json.loads(capsys.readouterr().out)
    return [(one["code"], one["message"]) for one in found if one["certain"]]


def keyed(flags: list[Flag]) -> list[Flag]:
    """Flags as keys: what an equals sign joins is a key and its value."""
    out: list[Flag] = []
    for name, value in flags:
        for one in name.split(" --"):
            key, equals, joined = one.partition("=")
            out.append((key, joined if equals else value))
    return out


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(
    chosen=st.lists(st.sampled_from(sorted(CLASSES)), min_size=1, max_size=3, unique=True),
    neutral=st.lists(st.sampled_from(NEUTRAL), max_size=3, unique=True),
    style=STYLES,
    ending=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    mode=st.sampled_from([0o644, 0o755, 0o600]),
    data=st.data(),
)
def test_a_fix_writes_what_a_person_would(
    kind: str,
    chosen: list[str],
    neutral: list[Flag],
    style: Style,
    ending: str,
    mark: bool,
    mode: int,
    data: st.DataObject,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, write = WRITERS[kind]
    if kind == "python call" and {"rename of a prefix"} & set(chosen):
        return  # only a command line knows prefixes
    items = [(CLASSES[one][0], CLASSES[one][1]) for one in chosen]
    items += [(flag, [flag]) for flag in neutral]
    items = data.draw(st.permutations(items))
    head: list[Flag] = [("model-path", MODEL), ("tp-size", "8")]
    before = write([*head, *(old for old, _ in items)], style)
    new = [flag for _, several in items for flag in several]
    if kind in KEYED:
        new = keyed(new)
    after = write([*head, *new], style)
    start = b"\xef\xbb\xbf" if mark and not before.startswith("#!") else b""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(start + before.replace("\n", ending).encode())
    path.chmod(mode)
    assert fix(path) in (0, 1)
    written = path.read_bytes()
    assert written.decode() == (start + after.replace("\n", ending).encode()).decode()
    assert path.stat().st_mode & 0o7777 == mode
    assert names(path.parent) == [path.name]
    fix(path)
    assert path.read_bytes() == written
    left = {code for code, _ in codes(path, capsys)}
    assert not left & {CLASSES[one][2] for one in chosen}


# ------------------------------------------------------- where a fix must hold back

HEAD = f"python3 -m sglang.launch_server --model-path {MODEL} --tp 8"


def fixed(tmp_path: Path, name: str, text: str, *more: str) -> str:
    path = tmp_path / name
    path.write_bytes(text.encode())
    fix(path, *more)
    return path.read_bytes().decode()


def test_a_variable_of_launches_alone_is_fixed(tmp_path: Path) -> None:
    text = f"PAGE=16\n{HEAD} --page-size $PAGE\n{HEAD} --port 2 --page-size ${{PAGE}}\n"
    assert fixed(tmp_path, "a.sh", text) == text.replace("16", "64")


def test_fixes_that_cannot_be_made_keep_no_other_from_it(tmp_path: Path) -> None:
    stuck = f"{HEAD} --page-size 1''6\n{HEAD} --attention-backend 'n'sa\n"
    text = "".join(f"{HEAD} --page-size 16 --port {n}\n{stuck}" for n in range(12))
    once = fixed(tmp_path, "a.sh", text)
    assert once == text.replace("--page-size 16 ", "--page-size 64 ")
    assert fixed(tmp_path, "a.sh", once) == once


def test_text_that_is_not_understood_keeps_no_other_from_being_fixed(tmp_path: Path) -> None:
    text = f"{HEAD} \\\n  `# why` --page-size 16\n{HEAD} --port 1 --page-size=16\n"
    once = fixed(tmp_path, "a.sh", text)
    assert once.endswith("--port 1 --page-size=64\n")
    assert fixed(tmp_path, "a.sh", once) == once


def test_a_variable_of_a_makefile_is_fixed(tmp_path: Path) -> None:
    text = f"PAGE ?= 16\nserve:\n\t{HEAD} --page-size $(PAGE)\n"
    assert fixed(tmp_path, "Makefile", text) == text.replace("16", "64")
    other = f"{text}show:\n\techo $(PAGE)\n"
    assert fixed(tmp_path, "Makefile", other) == other


def test_a_variable_of_an_array_is_fixed(tmp_path: Path) -> None:
    text = f'PAGE=16\nA=(\n  --page-size "$PAGE" # why 16\n)\n{HEAD} "${{A[@]}}"\n'
    assert fixed(tmp_path, "a.sh", text) == text.replace("PAGE=16", "PAGE=64")


@pytest.mark.parametrize("other", ["", "print(PAGE)\n"])
def test_a_name_of_a_program_is_fixed_where_nothing_else_reads_it(
    tmp_path: Path, other: str
) -> None:
    words = [*HEAD.split(), "--page-size"]
    text = f"import subprocess\nPAGE = 16\nsubprocess.run({words!r} + [str(PAGE)])\n{other}"
    wanted = text if other else text.replace("PAGE = 16", "PAGE = 64")
    assert fixed(tmp_path, "a.py", text) == wanted


@pytest.mark.parametrize(
    "other",
    [
        "echo $PAGE",  # somebody else reads it
        "vllm serve m --block-size ${PAGE}",
        "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct "
        "--page-size $PAGE",  # a launch that takes it as it is
    ],
)
def test_a_variable_that_others_read_is_not(tmp_path: Path, other: str) -> None:
    text = f"PAGE=16\n{HEAD} --page-size $PAGE\n{other}\n"
    assert fixed(tmp_path, "a.sh", text) == text


def test_branches_are_fixed_where_they_need_it(tmp_path: Path) -> None:
    text = f'if [ "$X" ]; then\n  P="--page-size 16"\nelse\n  P="--page-size 128"\nfi\n{HEAD} $P\n'
    assert fixed(tmp_path, "a.sh", text) == text.replace("16", "64").replace("128", "64")


def test_every_occurrence_in_one_launch_is_renamed(tmp_path: Path) -> None:
    text = f"{HEAD} --nsa-decode-backend fa3 --nsa-decode-backend flashmla_kv\n"
    assert fixed(tmp_path, "a.sh", text) == text.replace("nsa", "dsa")


@pytest.mark.parametrize(
    "flags",
    [
        "--enable-ep-moe",  # the new flag wants a value that nobody gave
        "--multi-item-scoring-delimiter 5",  # the new flag takes none
        "--enable-dp-attention --dp 8",  # the value is for a person to say
        "--kv-cache-dtype fp4_e2m1",  # either of two would do
        "--nsa-decode-backend",  # a value is missing already
        '--nsa-decode-"backend" flashmla_kv',  # quoted in the middle
        "--page-size 1$X",
        "--page-size $X",
    ],
)
def test_what_nobody_can_be_sure_of_stays(tmp_path: Path, flags: str) -> None:
    text = f"{HEAD} {flags}\n"
    assert fixed(tmp_path, "a.sh", text, "--unsafe-fixes") == text


def test_a_flag_of_an_older_release_stays_with_it(tmp_path: Path) -> None:
    text = f"docker run lmsysorg/sglang:v0.5.10 {HEAD} --nsa-decode-backend flashmla_kv\n"
    assert fixed(tmp_path, "a.sh", text) == text
    newer = text.replace("v0.5.10", "v0.5.22")
    assert fixed(tmp_path, "a.sh", newer) == newer.replace("nsa", "dsa")


SERVE = f"sglang serve --model-path {MODEL} --tp 8"


def in_json(*more: str, indent: int | None = None) -> str:
    return json.dumps({"command": [*SERVE.split(), *more]}, indent=indent)


def in_yaml(*more: str) -> str:
    items = "".join(f"  - {word!r}\n" for word in [*SERVE.split(), *more])
    return f"containers:\n- image: x\n  command:\n{items}"


def in_shell(*lines: str) -> str:
    return " \\\n  ".join([SERVE, *lines]) + "\necho\n"


def in_array(*lines: str) -> str:
    body = "".join(f"  {text}\n" for text in lines)
    return f"A=(\n{body})\n{SERVE} ${{A[@]}}\n"


GONE, ASKS, ADDED = "--language-only", "--enable-hisparse", "--disable-radix-cache"
UNSAFE = {
    "another value": ("a.sh", f"{SERVE} --fp4-gemm-backend cutlass # cutlass\n",
                      f"{SERVE} --fp4-gemm-backend flashinfer_cutlass # cutlass\n"),
    "a flag in the middle": ("a.sh", f"{SERVE} {GONE}  --port 1 # why\n",
                             f"{SERVE}  --port 1 # why\n"),
    "a flag at the end": ("a.sh", f"{SERVE} {GONE} # why\n", f"{SERVE} # why\n"),
    "a line": ("a.sh", in_shell(GONE, "--port 1"), in_shell("--port 1")),
    "the last line": ("a.sh", in_shell("--port 1", GONE), in_shell("--port 1")),
    "the head of a line": ("a.sh", in_shell(f"{GONE} --port 1"), in_shell("--port 1")),
    "a line of an array": ("a.sh", in_array(GONE, "--port 1 # why"), in_array("--port 1 # why")),
    "a list": ("a.json", in_json(GONE, "--port"), in_json("--port")),
    "the end of a list": ("a.json", in_json(GONE), in_json()),
    "a long list": ("a.json", in_json(GONE, "--port", indent=1), in_json("--port", indent=1)),
    "a program": ("a.py", f"run({[*SERVE.split(), GONE]!r})\n", f"run({SERVE.split()!r})\n"),
    "items": ("a.yaml", in_yaml(GONE, "--port"), in_yaml("--port")),
    "a flag more": ("a.sh", in_shell(ASKS, "--port 1"), in_shell(f"{ASKS} {ADDED}", "--port 1")),
    "an item more": ("a.yaml", in_yaml(ASKS), in_yaml(ASKS, ADDED)),
    "a word more": ("a.json", in_json(ASKS, "--port"), in_json(ASKS, ADDED, "--port")),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSAFE)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_what_changes_the_launch_is_for_unsafe_fixes(
    tmp_path: Path, case: str, ending: str
) -> None:
    name, before, after = (text.replace("\n", ending) for text in UNSAFE[case])
    assert fixed(tmp_path, name, before, "--select", "ATT105,ATT2") == before
    changed = fixed(tmp_path, name, before, "--select", "ATT105,ATT2", "--unsafe-fixes")
    assert changed == after


def test_a_silenced_finding_is_not_fixed(tmp_path: Path) -> None:
    text = f"# attn-lint: ignore[ATT302] -- measured\n{HEAD} --page-size 16\n"
    assert fixed(tmp_path, "a.sh", text) == text


def test_an_unselected_finding_is_not_fixed(tmp_path: Path) -> None:
    text = f"{HEAD} --page-size 16 --nsa-decode-backend flashmla_kv\n"
    assert fixed(tmp_path, "a.sh", text, "--select", "ATT302") == text.replace("16", "64")


# ------------------------------------------------------------------------ the file itself


def test_a_link_stays_and_its_target_changes(tmp_path: Path) -> None:
    target = tmp_path / "real" / "a.sh"
    target.parent.mkdir()
    target.write_text(f"{HEAD} --page-size 16\n", encoding="utf-8")
    link = tmp_path / "link.sh"
    link.symlink_to(target)
    fix(link)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == f"{HEAD} --page-size 64\n"
    assert names(target.parent) == ["a.sh"]


def refused_write(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = path.read_bytes()
    assert fix(path) == 2
    out, err = capsys.readouterr()
    assert path.name in err and "nothing was" in err
    assert path.read_bytes() == before
    assert "ATT302" in out  # what is wrong is still told


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_written_stays_whole(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    path = tmp_path / "a.sh"
    path.write_text(f"{HEAD} --page-size 16\n", encoding="utf-8")
    # Root may write anywhere, so the system's refusal is played.
    if what == "file":
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:

        def refuse(**_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkstemp", refuse)
    refused_write(path, capsys)
    assert names(tmp_path) == ["a.sh"]


def test_a_full_disk_leaves_the_file_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sh"
    path.write_text(f"{HEAD} --page-size 16\n", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused_write(path, capsys)
    assert names(tmp_path) == ["a.sh"]


def test_a_file_that_changes_meanwhile_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from attn_lint.lintcfg.check.fixer import Fixer

    path = tmp_path / "a.sh"
    path.write_text(f"{HEAD} --page-size 16\n", encoding="utf-8")
    work = Fixer.fixed

    def slow(self: Fixer, report: FileReport) -> tuple[str, FileReport]:
        path.write_text(f"{HEAD} --page-size 16 # by another hand\n", encoding="utf-8")
        return work(self, report)

    monkeypatch.setattr(Fixer, "fixed", slow)
    assert fix(path) == 2
    assert "changed by another program" in capsys.readouterr().err
    assert "another hand" in path.read_text(encoding="utf-8")


def test_one_file_that_cannot_be_written_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.sh", "b.sh"):
        (tmp_path / name).write_text(f"{HEAD} --page-size 16\n", encoding="utf-8")
    may = os.access
    monkeypatch.setattr(
        os, "access", lambda path, how: Path(path).name != "a.sh" and may(path, how)
    )
    assert fix(tmp_path) == 2
    assert "16" in (tmp_path / "a.sh").read_text(encoding="utf-8")
    assert "64" in (tmp_path / "b.sh").read_text(encoding="utf-8")
