"""Scripts of every turn that a shell has: what bash really starts is among what is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attn_lint.lintcfg.check.runner import Options, Runner
from attn_lint.lintcfg.config import Config

RUNNER = Runner(Options(), Config())
L = "python3 -m sglang.launch_server --model-path m"
SCRIPTS = {
    "tabs": f"{L} \\\n\t--tp\t2 \\\n\t--port  1\n",
    "quotes": f"{L} --tp='2' --served-model-name a'b'\"c\"d --chat-template a\\ b\n",
    "a quoted break": f"{L} --json-model-override-args '{{\n\"a\": 1}}' --tp 2\n",
    "escapes in quotes": f"{L} --chat-template $'a\\tb' --served-model-name $'it\\'s'\n",
    "a blank behind a backslash": f"{L} \\ \n  --tp 2\n",
    "blanks behind a backslash": f"{L} --tp 2 \\ \t # why\n  --port 1\n",
    "a comment behind": f"{L} \\\n  --tp 2 # \\\n  --port 1\n",
    "quoted comments between": f"{L} \\\n  `# why` \\\n  --tp 2 `# and this` --port 1\n",
    "words of all scripts": f"# é ✓\n{L} --served-model-name 'mé😀' --tp 2\n",
    "odd line ends": f"# a\u2028b\x85c\x0cd\n{L} --tp 2\n",
    "a redirection in front": f">log {L} --tp 2\n",
    "redirections in the middle": f"{L} >log --tp 2 2>&1 --port 1 </dev/null --page-size 64\n",
    "a redirection in a pipe": f"echo | {L} >log --tp 2\n",
    "a redirection in a function": f'f() {{ {L} >log "$@" 2>&1 --tp 2; }}\nf --port 1\n',
    "a document and words": f"{L} <<EOF --tp 2\nx\nEOF\n",
    "a document": f"X=4\nbash <<EOF\nX=5\n{L} --tp $X\nEOF\n",
    "a quoted document": f"X=4\nbash <<'EOF'\nX=5\n{L} --tp $X\nEOF\n",
    "an escaped document": f"X=4\nbash <<EOF\nX=5\n{L} --tp \\$X\nEOF\n",
    "a document behind tabs": f"bash <<-EOF\n\t{L} \\\n\t --tp 2\n\tEOF\n",
    "a document with breaks": f"bash <<EOF\n{L} \\\\\n --tp 2 \\\n --port 1\nEOF\n",
    "a document to the end": f"bash <<EOF\n{L} --tp 4\nEOF",
    "documents of one line": f"cat <<A >/dev/null; bash <<B\nx\nA\n{L} --tp 9\nB\n",
    "a document through a pipe": f"cat <<EOF | bash\n{L} --tp 4\nEOF\n",
    "scripts that echo writes": f'echo "{L} --tp 4" > run.sh\n'
                                f"printf '#!/bin/bash\\n{L} --port 1\\n' > start\n"
                                "bash run.sh; bash start\n",
    "a script of several lines": 'echo -e "#!/bin/bash\\nset -e\\n'
                                 f'{L} \\\\\\n  --tp 9" > run.sh; bash run.sh\n',
    "a text for a shell": f"bash <<< '{L} --tp 4'\n",
    "a variable for a shell": f"S='{L} --tp 4'\nbash <<< \"$S\"\n",
    "a command in a text": f"CMD='{L}'\nCMD=\"$CMD --tp 2\"\nCMD+=' --port 1'\neval \"$CMD\"\n",
    "a command in an array": f'CMD=({L})\nCMD+=(--tp 2)\n"${{CMD[@]}}"\n',
    "an alias": f"shopt -s expand_aliases\nalias serve='{L}'\nserve --tp 4\n",
    "defaults": f"V=1\n{L} --port ${{P:-3}} --tp ${{TP:=2}} ${{V:+--page-size 64}} ${{W:+--no}}\n",
    "what is unset": f"T=2 U=3\nunset T\n{L} --tp ${{T:-4}} --port $U\n",
    "a subshell": f"T=2\n( T=3; {L} --tp $T )\n{L} --tp $T\n",
    "arguments set anew": f'set -- --tp 2\nset -- "$@" --port 1\n{L} "$@"\n',
    "arguments shifted": f'f() {{ local a=$1; shift; {L} --tp $a "$@"; }}\nf 2 --port 3\nf 4\n',
    "two shifted": f"f() {{ local a=$1 b=$2; shift 2; {L} --tp $a --port $b $*; }}\nf 2 4 --no\n",
    "too many shifted": f'f() {{ shift 3; {L} "$@"; }}\nf --tp 2\n',
    "shifted by turns": "f() { while [ $# -gt 0 ]; do case $1 in -t) T=$2; shift 2;; esac; done; "
                        f'{L} --tp 2 "$@"; }}\nf -t 2\n',
    "shifted at times": "f() { T=1; if [ $# -gt 1 ]; then T=$1; shift; fi; "
                        f"{L} --tp $T --port $1; }}\nf 2 3\n",
    "functions of functions": f'a() {{ b "$@" --port 1; }}\nb() {{ {L} "$@"; }}\na --tp 2\n',
    "a function by its word": f"function serve {{ {L} --tp $1; }}\nserve 2\n",
    "conditions": f"if ! {L} --tp 2; then until {L} --tp 3; do :; done; fi\n",
    "loops": f"for ((i=0;i<1;i++)); do for t in 2 4; do {L} --tp $t; done; done\n",
    "behind other commands": f"cd / && env A=b nohup {L} --tp 2 |& cat\ntime {L} --tp 4 &\nwait\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_bash_starts_is_read(
    name: str, tmp_path: Path, started: Callable[..., list[list[str]]]
) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(SCRIPTS[name])
    really = started("bash", str(script))
    assert really
    read = [
        variant.words
        for found in RUNNER.extract("serve.sh", SCRIPTS[name]).launches
        for variant in found.variants
    ]
    for argv in really:
        assert any(
            # What only a run could tell stands open, at the end of a launch.
            [word.text for word in words if not word.open] == argv[: len(words)]
            for words in read
        ), (argv, read)


@pytest.mark.parametrize(
    "line",
    ["cat models | xargs -n 1 python3 -m sglang.launch_server --tp 2 --model-path",
     "cat sizes | xargs -I {{}} {L} --tp {{}}", "parallel {L} --tp ::: 2 4",
     "parallel -j 1 {L} --tp {{}} --port {{1}} :::: sizes"],
)  # fmt: skip
def test_items_of_lists_are_not_known(line: str) -> None:
    report = RUNNER.check_text("a.sh", line.format(L=L) + "\n")
    assert len(report.launches) == 1
    assert [one.finding.message for one in report.located if one.finding.certain] == []


def test_what_is_commented_out_by_a_document_is_not_run(
    tmp_path: Path, started: Callable[..., list[list[str]]]
) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f": <<'NO'\n{L} --tp 2\nNO\n")
    assert started("bash", str(script)) == []
    assert RUNNER.extract("serve.sh", script.read_text()).launches == []


def test_a_command_that_conda_runs() -> None:
    (found,) = RUNNER.extract("a.sh", f"conda run -n e {L} --tp 2\nconda install sglang\n").launches
    assert [word.text for word in found.variants[0].words][-2:] == ["--tp", "2"]


def test_a_line_that_only_seems_to_go_on(tmp_path: Path) -> None:
    """Bash gives SGLang a blank, which SGLang does not accept, and takes the rest for a command."""
    (finding,) = [
        one
        for one in RUNNER.check_text("a.sh", f"{L} \\ \n  --tp 2\n").located
        if one.finding.severity == "error" and one.finding.certain
    ]
    assert (finding.finding.code, finding.place.line) == ("ATT109", 1)
    assert "a blank behind it does not continue the line" in finding.finding.message
    # On a page, a comment behind a line is for its readers.
    page = f"```bash\n{L} \\  # why\n  --tp 2 \\\n  # and this\n  --port 1\n```\n"
    (found,) = RUNNER.extract("a.md", page).launches
    words = [word.text for word in found.variants[0].words]
    assert words == ["--model-path", "m", "--tp", "2", "--port", "1"]


def test_what_is_printed_is_not_run() -> None:
    text = f'echo "Running {L} --tp 2" | tee log\necho "now: {L}" > run.log\necho "{L}" >&2\n'
    assert RUNNER.extract("a.sh", text).launches == []
