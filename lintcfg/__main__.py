"""`python -m attn_lint.lintcfg`, for where the command itself is not on the path."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
