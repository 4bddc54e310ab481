"""Linear attention (GDN, KDA): kernels by backend and phase, automatic choices, hybrid limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..source import syntax as sx
from ..source.modules import Place, local_imports
from ..source.paths import Guard, events
from ..source.segments import Segment
from .conditions import Condition, Term, terms
from .effects import effects_of
from .literals import values
from .memory import remembered
from .model import Effect, Support

if TYPE_CHECKING:
    from .code import CodeFacts

#: A comparison of a compute capability's major number.
_MAJOR = re.compile(r"major\s*(?:==|>=?|in)\s*(\(?\s*\d+(?:\s*,\s*\d+)*)")


@dataclass(slots=True)
class Arm:
    """What a dispatcher does for one backend in one phase."""

    backend: str
    phase: str
    kernel: Segment | None
    refuses: str
    place: Place
    condition: Condition = ()


@dataclass(slots=True)
class Automatic:
    """A function or a setting that picks a kernel without being asked."""

    backend: str
    phase: str
    segment: Segment
    place: Place
    effects: list[Effect] = field(default_factory=list)
    majors: tuple[int, ...] = ()


def dispatchers(facts: CodeFacts) -> dict[str, Segment]:
    """Dispatcher classes by mechanism (`gdn`, `kda`)."""
    if facts.linear_dispatchers is not None:
        return facts.linear_dispatchers
    anchors = facts.scan["linear"]
    pattern = re.compile(anchors["dispatcher"])
    found: dict[str, Segment] = {}
    files = facts.tree.search(anchors["needle"], facts.tree.candidates([anchors["folder"]]))
    for segment in facts.codebase.segments(files):
        match = pattern.search(segment.name) if segment.kind == "class" else None
        if match:
            found[match[1].lower()] = segment
    facts.linear_dispatchers = found
    return found


def arms(facts: CodeFacts, mechanism: str) -> list[Arm]:
    """Every branch of a dispatcher's constructor on the backend of a phase."""
    if mechanism not in facts.linear_arms:
        facts.linear_arms[mechanism] = _arms(facts, mechanism)
    return facts.linear_arms[mechanism]


def _arms(facts: CodeFacts, mechanism: str) -> list[Arm]:
    owner = dispatchers(facts).get(mechanism)
    if owner is None:
        return []
    member = facts.codebase.method([owner], "__init__")
    if member is None:
        return []
    body = facts.codebase.body(member)
    local = local_imports(body, member.file)
    kernels = _kernel_names(facts, member, body, local)
    found: list[Arm] = []
    for event in events(body):
        asked = _asked(event.guards)
        if asked is None:
            continue
        backend, phase = asked
        condition = facts.conditions.read(member, event.guards, event.scope)
        place = facts.codebase.place(member, event.statement)
        if event.kind == "raise":
            others = [
                term for term in terms(condition, "platform")
                if term.name.lstrip("_") in facts.machines.predicates and term.op == "false"
            ]  # fmt: skip
            if not others:
                found.append(Arm(backend, phase, None, event.message() or "refused", place))
            else:
                found.append(Arm(backend, phase, None, "", place, tuple(others)))
        elif event.kind == "assign" and re.search(r"_kernel$", sx.last_part(event.target)):
            name = sx.last_part(event.value)
            found.append(Arm(backend, phase, kernels.get(name), "", place, condition))
    return found


def _kernel_names(
    facts: CodeFacts, member: Segment, body: list[sx.Stmt], local: dict[str, tuple[str, str]]
) -> dict[str, Segment]:
    found: dict[str, Segment] = {}
    for statement in sx.all_statements(body):
        if not isinstance(statement, sx.Assign) or not isinstance(statement.value, sx.Call):
            continue
        target = facts.codebase.lookup(member.file, sx.last_part(statement.value.func), local)
        if target is not None and target.kind == "class":
            for name in statement.targets:
                found[sx.last_part(name)] = target
    return found


def _asked(guards: tuple[Guard, ...]) -> tuple[str, str] | None:
    """The backend and phase that a branch is for, from `decode_backend.is_triton()`."""
    for guard in guards:
        if not guard.holds or not isinstance(guard.test, (sx.Call, sx.Compare)):
            continue
        if isinstance(guard.test, sx.Call):
            path = sx.dotted(guard.test)
            match = re.search(r"(\w+?)_backend\.is_(\w+)\(\)$", path)
            if match:
                return match[2], match[1].rpartition("_")[2] or match[1]
        else:
            op, right = guard.test.ops[0]
            name = sx.last_part(guard.test.left)
            match = re.search(r"(decode|prefill|extend|verify)", name)
            strings = sx.strings(right)
            if op == "==" and match and strings:
                return strings[0], match[1]
    return None


