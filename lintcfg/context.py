"""Version and machine of a launch, as the words of its command line tell them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..matrix.record import field, mutable_record

#: SGLang's images, with the release in their tag.
IMAGE = re.compile(
    r"(?:^|[/\s])(?:sglang(?!-runtime|-router|-gateway)[\w-]*|sgl-dev):[vV]?(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)"
)
_CUDA_TAG = re.compile(r":[^\s]*?-cu(\d{2})(\d)\b")
#: A scheduler's demand for cards of a kind.
GRES = re.compile(
    r"(?:--(?:gres|gpus|gpus-per-node)[= ])(?:gpu:)?([A-Za-z][\w.-]*?)(?=\s|[,:\"']|$)"
)

#: Resources whose kind nobody names.
NO_CARDS = frozenset({"gpu", "shard"})


@mutable_record
class Context:
    """Where a launch runs, as its file or command says; `origin` tells which part of it said so."""

    gpu: str | None = None
    sglang: str | None = None
    cuda: str | None = None
    model: str | None = None
    origin: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, value: str | None, origin: str) -> None:
        """Keep the first value told for a name."""
        if value and getattr(self, name) is None:
            setattr(self, name, value)
            self.origin[name] = origin

    def fill(self, other: Context) -> None:
        """Take what the other knows and this one does not."""
        for name in ("gpu", "sglang", "cuda", "model"):
            self.note(name, getattr(other, name), other.origin.get(name, ""))


def of_command(words: Sequence[str]) -> Context | None:
    """What the words of a whole command say of where it runs; None where they say nothing."""
    context = Context()
    from_words(words, context)
    return context if context.origin else None


def from_image(text: str, context: Context) -> None:
    """Read the release out of an image's tag."""
    match = IMAGE.search(text)
    if match is not None:
        context.note("sglang", match.group(1), f"image {text}")
        cuda = _CUDA_TAG.search(text)
        if cuda is not None:
            context.note("cuda", f"{cuda.group(1)}.{cuda.group(2)}", f"image {text}")


def from_words(words: Sequence[str], context: Context) -> None:
    """Read image tags and resource options out of a command line."""
    for place, text in enumerate(words):
        if "sgl" in text and ":" in text and (not text.startswith("-") or "image=" in text):
            from_image(text.partition("image=")[2] or text, context)
        if text.startswith("--gres"):
            following = words[place + 1] if place + 1 < len(words) else ""
            match = GRES.match(text if "=" in text else f"{text} {following}")
            if match is not None and match.group(1).lower() not in NO_CARDS:
                context.note("gpu", match.group(1), text)
