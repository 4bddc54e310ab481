"""KV-cache dtypes: refusals, lists of backends by dtype, and what the kernels do with scales."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..source import syntax as sx
from ..source.modules import Place
from ..source.paths import events
from ..source.segments import Segment
from .conditions import Condition, Either, Term, family_of, terms
from .memory import remembered
from .model import Certainty, Effect, Support

if TYPE_CHECKING:
    from .code import CodeFacts

_SCALES = re.compile(r"\blayer\.k_scale(?:_float)?\b")
#: The argument that says whether new keys and values are stored.
_STORES = "save_kv_cache"
_CONVERTS = re.compile(r"\bget_key_buffer\([^()]*\)\s*\.to\(\s*\w+\.dtype\s*\)")
_STORAGE = re.compile(r"\.dtype\s*==\s*torch\.float8_e4m3fn\b")
_SAYS = re.compile(
    r"[\"'`]?(?P<dtype>\w+)[\"'`]?(?: KV cache)? (?:requires|is (?:only )?supported by|needs)"
    r" (?:the )?(?P<name>[\w -]{2,30}?) backend",
    re.I,
)
#: What a column may be about as a whole.
_GROUPS = ("fp8", "fp4")
_LIST_NAME = re.compile(
    r"^_?(?!\w*(?:GEMM|MOE|RUNNER|LINEAR|DQ))[A-Z0-9_]+_BACKENDS?(?:_CHOICES)?$"
)


@remembered
def group_values(facts: CodeFacts, group: str) -> list[str]:
    """The dtypes of a group: those whose name holds it, as `fp8_e4m3` holds fp8.

    Left out are those that the command line still knows and that are refused whatever else is
    chosen.
    """
    flag = facts.flags.get(facts.scan["kv_dtype_flag"])
    return [
        str(value)
        for value in (flag.values() if flag else [])
        if group in str(value) and str(value) not in facts.withdrawn_dtypes
    ]


@remembered
def support(
    facts: CodeFacts, backend: str, family: str | None, group: str, *, claimed: bool = False
) -> tuple[Support | None, list[str]]:
    """What the code says of a group of dtypes, and the partners that a partial support needs.

    Where support is claimed, only what speaks against it is looked for.
    """
    dtypes = group_values(facts, group)
    if not dtypes:
        return None, []
    outcomes = {dtype: refused_by(facts, backend, backend, family, dtype) for dtype in dtypes}
    open_ = [dtype for dtype, effect in outcomes.items() if effect is None]
    if not open_:
        return _hybrid(facts, backend, family, dtypes, outcomes)
    limits = restrictions(facts, backend, family, group)
    replaced = {one.dtype: one for one in limits if not one.machines}
    if set(open_) <= set(replaced):
        return Support("no", [replaced[open_[0]].place], replaced[open_[0]].told), []
    open_ = [dtype for dtype in open_ if dtype not in replaced]
    if claimed:
        return Support("yes", [], f"nothing refuses {', '.join(open_)}"), []
    positive = _positive(facts, backend, family, group, open_)
    if positive is not None:
        return positive, []
    refusals = [effect for effect in outcomes.values() if effect is not None]
    listed = [effect for effect in refusals if backend in _lists(effect)]
    if listed:
        return Support("yes", [listed[0].place], listed[0].message), []
    told = list(_allowing(facts, backend, family, open_))
    if told:
        return Support("yes", [told[0].place], f"accepted: {', '.join(open_)}"), []
    # What is refused on some machines is taken on the others.
    refused = [one for one in limits if one.machines]
    if refused:
        return Support(
            "partial", [refused[0].place], "the other machines take it",
            f"except that {refused[0].told}",
        ), []  # fmt: skip
    return None, []


def _lists(effect: Effect) -> tuple[str, ...]:
    return tuple(
        value
        for term in terms(effect.condition, "backend")
        if term.op == "not in"
        for value in term.values
    )


def _allowing(
    facts: CodeFacts, backend: str, family: str | None, dtypes: list[str]
) -> list[Effect]:
    """Refusals of every other backend (or dtype), which leave this one standing."""
    found = []
    for effect in facts.effects:
        if effect.kind != "refuse" or not effect.concerns(family):
            continue
        kv = terms(effect.condition, "kv_dtype")
        if not kv:
            continue
        about = [term for term in kv if term.op == "in" and set(term.values) & set(dtypes)]
        if about and backend in _lists(effect):
            found.append(effect)
        allows = [term for term in kv if term.op == "not in" and set(term.values) & set(dtypes)]
        if allows and backend in effect.backends:
            found.append(effect)
    return found


def _hybrid(
    facts: CodeFacts, backend: str, family: str | None, dtypes: list[str],
    outcomes: dict[str, Effect | None],
) -> tuple[Support | None, list[str]]:  # fmt: skip
    """Refused for both phases; perhaps one phase may use it beside another backend."""
    # The dtype named last is refused for its own reasons, which tell the most.
    first = next(effect for effect in reversed(outcomes.values()) if effect is not None)
    partners: list[str] = []
    phase = ""
    takes: set[str] = set()
    for other in facts.names:
        if other == backend or not _serves(facts, other, family):
            continue
        for dtype in dtypes:
            if _mentions(facts, backend, other, family, dtype) and (
                refused_by(facts, backend, other, family, dtype) is None
            ):
                partners.append(other)
                takes.add(dtype)
                phase = "prefill"
                break
    if partners:
        return Support(
            "partial", [first.place],
            f"the checks admit it so ({', '.join(dtype for dtype in dtypes if dtype in takes)})",
            f"for {phase}, with {' or '.join(partners)} as decode backend",
        ), partners  # fmt: skip
    listed = _listed_for_a_phase(facts, backend, family, dtypes)
    if listed is not None:
        return listed
    return Support("no", [first.place], first.message or "refused at start"), []


def _listed_for_a_phase(
    facts: CodeFacts, backend: str, family: str | None, dtypes: list[str]
) -> tuple[Support, list[str]] | None:
    """A list of prefill backends for a dtype that has the backend, with who decodes then."""
    for dtype in dtypes:
        for segment, items in facts.name_lists():
            words = segment.name.lower()
            if dtype.lower() not in words or "prefill" not in words:
                continue
            if family is not None and _other_family(segment.name, family):
                continue
            place = next((item.place for item in items if item.value == backend), None)
            if place is None:
                continue
            partners = [
                str(item.value)
                for other, decoders in facts.name_lists()
                if dtype.lower() in other.name.lower() and "decode" in other.name.lower()
                for item in decoders
                if _serves(facts, str(item.value), family)
                and refused_by(facts, backend, str(item.value), family, dtype) is None
            ]
            if partners and backend not in partners:
                told = " or ".join(dict.fromkeys(partners))
                return Support(
                    "partial", [place], f"listed in {segment.name} ({dtype})",
                    f"for prefill, with {told} as decode backend",
                ), partners  # fmt: skip
    return None


def _serves(facts: CodeFacts, backend: str, family: str | None) -> bool:
    """Whether a backend takes models of a family, as far as its registration tells."""
    entry = facts.registry.get(backend)
    return entry is None or None in (entry.only, family) or entry.only == family


def _mentions(facts: CodeFacts, prefill: str, decode: str, family: str | None, dtype: str) -> bool:
    """Whether some check is about this pair: a pair that nothing speaks of is not support."""
    for effect in facts.dtype_refusals:
        if not effect.concerns(family):
            continue
        if prefill not in effect.backends or decode not in _lists(effect):
            continue
        kv = terms(effect.condition, "kv_dtype")
        if any(term.op == "in" and dtype in term.values for term in kv):
            return True
    return False


@remembered
def refused_by(
    facts: CodeFacts, prefill: str, decode: str, family: str | None, dtype: str
) -> Effect | None:
    """The check that refuses a dtype with a pair of backends, if one surely does."""
    backends = {prefill, decode}
    # What speaks of no backend is about a model or a machine.
    candidates = [effect for effect in facts.dtype_refusals if _about_backends(effect.condition)]
    for name in backends:
        candidates += [
            effect
            for effect in facts.constructor_refusals(name, family)
            if terms(effect.condition, "kv_dtype")
        ]
    for effect in candidates:
        if _holds(facts, effect.condition, prefill, decode, family, dtype) is True:
            return effect
    return None


@dataclass(slots=True)
class Restriction:
    """A dtype of a supported group that a backend does not take everywhere.

    `told` says so as a sentence, `where` says with what, and on which machines.
    """

    dtype: str
    told: str
    where: str
    place: Place
    machines: bool = False


def restrictions(
    facts: CodeFacts, backend: str, family: str | None, group: str
) -> list[Restriction]:
    """Dtypes of a group that some machines refuse for a backend, or that change the backend."""
    found: dict[tuple[str, str], Restriction] = {}
    field = facts.scan["backend_flag"]
    for effect in facts.effects:
        if backend not in effect.backends or not _looks_at_dtype(effect.condition):
            continue
        if not effect.concerns(family):
            continue
        for dtype in group_values(facts, group):
            if effect.kind == "set" and effect.field == field:
                other = effect.value.value if isinstance(effect.value, sx.Const) else None
                if other is None or other == backend:
                    continue
                if _holds(facts, effect.condition, backend, backend, family, dtype) is True:
                    where = f"with {dtype}"
                    told = f"{where} the backend becomes {other}"
                    found.setdefault((dtype, told), Restriction(dtype, told, where, effect.place))
            elif effect.kind == "refuse":
                refused = [
                    machine
                    for machine in facts.machines.classes
                    if _holds(facts, effect.condition, backend, backend, family, dtype, machine)
                ]
                if 0 < len(refused) < len(facts.machines.classes):
                    rest = f"{_phase(effect)} on {facts.machines.titles(refused)}"
                    told, where = f"{dtype} is refused{rest}", f"with {dtype}{rest}"
                    limit = Restriction(dtype, told, where, effect.place, machines=True)
                    found.setdefault((dtype, told), limit)
    return list(found.values())


def _phase(effect: Effect) -> str:
    """` for prefill`, where a check looks at the setting of one phase only."""
    names = {name for term in terms(effect.condition, "backend") for name in term.name.split("|")}
    phases = [phase for phase in ("prefill", "decode") if all(phase in name for name in names)]
    return f" for {phases[0]}" if phases else ""


def _looks_at_dtype(condition: Condition) -> bool:
    return any(
        any(_looks_at_dtype(option) for option in term.options)
        if isinstance(term, Either)
        else term.subject == "kv_dtype"
        for term in condition
    )


def _about_backends(condition: Condition) -> bool:
    return any(
        any(_about_backends(option) for option in term.options)
        if isinstance(term, Either)
        else term.subject in {"backend", "pair"}
        for term in condition
    )


def _holds(
    facts: CodeFacts, condition: Condition, prefill: str, decode: str, family: str | None,
    dtype: str, machine: str | None = None,
) -> bool | None:  # fmt: skip
    results = [_term(facts, term, prefill, decode, family, dtype, machine) for term in condition]
    if any(result is False for result in results):
        return False
    return True if all(result is True for result in results) else None


def _term(
    facts: CodeFacts, term: Term | Either, prefill: str, decode: str, family: str | None,
    dtype: str, machine: str | None,
) -> bool | None:  # fmt: skip
    if isinstance(term, Either):
        results = [
            _holds(facts, option, prefill, decode, family, dtype, machine)
            for option in term.options
        ]
        if any(result is True for result in results):
            return True
        return False if all(result is False for result in results) else None
    if term.subject == "kv_dtype" and term.op in {"in", "not in"}:
        return _dtype_in(dtype, term.values) is (term.op == "in")
    if term.subject == "family":
        return None if family is None else (family == term.name) is (term.op == "true")
    if term.subject == "backend" and term.op in {"in", "not in"}:
        inside = _backend_in(term, prefill, decode)
        return None if inside is None else inside is (term.op == "in")
    if term.subject == "pair":
        return (prefill == decode) is (term.op == "true")
    if machine is not None and term.subject in {"platform", "capability", "device"}:
        return facts.machines.holds(term, machine)
    if term.subject == "platform":
        # The best machine for the launch is taken: what only some machines refuse is no answer.
        if term.name.endswith("is_cuda"):
            return term.op == "true"
        return None
    return None


def _dtype_in(dtype: str, names: tuple[object, ...]) -> bool:
    plain = {str(name).replace("float8_e4m3fn", "fp8_e4m3").replace("float8_e5m2", "fp8_e5m2")
             for name in names}  # fmt: skip
    return dtype in plain


def _backend_in(term: Term, prefill: str, decode: str) -> bool | None:
    """Whether one of the settings that a term looks at holds one of its values."""
    results: list[bool | None] = []
    for name in term.name.split("|"):
        if "draft" in name:
            continue
        if "prefill" in name:
            results.append(prefill in term.values)
        elif "decode" in name:
            results.append(decode in term.values)
        elif prefill == decode or name == "attention_backends_of":
            results.append(prefill in term.values or decode in term.values)
        else:
            results.append(None)
    if any(result is True for result in results):
        return True
    return False if results and all(result is False for result in results) else None


def _positive(
    facts: CodeFacts, backend: str, family: str | None, group: str, dtypes: list[str]
) -> Support | None:
    """Signs that the code serves a dtype: lists, messages, scales and storage types."""
    for segment, items in facts.name_lists():
        if not _LIST_NAME.match(segment.name):
            continue
        named = _names_dtype(facts, segment, group)
        if named is False or (family is not None and _other_family(segment.name, family)):
            continue
        certainty: Certainty = "proved" if named else "review"
        for item in items:
            if item.value == backend:
                why = f"listed in {segment.name}"
                return Support("yes", [item.place], why, certainty=certainty)
    # Block-scaled dtypes are told of kernels with full keys and values; latent caches differ.
    told = _told(facts, backend, family, group) if family != "mla" else None
    if told is not None:
        return told
    if not group.startswith("fp8"):
        return None
    return _scales(facts, backend, family) or _converted(facts, backend, family)


def _names_dtype(facts: CodeFacts, segment: Segment, group: str) -> bool | None:
    """Whether a constant is about a group of dtypes or a dtype; None where about a dtype's group.

    `_FP4_MX_BACKENDS` is about `fp4_mx_block16`, `_NVFP4_BACKENDS` about no other FP4. Which dtypes
    `_CPU_FP8_BACKENDS` is about is told by what its file calls `cpu_fp8_…`, if anything.
    """
    name = segment.name.lower().strip("_")
    if group in _GROUPS:
        return group in name
    words, parts = f"_{name}_", group.split("_")
    if len(parts) == 1:
        return f"_{group}_" in words
    found = re.search(rf"_{parts[0]}_(?:(e\dm\d|mx)_)?", words)
    if found is None or found[1] is not None:
        return found is not None and found[1] == parts[1]
    stem = re.escape(name[: found.end() - 2])
    text = facts.tree.text(segment.file) or ""
    told = re.findall(rf"[\"']{stem}_(\w+)[\"']", text, re.I)
    return None if not told or "_".join(parts[1:]) in told else False


def _other_family(name: str, family: str) -> bool:
    """Whether a constant's name says that it is about the other family."""
    other = "mha" if family == "mla" else "mla"
    parts = name.lower().split("_")
    return other in parts and family not in parts


