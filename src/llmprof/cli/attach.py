"""`llmprof attach`: follow a run that another terminal started."""

from __future__ import annotations

import argparse
import sys

from llmprof.cli.exits import UserError
from llmprof.cli.follow import Follow, verdict
from llmprof.cli.options import add_export_option
from llmprof.cli.output import deliver
from llmprof.core.runs import RunNotFound, RunStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof attach`."""
    parser.add_argument("run", nargs="?", help="a run's name (newest run)")
    add_export_option(parser)


def run(args: argparse.Namespace) -> int:
    """Follow to the end and print the tables; Ctrl-C lets go and leaves the run alone."""
    try:
        found = RunStore().find(args.run)
    except RunNotFound as error:
        raise UserError(str(error)) from error
    view, signal = Follow(found).to_end()
    if signal is not None:
        print(f"\nlet go of {found.id}, which goes on", file=sys.stderr)
        return 128 + signal
    deliver(view, args.export, found.path)
    return verdict(view)
