"""`attn-lint FLAGS…`: the verdict on one launch."""

from __future__ import annotations

from collections.abc import Sequence

from .. import options as o
from ..json_text import dumps
from ..reporters.text import report
from .common import read_request, to_json


def run(arguments: Sequence[str]) -> int:
    """Judge the launch on the command line."""
    request = read_request(arguments, (*o.LAUNCH_OPTIONS, o.BATCH))
    if request.given.get(o.BATCH):
        from .batch import run as batch

        return batch(request)
    if request.option(o.GPU) == "all":
        from .resolve import by_platform

        return by_platform(request)
    judgement = request.judged(request.judge())
    findings = request.filtered(judgement.findings)
    if request.option(o.FORMAT, "text") == "json":
        print(dumps(to_json(judgement, request, findings)))
    else:
        report(judgement, findings, request)
    return request.exit_code(findings, judgement.startup)
