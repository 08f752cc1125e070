"""`llmprof screen`: what the screen shows first, and how it looks."""

from __future__ import annotations

import argparse

from llmprof.cli.exits import UserError
from llmprof.cli.open_screen import open_screen
from llmprof.core.store.run import RunNotFound, RunStore

MOST_HZ = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof screen`."""
    parser.add_argument("run", nargs="?", help="a run to show at once (its name, or `last`)")
    add_look_options(parser)


def add_look_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that opens the screen."""
    parser.add_argument(
        "--refresh",
        type=hertz,
        default=4.0,
        metavar="HZ",
        help="redraws a second; 1 or 2 suit a slow link (4)",
    )
    parser.add_argument(
        "--ascii",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="draw with ASCII alone (automatic where the locale is not UTF-8)",
    )
    parser.add_argument("--theme", choices=("dark", "light"), default="dark", help="colours (dark)")


def run(args: argparse.Namespace) -> int:
    """Open the screen; its exit code. Raises UserError."""
    watch = None
    if args.run is not None:
        try:
            watch = RunStore().find(args.run)
        except RunNotFound as error:
            raise UserError(str(error)) from error
    return open_screen(watch=watch, refresh=args.refresh, ascii_only=args.ascii, theme=args.theme)


def hertz(text: str) -> float:
    """An argparse type: a refresh rate."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= MOST_HZ:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.1 and {MOST_HZ:g}")
    return value
