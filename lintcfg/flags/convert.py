"""Turns the text of a value into the value, as the release's `type=` functions do.

argparse reports a `ValueError` or `TypeError` of such a function as an invalid value. What its own
functions reject in other ways is `Rejected` here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Converter = Callable[[str], Any]


class Rejected(ValueError):
    """A value that is refused, with the reason in words."""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise Rejected("JSON nested too deeply") from None


#: The largest and smallest whole numbers that the release's fast JSON reader keeps whole.
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1


def _whole(text: str) -> int | float:
    value = int(text)
    return value if _INT64_MIN <= value <= _UINT64_MAX else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _strict_json(text: str) -> Any:
    """JSON by the letter: no NaN, no infinities, no lone surrogates."""
    try:
        text.encode()
        value = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_no_constant)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Rejected("JSON nested too deeply") from None
    except ValueError:
        raise Rejected("not a valid JSON list") from None
    return value


def _nullable_str(text: str) -> str | None:
    return None if not text or text == "None" else text


_SI = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SIZE = r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)"


def _human_readable_int(text: str) -> int:
    """A whole number that may carry an SI or IEC suffix."""
    text = text.strip()
    match = re.fullmatch(_SIZE, text)
    if match is None:
        try:
            return int(text)
        except ValueError:
            raise Rejected("not a whole number, nor one with a suffix like k, M, Ki, Mi") from None
    number, suffix = match.groups()
    if suffix in _IEC:
        if "." in number:
            raise Rejected(f"no decimals before {suffix}") from None
        return int(number) * _IEC[suffix]
    from decimal import Decimal

    try:
        return int(Decimal(number) * _SI[suffix])
    except ArithmeticError:
        raise Rejected("number out of range") from None


PLAIN: dict[str, Converter] = {
    "str": str,
    "int": int,
    "float": float,
    "json": _json,
    "json_list_type": _strict_json,
    "nullable_str": _nullable_str,
    "human_readable_int": _human_readable_int,
}
#: What argparse calls them in "invalid … value".
TYPE_NAMES = {"json": "loads"}


def converter(name: str, described: Mapping[str, Any]) -> Converter:
    """The function behind a converter's name; `described` holds the release's own ones."""
    found = PLAIN.get(name)
    if found is not None:
        return found
    facts = described.get(name) or {}
    if facts.get("sections"):
        keys = {key: converter(inner, described) for key, inner in facts.get("keys", {}).items()}
        return _sections(facts["sections"], keys)
    return _rejecting(facts.get("rejects", ()))


def _rejecting(rejects: Any) -> Converter:
    refused = frozenset(rejects)

    def convert(text: str) -> str:
        if isinstance(text, str) and text in refused:
            raise Rejected(f"{text} was removed")
        return text

    return convert


def _sections(allowed: Mapping[str, Any], keys: Mapping[str, Converter]) -> Converter:
    """JSON object of named sections, each an object with known keys."""

    def convert(text: str) -> Any:
        try:
            parsed = _json(text)
        except Rejected:
            raise
        except ValueError:
            raise Rejected("not JSON") from None
        if not isinstance(parsed, dict):
            raise Rejected("not a JSON object")
        for section, settings in parsed.items():
            if section not in allowed:
                raise Rejected(f"unknown section {section!r}, expected one of {', '.join(allowed)}")
            if not isinstance(settings, dict):
                raise Rejected(f"{section!r} is not a JSON object")
            for key, inner in keys.items():
                if key in settings:
                    inner(settings[key])
            for key in settings:
                if key not in allowed[section]:
                    raise Rejected(
                        f"{section!r} has no key {key!r}, expected one of "
                        f"{', '.join(allowed[section])}"
                    )
        return parsed

    return convert
