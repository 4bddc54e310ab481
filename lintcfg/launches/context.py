"""Version and machine of a launch, from what its file says."""

from __future__ import annotations

import re
from bisect import bisect_right

from ..context import ANY_IMAGE, GRES, IMAGE, NO_CARDS, Context, from_image

_TAGGED = re.compile(ANY_IMAGE.pattern + r"[\w.-]*\w")
_UNDATED = re.compile(r"\bsglang:(?!v?\d)\w")
_PIN = re.compile(
    r"\bsglang(?:\[[\w,.\s-]*\])?\s*(?:==|~=|@v?)\s*v?(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)"
)
#: A comment that is quoted is spoken of, not said.
_COMMENT = re.compile(r"(?<![`'\"])(?:#|//|<!--|\{/\*)\s*attn-lint:\s*((?:\w+=[\w.+-]+\s*)+)")
#: A scheduler's demand for nodes of a kind, where the kind is a card's name.
_CONSTRAINT = re.compile(r"(?:--constraint[= ]|-C )[\"']?([a-z]+\d{2,4}[a-z]?)\b", re.IGNORECASE)
#: A card as tools for clusters write it, with how many there may be.
CARD = re.compile(r"([A-Za-z]+-?[A-Za-z]*\d+[\w-]*)(?::\d+)?!?$")
_SETTING = re.compile(r"(\w+)=([\w.+-]+)")
#: Keys whose value names a card; the text is looked up among the platforms later.
GPU_KEYS = re.compile(
    r"(?:gpu[._-]?(?:product|type|model|name|class)|gke-accelerator|accelerators?|accelerator[_-]type|"
    r"gfd|gpu_sku|instance-gpu-name|device_?type)$",
    re.IGNORECASE,
)


def from_text(text: str, context: Context) -> None:
    """Read scheduler directives and pins out of a whole file."""
    if "#SBATCH" in text or "#PBS" in text:
        for line in text.splitlines():
            if line.startswith("#SBATCH"):
                card = GRES.search(line)
                if card is not None and card.group(1).lower() not in NO_CARDS:
                    context.note("gpu", card.group(1), line.strip())
                wanted = _CONSTRAINT.search(line)
                if wanted is not None:
                    context.note("gpu", wanted.group(1), line.strip())
    if "sglang" in text:
        pin = _PIN.search(text)
        if pin is not None:
            context.note("sglang", pin.group(1), f"pin {pin.group(0)}")


def from_images(text: str, context: Context) -> None:
    """Take the release of the one image of SGLang that a whole file names, and the machines that
    all its images are built for.
    """
    if "sgl" not in text:
        return
    images = sorted({match.group().strip() for match in _TAGGED.finditer(text)})
    for name in ("gpu", "kind", "cuda"):
        told = []
        for image in images:
            one = Context()
            from_image(image, one)
            told.append((getattr(one, name), one.origin.get(name, "")))
        if len({value for value, _ in told}) == 1:
            context.note(name, *told[0])
    tags = {match.group(1): match for match in IMAGE.finditer(text)}
    if len(tags) == 1 and _UNDATED.search(text) is None:
        ((release, match),) = tags.items()
        context.note("sglang", release, f"image {match.group().strip().strip('/')}")


class CommentSettings:
    """What comments meant for us say of where launches run; it outweighs all else in the file.

    A comment speaks for what follows it, until another one says otherwise; the first one speaks
    for what stands above it too.
    """

    def __init__(self, text: str) -> None:
        self.places: list[int] = []
        self.settings: list[dict[str, str]] = []
        if "attn-lint:" not in text:
            return
        so_far: dict[str, str] = {}
        for match in _COMMENT.finditer(text):
            so_far = dict(so_far)
            for name, value in _SETTING.findall(match.group(1)):
                if name in ("gpu", "sglang", "cuda"):
                    so_far[name] = value
            self.places.append(match.start())
            self.settings.append(so_far)

    def fill(self, place: int, context: Context) -> None:
        """Set what holds at a place."""
        if not self.places:
            return
        for name, value in self.settings[max(0, bisect_right(self.places, place) - 1)].items():
            context.set(name, value, "comment")
