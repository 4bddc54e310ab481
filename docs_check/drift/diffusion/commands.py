"""Commands of the diffusion runtime on a page.

What it does: checks the backend's value, and that a chosen backend gets the configuration keys
without which its code fails.
Why: readers copy commands.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ...launches import commands
from ..context import Context, Spot, listed
from ..rules import launch_command

INFO = launch_command.INFO


def check(context: Context) -> None:
    """Check every command of every fence."""
    facts = context.diffusion
    if facts is None or not facts.members:
        return
    for fence in context.page.fences():
        for command in commands(fence):
            if command.kind() != "diffusion":
                continue
            words = command.arguments()
            # Other back ends take what their own library calls its kernels.
            if any(
                one.text == "--backend=diffusers"
                or (one.text, two.text) == ("--backend", "diffusers")
                for one, two in pairwise(words)
            ):
                continue
            member = None
            given: set[str] = set()
            at = command.words[0]
            for position, word in enumerate(words[:-1]):
                value = words[position + 1]
                if word.text == "--attention-backend":
                    if value.text not in facts.values and value.text not in facts.aliases:
                        context.report(
                            INFO, Spot(value.line, value.column),
                            message=f"the command fails: `{value.text}` is no backend",
                            claim=f"the command launches with {value.text}",
                            actual=f"the flag takes {', '.join(facts.values)}",
                            places=[facts.codebase.place(facts.enum)] if facts.enum else [],
                            subject=value.text,
                        )  # fmt: skip
                    alias = facts.aliases.get(value.text)
                    member = (alias.target if alias else value.text).upper()
                    at = word
                elif word.text == "--attention-backend-config":
                    given = set(re.findall(r"[\"{,]?\s*\"?(\w+)\"?\s*[=:]", value.text))
                    at = word
            if member is None:
                continue
            required = {
                key.name: key for key in facts.keys
                if member in key.backends and key.required and key.name not in given
            }  # fmt: skip
            if required:
                context.report(
                    INFO, Spot(at.line, at.column),
                    message=f"the command fails: {member.lower()} needs {listed(required, 'and')}"
                    " in its configuration",
                    claim="the command runs", actual=f"{listed(required, 'and')} is looked up"
                    " without a default",
                    places=[key.place for key in required.values()], certainty="review",
                    subject=member.lower(),
                )  # fmt: skip