@remembered
def generations(facts: CodeFacts, mechanism: str, backend: str) -> dict[int, Place]:
    """Major compute capabilities that a backend's kernel class compares with."""
    found: dict[int, Place] = {}
    kernels = {
        arm.kernel.name: arm.kernel
        for arm in arms(facts, mechanism)
        if arm.backend == backend and arm.kernel is not None
        and facts.tokens(arm.kernel.name) & facts.tokens(backend)
    }  # fmt: skip
    for kernel in kernels.values():
        for match in _MAJOR.finditer(kernel.blanked):
            line = kernel.line + kernel.blanked.count("\n", 0, match.start())
            for number in re.findall(r"\d+", match[1]):
                found.setdefault(int(number), facts.text_place(kernel, line))
    return found


_PHASES = {"decode": ("decode",), "prefill": ("prefill", "extend"), "verify": ("verify",)}
_METHODS = {"decode": "decode", "prefill": "extend", "verify": "target_verify"}


@remembered
def support(
    facts: CodeFacts, mechanism: str, backend: str, phase: str, kind: str | None
) -> Support | None:
    """Whether a backend serves a phase on a kind of machine."""
    found = arms(facts, mechanism)
    if not found:
        return None
    own = [arm for arm in found if arm.backend == backend]
    if not own:
        return None
    refusal = next((arm for arm in own if arm.refuses and arm.phase in _PHASES[phase]), None)
    if refusal is not None:
        return Support("no", [refusal.place], refusal.refuses)
    kernel = next((arm.kernel for arm in own if arm.kernel is not None
                   and facts.tokens(arm.kernel.name) & facts.tokens(backend)), None)  # fmt: skip
    if kernel is None:
        kernel = next((arm.kernel for arm in own if arm.kernel is not None), None)
    if kernel is None:
        return None
    if kind not in {None, "cuda"} and phase == "verify":
        return _platform_verify(facts, mechanism, str(kind))
    chain = facts.codebase.class_chain(kernel)
    method = facts.codebase.method(chain, _METHODS[phase])
    if method is None:
        return Support("no", [facts.codebase.place(kernel)], f"no method {_METHODS[phase]}")
    body = facts.codebase.body(method)
    first = next((s for s in body if not _is_docstring(s)), None)
    if isinstance(first, sx.Raise):
        return Support("no", [facts.codebase.place(method, first)], "raises at once")
    conditions = _limits(facts, kernel, phase)
    arm = next((arm for arm in own if arm.phase in _PHASES[phase] and arm.kernel is kernel), None)
    place = facts.codebase.place(method)
    if phase == "prefill" and arm is not None and conditions:
        return Support(
            "partial", [conditions[1], arm.place],
            f"{kernel.name}.{method.name} serves it", conditions[0],
        )  # fmt: skip
    return Support("yes", [place], f"{kernel.name}.{method.name}")


def _is_docstring(statement: sx.Stmt) -> bool:
    return isinstance(statement, sx.Do) and isinstance(statement.value, sx.Const)


def _limits(facts: CodeFacts, kernel: Segment, phase: str) -> tuple[str, Place] | None:
    """A flag of the kernel that says on which machines it serves a phase."""
    member = facts.codebase.method([kernel], "__init__")
    if member is None:
        return None
    for event in events(facts.codebase.body(member)):
        if event.kind == "assign" and sx.last_part(event.target) == f"supports_{phase}":
            question = sx.last_part(event.value)
            words = question.strip("_").replace("is_", "") or "some machines"
            return f"on {words} only", facts.codebase.place(member, event.statement)
    return None


def _platform_verify(facts: CodeFacts, mechanism: str, kind: str) -> Support | None:
    """Whether the backend class of a kind of machine handles target verification."""
    segment = platform_class(facts, mechanism, kind)
    if segment is None:
        return None
    chain = facts.codebase.class_chain(segment)
    method = facts.codebase.method(chain, "forward_extend")
    if method is None or "is_target_verify" not in method.blanked:
        return Support("no", [facts.codebase.place(segment)], "target verification is not handled")
    refuses = re.search(r"target_verify[^\n]*:\s*raise\b", method.blanked) is not None
    for effect in effects_of(facts.codebase, facts.conditions, method) if refuses else ():
        if (
            effect.kind == "refuse"
            and any(
                isinstance(term, Term) and "target_verify" in term.name and term.op == "true"
                for term in effect.condition
            )
            and len(effect.condition) == 1
        ):
            return Support("no", [effect.place], effect.message)
    line = method.line + method.blanked[: method.blanked.find("is_target_verify")].count("\n")
    own = method.file == segment.file and kind in segment.file
    return Support(
        "yes", [facts.text_place(method, line)], f"{segment.name}.forward_extend verifies drafts",
        certainty="proved" if own else "partial",
    )  # fmt: skip


