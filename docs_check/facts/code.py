"""The facts of one release, each worked out when first asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

from ..data import load
from ..names import Displays, Former, former_names
from ..source.modules import Codebase, LinePlace, Place
from ..source.segments import Segment
from ..source.syntax import Const, Expr, Map
from ..source.tree import SourceTree
from .aliases import find_aliases, find_handlers
from .conditions import Conditions, Term, terms
from .effects import effects_of
from .flags import Flags
from .literals import Item, Literals
from .machines import Machines
from .model import Alias, Effect, Flag, PageRule, Registered
from .paging import page_rules
from .questions import generations
from .registry import RegistryReader
from .selection import Decision, Override, decisions, overrides
from .sparse import Default, defaults, general
from .speculation import DraftMap, draft_maps

#: A constructor that may refuse a KV-cache dtype.
_LOOKS_AT_DTYPE = re.compile(
    r"(?s)(?:kv_cache_dtype|data_type)\w*\s*(?:not\s+in|!=|==|in)\b.{0,400}\braise\b"
    r"|(?:kv_cache_dtype|data_type)\w*\s*!=.{0,200}\braise\b"
)


class CodeFacts:
    """What the source tree of a release says about attention in the LLM server."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        tree.skip = tuple(load("scan")["skip"])
        tree.expected = tuple(load("scan")["expected"])
        self.codebase = Codebase(tree)
        self.literals = Literals(self.codebase)
        self.conditions = Conditions(self.literals)
        self.scan: dict[str, Any] = load("scan")["llm"]
        self.memory: dict[Any, Any] = {}
        self._chains: dict[tuple[str, str | None], list[list[Segment]]] = {}
        self._constructors: dict[tuple[str, str | None], list[Effect]] = {}
        self._handlers: dict[str, dict[str, Place]] = {}
        self.linear_arms: dict[str, list[Any]] = {}
        self.linear_dispatchers: dict[str, Segment] | None = None
        self._sparse_defaults: dict[str, list[Default]] = {}
        self._definitions: dict[str, list[str]] = {}
        self._lists: list[tuple[Segment, list[Item]]] | None = None
        self._messages: list[tuple[str, Place]] | None = None

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
        used = re.compile(rb"@\s*[\w.]*" + anchors["decorator"].encode())
        files = [file for file in decorated if used.search(self.tree.raw(file))]
        if not files:
            files = [file for file in candidates if chain.search(self.tree.raw(file))]
            tables = self.tree.search(anchors["table"], candidates)
            files += [file for file in tables if file not in files]
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
        # A function that names no backend says nothing about any.
        named = re.compile(
            "[\"'](?:" + "|".join(map(re.escape, {*self.names, *self.registry})) + ")[\"']|_BACKEND"
        )
        return [
            effect
            for segment in self.codebase.functions(files, needle)
            if named.search(segment.text)
            for effect in effects_of(self.codebase, self.conditions, segment)
        ]

    @cached_property
    def dtype_refusals(self) -> list[Effect]:
        """Those refusals that look at the KV-cache dtype."""
        return [
            effect
            for effect in self.effects
            if effect.kind == "refuse" and terms(effect.condition, "kv_dtype")
        ]

    @cached_property
    def withdrawn_dtypes(self) -> set[str]:
        """KV-cache dtypes that are refused for themselves, by a check that asks nothing else."""
        raw = re.compile(rb"kv_cache_dtype\w*\s*==\s*[\"']\w+[\"']\s*:\s*raise\b")
        needle = re.compile(r"kv_cache_dtype\w*\s*==[^:]*:\s*raise\b")
        files = [file for file in self._constant_files() if raw.search(self.tree.raw(file))]
        found: set[str] = set()
        for segment in self.codebase.functions(files, needle):
            for effect in effects_of(self.codebase, self.conditions, segment):
                if effect.kind != "refuse":
                    continue
                # Arms above this one say what the dtype is not.
                asked = [t for t in effect.condition if getattr(t, "op", "") != "not in"]
                if len(asked) == 1 and isinstance(asked[0], Term) and (
                    asked[0].subject == "kv_dtype" and asked[0].op == "in"
                ):  # fmt: skip
                    found |= set(map(str, asked[0].values))
        return found

    @cached_property
    def page_rules(self) -> list[PageRule]:
        """Rules on page sizes."""
        return page_rules(self)

    @cached_property
    def decisions(self) -> list[Decision]:
        """The default selector's returns."""
        return decisions(self)

    @cached_property
    def overrides(self) -> list[Override]:
        """Backends that model-specific functions set."""
        return overrides(self)

    @cached_property
    def draft_maps(self) -> list[DraftMap]:
        """Maps from backend to draft backend."""
        return draft_maps(self)

    @cached_property
    def machines(self) -> Machines:
        """Machine classes and what the code asks of them."""
        return Machines(questions=generations(self.tree, self.scan["questions"]))

    def effects_on(self, pattern: str) -> list[Effect]:
        """What functions that look at other fields refuse and set."""
        needle = re.compile(pattern)
        raw = re.compile(pattern.encode())
        files = [
            file
            for file in self.tree.candidates(self.scan["resolution"])
            if raw.search(self.tree.raw(file))
        ]
        return [
            effect
            for segment in self.codebase.functions(files, needle)
            for effect in effects_of(self.codebase, self.conditions, segment)
        ]

    def function(self, folder: str, name: str) -> Segment | None:
        """A function by name, below a folder."""
        raw = f"def {name}(".encode()
        for file in self.tree.candidates([folder]):
            if raw in self.tree.raw(file):
                module = self.codebase.module(file)
                for segment in module.find(name) if module is not None else ():
                    if segment.kind == "def":
                        return segment
        return None

    @staticmethod
    def tokens(name: str) -> set[str]:
        """The words of a name, lower case: `CuteDSLGDNKernel` has cute, dsl, gdn and cutedsl."""
        words = [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]
        return {*words, *("".join(pair) for pair in pairwise(words)), name.lower()}

    # --- classes

    def class_chains(self, backend: str, family: str | None) -> list[list[Segment]]:
        """Classes (with their bases) that serve a backend for a family."""
        key = (backend, family)
        if key not in self._chains:
            entry = self.registry.get(backend)
            while entry is not None and entry.target is not None:
                entry = self.registry.get(entry.target)
            self._chains[key] = [
                self.codebase.class_chain(implementation.segment)
                for implementation in (entry.implementations if entry is not None else ())
                if implementation.segment.kind == "class"
                and (
                    implementation.family is None
                    or family is None
                    or implementation.family == family
                )
                and not any(
                    isinstance(term, Term) and term.subject == "other" and term.op in {"true", "in"}
                    for term in implementation.condition
                )
            ]
        return self._chains[key]

    def constructor_refusals(self, backend: str, family: str | None) -> list[Effect]:
        """What the constructors of a backend's class refuse by themselves."""
        key = (backend, family)
        if key not in self._constructors:
            found: list[Effect] = []
            for chain in self.class_chains(backend, family):
                member = self.codebase.method(chain[:1], "__init__")
                if member is not None and _LOOKS_AT_DTYPE.search(member.blanked):
                    found += [
                        effect
                        for effect in effects_of(self.codebase, self.conditions, member)
                        if effect.kind == "refuse"
                    ]
            self._constructors[key] = found
        return self._constructors[key]

    # --- constants

    def constant(self, name: str) -> tuple[Segment, list[Item]] | None:
        """A module constant that is a collection, by name, wherever it is defined."""
        for segment, items in self.name_lists():
            if segment.name == name:
                return segment, items
        needle = re.compile(rf"^{re.escape(name)}\s*(?::[^=\n]*)?=".encode(), re.M)
        for file in self._constant_files():
            if needle.search(self.tree.raw(file)):
                module = self.codebase.module(file)
                for segment in module.find(name) if module is not None else ():
                    values = self.literals.assigned(segment)
                    if values is not None:
                        return segment, values
        return None

    def _constant_files(self) -> list[str]:
        return self.tree.candidates([*self.scan["lists"], *self.scan["resolution"]])

    def constant_table(self, folder: str, name: str) -> dict[str, tuple[Expr, Place]] | None:
        """A module constant that is a dict with string keys."""
        raw = name.encode()
        for file in self.tree.candidates([folder]):
            if raw not in self.tree.raw(file):
                continue
            module = self.codebase.module(file)
            for segment in module.find(name) if module is not None else ():
                value = self.codebase.value(segment)
                if isinstance(value, Map):
                    return {
                        str(key.value): (item, self.codebase.place(segment, key))
                        for key, item in value.items
                        if isinstance(key, Const)
                    }
        return None

    def name_lists(self) -> list[tuple[Segment, list[Item]]]:
        """Module constants that list backends: upper case, with BACKEND in the name."""
        if self._lists is None:
            self._lists = []
            pattern = re.compile(
                rb"^_?[A-Z0-9_]*BACKENDS?[A-Z0-9_]*\s*(?::[^=\n]*)?=\s*[\[({fstF_]", re.M
            )
            known = {*self.names, *self.registry}
            for file in self.tree.candidates(self.scan["lists"]):
                raw = self.tree.raw(file)
                if b"BACKEND" not in raw or not pattern.search(raw):
                    continue
                for segment in self.codebase.segments([file]):
                    if segment.kind != "assign" or "BACKEND" not in segment.name:
                        continue
                    items = self.literals.assigned(segment)
                    if items and any(item.value in known for item in items):
                        self._lists.append((segment, items))
        return self._lists

    # --- words

    def dtype_messages(self) -> list[tuple[str, Place]]:
        """Messages and help texts that may say which backend a dtype takes."""
        if self._messages is None:
            self._messages = []
            flag = self.flags.get(self.scan["kv_dtype_flag"])
            if flag is not None and flag.help:
                self._messages.append((flag.help, flag.place))
            needle = re.compile(r"kv_cache|KV cache")
            words = re.compile(
                r"KV cache[^\"']{0,40}(?:requires|needs|supported by) the [\w -]+ backend"
            )
            for name in self.registry:
                for chain in self.class_chains(name, None):
                    for segment in chain:
                        if not words.search(segment.text):
                            continue
                        for member in segment.members():
                            if member.kind == "def" and words.search(member.text):
                                for effect in effects_of(self.codebase, self.conditions, member):
                                    if effect.kind == "refuse" and needle.search(effect.message):
                                        self._messages.append((effect.message, effect.place))
        return self._messages

    def display_name(self, text: str) -> str | None:
        """The backend that a display name stands for."""
        return self.displays.find(text)

    @cached_property
    def displays(self) -> Displays:
        """Display names of backends."""
        return Displays("llm", [*self.names, *self.registry], self.former)

    @cached_property
    def former(self) -> dict[str, Former]:
        """Names that earlier or later releases had."""
        return former_names([*self.names, *self.registry], self.version)

    def text_place(self, segment: Segment, line: int) -> Place:
        """A place known by its line alone."""
        return LinePlace(segment, None, self.codebase, "", line)

    # --- further facts that rules ask for

    @cached_property
    def aliases(self) -> dict[str, Alias]:
        """Values that are accepted and turned into another."""
        return find_aliases(self)

    def family_handlers(self, family: str) -> dict[str, Place]:
        """Backends with a handler for models of a family."""
        anchors = self.scan["family_handlers"].get(family)
        if anchors is None:
            return {}
        if family not in self._handlers:
            self._handlers[family] = find_handlers(self, anchors)
        return self._handlers[family]

    def dtype_backends(self, dtype: str) -> set[str]:
        """Backends in constants whose name says that they are about a dtype."""
        return {str(item.value) for _, items in self._dtype_lists(dtype) for item in items}

    def dtype_places(self, dtypes: Iterable[str]) -> list[Place]:
        """Where those constants stand."""
        return [
            self.codebase.place(segment)
            for dtype in dtypes
            for segment, _ in self._dtype_lists(dtype)
        ]

    def _dtype_lists(self, dtype: str) -> list[tuple[Segment, list[Item]]]:
        key = dtype.upper()
        stem = "_".join(key.split("_")[:2])
        pattern = re.compile(rf"(^|_)({re.escape(key)}|{re.escape(stem)})_")
        return [(segment, items) for segment, items in self.name_lists()
                if pattern.search(segment.name)]  # fmt: skip

    def flags_about(self, value: str) -> list[Flag]:
        """Other flags that take a dtype's name as a value, or say that they need it."""
        found = []
        for name in self.flags.fields():
            if "kv_cache" not in name or name == self.scan["kv_dtype_flag"]:
                continue
            flag = self.flags.get(name)
            if flag is not None and value in flag.values():
                found.append(flag)
        return found

    def sparse_defaults(self, owner: str) -> list[Default]:
        """Defaults of a sparse backend's phases that hang on machine and dtype alone."""
        if owner not in self._sparse_defaults:
            self._sparse_defaults[owner] = general(defaults(self, owner))
        return self._sparse_defaults[owner]

    @cached_property
    def base_class(self) -> Segment | None:
        """The class that every backend derives from."""
        anchors = self.scan["base_class"]
        raw = f"class {anchors['name']}(".encode()
        for file in self.tree.candidates([anchors["folder"]]):
            if raw in self.tree.raw(file):
                module = self.codebase.module(file)
                for segment in module.find(anchors["name"]) if module is not None else ():
                    return segment
        return None

    def defining_files(self, name: str) -> list[str]:
        """Files that define a function or class of this name, at any level."""
        if name not in self._definitions:
            files = self.tree.candidates(["srt", "multimodal_gen"])
            self._definitions[name] = [file for file in files if self._defined_in(file, name)]
        return self._definitions[name]

    def _defined_in(self, file: str, name: str) -> bool:
        raw = self.tree.raw(file)
        return any(
            (needle := f"{word} {name}".encode()) in raw
            and re.search(rb"^[ \t]*(?:async )?" + re.escape(needle) + rb"\b", raw, re.M)
            for word in ("def", "class")
        )

    def defines(self, name: str) -> bool:
        """Whether anything of this name is defined; files on attention are looked at first."""
        if name in self._definitions:
            return bool(self._definitions[name])
        files = sorted(
            self.tree.candidates(["srt", "multimodal_gen"]),
            key=lambda file: not ("attention" in file or "platforms" in file),
        )
        return any(self._defined_in(file, name) for file in files)

    def other_flag(self, spelling: str) -> bool:
        """Whether another program of the tree declares a flag: a benchmark, the router."""
        quoted = f'"{spelling}"'.encode()
        field = spelling.strip("-").replace("-", "_").encode() + b":"
        return any(
            quoted in (raw := self.tree.raw(file)) or field in raw
            for file in self.tree.files()
            if file.endswith(("server_args.py", "bench_serving.py", "launch_server.py"))
            or file.startswith(("cli/", "srt/utils/"))
        )
