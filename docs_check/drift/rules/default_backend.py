"""A page's word on the default backend is not what the selector does.

What it does: walks the selector's decision list for each GPU class and family that a line names,
and reports the backends and conditions that the line leaves out; and models that get another.
Why: people size and debug by the default that the page promises.
Example: “Blackwell: trtllm_mha”, where models with unequal K and V widths get `fa4`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...facts.conditions import Condition, Either, Term, label_of
from ...facts.selection import Decision, reachable
from ...pages.page import Block
from ...source.modules import Place
from ..context import Context, RuleInfo, Spot, listed, names_in

INFO = RuleInfo("DOC110", "default-backend", "default-selection", "warning")
_DEFAULTS_TO = re.compile(r"[Dd]efaults? (?:to|is|backend is)\s*:?\s*`?(\w+)`?")
_DEFAULT_FOR = re.compile(r"\((?:the )?[Dd]efault (?:for|on) ([^()]*)\)")
_ONLY_FOR = re.compile(r"`(\w+)` is (?:auto-)?selected for ([^.;]*?)(?: specifically| only)?[.;]?$")
_DESIGNED_FOR = re.compile(
    r"\b([A-Z]\w+) is (?:specifically|only) (?:designed|made) for (?:the )?\[?([A-Z][\w .-]*\w)"
)
#: Parts of a predicate's name that say nothing about what it asks.
_EMPTY_WORDS = {"has", "is", "not", "no", "attention", "backend", "use", "uses", "or", "one",
                "infer", "with", "model", "config", "and", "of", "enable"}  # fmt: skip


def check(context: Context) -> None:
    """Check bullets of a selection guide, and `(Default for …)` labels."""
    if not context.facts.decisions:
        return
    guide: list[Block] = []
    for block in context.page.prose():
        stated = _DEFAULTS_TO.search(block.text)
        if stated and stated[1] in context.facts.registry:
            family = _family(block)
            if family is not None:
                guide.append(block)
                _bullet(context, block, family, stated[1])
        _designed_for(context, block)
        label = _DEFAULT_FOR.search(block.text)
        if label:
            _label(context, block, label[1])
    if guide:
        _models(context, guide[0])


def _family(block: Block) -> str | None:
    """The family that a bullet is about: by the line that introduces its list."""
    lead = block.lead
    while lead is not None and lead.kind == "item":
        lead = lead.lead
    for text in (block.text, lead.text if lead else "", *reversed(block.section)):
        for family in ("mla", "mha"):
            if re.search(rf"\b{family}\b", text, re.I):
                return family
    return None


def _machines(context: Context, block: Block, family: str) -> list[str]:
    text = block.text.partition(":")[0]
    found = [m for m in context.facts.machines.named(text)
             if context.facts.machines.kind(m) == "cuda"]  # fmt: skip
    if re.search(r"\bother\b", text, re.I):
        taken: set[str] = set()
        for other in context.page.prose():
            if other.section == block.section and other is not block and _family(other) == family:
                if re.search(r"\bother\b", other.text.partition(":")[0], re.I):
                    continue
                taken |= set(context.facts.machines.named(other.text.partition(":")[0]))
        return [m for m in context.facts.machines.of_kind("cuda") if m not in taken]
    return found


def _bullet(context: Context, block: Block, family: str, stated: str) -> None:
    machines = context.facts.machines
    where = _machines(context, block, family)
    if not where:
        return
    text = block.text
    documented = set(names_in(context.displays, text, context.facts.registry))
    never: list[str] = []
    conditions: dict[tuple[str, ...], tuple[Decision, list[str]]] = {}
    others: dict[tuple[str, str], tuple[Decision, list[str]]] = {}
    for machine in where:
        ways = [
            (decision, _without_models(rest))
            for decision, rest in reachable(context.facts, family, machine)
            if not _one_model(rest)
        ]
        own = [(decision, rest) for decision, rest in ways if decision.backend == stated]
        if not own:
            never.append(machine)
            continue
        position = ways.index(own[0])
        missing = [term for term in own[0][1] if not _mentioned(term, text)]
        asked = [term for term in missing if not _opposite_of_earlier(term, ways[:position])]
        for decision, rest in ways[:position]:
            if decision.backend not in documented and not _needs_speculation(rest):
                key = (decision.backend, _words(rest[-1:] or rest))
                others.setdefault(key, (decision, []))[1].append(machine)
        if asked:
            key2 = tuple(_words([term]) for term in asked)
            conditions.setdefault(key2, (own[0][0], []))[1].append(machine)
    if never:
        _report_never(context, block, family, stated, never, where)
    for (backend, words), (decision, on) in others.items():
        context.report(
            INFO, _at(block, stated),
            message=f"on {machines.titles(on)}, {family.upper()} models with {words} default to"
            f" {backend}",
            claim=f"{family.upper()} models default to {stated}",
            actual=f"{backend} where {words}", places=[decision.place], certainty="partial",
            condition=f"except where {words}", subject=backend,
        )  # fmt: skip
    for words_, (decision, on) in conditions.items():
        then = _then(context, family, on[0], decision)
        context.report(
            INFO, _at(block, stated),
            message=f"{stated} is the default on {machines.titles(on)} only if"
            f" {listed(words_, 'and')}; otherwise {then}",
            claim=f"{family.upper()} models default to {stated}",
            actual=f"{stated} if {listed(words_, 'and')}; otherwise {then}",
            places=[decision.place], certainty="partial", condition=f"if {listed(words_, 'and')}",
            subject=stated,
        )  # fmt: skip
    _only_models(context, block, where)


def _report_never(
    context: Context, block: Block, family: str, stated: str, never: list[str], where: list[str]
) -> None:
    machines = context.facts.machines
    actual: dict[str, list[str]] = {}
    places = []
    for machine in never:
        usual = usual_default(context, family, machine)
        if usual is not None:
            actual.setdefault(usual.backend, []).append(machine)
            places.append(usual.place)
    told = "; ".join(f"{backend} on {machines.titles(on)}" for backend, on in actual.items())
    everywhere = len(never) == len(where)
    condition = "" if everywhere else f"on {machines.titles(m for m in where if m not in never)}"
    if not condition and _set_for_some(context, stated):
        condition = "for models that get it by themselves"
    context.report(
        INFO, _at(block, stated),
        message=f"{stated} is not the {family.upper()} default on {machines.titles(never)}: {told}",
        claim=f"{family.upper()} models default to {stated}",
        actual=told, places=places[:3], certainty="partial" if condition else "proved",
        condition=condition,
        subject=f"{stated} elsewhere",
    )  # fmt: skip


def _set_for_some(context: Context, backend: str) -> bool:
    """Whether something else than the selector sets a backend: a model's rules."""
    flag = context.facts.scan["backend_flag"]
    return any(one.backend == backend for one in context.facts.overrides) or any(
        effect.kind == "set"
        and effect.field == flag
        and getattr(effect.value, "value", 0) == backend
        for effect in context.facts.effects
    )


