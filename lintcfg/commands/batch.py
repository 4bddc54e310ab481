"""`attn-lint resolve --batch FILE`: judges JSON lines, one line out for each line in."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...matrix.errors import MatrixError
from ...matrix.record import replaced
from .. import options as o
from ..basis import Basis
from ..errors import EXIT_CLEAN, InputError, LintError
from ..flags import strip_command
from ..json_text import dumps
from ..judge import Judge, Launch
from .common import Request, judged, launch_of, to_json, told_basis

#: What a line may hold. `env` is an object of SGLang's variables.
KEYS = frozenset({"id", "argv", "gpu", "cuda", "sglang", "model", "draft", "env"})
MAX_LINE = 64 * 1024 * 1024


def run(request: Request) -> int:
    """Judge every line of the batch, in order, streaming.

    The verdicts are in the answers, so the exit code only tells whether the batch was read.
    """
    name = request.given.get(o.BATCH) or "-"
    judge = request.judge()
    if name == "-":
        _stream(sys.stdin.buffer, judge, request)
    else:
        try:
            file = open(name, "rb")  # noqa: SIM115, PTH123 - the error must name the file
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None
        except ValueError as error:  # a NUL byte in the name
            raise InputError(f"{name}: {error}") from None
        with file:
            _stream(file, judge, request)
    return EXIT_CLEAN


def _stream(file: BinaryIO, judge: Judge, request: Request) -> None:
    write = sys.stdout.write
    interactive = file is sys.stdin.buffer
    for number, line in _lines(file):
        if not line.strip():
            continue
        answer = answer_line(line, number, judge, request)
        write(dumps(answer) + "\n")
        if interactive:
            sys.stdout.flush()  # whoever feeds a pipe line by line waits for the answer


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if not line.endswith(b"\n") and len(line) == MAX_LINE:
            while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass  # the rest of a line that is too long to be a launch
            line = b'"too long"'
        yield number, line


def answer_line(line: bytes, number: int, judge: Judge, request: Request) -> dict[str, Any]:
    """The answer to one line; a bad line gives an error object, never an exception."""
    ident: Any = None
    try:
        try:
            case = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number}: not JSON: {error}") from None
        if not isinstance(case, dict):
            raise InputError(f"line {number}: not an object")
        ident = _json_only(case.get("id"))
        launch, known = _launch(case, number, request)
        if known.release != judge.release.name:
            judge = request.judge(known.release)
        judgement = judged(judge, launch, known)
    except (LintError, MatrixError) as error:
        text = str(error)
        if not text.startswith("line "):
            text = f"line {number}: {text}"
        return {"id": ident, "error": {"line": number, "message": text}}
    except (Exception, RecursionError) as error:
        return {
            "id": ident,
            "error": {
                "line": number,
                "message": f"internal error: {type(error).__name__}: {error}",
            },
        }
    findings = request.filtered(judgement.findings)
    return {"id": ident, **to_json(judgement, replaced(request, basis=known), findings)}


def _json_only(ident: Any) -> Any:
    """An id as it can stand in an answer: Python reads numbers that JSON does not have."""
    try:
        json.dumps(ident, allow_nan=False)
    except ValueError:
        return None
    return ident


def _launch(case: dict[str, Any], number: int, request: Request) -> tuple[Launch, Basis]:
    """The launch of a line and what it is judged for; what the line itself says comes first."""
    unknown = sorted(set(case) - KEYS)
    if unknown:
        raise InputError(
            f"line {number}: unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}"
        )
    argv = case.get("argv")
    if not isinstance(argv, list) or not all(isinstance(item, str) for item in argv):
        raise InputError(f"line {number}: argv is a list of strings")
    for key in ("gpu", "cuda", "sglang", "model", "draft"):
        if case.get(key) is not None and not isinstance(case[key], str):
            raise InputError(f"line {number}: {key} is a string")
    environment = case.get("env")
    environment = {} if environment is None else environment
    if not isinstance(environment, dict):
        raise InputError(f"line {number}: env is an object")
    for key, value in environment.items():
        if not isinstance(value, (str, int, float)):
            raise InputError(f"line {number}: env: {key} is a string or a number")
    command = strip_command(argv)
    if command.other_program:
        raise InputError(f"line {number}: no SGLang server launch: {command.other_program}")
    said = {key: case[key] for key in ("gpu", "cuda", "sglang") if case.get(key)}
    known = told_basis(request.given, request.config, command, said)
    launch = replaced(
        launch_of(command),
        environment={
            **command.environment, **{key: str(value) for key, value in environment.items()},
        },
        gpu=known.gpu,
        kind=known.kind,
        cuda=known.cuda,
        model=case.get("model"),
        draft=case.get("draft"),
    )  # fmt: skip
    return launch, known
