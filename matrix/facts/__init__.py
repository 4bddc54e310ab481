"""Derived facts that conditions may read as `fact.NAME`; one module per subject."""

from __future__ import annotations

from . import core, early, factory, model, parallel, speculation
from .registry import FACTS, Fact

__all__ = ["FACTS", "Fact", "core", "early", "factory", "model", "parallel", "speculation"]
