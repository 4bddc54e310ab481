"""The commands from the command line: formats, exit codes, configuration, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attn_lint.docs_check.catalogue import entries
from attn_lint.lintcfg.cli import dispatch, guarded

from .support import FIXTURES, MODERN, TREES, copied

RIGHT = (FIXTURES / "right.mdx").read_text(encoding="utf-8")
WRONG = RIGHT.replace("16, 32, 64 or 128", "16, 32 or 64")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run attn-lint; returns the exit code and both streams."""
    code = guarded(dispatch, list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wrong page in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = Path("page.mdx")
    path.write_text(WRONG, encoding="utf-8")
    return path


def docs(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run `attn-lint docs` on the modern tree."""
    return run(capsys, "docs", "--source", str(MODERN), *arguments)


def test_text(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    code, out, err = docs(capsys, "page.mdx")
    assert (code, err) == (1, "")
    assert out == (
        "page.mdx:14:15: DOC104 Gamma page sizes are 16, 32 or 64 here; the code takes"
        " 16, 32, 64 or 128 (others become 64)\n"
        "  page  Gamma page sizes are 16, 32 or 64\n"
        "  code  16, 32, 64 or 128; others become 64\n"
        "        srt/arg_groups/overrides.py:17:_page_constraints\n"
        "  fix   16, 32 or 64 -> 16, 32, 64 or 128\n"
        "\n"
        "1 finding (1 proved), 1 can be fixed with --fix\n"
    )


def test_concise(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    code, out, _ = docs(capsys, "page.mdx", "--output-format", "concise")
    assert code == 1
    assert out.startswith("page.mdx:14:15: DOC104 Gamma page sizes are")
    assert out.count("\n") == 1


def test_json(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    _, out, _ = docs(capsys, "page.mdx", "--output-format", "json")
    (one,) = json.loads(out)
    assert {
        "code", "kind", "path", "line", "column", "message", "claim", "actual", "evidence",
        "certainty",
    } <= set(one)  # fmt: skip
    assert one["evidence"] == [
        {"file": "srt/arg_groups/overrides.py", "line": 17, "symbol": "_page_constraints"}
    ]
    assert one["fix"] == {
        "line": 14, "column": 15, "old": "16, 32 or 64", "new": "16, 32, 64 or 128",
    }  # fmt: skip


def test_github(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    _, out, _ = docs(capsys, "page.mdx", "--output-format", "github")
    assert out.startswith(
        "::warning title=attn-lint (DOC104),file=page.mdx,line=14,col=15,endLine=14,endColumn=27::"
        "page.mdx:14:15: DOC104 Gamma"
    )
    assert out.count("\n") == 1


def test_sarif(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    _, out, _ = docs(capsys, "page.mdx", "--output-format", "sarif")
    (report,) = json.loads(out)["runs"]
    (rule,) = report["tool"]["driver"]["rules"]
    assert (rule["id"], rule["name"]) == ("DOC104", "PageSize")
    (result,) = report["results"]
    assert result["ruleIndex"] == 0
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "page.mdx", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 14, "startColumn": 15, "endColumn": 27}
    (change,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    assert change["insertedContent"] == {"text": "16, 32, 64 or 128"}


@pytest.mark.parametrize("output_format", ["text", "concise", "json", "github", "sarif"])
def test_nothing_found(output_format: str, capsys: pytest.CaptureFixture[str], page: Path) -> None:
    page.write_text(RIGHT, encoding="utf-8")
    code, out, err = docs(capsys, "page.mdx", "--output-format", output_format)
    assert (code, err) == (0, "")
    if output_format in {"json", "sarif"}:
        json.loads(out)


def test_nothing_found_says_on_how_much(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    page.write_text(RIGHT, encoding="utf-8")
    Path("other.md").write_text("# Cooking\n\nWith a gammon.\n", encoding="utf-8")
    silent = "; nothing on it speaks of attention backends\n"
    assert docs(capsys, "page.mdx")[1] == "no drift found on 1 page\n"
    assert docs(capsys, ".")[1] == "no drift found on 2 pages\n"
    assert docs(capsys, "other.md")[1] == f"no drift found on 1 page{silent}"
    # A backend's name is enough, as prose writes it.
    for text in ("Runs on Gamma.", "Give `alpha`.", "With beta MLA.", "See Attention."):
        Path("other.md").write_text(f"# Other\n\n{text}\n", encoding="utf-8")
        assert docs(capsys, "other.md", "--select", "DOC190")[1] == "no drift found on 1 page\n"


def test_an_omission_has_no_line(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    page.write_text(RIGHT.replace("`old_beta` is another word for `beta_mla`.", ""), "utf-8")
    _, out, _ = docs(capsys, "page.mdx", "--output-format", "concise")
    assert out.startswith("page.mdx: DOC103 ")
    _, out, _ = docs(capsys, "page.mdx", "--output-format", "github")
    assert "file=page.mdx::" in out
    _, out, _ = docs(capsys, "page.mdx", "--output-format", "sarif")
    (result,) = json.loads(out)["runs"][0]["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_fix(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    page.write_bytes(b"\xef\xbb\xbf" + WRONG.replace("\n", "\r\n").encode())
    assert docs(capsys, "page.mdx", "--fix")[0] == 0
    assert page.read_bytes() == b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode()


def test_diff(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    code, out, err = docs(capsys, "page.mdx", "--diff")
    assert (code, err) == (1, "left: no drift found on 1 page\n")
    assert out.startswith("--- page.mdx\n+++ page.mdx\n@@ -11,7 +11,7 @@\n")
    assert [line[0] for line in out.split("\n")[3:] if line].count("-") == 1
    assert page.read_text(encoding="utf-8") == WRONG
    page.write_text(RIGHT, encoding="utf-8")
    assert docs(capsys, "page.mdx", "--diff")[:2] == (0, "")


def test_selection_and_threshold(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    assert docs(capsys, "page.mdx", "--ignore", "DOC104")[0] == 0
    assert docs(capsys, "page.mdx", "--ignore", "page-size")[0] == 0
    assert docs(capsys, "page.mdx", "--select", "DOC11")[0] == 0
    assert docs(capsys, "page.mdx", "--select", "DOC10")[0] == 1
    assert docs(capsys, "page.mdx", "--fail-on", "error")[0] == 0
    assert docs(capsys, "page.mdx", "--exit-zero")[0] == 0


def test_accepted(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    config = Path("attn-lint.toml")
    config.write_text('[[docs.accept]]\ncode = "DOC104"\nmatch = "Gamma"\nreason = "old news"\n')
    code, out, _ = docs(capsys, "page.mdx")
    assert (code, out) == (0, "no drift found on 1 page; 1 accepted by the configuration\n")
    assert "accepted: old news" in docs(capsys, "page.mdx", "--verbose")[1]
    assert docs(capsys, "page.mdx", "--isolated")[0] == 1
    config.write_text('[[docs.accept]]\ncode = "DOC104"\npage = "other*"\nreason = "x"\n')
    assert docs(capsys, "page.mdx")[0] == 1
    config.write_text('[severity]\nDOC104 = "info"\n')
    assert docs(capsys, "page.mdx")[0] == 0


def test_what_accepts_nothing_is_noted(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    """Where it is known: of an entry without a page, or with a pattern, pages may be elsewhere."""
    Path("other.mdx").write_text(RIGHT, encoding="utf-8")
    Path("attn-lint.toml").write_text(
        """
        docs.accept = [
            {code = "DOC104", page = "page.mdx", match = "Gamma", reason = "stays"},
            {code = "page-size", page = "page.mdx", reason = "stays too, beside the first"},
            {code = "DOC104", page = "other.mdx", reason = "gone"},
            {code = "DOC104", match = "Delta", reason = "gone, or of another page"},
            {code = "page-size", page = "o*.mdx", reason = "gone, or of another page"},
            {code = "DOC102", page = "other.mdx", reason = "gone"},
            {code = "MAT101", page = "other.mdx", reason = "for the audit"},
        ]
        """,
        encoding="utf-8",
    )

    def idle(*arguments: str) -> set[int]:
        code, _, err = docs(capsys, *arguments)
        assert code == 0
        notes = [line for line in err.splitlines() if line.startswith("note: ")]
        return {int(note.partition("docs.accept ")[2].split()[0]) for note in notes}

    assert idle("page.mdx") == set()
    assert idle("page.mdx", "other.mdx") == {3, 6}
    assert idle(".", "--verbose") == {3, 4, 5, 6}
    assert idle(".", "--ignore", "DOC102") == {3}
    assert idle(".", "--select", "undocumented-name") == {6}
    assert idle(".", "--certainty", "proved") == set()
    err = docs(capsys, "other.mdx")[2]
    assert "attn-lint.toml: docs.accept 3 (DOC104 on other.mdx) accepts nothing\n" in err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[docs.accept]]\ncode = "DOC104"\n', "reason is missing"),
        ('[[docs.accept]]\nreason = "x"\n', "code is missing"),
        ('[[docs.accept]]\ncode = 3\nreason = "x"\n', "takes a string"),
        ('[[docs.accept]]\ncode = "DOC104"\nwhy = "x"\n', "unknown key 'why'"),
        ("[docs]\naccepted = []\n", "unknown key 'accepted'"),
        ("[docs]\naccept = 3\n", "list of tables"),
        ("docs = 3\n", "docs is a table"),
    ],
)
def test_a_wrong_configuration(
    text: str, problem: str, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    Path("attn-lint.toml").write_text(text)
    code, out, err = docs(capsys, "page.mdx")
    assert (code, out) == (2, "")
    assert problem in err


def test_bad_input(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    for arguments, problem in (
        (("nothing.mdx",), "no such page"),
        ((), "no pages given"),
        (("page.mdx", "--output-format", "junit"), "junit"),
        (("page.mdx", "--output-file", "no/such/folder"), "no/such/folder"),
    ):
        code, _, err = docs(capsys, *arguments)
        assert code == 2, arguments
        assert problem in err
    Path("empty").mkdir()
    assert docs(capsys, "empty")[0] == 2
    assert run(capsys, "docs", "--source", "nothing", "page.mdx")[0] == 2
    assert run(capsys, "docs", "page.mdx")[0] == 2


def test_an_unreadable_page_is_a_finding(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    Path("other.md").write_bytes(b"# A\n\ncaf\xe9\n")
    code, out, _ = docs(capsys, ".", "--output-format", "concise")
    assert code == 1
    assert "other.md:3:1: DOC191" in out
    assert "page.mdx:14:15: DOC104" in out


def test_output_file(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    assert docs(capsys, "page.mdx", "--output-file", "report.txt")[:2] == (1, "")
    assert Path("report.txt").read_text(encoding="utf-8").startswith("page.mdx:14:15: DOC104")


# ------------------------------------------------------------------------ tables, facts, audit


def test_generate(capsys: pytest.CaptureFixture[str], page: Path) -> None:
    code, out, _ = run(capsys, "docs", "generate", "--source", str(MODERN), "--table", "mla")
    assert code == 0
    assert out.split("\n")[0].split("|")[1].strip() == "Backend"
    assert [line.split("|")[1].strip() for line in out.split("\n")[2:4]] == [
        "`alpha`",
        "`beta_mla`",
    ]


@pytest.mark.parametrize("family", ["mha", "mla"])
def test_what_is_left_open_is_explained(
    family: str, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    _, out, _ = run(capsys, "docs", "generate", "--source", str(MODERN), "--table", family)
    left_open = any("–" in line for line in out.split("\n") if line.startswith("|"))
    assert left_open == out.rstrip().endswith("\n\n– The source does not decide it.")


@pytest.mark.parametrize(("begin", "end"), [("{/*", "*/}"), ("<!--", "-->")])
def test_generate_into_a_page(
    begin: str, end: str, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    arguments = ("docs", "generate", "--source", str(MODERN), "--table", "mha", "page.mdx")
    assert run(capsys, *arguments)[0] == 2
    marks = [f"{begin} attn-lint: {what} {end}" for what in ("table mha", "end")]
    page.write_text(f"## MHA backends\n\n{marks[0]}\nold\n{marks[1]}\n")
    code, out, _ = run(capsys, *arguments, "--check")
    assert code == 1
    assert "-old" in out
    assert run(capsys, *arguments)[0] == 0
    assert run(capsys, *arguments, "--check")[:2] == (0, "")
    # What is generated agrees with what it was generated from.
    assert docs(capsys, "page.mdx", "--output-format", "concise")[:2] == (0, "")


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "facts", "--source", str(MODERN), "--output-format", "json")
    assert code == 0
    found = json.loads(out)
    assert found["release"] == "9.1.0"
    assert found["problems"] == []
    assert found["aliases"] == [
        {
            "name": "old_beta", "target": "beta_mla", "file": "srt/arg_groups/serving_hook.py",
            "line": 13, "symbol": "handle_deprecated_args",
        }
    ]  # fmt: skip
    for topic, records in found.items():
        for record in records if isinstance(records, list) else ():
            assert record["file"], topic
            assert record["line"] > 0, (topic, record)
    code, out, _ = run(capsys, "facts", "--source", str(MODERN))
    assert code == 0
    assert "  beta_mla; accepted; only: mla; classes: BetaMLABackend" in out


def test_facts_diff(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    new = copied(MODERN, tmp_path / "new")
    changes = {
        "arg_groups/choices.py": [
            ('    "gamma",\n', '    "gamma",\n    "epsilon",\n'),
            ('"old_beta"', '"older_beta"'),
        ],
        "arg_groups/overrides.py": [("[16, 32, 64, 128]", "[32, 64]")],
        "arg_groups/serving_hook.py": [('"old_beta"', '"older_beta"')],
        "arg_groups/model_override_base.py": [('return "gamma"', 'return "alpha"')],
        "layers/attention/attention_registry.py": [
            ('@register_attention_backend("sparse")', '@register_attention_backend("epsilon")')
        ],
    }
    for name, replacements in changes.items():
        file = new / "sglang" / "srt" / name
        text = file.read_text()
        for old, replacement in replacements:
            assert old in text
            text = text.replace(old, replacement)
        file.write_text(text)
    arguments = ("facts", "diff", "--old", str(MODERN), "--new", str(new))
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (1, "")
    for sentence in (
        "`epsilon` is new.",
        "`sparse` is gone.",
        "--attention-backend also takes `epsilon` and `older_beta`.",
        "`older_beta` now stands for `beta_mla`.",
        "`gamma` takes page sizes 32, 64 (others become 64); it took 16, 32, 64, 128",
        "The default for MHA models on Blackwell (SM100) is `delta` when has asymmetric kv, else"
        " `alpha` when not has asymmetric kv; it was",
    ):
        assert f"- {sentence}" in out, out
    code, out, _ = run(capsys, *arguments, "--output-format", "json")
    assert {"topic", "kind", "subject", "text", "file", "line", "symbol"} == set(json.loads(out)[0])
    code, out, _ = run(capsys, "facts", "diff", "--old", str(MODERN), "--new", str(MODERN))
    assert code == 0
    assert out.startswith("Nothing changed for attention")


def test_every_code_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for code, entry in entries().items():
        assert entry.summary and not entry.summary.endswith(".")
        assert "## What it does" in entry.text
        assert "## Why is this bad?" in entry.text
        assert run(capsys, "rule", code)[0] == 0
    codes = list(entries())
    assert len(codes) == len(set(codes))
    assert run(capsys, "rule", "page-size")[1].startswith("# DOC104 page-size (warning)")
    listed = run(capsys, "rule", "--output-format", "json")[1]
    assert set(codes) <= {row["code"] for row in json.loads(listed)}


def test_a_folder_of_every_layout_does_not_end_in_an_exception(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for tree in sorted(TREES.iterdir()):
        code, _, err = run(
            capsys, "docs", "--source", str(tree), str(FIXTURES), "--output-format", "json"
        )
        assert code in (0, 1), err
