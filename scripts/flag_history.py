#!/usr/bin/env python3
"""Write which flags and values older releases had, from the source trees of several releases.

The newest tree is the release that the file is for. Remarks, replacements and sources that the
file already has are kept, so they are written by hand once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml
from attn_lint.docs_check.flags.collect import ExtractionError, collect
from attn_lint.docs_check.flags.history import build
from attn_lint.docs_check.flags.render import pair

_HEADER = """\
# Names that releases before {release} had, and when they went. Dates are those of the releases
# compared (`sampled`). Written by scripts/flag_history.py, which keeps replacement, alike, note
# and source as they stand here.
"""


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", type=Path, nargs="+", help="folders with a release's source each")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        sets = [collect(tree) for tree in options.trees]
        kept = {}
        if options.output.exists():
            kept = yaml.safe_load(options.output.read_text(encoding="utf-8")) or {}
    except (ExtractionError, OSError, yaml.YAMLError) as error:
        print(f"flag_history: {error}", file=sys.stderr)
        return 2
    data = build(sets, kept)
    lines = [_HEADER.format(release=data["release"]).rstrip()]
    for key, value in data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{key}:")
            for entry in value:
                lines += [
                    ("- " if number == 0 else "  ") + pair(name, item, "  ")
                    for number, (name, item) in enumerate(entry.items())
                ]
        elif isinstance(value, dict):
            lines.append(f"{key}:")
            lines += ["  " + pair(name, entries, "  ") for name, entries in value.items()]
        else:
            lines.append(pair(key, value, ""))
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
