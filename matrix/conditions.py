"""The language that rules are written in, and its normal form.

A condition in YAML is a mapping; all its entries must hold::

    {attention_backend: trtllm_mha, speculative_eagle_topk: {gt: 1}}
    {any: [{platform.is_sm90: true}, {platform.is_sm100: true}]}
    {not: {model.mla: true}}

Keys are names (flags of the release, `platform.*`, `model.*`, `draft.*`, `worker.*`, `env.*`,
`raw.*`, `typed.*`, `fact.*`, `each.*`, or a named condition of `facts.yaml`) or the combinators
`all`, `any`, `not`. Values are matchers: a scalar (equal), a list (one of), or a mapping of
operators to operands. An operand `$name` is the current value of that name; `$set.NAME` is a
named set of `sets.yaml`, put in place when the data is compiled.

An expression (the right side of `set`) is a literal, `$name`, or a mapping with one operator::

    {add: [$speculative_num_steps, 1]}
    {if: {platform.is_sm100: true}, then: trtllm, else: fa3}
    {lookup: TABLE, key: $model.arch, default: null}

The normal form is plain JSON (lists and scalars), which loads without any validation:

    condition   ["true"] | ["all", C…] | ["any", C…] | ["not", C] | ["is", OP, NAME, OPERAND]
    operand     ["lit", VALUE] | ["ref", NAME]
    expression  operand | ["fn", OP, E…] | ["if", C, E, E] | ["table", {…}, E, E]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

COMBINATORS = frozenset({"all", "any", "not"})

#: Operators that compare the named value with an operand.
#: `at_least` compares dotted versions; `set` and `truthy` take true or false; `contains`,
#: `overlaps` and `subset_of` look into a list.
OPERATORS = frozenset(
    {
        "eq", "ne", "in", "not_in", "gt", "ge", "lt", "le",
        "at_least", "set", "truthy", "contains", "startswith", "endswith",
        "multiple_of", "overlaps", "subset_of",
    }
)  # fmt: skip

#: Operators of expressions, with the number of arguments (None: one or more).
FUNCTIONS: dict[str, int | None] = {
    "add": None, "mul": None, "sub": 2, "floordiv": 2, "mod": 2, "min": None, "max": None,
    "coalesce": None, "or": None, "upper": 1, "lower": 1, "int": 1,
}  # fmt: skip

Json = Any
SetLookup = Callable[[str], list[Any] | None]


class LanguageError(ValueError):
    """A condition or an expression does not follow the language."""


def _operand(value: Any, sets: SetLookup) -> Json:
    if isinstance(value, str) and value.startswith("$"):
        name = value[1:]
        if name.startswith("set."):
            members = sets(name[4:])
            if members is None:
                raise LanguageError(f"no set named {name[4:]!r}")
            return ["lit", members]
        return ["ref", name]
    if isinstance(value, list):
        members = []
        for item in value:
            if isinstance(item, str) and item.startswith("$set."):
                members += _operand(item, sets)[1]
            elif isinstance(item, str) and item.startswith("$"):
                raise LanguageError(f"{item}: a list may hold literals and $set.NAME only")
            else:
                members.append(item)
        return ["lit", members]
    return ["lit", value]


def _matcher(name: str, matcher: Any, sets: SetLookup) -> list[Json]:
    if isinstance(matcher, list):
        return [["is", "in", name, _operand(matcher, sets)]]
    if isinstance(matcher, dict):
        out: list[Json] = []
        for op, operand in matcher.items():
            if op not in OPERATORS:
                known = ", ".join(sorted(OPERATORS))
                raise LanguageError(f"{name}: unknown operator {op!r} (known: {known})")
            if op in {"in", "not_in", "overlaps", "subset_of"}:
                members = _operand(operand, sets)
                if members[0] == "lit" and not isinstance(members[1], list):
                    raise LanguageError(f"{name}: {op} takes a list or a $reference")
                out.append(["is", op, name, members])
            elif op in {"set", "truthy"}:
                if not isinstance(operand, bool):
                    raise LanguageError(f"{name}: {op} takes true or false")
                out.append(["is", op, name, ["lit", operand]])
            else:
                out.append(["is", op, name, _operand(operand, sets)])
        if not out:
            raise LanguageError(f"{name}: empty matcher")
        return out
    operand = _operand(matcher, sets)
    # `{arch: $set.NAME}` reads as membership, as `{arch: [..]}` does.
    if operand[0] == "lit" and isinstance(operand[1], list):
        return [["is", "in", name, operand]]
    return [["is", "eq", name, operand]]


def normalise_condition(condition: Any, sets: SetLookup) -> Json:
    """Return the normal form of a YAML condition.

    Raises:
        LanguageError: what is wrong, naming the key.
    """
    if condition is None:
        return ["true"]
    if not isinstance(condition, dict):
        raise LanguageError(f"a condition is a mapping, not {condition!r}")
    parts: list[Json] = []
    for key, value in condition.items():
        if not isinstance(key, str):
            raise LanguageError(f"a condition's keys are names, not {key!r}")
        if key in {"all", "any"}:
            if not isinstance(value, list) or not value:
                raise LanguageError(f"{key} takes a list of conditions")
            parts.append([key, *(normalise_condition(item, sets) for item in value)])
        elif key == "not":
            parts.append(["not", normalise_condition(value, sets)])
        else:
            parts += _matcher(key, value, sets)
    if not parts:
        return ["true"]
    return parts[0] if len(parts) == 1 else ["all", *parts]


def normalise_expression(value: Any, sets: SetLookup, tables: SetLookup) -> Json:
    """Return the normal form of a YAML expression.

    Raises:
        LanguageError: what is wrong, naming the operator.
    """
    if not isinstance(value, dict):
        return _operand(value, sets)
    if "if" in value:
        if set(value) - {"if", "then", "else"} or "then" not in value:
            raise LanguageError("if takes then and else")
        return [
            "if",
            normalise_condition(value["if"], sets),
            normalise_expression(value["then"], sets, tables),
            normalise_expression(value.get("else"), sets, tables),
        ]
    if "lookup" in value:
        table = tables(value["lookup"])
        if not isinstance(table, dict):
            raise LanguageError(f"no table named {value['lookup']!r}")
        return [
            "table",
            table,
            normalise_expression(value["key"], sets, tables),
            normalise_expression(value.get("default"), sets, tables),
        ]
    if "literal" in value:
        return ["lit", value["literal"]]
    if len(value) != 1:
        raise LanguageError(f"an expression has one operator, not {sorted(value)}")
    ((op, args),) = value.items()
    if op not in FUNCTIONS:
        raise LanguageError(f"unknown operator {op!r} (known: {', '.join(sorted(FUNCTIONS))})")
    arguments = args if isinstance(args, list) else [args]
    wanted = FUNCTIONS[op]
    if not arguments or (wanted is not None and len(arguments) != wanted):
        raise LanguageError(f"{op} takes {wanted or 'one or more'} arguments")
    return ["fn", op, *(normalise_expression(arg, sets, tables) for arg in arguments)]


def names_in(node: Json) -> Iterator[str]:
    """Yield every name that a normalised condition or expression reads, in reading order."""
    if not isinstance(node, list) or not node:
        return
    head = node[0]
    if head == "is":
        yield node[2]
        yield from names_in(node[3])
    elif head == "ref":
        yield node[1]
    elif head == "table":
        yield from names_in(node[2])
        yield from names_in(node[3])
    elif head != "lit":
        for child in node[1:]:
            yield from names_in(child)
