"""A page's word on multimodal attention is not the code's.

What it does: looks for a vision attention of the backend's kernels in the table of vision
backends and among the values of the flag that chooses one.
Why: the column says whether a counterpart exists; a reader picks the vision backend by it.
Example: ❌ for FlashInfer, which has `flashinfer_cudnn`.
"""

from __future__ import annotations

from ...facts.features import vision
from ..context import Context, RuleInfo
from .sliding_window import simple_feature

INFO = RuleInfo("DOC108", "multimodal", "multimodal", "warning")


def check(context: Context) -> None:
    """Check every multimodal cell, where the page takes it for the vision backend's flag.

    Older pages mean whether multimodal models run, which is another question.
    """
    flag = "--" + str(context.facts.scan["vision"]["flag"]).replace("_", "-")
    if flag not in context.page.text:
        return
    simple_feature(
        context, INFO, "multimodal", "multimodal attention",
        lambda backend, family: vision(context.facts, backend),
    )  # fmt: skip
