"""Errors that a command may end with, and the exit codes they stand for.

LintError             exit 2
├── UsageError        the command line of attn-lint itself is wrong
├── InputError        a file or a line that was given cannot be read
└── ConfigError       attn-lint's own configuration is wrong

Matrix errors (`attn_lint.matrix.errors`) end with exit 2 as well.
"""

from __future__ import annotations

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3


class LintError(Exception):
    """Ends a command with a message and exit code 2."""


class UsageError(LintError):
    """The command line of attn-lint itself is wrong."""


class InputError(LintError):
    """A file or a line that was given cannot be read."""


class ConfigError(LintError):
    """attn-lint's own configuration is wrong."""