def accepting(
    facts: CodeFacts, backend: str, family: str | None, dtypes: list[str]
) -> Effect | None:
    """A check on the backend's dtypes that admits one of these."""
    for effect in facts.effects:
        if effect.kind != "refuse" or backend not in effect.backends:
            continue
        if not effect.concerns(family):
            continue
        for term in terms(effect.condition, "kv_dtype"):
            if term.op == "not in" and set(map(str, term.values)) & set(dtypes):
                return effect
    return None


def _told(facts: CodeFacts, backend: str, family: str | None, group: str) -> Support | None:
    """A message or a help text that names a dtype and the backend that it takes."""
    for text, place in facts.dtype_messages():
        for match in _SAYS.finditer(text):
            dtype = match["dtype"].lower()
            if group not in dtype or dtype not in group_values(facts, group):
                continue
            if facts.display_name(match["name"]) == backend:
                # That a dtype wants a backend does not say that nothing else is wanted.
                return Support(
                    "partial", [place], f"--kv-cache-dtype {dtype}: “{match[0].strip()}”",
                    "under further conditions" if group == dtype else f"with {dtype}",
                )  # fmt: skip
    return None


def _scales(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """Reads of a layer's KV scales, or of FP8 storage, in prefill and decode alike."""
    for chain in facts.class_chains(backend, family):
        places: list[Place] = []
        methods = [
            member
            for name in ("forward_decode", "forward_extend")
            if (member := facts.codebase.method(chain, name)) is not None
        ]
        if not all(_SCALES.search(m.blanked) or _STORAGE.search(m.blanked) for m in methods):
            continue
        for member in methods:
            found = _scale_place(facts, member, family)
            if found is None:
                places = []
                break
            places.append(found)
        if places:
            return Support(
                "partial", places, "the layer's KV scales go to the kernels", "with fp8 scales",
                "partial",
            )  # fmt: skip
    return None


def _converted(facts: CodeFacts, backend: str, family: str | None) -> Support | None:
    """A latent cache that both phases convert to the queries' type, whatever it is stored as."""
    if family != "mla":
        return None  # Keys alone tell nothing of values.
    for chain in facts.class_chains(backend, family):
        places: list[Place] = []
        for name in ("forward_decode", "forward_extend"):
            member = facts.codebase.method(chain, name)
            match = _CONVERTS.search(member.blanked) if member is not None else None
            if member is not None and match is not None:
                line = member.line + member.blanked.count("\n", 0, match.start())
                places.append(facts.text_place(member, line))
        if len(places) == 2:
            return Support(
                "partial", places, "the cache is converted to the queries' type before each kernel",
                "by conversion", "review",
            )  # fmt: skip
    return None


def _scale_place(facts: CodeFacts, segment: Segment, family: str | None) -> Place | None:
    """Where a method reads a layer's scale for its kernels; what it stores is another matter."""
    for event in events(facts.codebase.body(segment)):
        if not any(map(_reads_scale, sx.own_expressions(event.statement))):
            continue
        if any(_STORES in sx.dotted(guard.test) for guard in event.guards if guard.holds):
            continue
        condition = facts.conditions.read(segment, event.guards, event.scope)
        own_family = family_of(condition)
        if own_family is not None and family is not None and own_family != family:
            continue
        if family == "mla" and terms(condition, "head_dim"):
            continue
        return facts.codebase.place(segment, event.statement)
    return None


def _reads_scale(node: sx.Expr) -> bool:
    return any(
        isinstance(part, sx.Attr)
        and part.name in {"k_scale", "k_scale_float"}
        and sx.dotted(part.value) == "layer"
        for part in sx.walk(node)
    )
