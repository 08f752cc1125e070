"""`llmprof show`: print or export a run; needs no torch."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from llmprof.cli.exits import OK, UserError
from llmprof.cli.options import add_export_option
from llmprof.cli.output import deliver
from llmprof.cli.printed import put_page
from llmprof.cli.streams import put
from llmprof.core.catalog.names import named, unknown
from llmprof.core.document.markdown import write_section
from llmprof.core.document.sections import SECTIONS, document
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.report.formats import ExportError, check_writable
from llmprof.core.report.markdown_table import section
from llmprof.core.report.registry import BUILDERS, tables_called
from llmprof.core.state.view import RunView
from llmprof.core.store.baselines import find_baseline
from llmprof.core.store.pack import is_path, open_view
from llmprof.core.store.run import RunNotFound, RunStore
from llmprof.core.system.archive import PackError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof show`."""
    parser.add_argument("run", nargs="?", help="a run's name, or a file or folder (newest run)")
    parser.add_argument(
        "--section",
        metavar="NAME",
        help="print one section of the run's document, or one of its tables by name",
    )
    add_export_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print or export the run. Raises UserError."""
    if args.section is not None:
        if args.export:
            raise UserError("--section prints; `llmprof report --sections` writes files")
        _print_section(find_source(args.run), args.section)
        return OK
    for path in args.export:
        try:
            check_writable(path)
        except ExportError as error:
            raise UserError(str(error)) from error
    deliver(find_view(args.run), args.export, find_source(args.run))
    return OK


def _print_section(path: Path, name: str) -> None:
    """Print a section of a run's document as Markdown, or tables of a name. Raises UserError."""
    view = find_view(str(path))
    meant = named(name, (*SECTIONS, *BUILDERS))
    if meant is None:
        raise UserError(f"no section or table is called {unknown(name, (*SECTIONS, *BUILDERS))}")
    if meant in SECTIONS:
        made = document(tables_of(sources_of([(view, path)])), [meant])
        put(write_section(replace(made.sections[0], figures=())), end="")
        return
    found = [replace(each, folded=False) for each in tables_called(view, meant)]
    if not found:
        raise UserError(f"this run has no table {meant}")
    put_page(found, "\n\n".join(section(each, any_width=True) for each in found))


def find_source(name: str | None) -> Path:
    """Where a run lies: a folder or file by path, a baseline or a run of this machine by name.

    Raises RunNotFound.
    """
    if name is not None and is_path(name):
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
