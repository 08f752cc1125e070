"""`llmprof screen`: what the screen shows first, and how it looks."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from llmprof.cli.exits import UserError
from llmprof.cli.open_screen import open_screen
from llmprof.core.store.files import JOURNAL
from llmprof.core.store.run import Run, RunNotFound, RunStore

if TYPE_CHECKING:
    from llmprof.tui.session.starter import Starter

MOST_HZ = 20.0


class Shown(NamedTuple):
    """What the screen is opened with: runs, the one in sight, and how others are started there.

    view: that which shows it, where the run alone does not tell.
    """

    store: RunStore
    watch: Run | None = None
    starter: Starter | None = None
    view: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof screen`."""
    parser.add_argument(
        "run",
        nargs="?",
        help="a run to show at once: its name, `last`, its folder, "
        "a folder of runs such as a write-up's, or a file of a packed run or write-up",
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
    with ExitStack() as stack:
        shown = Shown(RunStore()) if args.run is None else find_beside_others(args.run, stack)
        return open_screen(
            watch=shown.watch,
            view=shown.view,
            refresh=args.refresh,
            ascii_only=args.ascii,
            theme=args.theme,
            store=shown.store,
            starter=shown.starter,
        )


def find_beside_others(name: str, stack: ExitStack) -> Shown:
    """A run by name or folder, or the newest of a folder of runs; and those that lie beside it.

    A packed run or write-up is in such a folder for as long as the stack. Raises UserError.
    """
    path = Path(name).resolve()
    run = Run(path.parent if path.name == JOURNAL else path)
    if run.journal.is_file():
        return Shown(RunStore(run.path.parent), run)
    try:
        if run.path.is_dir() and ("/" in name or RunStore(run.path).list()):
            store = RunStore(run.path)
            return Shown(store, store.find(None))
        return _unpacked(run.path, stack) or Shown(RunStore(), RunStore().find(name))
    except RunNotFound as error:
        raise UserError(str(error)) from error


def _unpacked(path: Path, stack: ExitStack) -> Shown | None:
    """What a packed run or write-up holds; None where the path is none's. Raises UserError."""
    if not path.is_file():
        return None
    from llmprof.cli.found import found_run, found_writeup  # not needed for the first frame
    from llmprof.tui.session.starter import NoStarter

    starter = NoStarter(f"{path.name} is shown from a copy, which goes with the screen")
    writeup = found_writeup(path, stack)
    if writeup is not None:
        return Shown(writeup.store, writeup.store.find(None), starter)
    run = found_run(path, stack)
    if run is None:
        return None
    return Shown(RunStore(run.path.parent), run, starter, _view_of(run, path))


def _view_of(run: Run, path: Path) -> str:
    """The view that shows a run which came without its lock, by which loops are told.

    Raises UserError where the file at path held no run.
    """
    from llmprof.core.events import LoopStarted, RunStarted  # not needed for the first frame
    from llmprof.core.store.replay import recorded

    for event in recorded(run.journal):
        if isinstance(event, LoopStarted):
            return "loop"
        if isinstance(event, RunStarted):
            return "bench"
    raise UserError(f"{path} holds no run of llmprof")


def hertz(text: str) -> float:
    """An argparse type: a refresh rate."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= MOST_HZ:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.1 and {MOST_HZ:g}")
    return value
