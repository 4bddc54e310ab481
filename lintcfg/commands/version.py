"""`attn-lint --version`."""

from __future__ import annotations


def run() -> int:
    """Print the version and the releases of SGLang that there is data for."""
    from importlib.metadata import PackageNotFoundError, version

    from ...matrix.loader import releases

    try:
        own = version("attn-lint")
    except PackageNotFoundError:
        own = "(not installed)"
    print(f"attn-lint {own}, SGLang {', '.join(releases())}")
    return 0
