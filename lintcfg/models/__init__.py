"""From a model path or id to the traits that rules read.

A local folder's config.json is read as SGLang would read it; a public id is looked up in the
Hugging Face cache of this machine and in the matrix's catalogue. transformers is not needed, and
the network is never asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...matrix.record import mutable_record
from ..model import ModelProblem, ModelTraits
from .catalogue import Catalogue
from .config import ConfigError, Library
from .files import Unreadable, read_object
from .hf_config import Parser
from .hub_cache import snapshot
from .traits import Deriver

__all__ = ["ModelProblem", "ModelTraits", "read_model", "resolve_model"]


@mutable_record
class _Reader:
    """The parts that read models of one release, made once."""

    deriver: Deriver
    catalogue: Catalogue | None
    mistral_names: tuple[tuple[str, ...], ...]
    seen: dict[tuple[Any, ...], ModelTraits | ModelProblem | None]


_READERS: dict[int, tuple[Any, _Reader]] = {}
#: Models that are remembered; a batch rarely has more.
_REMEMBERED = 4096


def _reader(release: Any) -> _Reader:
    found = _READERS.get(id(release))
    if found is not None and found[0] is release:
        return found[1]
    architectures = release["architectures"]
    plan = architectures["get_config"]
    deriver = Deriver(Parser(Library(release["config_defaults"]), plan), architectures)
    names = tuple(tuple(words) for words in plan["mistral_names"])
    reader = _Reader(deriver, None, names, {})
    _READERS[id(release)] = (release, reader)
    return reader


def resolve_model(
    name: str,
    release: Any,
    *,
    is_draft: bool = False,
    algorithm: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> ModelTraits | ModelProblem | None:
    """Traits of a local folder or a public id; None where nothing is known of it.

    Args:
        name: value of --model-path or of the draft path.
        release: the release's data: `architectures`, `config_defaults` and `models`.
        is_draft: the model is loaded as a draft.
        algorithm: the speculative algorithm; it chooses between drafts of one checkpoint.
        overrides: keys of --json-model-override-args.
    """
    reader = _reader(release)
    key = (name, is_draft, algorithm if is_draft else None, repr(overrides) if overrides else None)
    if key in reader.seen:
        return reader.seen[key]
    found = _resolve(name, release, reader, is_draft, algorithm, overrides)
    if len(reader.seen) >= _REMEMBERED:
        reader.seen.clear()
    reader.seen[key] = found
    return found


def _resolve(
    name: str,
    release: Any,
    reader: _Reader,
    is_draft: bool,
    algorithm: str | None,
    overrides: Mapping[str, Any] | None,
) -> ModelTraits | ModelProblem | None:
    if "\0" in name or not name:
        return ModelProblem("The model path is not a path.", name, "Give a folder or a model id.")
    try:
        exists = os.path.isdir(name)  # noqa: PTH112 - hot path
    except ValueError:
        return ModelProblem("The model path is not a path.", repr(name), "Give a folder or an id.")
    if exists:
        return _read_folder(name, reader, is_draft, algorithm, overrides)
    if os.path.isfile(name):  # noqa: PTH113
        # A GGUF file carries its configuration inside.
        return None
    if name.startswith(("/", "./", "../", "~")):
        return None  # a folder of another machine or of a container
    cached = snapshot(name)
    if cached is not None:
        found = _read_folder(cached, reader, is_draft, algorithm, overrides)
        if isinstance(found, ModelTraits):
            return ModelTraits(found.traits, "local Hugging Face cache", cached)
        return found
    if reader.catalogue is None:
        if release["models"] is None:
            return None
        reader.catalogue = Catalogue(release["models"])
    known = reader.catalogue.find(name)
    if known is None:
        return None
    values, origin = known
    try:
        traits = reader.deriver.traits(
            values, is_draft=is_draft, algorithm=algorithm, overrides=overrides
        )
    except ConfigError as error:
        return _refused(error, name)
    return ModelTraits(traits, origin, name)


def read_model(
    source: str | Mapping[str, Any],
    release: Any,
    *,
    is_draft: bool = False,
    algorithm: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> ModelTraits | ModelProblem:
    """Traits of a model folder, or of the keys of a config.json."""
    reader = _reader(release)
    if isinstance(source, str):
        return _read_folder(source, reader, is_draft, algorithm, overrides)
    try:
        traits = reader.deriver.traits(
            dict(source), is_draft=is_draft, algorithm=algorithm, overrides=overrides
        )
    except ConfigError as error:
        return _refused(error, "config.json")
    return ModelTraits(traits, "config.json")


def _read_folder(
    path: str,
    reader: _Reader,
    is_draft: bool,
    algorithm: str | None,
    overrides: Mapping[str, Any] | None,
) -> ModelTraits | ModelProblem:
    lower = path.lower()
    if any(all(word in lower for word in words) for words in reader.mistral_names):
        place = os.path.join(path, "params.json")  # noqa: PTH118
        if not os.path.isfile(place):  # noqa: PTH113
            return ModelProblem(
                f"SGLang reads {place} for a folder of this name, and there is none.",
                place,
                "Rename the folder, or add --model-config-parser hf.",
            )
    place = os.path.join(path, "config.json")  # noqa: PTH118
    values = read_object(place)
    if isinstance(values, Unreadable):
        hint = "Give the folder that holds config.json." if values.missing else "Repair the file."
        return ModelProblem(f"{place} {values.reason}.", place, hint)
    try:
        traits = reader.deriver.traits(
            values, path=path, is_draft=is_draft, algorithm=algorithm, overrides=overrides
        )
    except ConfigError as error:
        return _refused(error, place)
    return ModelTraits(traits, "config.json", path)


def _refused(error: ConfigError, place: str) -> ModelProblem:
    return ModelProblem(f"SGLang refuses the configuration of {place}: {error}.", place)
