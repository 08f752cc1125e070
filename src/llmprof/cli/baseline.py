"""`llmprof baseline`: a run kept under a name, which `llmprof compare` takes for a run."""

from __future__ import annotations

import argparse

from llmprof.cli.exits import CRASHED, OK, UserError
from llmprof.cli.printed import put_list
from llmprof.cli.show import find_source
from llmprof.cli.streams import put
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.report.two_runs import began
from llmprof.core.store.baselines import DEFAULT, BadName, baselines, set_baseline
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunNotFound
from llmprof.core.system.archive import PackError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof baseline`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="set|show")
    keep = actions.add_parser("set", help="keep a run")
    keep.add_argument("run", help="a run's name, `last`, or a file or folder")
    keep.add_argument("--name", default=DEFAULT, help=f"under which name ({DEFAULT})")
    actions.add_parser("show", help="list what is kept")


def run(args: argparse.Namespace) -> int:
    """Keep a run or list those that are kept. Raises UserError."""
    return _set(args.run, args.name) if args.action == "set" else _show()


def _set(run_name: str, name: str) -> int:
    try:
        source = find_source(run_name)
    except RunNotFound as error:
        raise UserError(str(error)) from error
    try:
        kept = set_baseline(source, name)
    except (BadName, PackError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror or error}", CRASHED) from error
    put(f"{name}: {source.name}, kept in {kept}")
    return OK


def _show() -> int:
    found = baselines()
    if not found:
        put("no baselines: `llmprof baseline set RUN` keeps one")
        return OK
    rows: list[tuple[Cell, ...]] = []
    for name, path in found.items():
        try:
            view = open_view(path)
        except (PackError, OSError) as error:
            rows.append((name, f"cannot be read: {error}", "", ""))
            continue
        device = None if view.environment is None else view.environment.device_name
        rows.append((name, view.run_id, began(view), device))
    columns = (
        Column("Baseline", numeric=False),
        Column("Run", numeric=False),
        Column("Measured", numeric=False),
        Column("Device", numeric=False),
    )
    put_list(Table("baselines", "Baselines", columns, tuple(rows)))
    return OK
