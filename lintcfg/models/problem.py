"""What is said of a model whose configuration cannot be used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """A config.json that cannot be read, or that SGLang itself would not accept.

    Attributes:
        message: what is wrong, in one sentence.
        path: the file or folder concerned.
        hint: a way out.
        refuses: SGLang refuses the launch with it, too.
    """

    message: str
    path: str
    hint: str = ""
    refuses: bool = True
