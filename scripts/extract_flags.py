#!/usr/bin/env python3
"""Write the flags of a release as YAML, read from its source tree without importing it.

TREE is an unzipped wheel or a checkout's `python` folder: the folder that holds `sglang/`, or
`sglang/` itself. Any release whose flags are argparse calls or annotated fields will do.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml
from attn_lint.docs_check.flags.collect import ExtractionError, collect
from attn_lint.docs_check.flags.render import to_data, to_yaml


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, help="folder with the release's source")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: stdout)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where OUTPUT is out of date"
    )
    options = parser.parse_args()
    try:
        flags = collect(options.tree)
    except ExtractionError as error:
        print(f"extract_flags: {error}", file=sys.stderr)
        return 2
    for problem in flags.problems:
        print(f"extract_flags: warning: {problem}", file=sys.stderr)
    text = to_yaml(flags, str(options.output or "FILE"))
    if options.check:
        if options.output is None:
            parser.error("--check needs --output")
        try:
            current = yaml.safe_load(options.output.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            print(f"extract_flags: {options.output}: {error}", file=sys.stderr)
            return 2
        if current != to_data(flags):
            print(f"{options.output} differs from {options.tree}", file=sys.stderr)
            return 1
    elif options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
