"""`llmprof calibrate`: measure this device's ceilings and keep them for later runs."""

from __future__ import annotations

import argparse

from llmprof.cli.exits import CRASHED, OK, UserError
from llmprof.cli.options import add_export_option
from llmprof.cli.output import check_exports, deliver
from llmprof.cli.run import finish, measure_run, new_run, plan_of, require_device, require_torch
from llmprof.cli.streams import tell
from llmprof.cli.types import device_type
from llmprof.core.store.calibrations import calibration_experiment, save_ceilings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof calibrate`."""
    parser.add_argument(
        "--device",
        type=device_type,
        default="auto",
        metavar="NAME",
        help="auto, cpu, cuda or cuda:N",
    )
    add_export_option(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and keep. Raises UserError."""
    check_exports(args.export)
    require_torch()
    require_device(args.device)
    experiment = calibration_experiment(args.device)
    the_run = new_run(experiment.name)
    view, signal = measure_run(the_run, plan_of(the_run, experiment, lifeline=True))
    found = next((state.ceilings for state in view.cases if state.ceilings is not None), None)
    if found is None or view.environment is None or signal is not None:
        return finish(view, signal, args.export, the_run)
    try:
        kept = save_ceilings(view.environment, found)
    except OSError as error:
        raise UserError(f"cannot keep the calibration: {error.strerror}", CRASHED) from error
    deliver(view, args.export)
    tell(f"kept in {kept}; later runs on this device compare with it")
    return OK
