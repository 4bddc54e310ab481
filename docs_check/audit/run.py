"""Runs the audit of a release's data against a source tree."""

from __future__ import annotations

from pathlib import Path

from ..drift.engine import in_order, one_a_place
from ..drift.findings import DriftFinding
from ..drift.holes import unreadable_source
from ..facts.code import CodeFacts
from ..source.soundness import unsound
from ..source.tree import SourceTree
from . import backends, codes, evidence, flags
from .subject import Subject


def audit(tree: SourceTree, folder: Path, shown: str, release: str) -> list[DriftFinding]:
    """Findings of every part of the audit, and of what could not be read."""
    subject = Subject(folder, shown, release, CodeFacts(tree))
    flags.check(subject)
    backends.check(subject)
    evidence.check(subject)
    broken = [*tree.problems, *unsound(tree, tree.read())]
    files = {problem.file: problem for problem in reversed(one_a_place(broken))}
    findings = in_order(subject.findings)
    return [
        *findings,
        *unreadable_source(files.values(), subject.facts.version, tree.root.name, codes.SOURCE),
    ]