def _at(block: Block, needle: str) -> Spot:
    line, column = block.find(needle)
    return Spot(line, column)


def usual_default(context: Context, family: str, machine: str) -> Decision | None:
    """The default of a plain launch: no speculation, an everyday model, flashinfer installed."""
    for decision, rest in reachable(context.facts, family, machine):
        if all(_usual(term) for term in rest):
            return decision
    return None


def _usual(term: Term | Either) -> bool:
    if isinstance(term, Either):
        return any(all(_usual(part) for part in option) for option in term.options)
    if term.subject == "speculation":
        return term.op in {"unset"} or None in term.values
    if term.subject == "topk":
        return term.op in {"<=", "unset", "not in"}
    plain = re.search(r"flashinfer|no_spec|topk_one|default_arch", term.name) is not None
    if term.op in {"true", "false"}:
        return plain is (term.op == "true")
    return term.op in {"not in", "unset"}


def _without_models(condition: Condition) -> Condition:
    """Leave out that it is not one of some single models."""
    return tuple(
        term
        for term in condition
        if not (isinstance(term, Term) and "arch" in term.name and term.op == "not in")
    )


def _one_model(condition: Condition) -> bool:
    return any(
        isinstance(term, Term) and "arch" in term.name and term.op == "in" for term in condition
    )


def _needs_speculation(condition: Iterable[Term | Either]) -> bool:
    return any(
        isinstance(term, Term) and re.search("spec|topk", term.name) and term.op in {"false"}
        for term in condition
    )


def _opposite_of_earlier(term: Term | Either, earlier: list[tuple[Decision, Condition]]) -> bool:
    """Whether a condition only says that an earlier way was not taken."""
    if not isinstance(term, Term) or term.op not in {"false", "not in"}:
        return False
    return any(
        isinstance(other, Term) and other.name == term.name and other.op != term.op
        for _, rest in earlier
        for other in rest
    )


def _mentioned(term: Term | Either, text: str) -> bool:
    if isinstance(term, Either):
        return any(all(_mentioned(part, text) for part in option) for option in term.options)
    words = [
        word for word in re.findall(r"[a-z]+", term.name.lower())
        if word not in _EMPTY_WORDS and len(word) > 2
    ]  # fmt: skip
    lowered = text.lower()
    return any(word in lowered or word.rstrip("s") in lowered for word in words)


def _words(condition: Iterable[Term | Either]) -> str:
    parts = []
    for term in condition:
        parts.append(str(term) if isinstance(term, Either) or term.op not in {"true", "false"}
                     else ("" if term.op == "true" else "no ") + label_of(term)
                     .removeprefix("has "))  # fmt: skip
    return " and ".join(parts) or "any traits"


