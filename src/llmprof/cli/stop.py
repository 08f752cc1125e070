"""`llmprof stop`: end a run, keeping what it has measured."""

from __future__ import annotations

import argparse
import time

from llmprof.cli.exits import OK, UserError
from llmprof.cli.streams import put
from llmprof.core.store.run import NotOurs, RunNotFound, RunStore

STOP_PATIENCE_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof stop`."""
    parser.add_argument("run", help="a run's name, or last")
    parser.add_argument("--kill", action="store_true", help="at once, without the current steps")


def run(args: argparse.Namespace) -> int:
    """Stop the run and wait for its end. Raises UserError."""
    try:
        found = RunStore().find(args.run)
    except RunNotFound as error:
        raise UserError(str(error)) from error
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
