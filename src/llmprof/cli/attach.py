"""`llmprof attach`: follow a run that another terminal started, on the screen or in lines."""

from __future__ import annotations

import argparse
import sys

from llmprof.cli.exits import UserError
from llmprof.cli.follow import Follow, exit_code_of
from llmprof.cli.found import by_name_alone
from llmprof.cli.open_screen import open_screen, require_terminal
from llmprof.cli.options import add_export_option
from llmprof.cli.output import deliver
from llmprof.cli.screen import add_look_options
from llmprof.cli.streams import tell
from llmprof.core.store.run import RunNotFound, RunStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof attach`."""
    parser.add_argument("run", nargs="?", help="a run's name (the newest that goes on)")
    add_export_option(parser)
    add_look_options(parser)


def run(args: argparse.Namespace) -> int:
    """Open the screen on the run; piped or with --export, follow it and print its tables.

    Ctrl-C lets go and leaves the run alone.
    """
    try:
        found = RunStore().find_to_follow(args.run)
    except RunNotFound as error:
        raise by_name_alone("attach", args.run, error) from error
    if not args.export and _terminal():
        return open_screen(
            watch=found, refresh=args.refresh, ascii_only=args.ascii, theme=args.theme
        )
    view, signal = Follow(found).to_end()
    if signal is not None:
        tell(f"\nlet go of {found.id}, which goes on")
        return 128 + signal
    deliver(view, args.export, found.path)
    return exit_code_of(view)


def _terminal() -> bool:
    """Whether a screen can be drawn, and nobody wants to read the tables from a pipe."""
    if not sys.stdout.isatty():
        return False
    try:
        require_terminal()
    except UserError:
        return False
    return True
