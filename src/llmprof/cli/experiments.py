"""`llmprof experiments`: what `llmprof run NAME` measures."""

from __future__ import annotations

import argparse
import json

import msgspec

from llmprof.cli.exits import OK, UserError
from llmprof.cli.printed import put_list
from llmprof.cli.streams import put
from llmprof.core.catalog.experiments import (
    SMOKE,
    WRITEUP,
    build_experiment,
    load_experiments,
    writeup_names,
)
from llmprof.core.catalog.models import user_folder
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import SpecError

COLUMNS = (
    Column("Name", numeric=False),
    Column("What", numeric=False),
    Column("Models or widths", numeric=False),
    Column("Cases"),
    Column("Smoke", numeric=False),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof experiments`."""
    parser.add_argument("--json", action="store_true", help="as JSON, every field")


def run(args: argparse.Namespace) -> int:
    """Print the experiments. Raises UserError for a file that can't be read."""
    try:
        presets = load_experiments()
        experiments = [build_experiment(name, {}) for name in presets]
    except SpecError as error:
        raise UserError(str(error)) from error
    if args.json:
        put(json.dumps(msgspec.to_builtins(experiments), indent=2, ensure_ascii=False))
        return OK
    rows = tuple(row(experiment, SMOKE in presets[experiment.name]) for experiment in experiments)
    put_list(
        Table("experiments", "Experiments", COLUMNS, rows),
        "`llmprof run NAME` measures one; every option of `llmprof run --help` overrides a "
        f"field.\n`llmprof run {WRITEUP}` measures those that a write-up needs: "
        f"{', '.join(writeup_names())}.\n"
        f"Your own: {user_folder() / 'experiments.toml'}, in the same form.",
    )
    return OK


def row(experiment: Experiment, smoke: bool) -> tuple[Cell, ...]:
    """An experiment's line."""
    return (
        experiment.name,
        experiment.title,
        ", ".join(model.name for model in experiment.models),
        len(experiment.cases()),
        "yes" if smoke else "no",
    )
