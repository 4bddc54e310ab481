"""What the code says of one feature of one backend, for tables, listings and the audit."""

from __future__ import annotations

import re
from collections.abc import Callable

from .facts import kvdtype
from .facts.code import CodeFacts
from .facts.conditions import say
from .facts.features import chunked_prefix, sliding_window, vision
from .facts.model import Support
from .facts.paging import allowed_sizes, native_paging
from .facts.speculation import many_branches, one_branch

#: Families of models that have a support table of their own.
FAMILIES = ("mha", "mla")


def backends_of(facts: CodeFacts, family: str) -> list[str]:
    """Backends that serve models of a family, in the order of the registry.

    Left out are those for models with sparse attention of their own, which are no family of these.
    """
    own = facts.scan["class_names"]
    handlers = facts.family_handlers(family)
    found = []
    for name, entry in facts.registry.items():
        if entry.target is not None or name in facts.aliases:
            continue
        classes = [
            implementation.segment.name
            for implementation in entry.implementations
            if implementation.family in (None, family)
        ]
        if any(re.search(own["special"], one) for one in classes):
            continue
        if entry.only is not None or name in handlers:
            if name in handlers or entry.only == family:
                found.append(name)
            continue
        if handlers or not classes:
            continue
        others = [pattern for kind, pattern in own["families"].items() if kind != family]
        if not any(re.search(pattern, one) for pattern in others for one in classes):
            found.append(name)
    return found


def support(
    facts: CodeFacts, backend: str, family: str | None, feature: str, group: str = ""
) -> Support | None:
    """The code's word on a feature, or None where it has none."""
    if feature == "kv_dtype":
        return kvdtype.support(facts, backend, family, group)[0]
    if feature == "page_size":
        return _page_sizes(facts, backend, family)
    if feature == "multimodal":
        return vision(facts, backend)
    if feature == "chunked_prefix":
        return chunked_prefix(facts, backend)
    return _BY_FAMILY[feature](facts, backend, family)


_BY_FAMILY: dict[str, Callable[[CodeFacts, str, str | None], Support | None]] = {
    "topk_one": one_branch,
    "topk_many": many_branches,
    "sliding_window": sliding_window,
}


def _page_sizes(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """The sizes that are taken, as `32 or 64`; else whether the kernels read pages."""
    found = allowed_sizes(facts, backend, family)
    if found is None:
        return native_paging(facts, backend, family)
    sizes, rule, condition = found
    why = f"others become {rule.target}" if rule.target is not None else "others are refused"
    parts = [str(size) for size in sizes]
    value = " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return Support(value, [rule.place], why, f"when {say(condition)}" if condition else "")
