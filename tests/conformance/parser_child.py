"""Runs inside the real release's environment: answers command lines read from stdin.

    ORACLE_PYTHON parser_child.py ORACLE_FOLDER [--dump] [--tree FOLDER] < lines > answers

Each line is `{"argv": […], "env": {…}}`. Each answer is `{"ok", "error", "changed"}`, where
`changed` has the values that differ from those of the shortest accepted command line. `--dump`
prints the parser's actions and these default values instead.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
import types
from typing import Any


class CliError(Exception):
    """argparse's own refusal."""


def _refuse(parser: argparse.ArgumentParser, message: str) -> None:
    raise CliError(message)


def load(oracle: str, tree: str | None) -> Any:
    """Import the release's server arguments on a pretended GPU machine."""
    if tree:
        sys.path.insert(0, tree)
    sys.path.insert(0, oracle)
    import fakeplat  # type: ignore[import-not-found]

    fakeplat.install("h100")
    import sglang.srt.server_args as server_args  # type: ignore[import-not-found]

    fakeplat.post_import("h100")
    argparse.ArgumentParser.error = _refuse  # type: ignore[method-assign,assignment]
    logging.basicConfig = lambda *args, **options: None
    logging.disable(logging.CRITICAL)
    return server_args


def build(server_args: Any) -> argparse.ArgumentParser:
    """The real parser."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    server_args.ServerArgs.add_cli_args(parser)
    return parser


def dump(server_args: Any) -> dict[str, Any]:
    """Every action of the parser, attribute by attribute, and every default value."""
    actions = []
    for action in build(server_args)._actions:
        extra = {
            key: value
            for key, value in vars(action).items()
            if key in {"new_flag", "error_message", "const_value"}
        }
        actions.append(
            {
                "dest": action.dest,
                "names": action.option_strings,
                "action": type(action).__name__,
                "type": getattr(action.type, "__name__", None),
                "choices": None if action.choices is None else list(action.choices),
                "ordered": not isinstance(action.choices, (set, frozenset)),
                "nargs": action.nargs,
                "const": action.const,
                "default": action.default,
                "required": action.required,
                **extra,
            }
        )
    record = server_args.record_fields(server_args.ServerArgs)
    arguments = server_args.ServerArgs(model_path="m")
    from sglang.srt.arg_groups.arg_utils import (  # type: ignore[import-not-found]
        fallbacks_of,
        resolvable_fields,
    )

    return {
        "actions": actions,
        "fields": [item.name for item in record],
        "values": values_of(server_args, arguments),
        "resolvable": sorted(resolvable_fields(server_args.ServerArgs)),
        "fallbacks": fallbacks_of(server_args.ServerArgs),
    }


def values_of(server_args: Any, arguments: Any) -> dict[str, Any]:
    """Every field of the record."""
    return {
        item.name: getattr(arguments, item.name)
        for item in server_args.record_fields(server_args.ServerArgs)
    }


def answer(server_args: Any, case: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Ask the release about one command line."""
    try:
        arguments = server_args.prepare_server_args(list(case["argv"]))
    except SystemExit:
        return {"ok": False, "error": "SystemExit"}
    except CliError as error:
        return {"ok": False, "error": f"ArgumentError: {error}"[:2000]}
    except BaseException as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]}
    values = values_of(server_args, arguments)
    changed = {
        key: value
        for key, value in values.items()
        if repr(value) != repr(base[key]) or key == "model_path"
    }
    return {"ok": True, "error": None, "changed": changed}


def main() -> None:
    """Answer line by line; the parser is built once per environment."""
    options = argparse.ArgumentParser()
    options.add_argument("oracle")
    options.add_argument("--dump", action="store_true")
    options.add_argument("--tree")
    chosen = options.parse_args()
    output = sys.stdout
    sys.stdout = io.StringIO()
    server_args = load(chosen.oracle, chosen.tree)
    if chosen.dump:
        print(json.dumps(dump(server_args), default=repr), file=output)
        return
    base = values_of(server_args, server_args.prepare_server_args(["--model-path", "m"]))
    parsers: dict[str, argparse.ArgumentParser] = {}
    add_cli_args = server_args.ServerArgs.add_cli_args
    shim = types.SimpleNamespace(**vars(argparse))
    current: list[argparse.ArgumentParser] = []
    shim.ArgumentParser = lambda **options: current[0]
    server_args.argparse = shim
    environment = dict(os.environ)
    for line in sys.stdin:
        case = json.loads(line)
        env = case.get("env") or {}
        os.environ.clear()
        os.environ.update(environment | env)
        key = json.dumps(env, sort_keys=True)
        if key not in parsers:
            parser = argparse.ArgumentParser(prog="sglang serve")
            server_args.argparse = argparse
            add_cli_args(parser)
            server_args.argparse = shim
            parsers[key] = parser
            type.__setattr__(
                server_args.ServerArgs, "add_cli_args", staticmethod(lambda parser: None)
            )
        current[:] = [parsers[key]]
        sys.stdout = io.StringIO()
        print(json.dumps(answer(server_args, case, base), default=repr), file=output)
    output.flush()


if __name__ == "__main__":
    main()
