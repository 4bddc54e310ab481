"""Version and machine of a launch, as the words of its command line tell them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..matrix.record import field, mutable_record

_OWN_IMAGE = r"(?:^|[/\s])(?:sglang(?!-runtime|-router|-gateway)[\w-]*|sgl-dev):"
#: SGLang's images, with the release in their tag.
IMAGE = re.compile(_OWN_IMAGE + r"[vV]?(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)")
#: These, whatever their tag says.
ANY_IMAGE = re.compile(_OWN_IMAGE)
_CUDA_TAG = re.compile(r":[^\s]*?\bcu(\d{2})(\d)\b")
#: What an image's name and tag are made of.
_PIECES = re.compile(r"[/:_@-]")
#: Pieces of them that tell the one kind of machine that an image is built for.
_IMAGE_KINDS = re.compile(
    r"(?P<cuda>cu\d{2,3}|nvidia)|(?P<hip>rocm[\d.]*)|(?P<npu>cann[\d.]*(?:rc\d+)?|ascend|npu|910b|a3)"
    r"|(?P<xpu>xpu)|(?P<cpu>xeon|cpu)|(?P<musa>musa)"
)
#: SGLang's own images whose tag tells no kind are built for CUDA.
_PLAIN_IMAGE = re.compile(
    r"(?:docker\.io/)?lmsysorg/sglang:(?:v\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?|latest|dev)(?:-runtime)?"
)
#: Pieces that may tell the machine itself; they are looked up among the platforms later.
_IMAGE_CARD = re.compile(r"mi\d{2,3}x?|g?[bh]\d00|h20|gb10|gfx\d{3,4}|sm\d{2,3}a?|xeon|spark")
#: Devices and resources that only one kind of machine has, as tools and clusters name them.
_DEVICE_KINDS = re.compile(
    r"(?P<cuda>nvidia\.com/(?:gpu|mig-)|/dev/nvidia)|(?P<hip>amd\.com/gpu|/dev/kfd)"
    r"|(?P<npu>huawei\.com/|/dev/(?:davinci|devmm_svm|hisi_hdc))|(?P<xpu>gpu\.intel\.com/)"
    r"|(?P<musa>mthreads\.com/|/dev/mtgpu)"
)
#: Container runtimes and drivers of one kind of machine.
_RUNTIMES = {"nvidia": "cuda", "amd": "hip", "ascend": "npu", "mthreads": "musa"}
_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl"})
#: Options of theirs that hand devices to a container.
_DEVICE_OPTIONS = frozenset({"--gpus", "--device", "--runtime"})
#: A scheduler's demand for cards of a kind.
GRES = re.compile(
    r"(?:--(?:gres|gpus|gpus-per-node)[= ])(?:gpu:)?([A-Za-z][\w.-]*?)(?=\s|[,:\"']|$)"
)

#: Resources whose kind nobody names.
NO_CARDS = frozenset({"gpu", "shard"})


@mutable_record
class Context:
    """Where a launch runs, as its file or command says; `origin` tells which part of it said so.

    `kind` is the kind of machine (cuda, hip, npu …), which may be told where the machine is not.
    """

    gpu: str | None = None
    kind: str | None = None
    sglang: str | None = None
    cuda: str | None = None
    model: str | None = None
    origin: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, value: str | None, origin: str) -> None:
        """Keep the first value told for a name."""
        if value and getattr(self, name) is None:
            setattr(self, name, value)
            self.origin[name] = origin

    def set(self, name: str, value: str, origin: str) -> None:
        """Take a value in place of what was told before."""
        setattr(self, name, value)
        self.origin[name] = origin

    def fill(self, other: Context) -> None:
        """Take what the other knows and this one does not."""
        for name in ("gpu", "kind", "sglang", "cuda", "model"):
            self.note(name, getattr(other, name), other.origin.get(name, ""))


def of_command(words: Sequence[str]) -> Context | None:
    """What the words of a whole command say of where it runs; None where they say nothing."""
    context = Context()
    from_words(words, context)
    return context if context.origin else None


def from_image(text: str, context: Context) -> None:
    """Read the release, and what machine it is made for, out of an image's tag."""
    if ANY_IMAGE.search(text) is None:
        return
    origin = f"image {text}"
    match = IMAGE.search(text)
    if match is not None:
        context.note("sglang", match.group(1), origin)
    cuda = _CUDA_TAG.search(text)
    if cuda is not None:
        context.note("cuda", f"{cuda.group(1)}.{cuda.group(2)}", origin)
    for piece in _PIECES.split(text.lower()):
        if _IMAGE_CARD.fullmatch(piece):
            context.note("gpu", piece, origin)
        kind = _IMAGE_KINDS.fullmatch(piece)
        if kind is not None:
            context.note("kind", kind.lastgroup, origin)
    if _PLAIN_IMAGE.fullmatch(text):
        context.note("kind", "cuda", origin)


def from_device(text: str, context: Context, origin: str = "") -> None:
    """Read the kind of machine out of the name of a device or of a cluster's resource."""
    kind = _DEVICE_KINDS.match(text)
    if kind is not None:
        context.note("kind", kind.lastgroup, origin or text)


def from_runtime(name: str, context: Context, origin: str) -> None:
    """Read the kind of machine out of the name of a container runtime or of a device driver."""
    context.note("kind", _RUNTIMES.get(name.lower()), origin)


def from_words(words: Sequence[str], context: Context) -> None:
    """Read image tags, devices and resource options out of a command line."""
    for place, text in enumerate(words):
        if "sgl" in text and ":" in text and (not text.startswith("-") or "image=" in text):
            from_image(text.partition("image=")[2] or text, context)
        if text.startswith("--gres"):
            following = words[place + 1] if place + 1 < len(words) else ""
            match = GRES.match(text if "=" in text else f"{text} {following}")
            if match is not None and match.group(1).lower() not in NO_CARDS:
                context.note("gpu", match.group(1), text)
    tool = next((place for place, text in enumerate(words) if _is_container_tool(text)), None)
    if tool is not None:
        _from_options(words, tool, context)


def _is_container_tool(word: str) -> bool:
    return word.rpartition("/")[2] in _CONTAINER_TOOLS


def _from_options(words: Sequence[str], tool: int, context: Context) -> None:
    """Read the devices that a container tool is told to hand on.

    What the image is built for was read before them: it runs on nothing else.
    """
    for place in range(tool + 1, len(words)):
        option, equals, value = words[place].partition("=")
        if option not in _DEVICE_OPTIONS:
            continue
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else ""
        origin = f"{option} {value}"
        if option == "--gpus":
            context.note("kind", "cuda", origin)
        elif option == "--runtime":
            from_runtime(value, context, origin)
        else:
            from_device(value, context, origin)
