"""`llmprof pack`: a run as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from llmprof.cli.exits import OK, UserError
from llmprof.cli.streams import put
from llmprof.core.store.pack import SUFFIX, pack
from llmprof.core.store.run import RunNotFound, RunStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof pack`."""
    parser.add_argument("run", nargs="?", help="a run's name (newest run)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"NAME{SUFFIX}")


def run(args: argparse.Namespace) -> int:
    """Write the file and print its name. Raises UserError."""
    try:
        found = RunStore().find(args.run)
    except RunNotFound as error:
        raise UserError(str(error)) from error
    target = args.output or Path(f"{found.id}{SUFFIX}")
    try:
        pack(found, target)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error
    put(str(target))
    return OK