def _then(context: Context, family: str, machine: str, decision: Decision) -> str:
    ways = reachable(context.facts, family, machine)
    later = [d.backend for d, rest in ways[[d for d, _ in ways].index(decision) + 1 :]
             if not _one_model(rest)]  # fmt: skip
    return listed(dict.fromkeys(name for name in later if name != decision.backend)) or "another"


def _only_models(context: Context, block: Block, where: list[str]) -> None:
    """`X` said to be selected for one model, where several architectures get it."""
    match = _ONLY_FOR.search(block.text.strip())
    if match is not None:
        _other_models(context, block, match[1], match[1], match[2], where)


def _designed_for(context: Context, block: Block) -> None:
    """A backend said to be made for one model, where several architectures get it."""
    match = _DESIGNED_FOR.search(block.text)
    backend = context.backend_named(match[1]) if match is not None else None
    if match is not None and backend is not None:
        everywhere = context.facts.machines.of_kind("cuda")
        _other_models(context, block, backend, match[1], match[2], everywhere)


def _other_models(
    context: Context, block: Block, backend: str, shown: str, model: str, where: list[str]
) -> None:
    told = model.lower().replace("models", "")
    key = re.sub(r"[^a-z0-9]", "", told)
    architectures: dict[str, Place] = {}
    for override in context.facts.overrides:
        if override.backend != backend or not override.field.endswith("attention_backend"):
            continue
        platform = tuple(
            term for term in override.condition if getattr(term, "subject", "") == "platform"
        )
        if all(context.facts.machines.condition(platform, one) is False for one in where):
            continue
        for name in override.architectures:
            plain = re.sub(r"[^a-z0-9]", "", name.lower())
            if key and not plain.startswith(key):
                architectures.setdefault(name, override.place)
    if not architectures:
        return
    line, column = block.find(shown)
    names = list(architectures)
    context.report(
        INFO, Spot(line, column),
        message=f"`{backend}` is selected for other architectures as well:"
        f" {', '.join(names[:6])}{' …' if len(names) > 6 else ''}",
        claim=f"{backend} is selected for {model.strip()} alone",
        actual=f"{len(names)} further architectures get it",
        places=list({place.evidence(): place for place in architectures.values()}),
        certainty="partial", condition=f"for {model.strip()} among others",
        subject=f"{backend} models",
    )  # fmt: skip


def _models(context: Context, first: Block) -> None:
    """Models that get another backend, where the guide speaks of GPU and family alone."""
    if not context.facts.overrides:
        return
    by_backend: dict[str, set[str]] = {}
    for override in context.facts.overrides:
        if override.architectures:
            by_backend.setdefault(override.backend, set()).update(override.architectures)
    spot = Spot.of(first)
    lead = first.lead
    while lead is not None and lead.kind == "item":
        lead = lead.lead
    if lead is not None and lead.line:
        spot = Spot.of(lead)
    told = "; ".join(f"{backend} for {len(names)}" for backend, names in sorted(by_backend.items()))
    functions = list(dict.fromkeys(o.function for o in context.facts.overrides))
    context.report(
        INFO, spot,
        message="model-specific rules run before this list and set other backends"
        f" ({len(functions)} functions; architectures by backend: {told})",
        claim="the default depends on GPU and family alone",
        actual=f"{len(functions)} functions choose by model architecture",
        places=[override.place for override in context.facts.overrides[:3]],
        certainty="partial", condition="for models without an override",
        subject="overrides",
    )  # fmt: skip


def _label(context: Context, block: Block, text: str) -> None:
    """`FlashInfer (Default for Non-Hopper Machines)`."""
    head = block.text.partition("(")[0]
    backend = context.displays.find(head)
    if backend is None or backend not in context.facts.registry:
        return
    machines = context.facts.machines
    negated = re.match(r"\s*[Nn]on-(\w+)", text)
    if negated:
        excluded = set(machines.named(negated[1]))
        where = [m for m in machines.of_kind("cuda") if m not in excluded]
    else:
        where = [m for m in machines.named(text) if machines.kind(m) == "cuda"]
    wrong: dict[str, list[str]] = {}
    places = []
    for family in ("mha", "mla"):
        for machine in where:
            usual = usual_default(context, family, machine)
            if usual is not None and usual.backend != backend:
                wrong.setdefault(f"{usual.backend} for {family.upper()}", []).append(machine)
                places.append(usual.place)
    if not wrong:
        return
    told = "; ".join(f"{name} on {machines.titles(on)}" for name, on in wrong.items())
    line, column = block.find("efault")
    context.report(
        INFO, Spot(line, max(column - 1, 1)),
        message=f"{backend} is not the default of all {text.split(',')[0].strip()}: {told}",
        claim=f"{backend} is the default for {text.strip()}", actual=told, places=places[:4],
        certainty="partial", condition="on the other machines and families", subject=backend,
    )  # fmt: skip
