"""What is known of a model, as the rest of attn-lint passes it around."""

from __future__ import annotations

from typing import Any

from ..matrix.record import record


@record
class ModelTraits:
    """Traits of one model.

    Attributes:
        traits: values by trait name.
        origin: where they come from: "config.json", "catalogue", "assumed from …".
        path: the folder that was read, or the id.
    """

    traits: dict[str, Any]
    origin: str
    path: str = ""


@record
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
