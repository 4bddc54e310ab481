"""Finds a model that the Hugging Face cache of this machine already holds. Never the network."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?\Z")


def cache_folder(environment: Mapping[str, str]) -> str:
    """The hub cache, as huggingface_hub chooses it."""
    for name, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        value = environment.get(name)
        if value:
            return os.path.join(os.path.expanduser(value), below)  # noqa: PTH111, PTH118
    base = environment.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")  # noqa: PTH118
    return os.path.join(os.path.expanduser(base), "huggingface", "hub")  # noqa: PTH111, PTH118


def snapshot(
    name: str, environment: Mapping[str, str] = os.environ, revision: str | None = None
) -> str | None:
    """Folder of the cached snapshot of a model id that has a config.json, or None."""
    if not _ID.match(name):
        return None
    root = os.path.join(cache_folder(environment), "models--" + name.replace("/", "--"))  # noqa: PTH118
    commit = revision or "main"
    try:
        reference = os.path.join(root, "refs", commit)  # noqa: PTH118
        if not os.path.isfile(reference):  # noqa: PTH113
            raise OSError(reference)
        with open(reference, encoding="utf-8") as file:  # noqa: PTH123
            commit = file.read(256).strip()
    except (OSError, ValueError):
        if revision is None:
            return None
    folder = os.path.join(root, "snapshots", commit)  # noqa: PTH118
    if os.path.isfile(os.path.join(folder, "config.json")):  # noqa: PTH113, PTH118
        return folder
    return None
