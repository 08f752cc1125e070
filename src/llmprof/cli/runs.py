"""`llmprof runs`: what was run on this machine."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from llmprof.cli.exits import OK, UserError
from llmprof.cli.found import found_writeup
from llmprof.cli.printed import put_list
from llmprof.cli.streams import put
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.store.listing import RunSummary, summaries
from llmprof.core.store.run import RunStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof runs`."""
    parser.add_argument(
        "where",
        nargs="?",
        type=Path,
        help="a write-up's folder or file, or another folder of runs (those of this machine)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the runs, newest first. Raises UserError."""
    with ExitStack() as stack:
        store = RunStore() if args.where is None else _store_at(args.where, stack)
        found = summaries(store)
    if args.json:
        put(json.dumps([summary.as_json() for summary in found], indent=2, ensure_ascii=False))
    elif not found:
        put(f"no runs in {store.root}")
    else:
        put_list(table(found))
    return OK


def _store_at(path: Path, stack: ExitStack) -> RunStore:
    """The runs that lie there. Raises UserError."""
    writeup = found_writeup(path, stack)
    if writeup is not None:
        return writeup.store
    if not path.is_dir():
        raise UserError(
            f"{path} is no folder of runs; `llmprof show` prints one run, `llmprof screen` shows it"
        )
    return RunStore(path)


def table(found: list[RunSummary]) -> Table:
    """The list as a table."""
    columns = (
        Column("Run", numeric=False),
        Column("Name", numeric=False),
        Column("Started", numeric=False),
        Column("Status", numeric=False),
        Column("Device", numeric=False),
        Column("Experiment", numeric=False),
        Column("Extent", numeric=False),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            each.id,
            each.label if each.label != each.id else "",
            _moment(each.started),
            each.status,
            each.device or "n/a",
            each.experiment or "n/a",
            each.extent,
        )
        for each in found
    )
    return Table("runs", "Runs", columns, rows)


def _moment(started: float | None) -> str:
    return "" if started is None else f"{datetime.fromtimestamp(started):%Y-%m-%d %H:%M}"
