"""What attn-lint has to say about a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..matrix.record import fields_of, record
from .terminal import printable

Severity = Literal["error", "warning", "info"]

#: From the gravest to the lightest.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


def as_severity(text: str) -> Severity:
    """Return a severity for its name.

    Raises:
        ValueError: there is none of that name.
    """
    for severity in SEVERITIES:
        if severity == text:
            return severity
    raise ValueError(f"no severity {text!r}")


@record
class Fix:
    """A change of the launch that cures a finding; None removes the flag.

    `safe` fixes keep what the launch does (a rename, a value that SGLang would take anyway).
    """

    field: str
    flag: str
    value: Any
    safe: bool = False

    def __str__(self) -> str:
        if self.value is None:
            return f"remove {self.flag}"
        if self.value is True:
            return f"add {self.flag}"
        return f"{self.flag} {printable(str(self.value))}"


@record
class Span:
    """Where in the launch: an index into argv, or a place in a file (1-based line and column)."""

    argument: int | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


@record
class Finding:
    """One statement about a launch, with its reason.

    Attributes:
        code: stable code, such as ATT205.
        name: the code's name, such as unsupported-speculative-topk.
        severity: by consequence; see DESIGN.
        message: one or two sentences.
        stage: the step of the release that decides; `label` groups stages (parse … factory).
        phase: prefill, decode, draft, verify or vision, where only one is concerned.
        flags: flags concerned, the most telling first, in SGLang's spelling.
        typed: whether the user gave the first flag's value (False: SGLang picked it).
        certain: False where it hangs on something unknown, listed in `depends_on`; `hangs_on`
            says it in the user's words: flags, the machine, the model.
        platforms: names of the machine classes it holds for, where no GPU was given; families:
            likewise the families of models, where no model was.
        needs: what the launch would need, such as a compute capability; `has`: what it has.
        source: file and symbol of the release, or a public page.
        rule: id of the rule in the matrix.
    """

    code: str
    name: str
    severity: Severity
    message: str
    stage: str = ""
    label: str = ""
    phase: str | None = None
    flags: tuple[str, ...] = ()
    typed: bool | None = None
    span: Span | None = None
    certain: bool = True
    depends_on: tuple[str, ...] = ()
    hangs_on: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    needs: str | None = None
    has: str | None = None
    hint: str | None = None
    fixes: tuple[Fix, ...] = ()
    source: str | None = None
    rule: str | None = None
    release: str = ""

    @property
    def condition(self) -> str:
        """What it holds for, where that is not every launch like this; else empty."""
        if self.platforms or self.families:
            parts = [f"on {', '.join(self.platforms)}"] if self.platforms else []
            parts += [f"for {', '.join(self.families)} models"] if self.families else []
            return " ".join(parts)
        if not self.certain and self.hangs_on:
            return f"depends on {listed(self.hangs_on)}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON; empty entries are left out."""
        out: dict[str, Any] = {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "certain": self.certain,
        }
        for key in (
            "stage", "label", "phase", "typed", "needs", "has", "hint", "source", "rule",
            "release",
        ):  # fmt: skip
            value = getattr(self, key)
            if value is not None and value != "":
                out[key] = value
        for key in ("flags", "depends_on", "platforms", "families"):
            value = getattr(self, key)
            if value:
                out[key] = list(value)
        if self.span is not None:
            out["span"] = {
                key: value
                for key in fields_of(self.span)
                if (value := getattr(self.span, key)) is not None
            }
        if self.fixes:
            out["fixes"] = [
                {"flag": fix.flag, "value": fix.value, "safe": fix.safe} for fix in self.fixes
            ]
        return out


def listed(words: Sequence[str]) -> str:
    """Words as one text: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def worst(findings: list[Finding]) -> Severity | None:
    """The gravest severity among findings."""
    for severity in SEVERITIES:
        if any(finding.severity == severity for finding in findings):
            return severity
    return None
