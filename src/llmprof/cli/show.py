"""`llmprof show`: print or export a run; needs no torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from llmprof.cli.exits import OK, UserError
from llmprof.cli.options import add_export_option
from llmprof.cli.output import deliver
from llmprof.core.report import ExportError, check_writable
from llmprof.core.state.view import RunView
from llmprof.core.store.baselines import find_baseline
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunNotFound, RunStore
from llmprof.core.system.archive import PackError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof show`."""
    parser.add_argument("run", nargs="?", help="a run's name, or a file or folder (newest run)")
    add_export_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print or export the run. Raises UserError."""
    for path in args.export:
        try:
            check_writable(path)
        except ExportError as error:
            raise UserError(str(error)) from error
    deliver(find_view(args.run), args.export, find_source(args.run))
    return OK


def find_source(name: str | None) -> Path:
    """Where a run lies: a folder or file by path, a baseline or a run of this machine by name.

    Raises RunNotFound.
    """
    if name is not None and ("/" in name or Path(name).exists()):
        return Path(name)
    kept = None if name is None else find_baseline(name)
    return RunStore().find(name).path if kept is None else kept


def find_view(name: str | None) -> RunView:
    """The view of a run of this machine, or of a file. Raises UserError."""
    try:
        return open_view(find_source(name))
    except (RunNotFound, PackError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{name}: {error.strerror or error}") from error