@remembered
def platform_class(facts: CodeFacts, mechanism: str, kind: str) -> Segment | None:
    """The backend class that a kind of machine uses, by the wrapper's conditional imports."""
    anchors = facts.scan["linear"]
    pattern = re.compile(rf"^(\w*){mechanism}(AttnBackend|AttentionBackend)$", re.I)
    wrapper = facts.function(anchors["wrapper"]["folder"], anchors["wrapper"]["name"])
    if wrapper is None:
        return None
    best: Segment | None = None
    for imported in _imports_by_guard(facts.codebase.body(wrapper), ()):
        statement, guards = imported
        for local, remote in statement.names.items():
            if not (pattern.match(local) or pattern.match(remote)):
                continue
            condition = facts.conditions.read(wrapper, guards, _EMPTY)
            outcome = [
                facts.machines.holds(term, facts.machines.of_kind(kind)[0])
                for term in condition
                if isinstance(term, Term) and term.subject == "platform"
            ]
            if any(result is False for result in outcome):
                continue
            found = facts.codebase.lookup(wrapper.file, local, {local: (statement.module, remote)})
            if found is not None:
                best = found
    return best


def _imports_by_guard(
    body: list[sx.Stmt], guards: tuple[Guard, ...]
) -> list[tuple[sx.Import, tuple[Guard, ...]]]:
    found: list[tuple[sx.Import, tuple[Guard, ...]]] = []
    for statement in body:
        if isinstance(statement, sx.Import):
            found.append((statement, guards))
        elif isinstance(statement, sx.If):
            found += _imports_by_guard(statement.body, (*guards, Guard(statement.test)))
            found += _imports_by_guard(statement.orelse, (*guards, Guard(statement.test, False)))
        else:
            for block in sx.blocks(statement):
                found += _imports_by_guard(block, guards)
    return found


@remembered
def automatic(facts: CodeFacts, mechanism: str) -> list[Automatic]:
    """Kernels that are chosen by themselves, with the machines that the choice looks at."""
    anchors = facts.scan["linear"]
    pattern = re.compile(rf"\bdef \w*{mechanism}\w*(prefill|decode|verify)\w*default\w*\(")
    found: list[Automatic] = []
    raw = re.compile(pattern.pattern.encode())
    files = [
        file
        for file in facts.tree.candidates([anchors["folder"]])
        if mechanism.encode() in facts.tree.raw(file) and raw.search(facts.tree.raw(file))
    ]
    for segment in facts.codebase.functions(files, pattern):
        match = pattern.search(segment.blanked)
        if match is None or f"def {segment.name}(" not in match[0]:
            continue
        majors: set[int] = set()
        chosen: str | None = None
        place = facts.codebase.place(segment)
        for event in events(facts.codebase.body(segment)):
            if event.kind == "return" and isinstance(event.value, sx.Const) and event.value.value:
                chosen = str(event.value.value)
                place = facts.codebase.place(segment, event.statement)
        for node in sx.all_expressions(facts.codebase.body(segment)):
            if isinstance(node, sx.Compare) and "major" in sx.last_part(node.left):
                items = facts.literals.collection(segment, node.ops[0][1])
                numbers = [v for v in values(items) if isinstance(v, int)]
                if numbers and node.ops[0][0] == "not in":
                    majors |= set(numbers)
                    place = facts.codebase.place(segment, node)
        if chosen:
            found.append(Automatic(chosen, match[1], segment, place, [], tuple(sorted(majors))))
    for effect in facts.effects_on(r"linear_attn_(\w+)_backend"):
        phase = re.search(r"linear_attn_(\w+)_backend", effect.field)
        if effect.kind == "set" and phase and isinstance(effect.value, sx.Const):
            platform = terms(effect.condition, "platform")
            if platform:
                found.append(
                    Automatic(
                        str(effect.value.value),
                        phase[1],
                        effect.place.segment,
                        effect.place,
                        [effect],
                    )
                )
    return found


@remembered
def hybrid_limits(facts: CodeFacts, mechanism: str) -> list[Effect]:
    """Refusals of full-attention backends for models with this mechanism."""
    anchors = facts.scan["linear"]["wrapper"]
    wrapper = facts.function(anchors["folder"], anchors["name"])
    if wrapper is None:
        return []
    return [
        effect
        for effect in effects_of(facts.codebase, facts.conditions, wrapper)
        if effect.kind == "refuse"
        and mechanism in effect.message.lower()
        and terms(effect.condition, "backend")
    ]


def _scope() -> Any:
    from ..source.paths import Scope

    return Scope()


_EMPTY = _scope()
