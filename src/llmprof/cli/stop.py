"""`llmprof stop`: end a run, keeping what it has measured."""

from __future__ import annotations

import argparse
import time

from llmprof.cli.exits import OK, UserError
from llmprof.cli.found import by_name_alone
from llmprof.cli.streams import put
from llmprof.core.store.run import NotOurs, Run, RunNotFound, RunStore
from llmprof.core.system.text import clean, counted, spoken

STOP_PATIENCE_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof stop`."""
    parser.add_argument("run", nargs="?", help="a run's name, or last (the one that is going)")
    parser.add_argument("--kill", action="store_true", help="at once, without the current steps")


def run(args: argparse.Namespace) -> int:
    """Stop the run and wait for its end. Raises UserError."""
    found = _find(args.run)
    try:
        stopping = found.stop(force=args.kill)
    except NotOurs as error:
        raise UserError(str(error)) from error
    except PermissionError as error:
        raise UserError(f"run {found.id} is another user's: {error.strerror}") from error
    if not stopping:
        raise UserError(f"run {found.id} is not running")
    deadline = time.monotonic() + STOP_PATIENCE_S
    while found.alive():
        if time.monotonic() > deadline:
            raise UserError(
                f"run {found.id} did not stop within {STOP_PATIENCE_S:.0f} s; try --kill"
            )
        time.sleep(0.05)
    put(f"stopped {found.id}")
    return OK


def _find(name: str | None) -> Run:
    """The run of a name; without one the only one that is going. Raises UserError."""
    store = RunStore()
    if name is not None:
        try:
            return store.find(name)
        except RunNotFound as error:
            raise by_name_alone("stop", name, error) from error
    going = store.going()
    ours = [run for run in going if not run.is_loop]  # a training is not ours to end
    if len(ours) == 1:
        return ours[0]
    if ours:
        ways = spoken([f"`llmprof stop {run.id}`" for run in ours], "or")
        raise UserError(f"{counted(len(ours), 'run')} are going: {ways}")
    loops = spoken([clean(run.label, 60) for run in going])
    raise UserError("no run is going" + (f"; {loops}: end the training itself" if loops else ""))
