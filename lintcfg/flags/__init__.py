"""The command line of a release: its flags, and a parser that reads them as argparse does.

table = load_flags(release)
launch = parse(["--model-path", "m", "--tp", "2"], {}, table)
launch.values["tp_size"], launch.typed["tp_size"].spelling, launch.refusal
"""

from __future__ import annotations

from .command import Command, module_at, strip_command
from .launch import ParsedLaunch, Typed
from .parser import parse
from .problems import ConfigSpot, ParseProblem
from .table import Flag, FlagTable, History, load_flags

__all__ = [
    "Command",
    "ConfigSpot",
    "Flag",
    "FlagTable",
    "History",
    "ParseProblem",
    "ParsedLaunch",
    "Typed",
    "load_flags",
    "module_at",
    "parse",
    "strip_command",
]
