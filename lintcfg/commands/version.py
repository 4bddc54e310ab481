"""`attn-lint --version`."""

from __future__ import annotations


def installed_version() -> str | None:
    """The version that is installed, None in a bare checkout."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("attn-lint")
    except PackageNotFoundError:
        return None


def run() -> int:
    """Print the version and the releases of SGLang that there is data for."""
    from ...matrix.loader import releases

    own = installed_version() or "(not installed)"
    print(f"attn-lint {own}, SGLang {', '.join(releases())}")
    return 0
