"""`llmprof show`: print or export a run; needs no torch."""

from __future__ import annotations

import argparse

from llmprof.cli.exits import OK, UserError
from llmprof.cli.options import add_export_option
from llmprof.cli.output import deliver
from llmprof.core.report import ExportError, check_writable
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_run, source_of
from llmprof.core.store.run import RunNotFound
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
    deliver(find_view(args.run), args.export, source_of(args.run))
    return OK


def find_view(name: str | None) -> RunView:
    """The view of a run of this machine, or of a file. Raises UserError."""
    try:
        return open_run(name)
    except (RunNotFound, PackError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{name}: {error.strerror or error}") from error
