"""`llmprof runs`: what was run on this machine."""

from __future__ import annotations

import argparse
import json
from datetime import datetime

from llmprof.cli.exits import OK
from llmprof.cli.printed import put_list
from llmprof.cli.streams import put
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.store.listing import RunSummary, summaries
from llmprof.core.store.run import RunStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof runs`."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the runs, newest first."""
    store = RunStore()
    found = summaries(store)
    if args.json:
        put(json.dumps([summary.as_json() for summary in found], indent=2, ensure_ascii=False))
    elif not found:
        put(f"no runs in {store.root}")
    else:
        put_list(table(found))
    return OK


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
