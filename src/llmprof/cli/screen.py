"""`llmprof screen`: what the screen shows first, and how it looks."""

from __future__ import annotations

import argparse
from pathlib import Path

from llmprof.cli.exits import UserError
from llmprof.cli.open_screen import open_screen
from llmprof.core.store.run import Run, RunNotFound, RunStore

MOST_HZ = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof screen`."""
    parser.add_argument(
        "run",
        nargs="?",
        help="a run to show at once: its name, `last`, its folder, "
        "or a folder of runs such as a write-up's",
    )
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
    store, watch = RunStore(), None
    if args.run is not None:
        try:
            store, watch = find_beside_others(args.run)
        except RunNotFound as error:
            raise UserError(str(error)) from error
    return open_screen(
        watch=watch,
        refresh=args.refresh,
        ascii_only=args.ascii,
        theme=args.theme,
        store=store,
    )


def find_beside_others(name: str) -> tuple[RunStore, Run]:
    """A run by name or folder, or the newest of a folder of runs; and those that lie beside it.

    Raises RunNotFound.
    """
    run = Run(Path(name).resolve())
    if run.journal.is_file():
        return RunStore(run.path.parent), run
    store = RunStore(run.path if run.path.is_dir() else None)
    return store, store.find(None if run.path.is_dir() else name)


def hertz(text: str) -> float:
    """An argparse type: a refresh rate."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= MOST_HZ:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.1 and {MOST_HZ:g}")
    return value
