"""The facts of one release, each worked out when first asked for."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from ..data import load
from ..source.modules import Codebase
from ..source.tree import SourceTree
from .conditions import Conditions
from .effects import effects_of
from .flags import Flags
from .literals import Literals
from .model import Effect, Flag, Registered
from .registry import RegistryReader


class CodeFacts:
    """What the source tree of a release says about attention in the LLM server."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.codebase = Codebase(tree)
        self.literals = Literals(self.codebase)
        self.conditions = Conditions(self.literals)
        self.scan: dict[str, Any] = load("scan")["llm"]

    @cached_property
    def version(self) -> str | None:
        """The release, as the tree says it."""
        return self.tree.version()

    # --- flags and names

    @cached_property
    def flags(self) -> Flags:
        """The flags of the server."""
        files = [
            file
            for file in self.tree.candidates(self.scan["arguments"])
            if b"Arg(" in self.tree.raw(file) or b"add_argument" in self.tree.raw(file)
        ]
        return Flags(self.codebase, self.literals, files)

    @cached_property
    def backend_flag(self) -> Flag | None:
        """The flag that chooses the backend."""
        return self.flags.get(self.scan["backend_flag"])

    @cached_property
    def names(self) -> list[str]:
        """Values that the backend flag takes."""
        return self.backend_flag.values() if self.backend_flag is not None else []

    @cached_property
    def registry(self) -> dict[str, Registered]:
        """Backends that the code can make, by name."""
        anchors = self.scan["registry"]
        reader = RegistryReader(
            self.codebase, self.conditions, decorator=anchors["decorator"],
            table=anchors["table"], chain=anchors["chain"],
        )  # fmt: skip
        chain = re.compile(anchors["chain"].encode())
        candidates = self.tree.candidates(anchors["folders"])
        decorated = self.tree.search(anchors["decorator"], candidates)
        files = [file for file in decorated if re.search(rb"@\s*[\w.]*" + anchors["decorator"].encode(), self.tree.raw(file))]
        if not files:
            files = [file for file in candidates if chain.search(self.tree.raw(file))]
            files += [file for file in self.tree.search("ATTENTION_BACKENDS", candidates) if file not in files]
        return reader.read(files)

    # --- resolution

    @cached_property
    def effects(self) -> list[Effect]:
        """What argument handling refuses and sets, where it looks at the backend."""
        needle = re.compile(r"att(ention|n)_backend")
        files = [
            file
            for file in self.tree.candidates(self.scan["resolution"])
            if b"attention_backend" in self.tree.raw(file)
        ]
        return [
            effect
            for segment in self.codebase.functions(files, needle)
            for effect in effects_of(self.codebase, self.conditions, segment)
        ]
